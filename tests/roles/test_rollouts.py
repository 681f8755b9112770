"""Rollouts of envs with roles and masks: the same bits as single steps; drawn actions honour masks and are uniform."""

import numpy as np
import pytest

from tests.devices import DEVICES
from tests.kernels.test_rng import philox
from tests.marks import slow_but
from tests.roles.cases import (
    CASES,
    MODES,
    at,
    expand,
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

ARRAYS = ["numpy", "torch", pytest.param("cupy", marks=pytest.mark.gpu)]


def device_of(array, device):
    return "cuda:0" if array == "cupy" else device


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("mode", slow_but(MODES[:1], MODES))
@pytest.mark.parametrize("case", CASES)
def test_rollouts_equal_steps(case, mode, array, copy, device):
    """Rollouts with drawn, given and constant actions, between single steps. The steps run on the CPU and allocate."""
    options = {"array": array, "copy": copy, "device": device_of(array, device), "autoreset_mode": mode}
    rolled, single = started(case, **options), started(case, autoreset_mode=mode)
    assert_trees_equal(to_host(rolled.observe()), single.observe())
    for turn in range(2):
        out = results(rolled.rollout(num_steps=14))
        assert_trees_equal(out, {**stepped(single, out["actions"]), "actions": out["actions"]}, "drawn")
        given = random_actions(rolled, 11, seed=turn)
        assert_trees_equal(results(rolled.rollout(on_device(given, rolled))), stepped(single, given), "given")
        one = at(given, slice(0, 1))
        constant = map_tree(lambda values: np.repeat(values, 5, axis=0), one)
        assert_trees_equal(results(rolled.rollout(on_device(at(one, 0), rolled), 5)), stepped(single, constant), "constant")
        assert_trees_equal(stepped(rolled, at(given, slice(0, 3))), stepped(single, at(given, slice(0, 3))), "steps")
        if mode == "disabled":
            options = {"reset_mask": of_envs(rolled, np.arange(6) % 2 == 0)}
            assert_trees_equal(*(observed(env.reset(options=options)) for env in (rolled, single)), "reset")
    assert_trees_equal(state(rolled), state(single), "state")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_a_rollout_that_stores_no_actions_gives_the_same_results(case, device):
    storing, other = started(case, device=device), started(case, device=device, array="torch", copy=False)
    for steps in (20, 1, 7):
        expected = results(storing.rollout(num_steps=steps))
        del expected["actions"]
        assert_trees_equal(results(other.rollout(num_steps=steps, keep_actions=False)), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_drawn_actions_honour_the_masks_of_the_observations_before_them(case, mode, device):
    env = make(case, num_worlds=40, device=device, autoreset_mode=mode)
    _, first = env.reset(seed=1)
    before, forbidden = to_host(first["action_mask"]), 0
    for steps in (25, 1, 9):
        out = results(env.rollout(num_steps=steps))
        seen = map_tree(lambda start, later: np.concatenate([start[None], later[:-1]]), before, out["action_mask"])
        before = at(out["action_mask"], -1)
        drawn = out["actions"] if env.view == "worlds" and isinstance(out["actions"], dict) else {"": out["actions"]}
        masks = seen if isinstance(seen, dict) else {"": seen}
        for role, mask in masks.items():
            choice = drawn[role] if drawn[role].ndim == mask.ndim - 1 else drawn[role][..., 0]
            assert np.take_along_axis(mask, choice[..., None].astype(np.int64), -1).all()
            forbidden += (~mask).sum()
    assert forbidden > 0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("case", "role", "options"), [("pot", "player", {"full": 10**6}), ("harvest", None, {})])
def test_drawn_actions_are_uniform_over_the_allowed_choices(case, role, options, device):
    """Among those that were drawn under the same mask. An entry without a mask is uniform too."""
    env = make(case, num_worlds=300, device=device, max_episode_steps=0, **options)
    start = observed(env.reset(seed=4))["action_mask"]
    out = results(env.rollout(num_steps=40))
    later, drawn = out["action_mask"], out["actions"]
    start, later, chosen = (start, later, drawn[..., 0]) if role is None else (start[role], later[role], drawn[role])
    masks = np.concatenate([start[None], later[:-1]])
    kinds = np.unique(masks.reshape(-1, masks.shape[-1]), axis=0)
    assert len(kinds) >= 3
    for allowed in kinds:
        counts = np.bincount(chosen[(masks == allowed).all(-1)], minlength=len(allowed))
        mean = counts.sum() / allowed.sum()
        assert not counts[~allowed].any() and (abs(counts[allowed] - mean) < 5 * np.sqrt(mean) + 1).all(), (allowed, counts)
    if role is None:
        assert abs(drawn[..., 1].mean() - 0.5) < 2.5 / np.sqrt(drawn[..., 1].size)


def test_drawn_actions_of_boxes_are_uniform_within_bounds():
    env = make("town", num_worlds=200)
    env.reset(seed=0)
    tax = env.rollout(num_steps=40)[4]["actions"]["mayor"]
    assert tax.shape == (40, 200, 1, 2) and tax.dtype == np.float32
    ordered = np.sort(tax.reshape(-1, 2), axis=0)
    assert abs(ordered - np.linspace(0, 1, len(ordered))[:, None]).max() < 0.02


@pytest.mark.parametrize("case", ["town", "harvest", "pot"])
def test_agents_of_a_role_draw_different_actions(case):
    """Draws do not depend on the number of worlds."""
    many, few = make(case, num_worlds=12), make(case, num_worlds=5, first_world=4)
    for env in (many, few):
        env.reset(seed=5)
    first, part = (env.rollout(num_steps=30)[4]["actions"] for env in (many, few))
    assert_trees_equal(at(first, (slice(None), slice(4, 9))), part)
    for agents in leaves(first):
        columns = agents.reshape(360, agents.shape[2], -1)
        for i in range(columns.shape[1]):
            assert all((columns[:, i] != columns[:, j]).mean() > 0.2 for j in range(i))


@pytest.mark.parametrize("device", DEVICES)
def test_a_role_draws_by_the_numbers_of_its_agents_in_the_world(device):
    """The mayor of five citizens is agent 5. Four steps share a draw of each entry, as tests/kernels/test_rng.py says."""
    drawn = started("town", num_worlds=3, seed=7, device=device).rollout(num_steps=8)[4]["actions"]["mayor"]
    for w, step, entry in np.ndindex(3, 8, 2):
        words = philox(7, (w, 0, step // 4 * 4, (0xFFFE - entry) << 16 | 5))
        assert drawn[step, w, 0, entry] == (words[step % 4] >> 8) / 2**24


@pytest.mark.parametrize("case", CASES)
def test_copies_are_never_written_again_and_without_copies_arrays_are_reused(case):
    fresh, kept = started(case), started(case, copy=False)
    outs = [fresh.rollout(num_steps=4) for _ in range(2)]
    before = to_host({"obs": outs[0][0], **outs[0][4]})
    fresh.rollout(num_steps=4)
    assert_trees_equal({"obs": outs[0][0], **outs[0][4]}, before)
    steps = [kept.step(at(random_actions(kept, 1), 0)) for _ in range(2)]
    assert all(a is b for a, b in zip(leaves(steps[0][4]["action_mask"]), leaves(steps[1][4]["action_mask"]), strict=True))


# ---- bound slabs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("masks", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_slabs_hold_the_results_of_steps_and_rollouts(case, masks, copy, device):
    """With masks bound and without; over rewind and unbind. Drawn actions read the masks of the slot before."""
    env, single = started(case, array="torch", copy=copy, device=device), started(case)
    env.step(on_device(at(random_actions(env, 1, seed=8), 0), env))
    single.step(at(random_actions(env, 1, seed=8), 0))
    slabs = env.worlds.outputs.new_slabs(8)
    if not masks:
        del slabs["action_mask"], slabs["final_action_mask"]
    env.bind(**slabs)
    for turn in range(3):
        start = to_host(slabs)
        assert_trees_equal(at(start["obs"], 0), single.observe())
        given = random_actions(env, 3, seed=turn)
        found = [stepped(env, given), results(env.rollout(num_steps=5))]
        drawn = found[1].pop("actions")
        expected = [stepped(single, given), stepped(single, drawn)]
        for one, other in zip(found, expected, strict=True):
            assert_trees_equal(one, other)
        whole = map_tree(lambda *arrays: np.concatenate(arrays), *expected)
        held = to_host(slabs)
        assert_trees_equal(at(held["obs"], slice(1, None)), whole["obs"])
        for name in ("reward", "terminated", "truncated"):
            assert_trees_equal(held[name], whole[name])
        if masks:
            assert_trees_equal(at(held["action_mask"], slice(1, None)), whole["action_mask"])
            ended = whole["_final_obs"]
            final = map_tree(lambda array, ended=ended: np.where(expand(ended, array), array, 0), held["final_action_mask"])
            assert_trees_equal(final, whole["final_action_mask"])
        if turn < 2:
            env.rewind()
    env.unbind()
    out = results(env.rollout(num_steps=6))
    drawn = out.pop("actions")
    assert_trees_equal(out, stepped(single, drawn))
    assert_trees_equal(to_host(slabs), held)  # not written after unbind()
    assert_trees_equal(state(env), state(single))


def test_slabs_must_not_share_memory_across_roles():
    env = started("town", array="torch")
    slabs = env.worlds.outputs.new_slabs(4)
    slabs["final_obs"]["mayor"] = slabs["obs"]["mayor"][1:]
    with pytest.raises(Exception, match="mayor.* share memory"):
        env.bind(**slabs)


def test_masks_without_an_allowed_choice_draw_0():
    """The hooks of an env may forbid all choices; purses below zero do so here."""
    env = started("pot", num_worlds=50)
    env.set_state({"purse": np.full((50, 3), -4, np.int32)})
    assert not env.rollout(num_steps=1)[4]["actions"]["player"].any()
