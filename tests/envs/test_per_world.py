"""Physical parameters that differ from world to world."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.errors import ParameterError, ShapeError
from tests.devices import DEVICES

CASES = [
    ("WarpCartPole-v1", "length", [0.3, 0.5, 0.9]),
    ("WarpCartPole-v1", "masspole", [0.05, 0.1, 0.4]),
    ("WarpAcrobot-v1", "link_mass_2", [0.5, 1.0, 2.0]),
    ("WarpMountainCar-v0", "gravity", [0.002, 0.0025, 0.003]),
    ("WarpMountainCarContinuous-v0", "power", [0.001, 0.0015, 0.002]),
    ("WarpPendulum-v1", "g", [5.0, 9.81, 15.0]),
]


def run(name, worlds, device, **params):
    env = gymnasium.make_vec(name, num_envs=worlds, device=device, array="numpy", **params)
    env.reset(seed=[4] * worlds)
    space, generator = env.unwrapped.single_action_space, np.random.default_rng(0)
    seen = []
    for _ in range(8):
        if isinstance(space, gymnasium.spaces.Box):
            action = generator.uniform(-1, 1, (1, 1)).astype(np.float32)
        else:
            action = generator.integers(0, space.n, 1, dtype=np.int32)
        seen.append(env.step(np.repeat(action, worlds, axis=0))[0])
    return np.stack(seen, axis=1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "param", "values"), CASES)
def test_each_world_steps_like_an_env_with_its_parameter(name, param, values, device):
    together = run(name, 3, device, **{param: np.array(values)})
    for world, value in enumerate(values):
        np.testing.assert_array_equal(together[world], run(name, 1, device, **{param: value})[0])
    assert not np.array_equal(together[0], together[2])


def test_invalid_parameters_of_worlds_raise_errors():
    with pytest.raises(ShapeError, match=r"length must hold one number a world, \(4,\), got \(3,\)"):
        gymnasium.make_vec("WarpCartPole-v1", num_envs=4, device="cpu", length=[0.5, 0.5, 0.5])
    with pytest.raises(ParameterError, match="length must be at least 1e-09 and at most .*, got -1.0"):
        gymnasium.make_vec("WarpCartPole-v1", num_envs=2, device="cpu", length=[0.5, -1.0])
    with pytest.raises(ParameterError, match="tau must be finite, got nan"):
        gymnasium.make_vec("WarpCartPole-v1", num_envs=2, device="cpu", tau=[0.02, np.nan])
    with pytest.raises(ParameterError, match="max_episode_steps must be a number"):
        gymnasium.make_vec("WarpCartPole-v1", num_envs=2, device="cpu", max_episode_steps=[5, 6])
