"""Tag's parameters: their effect on spaces, actions and starts."""

import gymnasium
import numpy as np
import pytest

from gpu_vecenv.errors import ActionError, ParameterError, ShapeError
from tests.api.envs import SMALL_TAG, assert_same, host_info, make, random_actions


def assert_same_results(left, right, left_actions, right_actions):
    """Assert that both envs give the same results from the same seed."""
    assert_same(left.reset(seed=6)[:1], right.reset(seed=6)[:1])
    for a, b in zip(left_actions, right_actions, strict=True):
        *out, info = left.step(a)
        *other, other_info = right.step(b)
        assert_same(out, other)
        assert_same(host_info(info), host_info(other_info))


def test_flat_actions_are_acceleration_times_turns_plus_turn():
    levels = {"num_acceleration_levels": 3, "num_turn_levels": 6}
    pair, flat = make("tag", **levels), make("tag", flatten_actions=True, **levels)
    assert pair.unwrapped.single_action_space.nvec.reshape(-1, 2).tolist() == [[4, 7]] * 6
    assert flat.unwrapped.single_action_space.nvec.tolist() == [28] * 6
    assert make("tag", view="agents", flatten_actions=True, **levels).single_action_space == gymnasium.spaces.Discrete(28)
    actions = random_actions(pair, 20)
    assert actions[..., 0].max() == 3 and actions[..., 1].max() == 6
    assert_same_results(pair, flat, actions, actions[..., 0] * 7 + actions[..., 1])


def test_continuous_actions_equal_the_indexed_accelerations_and_turns():
    index, box = make("tag"), make("tag", continuous_actions=True)
    accelerations = np.append(0, np.linspace(-float(np.float32(0.1)), float(np.float32(0.1)), 20)).astype(np.float32)
    turns = np.append(0, np.linspace(-float(np.float32(2.356)), float(np.float32(2.356)), 20)).astype(np.float32)
    actions = random_actions(index, 20)
    values = np.stack([accelerations[actions[..., 0]], turns[actions[..., 1]]], axis=-1)
    assert_same_results(index, box, actions, values)
    assert_same_results(index, box, actions, values.astype(np.float64))


def test_continuous_actions_are_clipped_to_the_box():
    env, twin = (make("tag", view="agents", continuous_actions=True) for _ in range(2))
    space = env.unwrapped.single_action_space
    np.testing.assert_array_equal(space.low, np.float32([-0.1, -2.356]))
    np.testing.assert_array_equal(space.high, np.float32([0.1, 2.356]))
    wild = np.random.default_rng(0).normal(0, 5, (10, 18, 2)).astype(np.float32)
    wild[0, :3] = [[np.inf, -np.inf], [-np.inf, np.inf], [1e30, -1e30]]
    assert_same_results(env, twin, wild, np.clip(wild, space.low, space.high))


def test_float64_actions_beyond_float32_are_clipped_without_a_warning(recwarn):
    env = make("tag", continuous_actions=True)
    env.reset(seed=0)
    env.step(np.full((3, 6, 2), 1e300))
    assert not recwarn.list


def test_nan_actions_raise_an_error_before_a_step():
    env = make("tag", continuous_actions=True)
    env.reset(seed=0)
    before = env.get_state()
    action = np.zeros((3, 6, 2), np.float32)
    action[1, 2, 0] = action[2, 0, 1] = np.nan
    with pytest.raises(ActionError, match="actions must be numbers, got 2 times NaN"):
        env.step(action)
    assert_same(env.get_state(), before)


