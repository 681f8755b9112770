"""Requirements of Gymnasium on specs and reset options, checked for every id."""

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import SyncVectorEnv

from gpu_vecenv.errors import SeveralAgentsError
from gpu_vecenv.registration import IDS
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.api.envs import SINGLES
from tests.ids import EVERY_ID

CPU = {"device": "cpu", "array": "numpy"}


@pytest.mark.parametrize("options", [
    {}, {"num_envs": 3}, {"render_mode": "rgb_array"}, {"vectorization_mode": "vector_entry_point"},
    {"num_envs": 2, "autoreset_mode": "next_step", "copy": False},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", EVERY_ID)
def test_the_spec_of_a_vector_env_makes_it_again(name, options):
    first = gymnasium.make_vec(name, **CPU, **options)
    assert first.spec.id == name
    for again in (gymnasium.make_vec(first.spec), gymnasium.make_vec(EnvSpec.from_json(first.spec.to_json()))):
        assert type(again) is type(first) is GpuVectorEnv
        assert again.spec == first.spec
        for attribute in ("num_envs", "observation_space", "single_observation_space", "action_space", "single_action_space",
                          "render_mode", "metadata", "params", "autoreset_mode", "device", "array"):  # fmt: skip
            assert getattr(again, attribute) == getattr(first, attribute), attribute


@pytest.mark.parametrize("name", SINGLES)
def test_the_spec_of_a_single_env_makes_it_again(name):
    env = gymnasium.wrappers.TimeAwareObservation(gymnasium.make(name, max_episode_steps=7, render_mode="rgb_array"))
    for spec in (env.spec, EnvSpec.from_json(env.spec.to_json())):
        again = gymnasium.make(spec)
        assert str(again) == str(env)  # the same wrappers
        assert again.spec == env.spec
        assert again.render_mode == "rgb_array"
        np.testing.assert_array_equal(again.reset(seed=1)[0], env.reset(seed=1)[0])


@pytest.mark.parametrize("options", [{}, {"vector_kwargs": {"copy": False}}, {"max_episode_steps": 5}], ids=str)
@pytest.mark.parametrize("name", SINGLES)
def test_single_envs_in_a_stock_vector_env(name, options):
    env = gymnasium.make_vec(name, num_envs=2, vectorization_mode="sync", **options)
    assert isinstance(env, SyncVectorEnv) and env.num_envs == 2
    assert gymnasium.make_vec(env.spec).spec == env.spec
    own = gymnasium.make_vec(name, num_envs=2, **CPU)
    assert env.single_observation_space == own.single_observation_space
    assert env.action_space == own.action_space


ONE_AGENT = (*SINGLES, "WarpCatalysis-v0", "WarpRecall-v0", "WarpSimple-v3")


@pytest.mark.parametrize("name", [name for name in IDS if name not in ONE_AGENT])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_envs_of_several_agents_raise_an_error_in_sync_and_async_mode(name, mode):
    with pytest.raises(SeveralAgentsError, match=f'use gymnasium.make_vec."{name}".'):
        gymnasium.make_vec(name, vectorization_mode=mode)


def test_wrappers_for_single_envs_raise_an_error_with_a_vector_env():
    with pytest.raises(gymnasium.error.Error, match="wrappers"):
        gymnasium.make_vec("WarpCartPole-v1", wrappers=[gymnasium.wrappers.TimeAwareObservation])


BOUNDED = [name for name in SINGLES if name != "WarpPendulum-v1"]


def starts(env, options, count=60):
    """States at the start of episodes (count, size), float64."""
    if hasattr(env, "vector"):
        return np.stack([(env.reset(options=options), env.vector.get_state()["state"][0])[1] for _ in range(count)])
    return np.stack([(env.reset(options=options), np.array(env.state, np.float64))[1] for _ in range(count)])


@pytest.mark.parametrize("options", [None, {}, {"low": -0.4, "high": 0.4}, {"low": np.float32(0.1), "high": np.float64(0.3)},
                                     {"low": -1}, {"high": 1}, {"low": 0.25, "high": 0.25}], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", BOUNDED)
def test_starts_lie_between_the_bounds_that_gymnasium_draws_from(name, options):
    ours, theirs = (gymnasium.make(env_id).unwrapped for env_id in (name, name.removeprefix("Warp")))
    for env in (ours, theirs):
        env.reset(seed=4)
    mine, other = starts(ours, options), starts(theirs, options)
    low = (options or {}).get("low", -0.6 if "Mountain" in name else {"WarpCartPole-v1": -0.05}.get(name, -0.1))
    high = (options or {}).get("high", -0.4 if "Mountain" in name else {"WarpCartPole-v1": 0.05}.get(name, 0.1))
    drawn = slice(0, 1) if "Mountain" in name else slice(None)  # the cars start at rest
    for states in (mine, other):
        assert (states[:, drawn] >= low - 1e-7).all() and (states[:, drawn] <= high + 1e-7).all()
        assert np.ptp(states[:, drawn], axis=0).min() >= 0.8 * (high - low)
        assert not states[:, drawn.stop or 4 :].any()


@pytest.mark.parametrize("options", [None, {"x_init": 1.2, "y_init": 0.5}, {"x_init": np.float32(0.2)}, {"y_init": 3}], ids=str)
def test_pendulums_starts_lie_between_the_bounds_that_gymnasium_draws_from(options):
    reach = np.array([(options or {}).get("x_init", np.pi), (options or {}).get("y_init", 1.0)])
    for name in ("WarpPendulum-v1", "Pendulum-v1"):
        env = gymnasium.make(name).unwrapped
        env.reset(seed=4)
        states = starts(env, options)
        assert (np.abs(states) <= reach + 1e-6).all()
        assert (np.ptp(states, axis=0) >= 1.6 * reach).all()


@pytest.mark.parametrize("options", [
    {"low": "x", "high": "y"}, {"low": 10.0, "high": 8.0}, {"low": [-1.0, -1.0], "high": [1.0, 1.0]},
    {"low": np.array([-1.0, -1.0]), "high": np.array([1.0, 1.0])}, {"low": None}, {"high": -20},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", BOUNDED)
def test_invalid_bounds_raise_errors_as_in_gymnasium(name, options):
    for env_id in (name, name.removeprefix("Warp")):
        env = gymnasium.make(env_id)
        with pytest.raises(ValueError):
            env.reset(options=options)
