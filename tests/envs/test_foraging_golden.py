"""Level-based foraging, compared with steps and starts of lbforaging: recorded ones, and new ones in slow tests."""

import os

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.envs.foraging.spec import SPEC
from tests.devices import DEVICES
from tests.envs import foraging_original as original
from tests.envs.foraging_original import CONFIGS, recorded, start_counts

STEPS = int(os.environ.get("FORAGING_STEPS", "10000"))
"""Steps of each configuration that the slow test compares."""


def make(num_envs, params, device="cpu", **options):
    return gymnasium.make_vec("WarpForaging-v3", num_envs=num_envs, device=device, array="numpy", **params, **options)


def assert_steps(params, play, device="cpu"):
    """Assert that a step from each state gives the state, observations, rewards and flags of the original."""
    here = original.step_here(params, play, device)
    for name in ("obs", "done", *original.AFTER, *({"before"} & {*play})):
        np.testing.assert_array_equal(here[name], play[name], err_msg=name)
    for name in ("player_level", "food_spawned"):
        np.testing.assert_array_equal(here[f"next_{name}"], play[name], err_msg=name)
    np.testing.assert_array_equal(here["next_t"], play["t"] + 1)
    np.testing.assert_allclose(here["reward"], play["reward"], rtol=0, atol=1e-5)
    limit = SPEC.resolve(params)["max_episode_steps"]
    np.testing.assert_array_equal(here["terminated"], ~play["next_food"].any((1, 2)))
    np.testing.assert_array_equal(here["truncated"], play["t"] + 1 >= limit)


def assert_alike(counts, others):
    """Assert that two counts of categories come from one distribution: chi-square, five deviations from its mean at most."""
    size = max(len(counts), len(others))
    a, b = (np.pad(np.asarray(each, float), (0, size - len(each))) for each in (counts, others))
    total, share = a + b, b.sum() / (a.sum() + b.sum())
    rare = total * min(share, 1 - share) < 5  # the approximation needs five of each; rare categories count as one
    a, b, total = (np.append(each[~rare], each[rare].sum()) for each in (a, b, total))
    a, b, total = (each[total > 0] for each in (a, b, total))
    chi = ((b - share * total) ** 2 / (share * (1 - share) * total)).sum()
    freedom = len(total) - 1
    assert chi <= freedom + 5 * np.sqrt(2 * max(freedom, 1)), (chi, freedom)


def assert_starts(params, expected, count):
    """Assert that properties of starts are distributed as counts say."""
    env = make(count, params).unwrapped
    env.reset(seed=5)
    for name, counts in start_counts(env.get_state(), SPEC.resolve(params)).items():
        try:
            assert_alike(counts, expected[name])
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CONFIGS)
def test_recorded_steps(name, device):
    play, _ = recorded(name)
    assert_steps(CONFIGS[name], play, device)


def test_recorded_steps_load_food_in_all_ways():
    """Foods are loaded alone and together, in vain and not, and two players stand in one cell."""
    plays = {name: recorded(name)[0] for name in CONFIGS}
    rewarded = {name: (play["reward"] > 0).sum(1) for name, play in plays.items()}
    assert all((count > 0).any() for count in rewarded.values())
    assert (rewarded["8x8-2p-2f-coop"] == 2).any() and (rewarded["a crowd"] > 2).any()
    assert all((plays[name]["reward"] < 0).any() for name in ("penalty", "a crowd, short sight"))
    crowd = plays["a crowd"]["player_pos"] @ [5, 1]
    assert any(len(set(row)) < 9 for row in crowd.tolist())


@pytest.mark.parametrize("name", original.STARTS)
def test_recorded_starts(name):
    assert_starts(CONFIGS[name], recorded(name)[1], 20_000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CONFIGS)
def test_steps_of_the_original(name):
    """States are those of the original's random play, and some in which players were put beside food."""
    pytest.importorskip("lbforaging")
    tally = original.compare(name, STEPS, 100)
    assert tally.states == STEPS and not tally.differing, tally.differing[:5]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CONFIGS)
def test_starts_of_the_original(name):
    pytest.importorskip("lbforaging")
    starts = original.drawn_starts(CONFIGS[name], 500 if "crowd" in name or "row" in name else 5000, 7)
    assert_starts(CONFIGS[name], start_counts(starts, SPEC.resolve(CONFIGS[name])), 40_000)