@pytest.mark.parametrize("options", [{}, {"starting_directions": np.linspace(0, 3, 6)}], ids=["drawn", "given directions"])
def test_a_fixed_start_is_the_same_in_all_worlds_and_episodes(options):
    env = make("tag", fixed_start=True, num_worlds=4, **options)
    obs, _ = env.reset(seed=5)
    for world in obs[1:]:
        np.testing.assert_array_equal(world, obs[0])
    np.testing.assert_array_equal(env.reset()[0], obs)
    np.testing.assert_array_equal(make("tag", fixed_start=True, num_worlds=4, first_world=9, **options).reset(seed=5)[0], obs)
    assert not np.array_equal(env.reset(seed=6)[0], obs)
    plain, _ = make("tag", num_worlds=4, **options).reset(seed=5)
    assert not np.array_equal(plain[0], plain[1])


def test_given_starts_are_used_by_every_reset():
    x, y, heading = np.arange(6.0), np.arange(6.0) * 2, np.linspace(0, 3, 6)
    env = make("tag", starting_location_x=x.tolist(), starting_location_y=y, starting_directions=tuple(heading))
    for seed in (1, None):
        env.reset(seed=seed)
        state = env.get_state()
        for world in range(3):
            np.testing.assert_array_equal(state["loc_x"][world], np.float32(x))
            np.testing.assert_array_equal(state["loc_y"][world], np.float32(y))
            np.testing.assert_array_equal(state["direction"][world], np.float32(heading))
            assert not state["speed"][world].any()


def test_random_starts_are_in_the_square_with_quarter_headings():
    env = make("tag", num_worlds=500)
    env.reset(seed=0)
    state = env.get_state()
    for name in ("loc_x", "loc_y"):
        assert 0 <= state[name].min() < 0.1 and 19.9 < state[name].max() <= 20
        assert abs(state[name].mean() - 10) < 0.4
    headings, counts = np.unique(state["direction"], return_counts=True)
    np.testing.assert_allclose(headings, [0, np.pi / 2, np.pi, 3 * np.pi / 2], rtol=1e-6)
    assert counts.min() > 600


@pytest.mark.parametrize("exits", [True, False])
def test_caught_runners_leave_only_with_runner_exits_game_after_tagged(exits):
    """A tagger stands on one runner; the other runner is far away."""
    env = gymnasium.make_vec(
        "WarpTag-v0", device="cpu", array="numpy", num_taggers=1, num_runners=2, runner_exits_game_after_tagged=exits,
        starting_location_x=[5, 5, 15], starting_location_y=[5, 5, 15], tagging_distance=0.05, episode_length=3,
    )  # fmt: skip
    env.reset(seed=0)
    still = np.zeros((1, 3, 2), int)
    rewards, alive = [], []
    for _ in range(3):
        _, _, terminated, truncated, info = env.step(still)
        rewards.append(info["agent_reward"][0].tolist())
        alive.append(info["agent_alive"][0].tolist())
    if exits:
        assert rewards == [[10, -10, 0], [0, 0, 0], [0, 0, 1]]
        assert alive == [[True, False, True]] * 3
    else:
        assert rewards == [[10, -10, 0], [10, -10, 0], [10, -9, 1]]
        assert alive == [[True] * 3] * 3
    assert truncated[0] and not terminated[0]


def test_full_observation_shows_all_others_in_order():
    env = make("tag", use_full_observation=True)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (3, 6, 7 * 5 + 1)
    state = env.get_state()
    for i in range(6):
        others = [j for j in range(6) if j != i]
        dx = (state["loc_x"][:, others] - state["loc_x"][:, [i]]) / (20 * np.sqrt(2))
        np.testing.assert_allclose(obs[:, i, :5], dx, atol=1e-6)
        np.testing.assert_array_equal(obs[0, i, 25:30], [float(j < 2) for j in others])
        np.testing.assert_array_equal(obs[:, i, 30:35], 1)


def test_neighbour_ranks_beyond_the_number_of_agents_are_zero():
    env, exact = make("tag", num_other_agents_observed=6), make("tag", num_other_agents_observed=5)
    obs, _ = env.reset(seed=0)
    expected, _ = exact.reset(seed=0)
    blocks, others = obs[..., :-1].reshape(3, 6, 7, 6), expected[..., :-1].reshape(3, 6, 7, 5)
    np.testing.assert_array_equal(blocks[..., :5], others)
    assert not blocks[..., 5].any()
    with pytest.raises(ParameterError, match="num_other_agents_observed must be at most the number of agents, 6, got 7"):
        make("tag", num_other_agents_observed=7)


