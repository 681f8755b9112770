"""CartPole, compared with a recorded trajectory and with single steps of Gymnasium's own env from many states."""

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

import gpu_vecenv  # noqa: F401
from tests.devices import DEVICES
from tests.envs.golden_tag import GOLDEN


def one_step(states, actions, device="cpu", **params):
    env = gymnasium.make_vec(
        "WarpCartPole-v1", num_envs=len(states), device=device, array="numpy", autoreset_mode="disabled", **params
    )
    env.reset(seed=0)
    env.unwrapped.set_state({"state": states.astype(np.float32)})
    return env.step(actions.astype(np.int32))


@pytest.mark.parametrize("device", DEVICES)
def test_steps_match_the_recorded_trajectory(device):
    data = np.load(GOLDEN / "classic_cartpole.npz")
    previous = np.concatenate([data["state0"][:, None], data["state"][:, :-1]], axis=1)
    started = np.concatenate([np.ones_like(data["done"][:, :1]), data["done"][:, :-1]], axis=1) == 1
    previous = np.where(started[..., None], data["state0"][:, None], previous)
    obs, reward, terminated, _, _ = one_step(previous.reshape(-1, 4), data["act"].reshape(-1), device)
    np.testing.assert_allclose(obs, data["state"].reshape(-1, 4), atol=1e-5, rtol=0)
    np.testing.assert_array_equal(reward, data["rew"].reshape(-1))
    np.testing.assert_array_equal(terminated, data["terminated_before_limit"].reshape(-1) == 1)


def gymnasium_step(states, actions, **params):
    """Steps by Gymnasium's rules in float64, one from each float32 state."""
    env = CartPoleEnv(**params)
    env.reset()
    results = []
    for state, action in zip(states.astype(np.float32).astype(np.float64), actions, strict=True):
        env.state, env.steps_beyond_terminated = state, None
        _, reward, terminated, _, _ = env.step(int(action))
        results.append((*env.state, reward, terminated))
    return np.array(results)


def random_states(count):
    generator = np.random.default_rng(3)
    scale = np.array([2.6, 4.0, 0.23, 4.0])
    return generator.uniform(-scale, scale, (count, 4)).astype(np.float32), generator.integers(0, 2, count)


def compare(count, device, **params):
    """Assert that a step differs from a float64 step by at most 4 roundings of the numbers that are added."""
    states, actions = random_states(count)
    obs, reward, terminated, _, _ = one_step(states, actions, device, **params)
    expected = gymnasium_step(states, actions, **params)
    size = np.maximum(np.abs(states), np.abs(expected[:, :4]))
    # A velocity gains tau * acceleration (up to 11 and 60), whose terms have some eight roundings of their own.
    unit = np.spacing(np.maximum(size, np.array([1e-3, 0.2, 1e-3, 1.2])).astype(np.float32))
    assert (np.abs(obs - expected[:, :4]) / unit).max() <= 4.0
    np.testing.assert_array_equal(reward, expected[:, 4])
    at_limit = np.abs(np.abs(expected[:, [0, 2]]) - [2.4, 0.20943951]).min(axis=1) < 1e-6
    assert (terminated != (expected[:, 5] == 1))[~at_limit].sum() == 0
    assert 0.1 < terminated.mean() < 0.9


@pytest.mark.parametrize("params", [{}, {"sutton_barto_reward": True}])
@pytest.mark.parametrize("device", DEVICES)
def test_a_step_from_random_states_is_right(device, params):
    compare(10_000, device, **params)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_a_step_from_a_million_states_is_right(device):
    compare(1_000_000, device)


@pytest.mark.parametrize("device", DEVICES)
def test_the_time_limit_and_the_range_of_starts(device):
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=500, device=device, array="numpy", max_episode_steps=7)
    obs, _ = env.reset(seed=1)
    assert np.abs(obs).max() <= 0.05 and obs.std() > 0.025
    for t in range(1, 8):
        _, _, _, truncated, _ = env.step(np.zeros(500, np.int32))
        assert truncated.all() == (t == 7)
    obs, _ = env.reset(options={"low": 0.1, "high": 0.2})
    assert obs.min() >= 0.1 and obs.max() <= 0.2


def test_the_registered_time_limit_is_gymnasiums():
    assert gymnasium.make_vec("WarpCartPole-v1", num_envs=2).unwrapped.params["max_episode_steps"] == 500
