"""The CartPole kernel against its NumPy reference, and the reference against Gymnasium's and the recording."""

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

import gpu_vecenv  # noqa: F401
from gpu_vecenv.envs.cartpole.reference import CartPoleReference
from gpu_vecenv.envs.cartpole.spec import SPEC
from tests.devices import DEVICES
from tests.envs.golden_tag import GOLDEN

TOLERANCE = 1e-5
LIMITS = np.array([2.4, np.radians(12)])


def random_states(count, seed):
    generator = np.random.default_rng(seed)
    scale = np.array([2.6, 4.0, 0.23, 4.0])
    states = generator.uniform(-scale, scale, (count, 4)).astype(np.float32)
    return states, generator.integers(0, 2, count, dtype=np.int32)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("params", [{}, {"sutton_barto_reward": True}, {"max_episode_steps": 20}])
def test_a_step_from_random_states(params, device):
    states, actions = random_states(2000, 1)
    times = np.random.default_rng(2).integers(0, 20, len(states)).astype(np.int32)
    params = {"max_episode_steps": 0, **params}
    env = gymnasium.make_vec(
        "WarpCartPole-v1", num_envs=len(states), device=device, array="numpy", autoreset_mode="disabled", **params
    )
    env.reset(seed=0)
    env.unwrapped.set_state({"state": states, "t": times})
    obs, reward, terminated, truncated, _ = env.step(actions)
    reference = CartPoleReference(SPEC.resolve(params))
    compared = 0
    for i, action in enumerate(actions):
        reference.reset(states[i])
        reference.t = int(times[i])
        expected, pay, over, limit = reference.step(int(action))
        np.testing.assert_allclose(obs[i], expected, atol=TOLERANCE, rtol=0)
        if np.abs(np.abs(expected[[0, 2]]) - LIMITS).min() > TOLERANCE:
            compared += 1
            assert (reward[i], terminated[i], truncated[i]) == (pay, over, limit)
    assert compared > 1900


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("where", range(4))
def test_not_a_number_ends_the_episode(where, device):
    state = np.zeros((1, 4), np.float32)
    state[0, where] = np.nan
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=1, device=device, array="numpy", autoreset_mode="disabled")
    env.reset(seed=0)
    env.unwrapped.set_state({"state": state})
    obs, _, terminated, _, _ = env.step(np.array([1], np.int32))
    reference = CartPoleReference(env.unwrapped.params)
    reference.reset(state[0])
    expected, _, over, _ = reference.step(1)
    np.testing.assert_array_equal(np.isnan(obs[0]), np.isnan(expected))
    assert terminated[0] == over


def test_the_reference_repeats_gymnasium():
    states, actions = random_states(2000, 3)
    theirs, ours = CartPoleEnv(), CartPoleReference(SPEC.resolve({}))
    theirs.reset()
    for state, action in zip(states, actions, strict=True):
        theirs.state, theirs.steps_beyond_terminated = state.astype(np.float64), None
        expected, pay, over, _, _ = theirs.step(int(action))
        ours.reset(state)
        obs, reward, terminated, _ = ours.step(int(action))
        np.testing.assert_allclose(obs, expected, rtol=2e-7, atol=1e-9)
        assert (reward, terminated) == (pay, over)


def test_the_reference_repeats_the_recording():
    data = np.load(GOLDEN / "classic_cartpole.npz")
    reference = CartPoleReference(SPEC.resolve({}))
    for world in range(data["act"].shape[0]):
        state = data["state0"][world]
        for t in range(data["act"].shape[1]):
            reference.reset(state)
            obs, reward, terminated, _ = reference.step(int(np.squeeze(data["act"][world, t])))
            np.testing.assert_allclose(obs, data["state"][world, t], atol=TOLERANCE, rtol=0)
            assert reward == np.squeeze(data["rew"][world, t])
            assert terminated == (data["terminated_before_limit"][world, t] == 1)
            state = data["state0"][world] if data["done"][world, t] else data["state"][world, t]