def test_neighbours_are_ordered_by_distance():
    env = make("tag", num_other_agents_observed=3)
    obs, _ = env.reset(seed=0)
    state = env.get_state()
    for w in range(3):
        x, y = state["loc_x"][w], state["loc_y"][w]
        for i in range(6):
            distance = np.hypot(x - x[i], y - y[i])
            nearest = [j for j in np.argsort(distance) if j != i][:3]
            np.testing.assert_allclose(obs[w, i, :3], (x[nearest] - x[i]) / (20 * np.sqrt(2)), atol=1e-6)
            np.testing.assert_allclose(obs[w, i, 3:6], (y[nearest] - y[i]) / (20 * np.sqrt(2)), atol=1e-6)


def test_a_world_may_have_two_agents():
    env = gymnasium.make_vec("WarpTag-v0", num_envs=2, device="cpu", array="numpy", num_taggers=1, num_runners=1)
    assert env.observation_space.shape == (2, 2, 8)
    env.reset(seed=0)
    obs, *_ = env.step(env.action_space.sample())
    assert obs in env.observation_space


@pytest.mark.parametrize("view", ["worlds", "agents"])
def test_a_world_may_have_4096_agents(view):
    sizes = {"num_taggers": 96, "num_runners": 4000, "num_other_agents_observed": 3}
    env = gymnasium.make_vec("WarpTag-v0", num_worlds=1, view=view, device="cpu", array="numpy", **sizes)
    env.reset(seed=0)
    shape = (1, 4096, 2) if view == "worlds" else (4096, 2)
    obs, *_ = env.step(np.random.default_rng(0).integers(0, 21, shape))
    assert obs in env.observation_space
    assert np.unique(obs.reshape(4096, -1), axis=0).shape[0] == 4096


@pytest.mark.parametrize("params, error, text", [
    ({"num_taggers": 97, "num_runners": 4000}, ParameterError, "a world holds 1 to 4096 agents, got 4097"),
    ({"num_runners": 0}, ParameterError, "WarpTag-v0: num_runners must be at least 1, got 0"),
    ({"num_runners": 2.5}, ParameterError, "num_runners must be a 32-bit integer, got 2.5"),
    ({"num_runners": "4"}, ParameterError, "num_runners must be a number, got '4'"),
    ({"grid_length": 0}, ParameterError, "grid_length must be at least 1e-09 and at most .*, got 0"),
    ({"grid_length": float("nan")}, ParameterError, "grid_length must be finite, got nan"),
    ({"tagging_distance": 1.5}, ParameterError, "tagging_distance must be at least 0 and at most 1, got 1.5"),
    ({"edge_hit_penalty": 1}, ParameterError, "edge_hit_penalty must be at least .* and at most 0, got 1"),
    ({"fixed_start": 1}, ParameterError, "fixed_start must be True or False, got 1"),
    ({"max_turn": -3}, ParameterError, "min_turn must not be above max_turn, got"),
    ({"flatten_actions": True, "continuous_actions": True}, ParameterError, "flatten_actions joins two discrete entries"),
    ({"starting_location_x": [1.0] * 6}, ParameterError, "give both starting_location_x and starting_location_y"),
    ({"starting_directions": [1.0] * 5}, ShapeError, r"starting_directions must have shape \(6,\).*got \(5,\)"),
    ({"starting_location_x": [21.0] * 6, "starting_location_y": [1.0] * 6}, ParameterError, r"must lie within \[0, 20\]"),
])  # fmt: skip
def test_invalid_parameters_raise_errors(params, error, text):
    with pytest.raises(error, match=text):
        gymnasium.make_vec("WarpTag-v0", device="cpu", **{**SMALL_TAG, **params})
