"""Copies of worlds within an env, by ``copy_worlds``."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from tests.devices import DEVICES

TAG = {"num_taggers": 2, "num_runners": 4, "episode_length": 20, "tagging_distance": 0.1}


def started(device, name="WarpTag-v0", params=TAG, steps=15):
    env = gymnasium.make_vec(name, num_envs=8, device=device, array="numpy", **params)
    env.reset(seed=2)
    run(env, steps)
    return env


def run(env, steps, same=False):
    """Observations and rewards of random steps; with ``same``, all worlds take the same actions."""
    generator, space = np.random.default_rng(1), env.unwrapped.single_action_space
    high = space.nvec if hasattr(space, "nvec") else space.n
    seen = []
    for _ in range(steps):
        shape = space.shape or ()
        action = generator.integers(0, np.broadcast_to(high, shape), (1 if same else 8, *shape), dtype=np.int32)
        seen.append(env.step(np.repeat(action, 8 if same else 1, axis=0))[:2])
    return seen


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "params"), [("WarpTag-v0", TAG), ("WarpCartPole-v1", {"max_episode_steps": 9})])
def test_a_copied_world_continues_as_its_source_does(device, name, params):
    env = started(device, name, params)
    before = env.unwrapped.get_state()
    env.unwrapped.copy_worlds([3, 3, 0], np.array([5, 6, 1]))
    after = env.unwrapped.get_state()
    for field, values in before.items():
        np.testing.assert_array_equal(after[field], values[[0, 0, 2, 3, 4, 3, 3, 7]], err_msg=field)
    for obs, reward in run(env, 50, same=True):  # several episodes
        for copy, original in ((5, 3), (6, 3), (1, 0)):
            np.testing.assert_array_equal(obs[copy], obs[original])
            np.testing.assert_array_equal(reward[copy], reward[original])


def launched_kernels(env, monkeypatch):
    """Record the names of the kernels launched from now on."""
    backend = env.unwrapped.worlds.backend
    names, launch = [], backend.launch
    monkeypatch.setattr(backend, "launch", lambda name, *rest: (names.append(name), launch(name, *rest)))
    return names


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("diverge", [False, True])
def test_copying_is_one_launch(device, diverge, monkeypatch):
    env = started(device)
    names = launched_kernels(env, monkeypatch)
    env.unwrapped.copy_worlds([3, 3, 0], [5, 6, 1], diverge=diverge)
    assert names == ["gv_copy"]


@pytest.mark.parametrize("device", DEVICES)
def test_a_world_that_is_source_and_target_is_copied_before_it_is_overwritten(device):
    env = started(device)
    before = env.unwrapped.get_state()
    env.unwrapped.copy_worlds([0, 1, 2, 3, 3], [1, 2, 3, 4, 0])
    for field, values in env.unwrapped.get_state().items():
        np.testing.assert_array_equal(values, before[field][[3, 0, 1, 2, 3, 5, 6, 7]], err_msg=field)


@pytest.mark.parametrize("device", DEVICES)
def test_diverging_copies_differ_after_their_next_draw(device):
    env = started(device)
    env.unwrapped.copy_worlds([3, 3], [5, 6], diverge=True)
    seen = np.stack([obs for obs, _ in run(env, 50, same=True)])
    np.testing.assert_array_equal(seen[0, 5], seen[0, 3])
    for one, other in ((5, 3), (6, 3), (5, 6)):
        assert not np.array_equal(seen[-1, one], seen[-1, other])


def test_two_worlds_may_swap_states():
    env = started("cpu")
    before = env.unwrapped.get_state()["loc_x"]
    env.unwrapped.copy_worlds([0, 1], [1, 0])
    np.testing.assert_array_equal(env.unwrapped.get_state()["loc_x"][:2], before[[1, 0]])


@pytest.mark.parametrize(
    ("source", "target", "error", "text"),
    [
        ([0, 1], [2], ShapeError, "must have the same length, got 2 and 1"),
        ([0, 1], [2, 2], ParameterError, r"target must name each world once, got \[2, 2\]"),
        ([0], [8], ParameterError, r"target must lie in 0..7, got \[8\]"),
        ([-1], [1], ParameterError, r"source must lie in 0..7, got \[-1\]"),
        ([0.5], [1], ArrayTypeError, "source must be integers, got float64"),
        (0, 1, ShapeError, r"source must have shape \(n,\), got \(\)"),
    ],
)
def test_invalid_world_numbers_raise_errors(source, target, error, text):
    env = started("cpu")
    before = env.unwrapped.get_state()
    with pytest.raises(error, match=text):
        env.unwrapped.copy_worlds(source, target)
    for field, values in env.unwrapped.get_state().items():
        np.testing.assert_array_equal(values, before[field])
