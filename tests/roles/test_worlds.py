"""State, copies, resets and pools of envs with roles and masks, which have no roles."""

import numpy as np
import pytest

from tests.devices import DEVICES
from tests.roles import cases
from tests.roles.cases import (
    MODES,
    at,
    make,
    observed,
    of_envs,
    on_device,
    random_actions,
    results,
    started,
    state,
    stepped,
)
from tests.trees import assert_trees_equal, leaves, map_tree, to_host

CASES = [case for case, (_, options) in cases.CASES.items() if "map" not in options or np.ndim(options["map"]) == 0]
"""Envs whose worlds are alike, so that any of them may continue another."""

FIELDS = {
    "town": ["wealth", "idle_until", "tax"],
    "harvest": ["x", "y", "frozen_until", "zaps", "ate", "apples"],
    "pot": ["purse", "put", "pot", "share"],
    "covid": ["susceptible", "infected", "recovered", "deaths", "vaccinated", "unemployed", "subsidy", "production", "filters",
              "levels", "closed_until", "subsidy_level", "health_index", "economic_index"],
    "choir": ["note", "heard", "lead"],
    "whisper": ["heard", "secret"],
}  # fmt: skip


def of_worlds(env, tree, worlds):
    """Rows of some worlds, of arrays in the env's view with the leading axis envs."""
    return at(tree, np.flatnonzero(of_envs(env, np.isin(np.arange(env.num_worlds), worlds))))


@pytest.mark.parametrize("case", ["town", "harvest", "pot"])
def test_state_has_no_roles(case):
    env = started(case)
    names = list(env.get_state())
    metrics = [f"episode_{metric.name}" for metric in env.env_spec.metrics]
    assert names[: len(FIELDS[case]) + len(metrics)] == FIELDS[case] + metrics
    assert all(len(values) == 6 for values in env.get_state().values())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_a_state_that_is_set_continues_in_the_same_way(case, device):
    """Observations and masks of the new state are those of the old env; metrics go on."""
    env, other = started(case, seed=1, device=device), started(case, seed=2, device=device)
    env.rollout(num_steps=13)
    saved, obs = state(env), to_host(env.observe())
    other.set_state(saved)
    assert_trees_equal(state(other), saved)
    assert_trees_equal(to_host(other.observe()), obs)
    for _ in range(2):
        assert_trees_equal(results(env.rollout(num_steps=8)), results(other.rollout(num_steps=8)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_a_partial_reset_keeps_the_other_worlds(case, copy, device):
    env, twin = (started(case, copy=each, device=device) for each in (copy, True))
    for each in (env, twin):
        each.rollout(num_steps=4)
    kept = [0, 2, 5]
    mask = ~np.isin(np.arange(6), kept)
    present = results(twin.step(on_device(at(random_actions(twin, 1), 0), twin)))
    env.step(on_device(at(random_actions(env, 1), 0), env))
    before, seen = state(env), observed(env.reset(options={"reset_mask": of_envs(env, mask)}))
    assert_trees_equal(*(of_worlds(env, {name: tree[name] for name in ("obs", "action_mask")}, kept) for tree in (seen, present)))
    after = state(env)
    assert_trees_equal(at(after, kept), at(before, kept))
    assert (after["episode"] == before["episode"] + mask).all() and not after["t"][mask].any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_a_fork_continues_as_its_original(case, device):
    """With the same actions, obs, masks and metrics are the same; with diverge=True, random numbers differ."""
    env = started(case, device=device)
    env.rollout(num_steps=5)
    env.copy_worlds([0, 0, 1], [3, 4, 5])
    worlds = state(env)
    assert all((values[3:] == values[[0, 0, 1]]).all() or values.dtype.kind == "f" for values in worlds.values())
    out = results(env.rollout(num_steps=30))  # the originals' keys, so the same drawn actions
    for one, other in ((0, 3), (0, 4), (1, 5)):
        assert_trees_equal(*(of_worlds(env, map_tree(lambda a: np.moveaxis(a, 1, 0), out), [w]) for w in (one, other)))
    env.copy_worlds([0, 0, 1], [3, 4, 5], diverge=True)
    for name in FIELDS[case.partition(",")[0]]:
        np.testing.assert_array_equal(state(env)[name][3:], state(env)[name][[0, 0, 1]])
    drawn = map_tree(lambda a: np.moveaxis(a, 1, 0), results(env.rollout(num_steps=30))["actions"])
    rows = [leaves(of_worlds(env, drawn, [w])) for w in (0, 3, 4)]
    assert all((rows[i][0] != rows[j][0]).any() for i in range(3) for j in range(i))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_episodes_start_from_the_pool(case, mode, device):
    rolled, single = started(case, device=device, autoreset_mode=mode), started(case, autoreset_mode=mode)
    pool = single.draw_start_states(7, seed=5)
    assert list(pool) == FIELDS[case.partition(",")[0]]
    for env in (rolled, single):
        env.set_reset_pool(pool)
    assert_trees_equal(*(observed(env.reset(seed=9)) for env in (rolled, single)))
    entries = state(single)["pool_entry"]
    for name, values in pool.items():
        np.testing.assert_array_equal(state(rolled)[name], values[entries])
    out = results(rolled.rollout(num_steps=25))
    assert_trees_equal(out, {**stepped(single, out["actions"]), "actions": out["actions"]})
    assert_trees_equal(state(rolled), state(single))
    assert (state(rolled)["pool_entry"] >= 0).all()


@pytest.mark.parametrize("case", CASES)
def test_observe_changes_nothing(case):
    env, twin = started(case), started(case)
    for turn in range(3):
        out = results(env.rollout(num_steps=5))
        assert_trees_equal(env.observe(), at(out["obs"], -1))
        assert_trees_equal(state(env), state(env))
        assert_trees_equal(results(twin.rollout(num_steps=5)), out, str(turn))


@pytest.mark.parametrize("case", CASES)
def test_masks_of_a_state_that_was_set_are_those_of_the_next_draw(case):
    """An env that copies nothing, one that copies, and one with bound slabs draw the same actions after set_state()."""
    source = started(case, seed=8)
    source.rollout(num_steps=4)
    drawn = []
    for copy, bound in ((True, False), (False, False), (True, True)):
        env = started(case, copy=copy, array="torch")
        if bound:
            env.bind(**env.worlds.outputs.new_slabs(12))
        env.rollout(num_steps=3)
        env.set_state(source.get_state())
        drawn.append(results(env.rollout(num_steps=6)))
    for other in drawn[1:]:
        assert_trees_equal(other, drawn[0])


@pytest.mark.parametrize("case", CASES)
def test_seeds_of_each_world_are_those_of_envs_of_one_world(case):
    env = make(case, num_worlds=3)
    env.reset(seed=[5, 6, 7])
    out = map_tree(lambda array: np.moveaxis(array, 1, 0), results(env.rollout(num_steps=20)))
    for world, seed in enumerate((5, 6, 7)):
        alone = make(case, num_worlds=1)
        alone.reset(seed=seed)
        one = map_tree(lambda array: np.moveaxis(array, 1, 0), results(alone.rollout(num_steps=20)))
        assert_trees_equal(of_worlds(env, out, [world]), one)
