"""The kernel of Tag against its NumPy reference, one step from many states; the reference against the recordings."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.envs.tag.reference import TagReference
from gpu_vecenv.envs.tag.spec import SPEC
from tests.devices import DEVICES
from tests.envs import tag_cases as cases
from tests.envs.golden_tag import FILES, GoldenTag

TOLERANCE = 1e-5


def compare(params, state, actions, device):
    """Compare a step of every world with the reference; return the shares of worlds and of rows that were compared."""
    resolved = SPEC.resolve(params)
    reference = TagReference(resolved)
    (obs, _, terminated, truncated, info), after = cases.kernel_step(params, state, actions, device)
    partial = not resolved["use_full_observation"]
    worlds = rows = 0
    for w in range(len(actions)):
        cases.load(reference, state, w)
        expected_obs, reward, over, limit = reference.step(actions[w])
        if cases.doubtful_world(state, w, reference):
            continue
        worlds += 1
        for name in cases.STATE:
            np.testing.assert_allclose(after[name][w], getattr(reference, name), atol=TOLERANCE, rtol=0, err_msg=name)
        np.testing.assert_array_equal(after["tagged_by"][w], reference.tagged_by)
        np.testing.assert_array_equal(after["alive"][w] == 1, reference.alive)
        np.testing.assert_array_equal(info["agent_alive"][w], reference.alive)
        np.testing.assert_allclose(info["agent_reward"][w], reward, atol=TOLERANCE, rtol=1e-6)
        assert (terminated[w], truncated[w]) == (over, limit)
        for i in range(reference.num_agents):
            if partial and cases.doubtful_row(state, w, reference, i, params["num_other_agents_observed"]):
                continue
            rows += 1
            np.testing.assert_allclose(obs[w, i], expected_obs[i], atol=TOLERANCE, rtol=0)
    return worlds / len(actions), rows / max(1, worlds * reference.num_agents)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(24))
def test_a_step_with_random_parameters_matches_the_reference(seed, device):
    generator = np.random.default_rng(seed)
    params = cases.random_params(generator)
    resolved = SPEC.resolve(params)
    state = cases.random_states(TagReference(resolved), 20, params["episode_length"], generator)
    actions = cases.random_actions(resolved, 20, generator)
    worlds, rows = compare(params, state, actions, device)
    assert worlds >= 0.9 and rows >= 0.97


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("taggers", "runners", "more"),
    [
        (1, 1, {}),
        (5, 100, {}),
        (10, 240, {}),
        (20, 280, {"use_full_observation": True}),
        (20, 280, {"num_other_agents_observed": 40}),
        (15, 400, {}),
        (16, 400, {}),
        (24, 1000, {}),
        (24, 1001, {}),
        pytest.param(96, 4000, {"num_other_agents_observed": 10, "tagging_distance": 0.01}, marks=pytest.mark.slow),
    ],
)
def test_a_step_of_small_and_large_worlds_matches_the_reference(taggers, runners, more, device):
    """Covers two agents, the defaults, worlds with more agents than threads in a block, and each search for neighbours."""
    params = {"num_taggers": taggers, "num_runners": runners, "edge_hit_penalty": -0.5, "episode_length": 9, **more}
    resolved = SPEC.resolve(params)
    params.setdefault("num_other_agents_observed", resolved["num_other_agents_observed"])
    generator = np.random.default_rng(2)
    count = 1 if taggers + runners > 1000 else 200 if taggers == 1 else 3
    state = cases.random_states(TagReference(resolved), count, 9, generator)
    worlds, rows = compare(params, state, cases.random_actions(resolved, count, generator), device)
    assert worlds > 0.6 and rows > 0.9


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("worlds", "agents", "side", "neighbours"),
    [
        *((30, 36, 17, 3), (30, 36, 17, 12), (30, 36, 17, 33), (3, 320, 17, 10), (2, 320, 1, 32)),
        *((3, 430, 17, 10), (3, 430, 17, 40), (3, 430, 3, 10), (2, 430, 1, 10), (1, 1100, 17, 10), (1, 1100, 1, 10)),
    ],
)
def test_equal_distances_go_to_the_lower_index(worlds, agents, side, neighbours, device):
    """Agents at rest on a small lattice: every distance is exact, ties are frequent, and all of them are compared.

    Neighbours of many agents are found with a grid: from 416 agents on, or from 1,025 on in a team of one lane. The agents fill
    every cell of it, or one cell.
    """
    params = {
        "num_taggers": 6, "num_runners": agents - 6, "grid_length": 16.0, "num_other_agents_observed": neighbours,
        "tagging_distance": 2 / 16, "step_reward_for_runner": 0.25, "episode_length": 8,
    }  # fmt: skip
    generator = np.random.default_rng(8)
    shape = (worlds, agents)
    state = {name: np.zeros(shape, np.float32) for name in cases.STATE}
    state["loc_x"], state["loc_y"] = (generator.integers(0, side, shape).astype(np.float32) for _ in range(2))
    state["alive"], state["t"] = np.ones(shape, np.int32), np.full(worlds, 3, np.int32)
    actions = np.zeros((*shape, 2), np.int32)
    (obs, _, _, _, info), after = cases.kernel_step(params, state, actions, device)
    reference = TagReference(SPEC.resolve(params))
    at_margin = 0
    for w in range(worlds):
        cases.load(reference, state, w)
        expected, reward, _, _ = reference.step(actions[w])
        np.testing.assert_allclose(obs[w], expected, atol=1e-7, rtol=0)
        np.testing.assert_array_equal(after["tagged_by"][w], reference.tagged_by)
        np.testing.assert_array_equal(info["agent_reward"][w], reward)
        at_margin += sum((reference.distances(i, np.arange(6)) == 2).any() for i in range(6, agents))
    assert (at_margin > 0 or side < 3) and (after["tagged_by"] >= 0).any(axis=1).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("agents", [320, 430, 1100])
@pytest.mark.parametrize("caught_of_310", [0, 300])
def test_agents_far_from_all_others_observe_the_right_neighbours(agents, caught_of_310, device):
    """A few agents stand in one corner, all others in the opposite one; the cells between them are empty."""
    params = {
        "num_taggers": 6, "num_runners": agents - 6, "grid_length": 64.0, "num_other_agents_observed": 10,
        "tagging_distance": 0.01, "episode_length": 8,
    }  # fmt: skip
    generator = np.random.default_rng(5)
    state = {name: np.zeros((1, agents), np.float32) for name in cases.STATE}
    far_corner = np.broadcast_to(np.arange(agents) >= agents - 5, (2, 1, agents))
    state["loc_x"], state["loc_y"] = np.float32(generator.integers(np.where(far_corner, 60, 0), np.where(far_corner, 65, 2)))
    state["alive"], state["t"] = np.ones((1, agents), np.int32), np.full(1, 3, np.int32)
    state["alive"][0, 6 : 6 + agents * caught_of_310 // 310] = 0
    actions = np.zeros((1, agents, 2), np.int32)
    (obs, *_), _ = cases.kernel_step(params, state, actions, device)
    reference = TagReference(SPEC.resolve(params))
    cases.load(reference, state, 0)
    expected, *_ = reference.step(actions[0])
    np.testing.assert_allclose(obs[0], expected, atol=1e-7, rtol=0)


def step_at_rest(tags_of_tagger, far, params, t, device):
    """Step one world at rest: tagger j stands at (20 j + 10, 50) with its runners within reach; ``far`` runners are far off."""
    taggers, runners = len(tags_of_tagger), sum(tags_of_tagger) + far
    params = {
        "num_taggers": taggers, "num_runners": runners, "grid_length": 100.0, "tagging_distance": 0.02,
        "tag_reward_for_tagger": 3.0, "tag_penalty_for_runner": -7.0, "step_penalty_for_tagger": -0.25,
        "step_reward_for_runner": 0.5, "end_of_game_reward_for_runner": 16.0, "episode_length": 10, **params,
    }  # fmt: skip
    prey = np.repeat(np.arange(taggers), tags_of_tagger)
    state = {name: np.zeros((1, taggers + runners), np.float32) for name in cases.STATE}
    state["loc_x"][0] = np.concatenate([np.arange(taggers) * 20 + 10, prey * 20 + 11, np.full(far, 50)])
    state["loc_y"][0] = np.concatenate([np.full(taggers + len(prey), 50), np.full(far, 90)])
    state["alive"], state["t"] = np.ones((1, taggers + runners), np.int32), np.array([t], np.int32)
    out, after = cases.kernel_step(params, state, np.zeros((1, taggers + runners, 2), np.int32), device)
    return out, after, taggers, len(prey)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("exits", [True, False])
@pytest.mark.parametrize("tags", [[1], [40], [500], [3, 0, 70, 200, 1]])
def test_every_one_of_several_tags_in_a_step_is_rewarded(tags, exits, device):
    (_, reward, terminated, truncated, info), after, taggers, prey = step_at_rest(
        tags, 4, {"runner_exits_game_after_tagged": exits}, 0, device
    )
    paid = info["agent_reward"][0]
    np.testing.assert_array_equal(paid[:taggers], np.array(tags) * 3.0 - 0.25)
    np.testing.assert_array_equal(paid[taggers : taggers + prey], 0.5 - 7.0)
    np.testing.assert_array_equal(paid[taggers + prey :], 0.5)
    np.testing.assert_array_equal(after["alive"][0, taggers : taggers + prey], 0 if exits else 1)
    np.testing.assert_allclose(reward[0], paid.mean(dtype=np.float64), rtol=1e-6)
    assert not terminated[0] and not truncated[0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("exits", "far", "terminated"), [(True, 3, False), (True, 0, True), (False, 0, False)])
def test_runners_that_leave_in_the_last_step_get_no_reward_for_the_end(exits, far, terminated, device):
    """At the time limit ``truncated`` is true. ``terminated`` is true too if caught runners leave and none is left."""
    out, after, taggers, prey = step_at_rest([2, 5], far, {"runner_exits_game_after_tagged": exits}, 9, device)
    paid = out[4]["agent_reward"][0]
    np.testing.assert_array_equal(paid[:taggers], np.array([2, 5]) * 3.0 - 0.25)
    np.testing.assert_array_equal(paid[taggers : taggers + prey], 0.5 - 7.0 + (0.0 if exits else 16.0))
    np.testing.assert_array_equal(paid[taggers + prey :], 0.5 + 16.0)
    assert out[2][0] == terminated and out[3][0]


@pytest.mark.parametrize("device", DEVICES)
def test_catching_all_runners_before_the_limit_terminates_only(device):
    out, *_ = step_at_rest([2, 5], 0, {}, 3, device)
    assert out[2][0] and not out[3][0]


@pytest.mark.parametrize("device", DEVICES)
def test_a_reset_with_given_starts_matches_the_reference(device):
    generator = np.random.default_rng(4)
    params = {"num_taggers": 3, "num_runners": 5, "grid_length": 7.0}
    x, y, direction = generator.uniform(0, 7, 8), generator.uniform(0, 7, 8), generator.uniform(0, 6, 8)
    env = gymnasium.make_vec("WarpTag-v0", num_envs=2, device=device, array="numpy", **params,
                             starting_location_x=x, starting_location_y=y, starting_directions=direction)  # fmt: skip
    obs, _ = env.reset(seed=0)
    expected = TagReference(env.unwrapped.params).reset(x, y, direction)
    np.testing.assert_allclose(obs, np.stack([expected, expected]), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", FILES)
def test_the_reference_matches_the_recordings(name):
    """Starts from each recorded state; the recordings come from an implementation that shares no code with the kernel."""
    golden = GoldenTag(name)
    reference = TagReference(SPEC.resolve(golden.params))
    before = {field: golden.before(field) for field in cases.STATE}
    before["alive"], before["t"] = golden.alive_before(), golden.data["timestep"] - 1
    recorded_obs = golden.observations(golden.data["obs"])
    wrap, edge = golden.agents("dir_near_wrap") == 1, golden.agents("edge_ambiguous") == 1
    swapped = golden.agents("nbr_ambiguous") == 1 if "nbr_ambiguous" in golden.data else np.zeros_like(edge)
    compared = 0
    for s in range(golden.steps):
        cases.load(reference, before, s)
        obs, reward, terminated, truncated = reference.step(golden.agents("actions")[s])
        for field in ("loc_x", "loc_y", "speed", "acceleration"):
            recorded = golden.agents(field)[s]
            np.testing.assert_allclose(getattr(reference, field), recorded, atol=TOLERANCE, rtol=0, err_msg=field)
        np.testing.assert_array_equal(reference.alive, golden.agents("still")[s] == 1)
        assert terminated == (golden.data["num_runners"][s] == 0)
        assert truncated == (golden.data["timestep"][s] == golden.params["episode_length"])
        difference = np.abs(reward - golden.agents("rew")[s])
        assert difference[~edge[s]].max(initial=0.0) <= TOLERANCE
        if not wrap[s].any():
            compared += 1
            np.testing.assert_allclose(reference.direction, golden.agents("direction")[s], atol=TOLERANCE, rtol=0)
            np.testing.assert_allclose(obs[~swapped[s]], recorded_obs[s][~swapped[s]], atol=TOLERANCE, rtol=0)
    assert swapped.sum() <= 2 and compared >= 80
