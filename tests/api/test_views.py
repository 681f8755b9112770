"""The two views, by worlds and by agents, of the same worlds."""

import gymnasium
import numpy as np
import pytest

from gpu_vecenv.errors import ParameterError
from tests.api.envs import ENVS, MODES, VIEWS, as_rows, assert_same, host_info, make, random_actions


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("actions", [{}, {"flatten_actions": True}, {"continuous_actions": True}])
@pytest.mark.parametrize("name", ["tag", "tag, defaults"])
def test_rows_of_the_agents_view_are_ordered_by_role_then_world(name, actions, mode):
    by_world = make(name, autoreset_mode=mode, **actions)
    by_agent = make(name, view="agents", autoreset_mode=mode, **actions)
    counts = by_world.unwrapped.role_counts
    agents = sum(counts.values())

    def rows(array):
        return as_rows(array if array.shape[1:2] == (agents,) else np.repeat(array[:, None], agents, axis=1), counts)

    np.testing.assert_array_equal(by_agent.reset(seed=3)[0], rows(by_world.reset(seed=3)[0]))
    for action in random_actions(by_world, 15):
        obs, reward, *flags, info = by_world.step(action)
        obs_rows, reward_rows, *flags_rows, info_rows = by_agent.step(rows(action))
        info, info_rows = host_info(info), host_info(info_rows)
        np.testing.assert_array_equal(obs_rows, rows(obs))
        np.testing.assert_array_equal(reward_rows, rows(info["agent_reward"]))
        np.testing.assert_allclose(reward, info["agent_reward"].mean(axis=1), atol=1e-5)
        assert_same(flags_rows, [rows(flag) for flag in flags])
        assert_same(info_rows, {key: rows(value) for key, value in info.items()})
    assert_same(by_agent.get_state(), by_world.get_state())


def test_with_one_agent_both_views_are_the_same():
    left, right = (make("cartpole", view=view) for view in VIEWS)
    assert left.observation_space == right.observation_space
    assert left.action_space == right.action_space
    assert_same(left.reset(seed=3)[:1], right.reset(seed=3)[:1])
    for action in random_actions(left, 40):
        *outputs, info = left.step(action)
        *others, other_info = right.step(action)
        assert_same(outputs, others)
        assert_same(host_info(info), host_info(other_info))


def test_role_counts_and_rows_of_the_agents_view():
    env = make("tag, defaults", view="agents", num_worlds=2)
    assert env.unwrapped.num_agents == 105
    assert env.unwrapped.role_counts == {"tagger": 5, "runner": 100}
    assert env.unwrapped.role_rows == {"tagger": slice(0, 10), "runner": slice(10, 210)}


@pytest.mark.parametrize("name", ENVS)
@pytest.mark.parametrize("view", VIEWS)
def test_state_has_the_leading_axis_worlds_in_both_views(name, view):
    env = make(name, view=view)
    env.reset(seed=0)
    agents = env.unwrapped.num_agents
    state = env.get_state()
    physical = ["state"] if name == "cartpole" else ["loc_x", "loc_y", "speed", "direction", "acceleration", "alive"]
    assert list(state)[: len(physical)] == physical
    for field, value in state.items():
        assert len(value) == 3, field
    if name != "cartpole":
        assert state["loc_x"].shape == (3, agents) and state["loc_x"].dtype == np.float32
        assert state["alive"].dtype == np.int32


@pytest.mark.parametrize("options, text", [
    ({"num_envs": 13}, r"num_envs must be a multiple of 6 \(12 or 18\), got 13"),
    ({"num_envs": 4}, r"6 a world: num_envs must be a multiple of 6 \(6\), got 4"),
    ({}, "give num_worlds=W, or num_envs=6 for one world"),
    ({"num_worlds": 2, "num_envs": 6}, "num_worlds=2 makes num_envs=12, got num_envs=6; give one of them"),
    ({"num_worlds": 0}, "num_worlds must be an integer from 1 to 2147483647, got 0"),
    ({"num_envs": 2.0}, "num_envs must be an integer from 1 to .*, got 2.0"),
])  # fmt: skip
def test_invalid_sizes_raise_errors(options, text):
    with pytest.raises(ParameterError, match=text):
        gymnasium.make_vec("WarpTag-v0", view="agents", device="cpu", **ENVS["tag"][1], **options)
