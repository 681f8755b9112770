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


TAG = {"num_taggers": 2, "num_runners": 6, "num_other_agents_observed": 3, "extended_observation": True, "grid_length": 4.0,
       "max_acceleration": 1.0, "min_acceleration": -1.0, "tagging_distance": 0.2}  # fmt: skip
OF_TAG = {
    "grid_length": [3.0, 6.5, 11.0],
    "episode_length": [4, 5, 30],
    "max_speed": [0.2, 0.7, 1.3],
    "skill_level_runner": [0.5, 1.0, 1.7],
    "skill_level_tagger": [0.4, 1.0, 2.0],
    "max_acceleration": [0.5, 1.0, 1.3],
    "min_acceleration": [-1.3, -0.1, 0.02],
    "max_turn": [0.3, 1.0, 3.0],
    "min_turn": [-3.0, -1.0, 0.3],
    "edge_hit_penalty": [0.0, -1.0, -3.0],
    "tagging_distance": [0.0, 0.15, 0.4],
    "tag_reward_for_tagger": [1.0, 2.5, 9.0],
    "step_penalty_for_tagger": [0.0, -0.1, -0.5],
    "tag_penalty_for_runner": [0.0, -0.3, -4.0],
    "step_reward_for_runner": [0.0, 0.1, 0.4],
    "end_of_game_reward_for_runner": [0.0, 1.0, 5.0],
}


def played(worlds, device, **params):
    """Results of some steps with the same start and the same actions in all worlds, each with the leading axis worlds."""
    env = gymnasium.make_vec("WarpTag-v0", num_envs=worlds, device=device, array="numpy", **{**TAG, **params}).unwrapped
    env.reset(seed=[4] * worlds)
    space, generator = env.single_action_space, np.random.default_rng(0)
    continuous, seen = isinstance(space, gymnasium.spaces.Box), []
    for _ in range(7):
        shape = (1, 8, 2)
        action = generator.uniform(-2, 2, shape).astype(np.float32) if continuous else generator.integers(0, 21, shape)
        obs, _, terminated, truncated, info = env.step(np.repeat(action, worlds, axis=0))
        seen.append([obs.reshape(worlds, -1), info["agent_reward"], terminated[:, None], truncated[:, None]])
    env.close()
    return np.concatenate([np.concatenate(step, axis=1) for step in seen], axis=1)


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_a_world_of_tag_steps_like_an_env_with_its_parameters(device, continuous):
    """Each world has other values of all parameters, and of the constants and tables that follow them."""
    together = played(3, device, continuous_actions=continuous, **OF_TAG)
    for world in range(3):
        of_world = {name: values[world] for name, values in OF_TAG.items()}
        np.testing.assert_array_equal(together[world], played(1, device, continuous_actions=continuous, **of_world)[0])


def test_spaces_of_tag_hold_the_worlds():
    env = gymnasium.make_vec(
        "WarpTag-v0", num_envs=2, device="cpu", continuous_actions=True, min_turn=[-2.0, -1.0], max_turn=[0.5, 3.0],
        skill_level_runner=[1.0, 4.0],
    ).unwrapped  # fmt: skip
    assert (env.single_action_space.low[0, 1], env.single_action_space.high[0, 1]) == (-2.0, 3.0)
    high = env.single_observation_space.high
    assert high[np.isfinite(high)].max() == pytest.approx(4, rel=1e-3)
    env.close()


def test_parameters_of_worlds_that_contradict_each_other_are_refused():
    make = lambda **params: gymnasium.make_vec("WarpTag-v0", num_envs=2, device="cpu", **params)  # noqa: E731
    with pytest.raises(ShapeError, match="as many numbers as there are worlds, got 2 of grid_length, 3 of max_speed"):
        make(max_speed=[1.0, 1.0, 1.0], grid_length=[3.0, 3.0])
    with pytest.raises(ParameterError, match="min_turn must not be above max_turn"):
        make(min_turn=[0.0, 1.0], max_turn=[1.0, 0.5])
    with pytest.raises(ParameterError, match=r"starting_location_x must lie within \[0, 3\]"):
        make(num_taggers=1, num_runners=1, grid_length=[9.0, 3.0], starting_location_x=[1.0, 4.0], starting_location_y=[1.0, 1.0])
