"""Classic control, compared with recorded trajectories one step at a time."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from tests.devices import DEVICES
from tests.envs.golden_tag import GOLDEN

FILES = {
    "classic_cartpole.npz": ("WarpCartPole-v1", {}),
    "classic_acrobot.npz": ("WarpAcrobot-v1", {}),
    "classic_mountain_car.npz": ("WarpMountainCar-v0", {}),
    "classic_continuous_mountain_car.npz": ("WarpMountainCarContinuous-v0", {}),
    "classic_pendulum.npz": ("WarpPendulum-v1", {"g": 9.81}),
}


def one_step(name, states, actions, device="cpu", **params):
    """Results of one step from given states, and the states after it."""
    env = gymnasium.make_vec(name, num_envs=len(states), device=device, array="numpy", autoreset_mode="disabled", **params)
    env.reset(seed=0)
    env.unwrapped.set_state({"state": states.astype(np.float32)})
    continuous = isinstance(env.single_action_space, gymnasium.spaces.Box)
    shape = (len(states), *env.single_action_space.shape)
    outputs = env.step(actions.reshape(shape).astype(np.float32 if continuous else np.int32))
    return outputs, env.unwrapped.get_state()["state"]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("device", DEVICES)
def test_steps_match_the_recorded_trajectory(file, device):
    name, params = FILES[file]
    data = np.load(GOLDEN / file)
    size = data["state"].shape[-1]
    previous = np.concatenate([data["state0"][:, None], data["state"][:, :-1]], axis=1)
    started = np.concatenate([np.ones_like(data["done"][:, :1]), data["done"][:, :-1]], axis=1) == 1
    previous = np.where(started[..., None], data["state0"][:, None], previous).reshape(-1, size)
    (obs, reward, terminated, _, _), state = one_step(name, previous, data["act"].reshape(len(previous), -1), device, **params)
    np.testing.assert_allclose(obs, data["obs"].reshape(obs.shape), atol=1e-5, rtol=0)
    np.testing.assert_allclose(state, data["state"].reshape(-1, size), atol=1e-5, rtol=0)
    np.testing.assert_allclose(reward, data["rew"].reshape(-1), atol=1e-5, rtol=0)
    np.testing.assert_array_equal(terminated, data["terminated_before_limit"].reshape(-1) == 1)
