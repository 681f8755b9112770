"""Reading and writing the state of worlds."""

import numpy as np
import pytest
import torch

from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from tests.api.envs import MODES, VIEWS, assert_same, host_info, make, random_actions


@pytest.mark.parametrize("array", ["numpy", "torch"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["tag", "cartpole"])
def test_an_env_with_a_copied_state_gives_the_same_results(name, view, mode, array):
    options = {"view": view, "autoreset_mode": mode, "array": array}
    env, other = make(name, **options), make(name, **options)
    env.reset(seed=1)
    other.reset(seed=2)
    actions = random_actions(env, 30)
    for step, action in enumerate(actions):
        if step in (5, 7, 12, 13):
            state = env.get_state()
            other.unwrapped.set_state(state)
            assert_same(other.get_state(), state)
            assert all(type(a) is type(b) and a.dtype == b.dtype for a, b in zip(state.values(), other.get_state().values(),
                                                                                strict=True))  # fmt: skip
        *out, info = env.step(action)
        *other_out, other_info = other.step(action)
        if step >= 5:
            first = 0 if step not in (5, 7, 12, 13) or mode != "disabled" else 1
            assert_same(out[first:], other_out[first:], f"step {step}")
            assert_same(host_info(info), host_info(other_info), f"step {step}")


def test_the_state_is_a_copy():
    env = make("tag")
    env.reset(seed=0)
    state = env.get_state()
    loc_x = state["loc_x"].copy()
    state["loc_x"][:] = 0
    np.testing.assert_array_equal(env.get_state()["loc_x"], loc_x)
    env.unwrapped.set_state(state)
    state["loc_x"][:] = 5
    assert not env.get_state()["loc_x"].any()


def test_setting_some_fields_keeps_the_others():
    env = make("cartpole")
    env.reset(seed=0)
    before = env.get_state()
    state = np.arange(12, dtype=np.float32).reshape(3, 4) / 100
    env.unwrapped.set_state({"state": state})
    after = env.get_state()
    np.testing.assert_array_equal(after.pop("state"), state)
    before.pop("state")
    assert_same(after, before)
    np.testing.assert_array_equal(env.unwrapped.observe(), state)
    # In envs that are not reset, a partial reset returns the observation of the state that was set.
    obs, _ = env.reset(options={"reset_mask": np.array([True, False, False])})
    np.testing.assert_array_equal(obs[1:], state[1:])


@pytest.mark.parametrize("given", [
    [[0.0] * 4] * 3, np.zeros((3, 4), np.float32), torch.zeros(3, 4), torch.zeros(3, 4, requires_grad=True),
    np.zeros((4, 3), np.float32).T,
])  # fmt: skip
@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_set_state_takes_lists_arrays_and_tensors(given, array):
    env = make("cartpole", array=array)
    env.reset(seed=0)
    env.unwrapped.set_state({"state": given})
    assert not env.get_state()["state"].any()


def test_setting_the_state_lets_finished_worlds_continue():
    env = make("cartpole", autoreset_mode="disabled", max_episode_steps=2)
    env.reset(seed=0)
    env.step(np.zeros(3, int))
    assert env.step(np.zeros(3, int))[3].all()
    env.unwrapped.set_state({"t": np.zeros(3, np.int32)})
    _, reward, _, truncated, _ = env.step(np.zeros(3, int))
    assert reward.tolist() == [1, 1, 1] and not truncated.any()


@pytest.mark.parametrize("name", ["tag", "cartpole"])
def test_observe_changes_no_results(name):
    env, twin = make(name), make(name)
    reset, _ = env.reset(seed=0)
    twin.reset(seed=0)
    np.testing.assert_array_equal(env.unwrapped.observe(), reset)
    for action in random_actions(env, 15):
        *out, _ = env.step(action)
        env.unwrapped.observe()
        *expected, _ = twin.step(action)
        assert_same(out, expected)
    assert_same(env.get_state(), twin.get_state())


@pytest.mark.parametrize("copy", [True, False])
def test_observe_returns_a_new_array(copy):
    env = make("cartpole", copy=copy)
    obs, _ = env.reset(seed=0)
    before = obs.copy()
    env.unwrapped.observe()[:] = 7
    np.testing.assert_array_equal(obs, before)
    np.testing.assert_array_equal(env.unwrapped.observe(), before)


@pytest.mark.parametrize("bad, error, text", [
    ({"locx": 0}, ParameterError, "the state has no field 'locx'; it has loc_x, loc_y, speed"),
    ({"loc_y": np.zeros((3, 5), np.float32)}, ShapeError, r"loc_y must have shape \(3, 6\), got \(3, 5\)"),
    ({"loc_y": np.zeros((3, 6))}, ArrayTypeError, "loc_y must be float32, got float64"),
    ({"loc_y": torch.zeros(3, 6, dtype=torch.float64)}, ArrayTypeError, "loc_y must be float32, got torch.float64"),
    ({"alive": np.ones((3, 6), np.int64)}, ArrayTypeError, "alive must be int32, got int64"),
    ({"loc_y": "here"}, ArrayTypeError, "loc_y must be float32, got str"),
    ({"loc_y": [[1.0], [1.0, 2.0]]}, ArrayTypeError, "loc_y must be float32, got list"),
])  # fmt: skip
@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_an_invalid_field_raises_an_error_and_nothing_is_written(bad, error, text, array):
    env = make("tag", array=array)
    env.reset(seed=0)
    before = env.get_state()
    with pytest.raises(error, match=text):
        env.unwrapped.set_state({"loc_x": np.zeros((3, 6), np.float32), **bad})
    assert_same(env.get_state(), before)
