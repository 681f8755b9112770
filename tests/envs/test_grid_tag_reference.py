"""The kernel of Tag on a grid against its NumPy reference, one step from many states; the reference against the recordings."""

import json

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.envs.grid_tag.reference import GridTagReference
from gpu_vecenv.envs.grid_tag.spec import SPEC
from tests.devices import DEVICES
from tests.envs.golden_tag import GOLDEN
from tests.envs.test_grid_tag_golden import DEFAULTS, FILES

ROUNDING = 2e-7  # of observations, absolute


def random_params(generator):
    return {
        "num_taggers": int(generator.choice([1, 2, 5, 40])),
        "grid_length": int(generator.choice([1, 2, 5, 9, 40])),
        "episode_length": int(generator.integers(1, 12)),
        "wall_hit_penalty": generator.uniform(-1, 1),
        "tag_reward_for_tagger": generator.uniform(0, 10),
        "tag_penalty_for_runner": generator.uniform(0, 10),
        "step_cost_for_tagger": generator.uniform(0, 1),
        "use_full_observation": bool(generator.random() < 0.5),
    }


def kernel_step(params, loc, t, actions, device):
    """Step every world once with the kernel from cells (worlds, agents, 2); return the results and the cells after it."""
    env = gymnasium.make_vec(
        "WarpGridTag-v0", num_envs=len(loc), device=device, array="numpy", autoreset_mode="disabled", **params
    )
    env.reset(seed=0)
    loc = loc.astype(np.int32)
    env.unwrapped.set_state({"loc_x": loc[..., 0].copy(), "loc_y": loc[..., 1].copy(), "t": t.astype(np.int32)})
    out = env.step(actions.astype(np.int32))
    after = env.unwrapped.get_state()
    env.close()
    return out, np.stack([after["loc_x"], after["loc_y"]], axis=-1)


def compare(params, loc, t, actions, device):
    """Compare a step of every world with the reference; return ``terminated`` (a tag) and ``truncated``, bool (worlds,) each."""
    (obs, reward, terminated, truncated, info), after = kernel_step(params, loc, t, actions, device)
    reference = GridTagReference(SPEC.resolve(params))
    for w in range(len(loc)):
        reference.reset(*loc[w].T)
        reference.t = int(t[w])
        expected, pay, tagged, late = reference.step(actions[w])
        np.testing.assert_array_equal(after[w], reference.loc)
        np.testing.assert_allclose(obs[w], expected, atol=ROUNDING, rtol=0)
        np.testing.assert_allclose(info["agent_reward"][w], pay, atol=2e-6, rtol=0)
        np.testing.assert_allclose(reward[w], pay.mean(), atol=2e-6, rtol=0)
        assert (terminated[w], truncated[w]) == (tagged, late)
    return terminated, truncated


def random_steps(params, worlds, generator):
    agents = params["num_taggers"] + 1
    loc = generator.integers(0, params["grid_length"] + 1, (worlds, agents, 2))
    actions = generator.integers(0, SPEC.action(SPEC.resolve(params)).n, (worlds, agents))
    return loc, generator.integers(0, params["episode_length"], worlds), actions


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(16))
def test_a_step_with_random_parameters_matches_the_reference(seed, device):
    generator = np.random.default_rng(seed)
    params = random_params(generator)
    compare(params, *random_steps(params, 40, generator), device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("full", [True, False])
def test_tags_ties_and_last_steps_on_a_small_grid_match_the_reference(full, device):
    """On a small grid, tags, taggers at equal distance and last steps are frequent, alone and together."""
    params = {"num_taggers": 3, "grid_length": 3, "episode_length": 2, "use_full_observation": full}
    loc, t, actions = random_steps(params, 500, np.random.default_rng(1))
    tagged, late = compare(params, loc, t, actions, device)
    squares = ((loc[:, :3] - loc[:, 3:]) ** 2).sum(axis=-1)
    tied = (squares == squares.min(axis=1, keepdims=True)).sum(axis=1) > 1
    assert min(np.mean(tagged & late), np.mean(tagged & ~late), np.mean(~tagged & late), np.mean(tied)) > 0.05


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("tagger", "runner", "moves", "tagged", "pay"),
    [
        ((1, 1), (2, 1), (1, 2), False, (-0.25, 0.25)),  # agents that swap cells do not meet
        ((1, 1), (3, 1), (1, 2), True, (8.0, -4.0)),  # they meet halfway
        ((1, 1), (2, 1), (1, 0), True, (8.0, -4.0)),
        ((1, 1), (1, 1), (4, 4), True, (8.0, -4.0)),  # both move to the same cell
        ((3, 4), (4, 4), (1, 1), True, (8.0, -4.5)),  # the wall stops the runner, with a penalty
        ((0, 0), (4, 4), (2, 3), False, (-0.75, -0.25)),  # both hit walls
    ],
)
def test_a_tag_needs_tagger_and_runner_in_one_cell_after_the_step(tagger, runner, moves, tagged, pay, device):
    params = {
        "num_taggers": 1, "grid_length": 4, "tag_reward_for_tagger": 8.0, "tag_penalty_for_runner": 4.0,
        "step_cost_for_tagger": 0.25, "wall_hit_penalty": 0.5,
    }  # fmt: skip
    loc, moves = np.array([[tagger, runner]]), np.array([moves])
    (_, _, terminated, _, info), _ = kernel_step(params, loc, np.zeros(1), moves, device)
    reference = GridTagReference(SPEC.resolve(params))
    reference.reset(*loc[0].T)
    _, reward, over, _ = reference.step(moves[0])
    for flag, paid in ((terminated[0], info["agent_reward"][0]), (over, reward)):
        assert flag == tagged
        np.testing.assert_array_equal(paid, pay)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("full", [True, False])
def test_observations_after_a_reset_match_the_reference(full, device):
    params = {"num_taggers": 3, "grid_length": 7, "use_full_observation": full}
    x, y = np.array([0, 7, 3, 5]), np.array([2, 2, 6, 2])
    env = gymnasium.make_vec("WarpGridTag-v0", num_envs=2, device=device, array="numpy", **params,
                             starting_location_x=x, starting_location_y=y)  # fmt: skip
    expected = GridTagReference(env.unwrapped.params).reset(x, y)
    obs, _ = env.reset(seed=0)
    np.testing.assert_allclose(obs, np.stack([expected, expected]), atol=ROUNDING, rtol=0)


@pytest.mark.parametrize("name", FILES)
def test_the_reference_matches_the_recordings(name):
    """Starts from each recorded state; the recordings come from an implementation that shares no code with the kernel."""
    data = np.load(GOLDEN / name)
    given = {key: value for key, value in json.loads(str(data["meta_json"]))["params"].items() if key != "seed"}
    reference = GridTagReference(SPEC.resolve({**DEFAULTS, **given}))
    start = data["init_loc_x"], data["init_loc_y"]
    np.testing.assert_allclose(reference.reset(*start), data["obs0"], atol=ROUNDING, rtol=0)
    for s, actions in enumerate(data["actions"]):
        obs, reward, tagged, late = reference.step(actions)
        np.testing.assert_array_equal(reference.loc, np.stack([data["loc_x"][s], data["loc_y"][s]], axis=1))
        np.testing.assert_allclose(obs, data["obs"][s], atol=ROUNDING, rtol=0)
        np.testing.assert_allclose(reward, data["rew"][s], atol=1e-6, rtol=0)
        assert (tagged, tagged or late) == (data["tag"][s] > 0, data["done"][s] == 1)
        if tagged or late:
            reference.reset(*start)
