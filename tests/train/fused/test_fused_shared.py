"""Policies whose observations have a shared part, by the kernels of GPUs, against one that reads both parts as rows."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from counters import counters
from gymnasium import spaces
from reference import STEPS, TAG, Case, case, exact_gradient, layers_of, relative_error, slow
from test_fused_gradient import CONFIG, prepared

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train import NetworkConfig
from gpu_vecenv.train.fused import guard, split
from gpu_vecenv.train.fused.act import FusedPolicy
from gpu_vecenv.train.fused.eligibility import require_fused
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.storage.samples import Samples

CPU = torch.device("cpu")
WORLDS, AGENTS = 21, 5


@dataclasses.dataclass
class Twins:
    """The same policy and samples in two forms: rows of all features, and worlds with a shared part."""

    rows: Case
    worlds: Case


def policy_of_worlds(policy, shared, own, masked):
    """Return a policy with the weights and statistics of one that reads rows; the first features are the shared part."""
    boxes = [spaces.Box(-np.inf, np.inf, (features,), np.float32) for features in (own, shared)]
    linear = [layer for layer in policy.network.actor_layers if isinstance(layer, torch.nn.Linear)]
    hidden, norm = tuple(layer.out_features for layer in linear[:-1]), policy.obs_norm.parts["own"]
    group = Group("", "", AGENTS, boxes[0], policy.group.action, masked, boxes[1])
    twin = make_policy("agent", group, 0, NetworkConfig(hidden), True)
    twin.network.load_state_dict(policy.network.state_dict())
    for name, part in (("shared", slice(0, shared)), ("own", slice(shared, None))):
        for buffer in ("offset", "scale", "shift"):
            getattr(twin.obs_norm.parts[name], buffer).copy_(getattr(norm, buffer)[part])
    return twin


def twins(shared, own, seed=0, masked=(), num_worlds=WORLDS, **given):
    """Return twins with agents out of the game, whose numbers are NaN, as are those of a world without any agent."""
    rows = case(features=shared + own, rows=STEPS * num_worlds * AGENTS, filling=0, seed=seed, masked=masked, **given)
    generator, samples = torch.Generator().manual_seed(seed), rows.samples
    by_world = samples.obs.view(STEPS + 1, num_worlds, AGENTS, -1)
    by_world[..., :shared] = by_world[:, :, :1, :shared]
    with torch.no_grad():
        mask = None if samples.mask is None else samples.mask[:-1].flatten(0, 1)
        now = rows.policy.evaluate(Inputs(samples.obs[:-1].flatten(0, 1), mask), samples.action.flatten(0, 1))
    shape = samples.reward.shape
    samples.log_prob = now.log_prob.view(shape) + 0.15 * torch.randn(shape, generator=generator)
    rows.value = now.value.view(shape) + 0.2 * torch.randn(shape, generator=generator)
    rows.target = rows.value + torch.randn(shape, generator=generator)
    valid = torch.rand(STEPS, num_worlds, AGENTS, generator=generator) < 0.7
    valid[1, 3] = False
    by_world[:-1][..., shared:][~valid] = np.nan
    by_world[1, 3] = np.nan
    samples.log_prob[~valid.view(shape)] = np.nan

    def worlds(x, lead):
        return None if x is None else x.view(lead, num_worlds, AGENTS, *x.shape[2:])

    of_actions = {name: worlds(getattr(samples, name), STEPS) for name in ("action", "log_prob", "reward")}
    flags = {name: worlds(getattr(samples, name), STEPS) for name in ("episode_end", "ended", "timed_out")}
    obs = {"shared": by_world[:, :, 0, :shared].clone(), "own": by_world[..., shared:]}
    of_worlds = Samples(obs=obs, mask=worlds(samples.mask, STEPS + 1), valid=valid, **of_actions, **flags)
    order = torch.randperm(STEPS * num_worlds, generator=generator)
    index = (order[:, None] * AGENTS + torch.arange(AGENTS)).flatten()
    rows.index, rows.used = index, valid.flatten()[index]
    policy = policy_of_worlds(rows.policy, shared, own, masked)
    parts = (worlds(x, STEPS) for x in (rows.value, rows.advantage, rows.target))
    return Twins(rows, Case(policy, of_worlds, *parts, index, rows.used))


CASES = {
    "small": {"action": spaces.Discrete(3), "shared": 2, "own": 4, "hidden": (8, 8)},
    "wide, masked": {"action": TAG, "shared": 150, "own": 71, "masked": (1,), "hidden": (130, 24)},
    "one layer": {"action": spaces.Discrete(6), "shared": 40, "own": 300, "hidden": (48,)},
}


def gradient(one, **sizes):
    """Return gradients of worlds by name, with some sizes changed."""
    kernels, _ = prepared(one, CONFIG, **sizes)
    return guard.kernel_gradient(kernels, one.index, one.used)


@pytest.mark.parametrize("name", slow(CASES, "one layer"))
def test_gradients_are_those_of_float64(name):
    both = twins(**CASES[name])
    exact, _ = exact_gradient(both.rows, CONFIG)
    gradients = gradient(both.worlds)
    errors = {layer: relative_error(layers_of(gradients)[layer], values) for layer, values in layers_of(exact).items()}
    assert max(errors.values()) <= 5e-2, errors
    assert relative_error([gradients[layer] for layer in exact], list(exact.values())) <= 1e-3, errors


def test_a_minibatch_of_worlds_may_be_computed_in_parts(monkeypatch):
    one = twins(**CASES["small"], num_worlds=60).worlds
    whole = gradient(one)
    monkeypatch.setitem(split.ROOM, "cpu", 1)  # a part then has 128 worlds, of 240
    parts = gradient(one)
    assert relative_error([parts[name] for name in whole], list(whole.values())) < 1e-6


@pytest.mark.parametrize("counts", [(1, 3, 2), (1, 2, 3), (3, 1, 2)])
def test_sums_of_the_first_layer_have_slices_of_their_own(counts, monkeypatch):
    """Counts are those of the upper layers, of an agent's part and of the shared part. On a GPU they fill it, so they differ."""
    one = twins(**CASES["wide, masked"], num_worlds=60).worlds
    whole, slices = gradient(one), iter(counts)
    monkeypatch.setattr(split.SplitKernels, "slices", lambda kernels, tiles: next(slices))
    sliced = gradient(one)
    errors = {name: relative_error([sliced[name]], [values]) for name, values in whole.items()}
    assert max(errors.values()) < 1e-5, errors


@pytest.mark.parametrize("name", slow(CASES, "one layer"))
def test_rows_act_as_those_of_float64_and_as_in_the_update(name):
    """A clip range of 1e-5 counts rows outside it."""
    both = twins(**CASES[name])
    one, exact = both.worlds, copy.deepcopy(both.rows.policy).double()
    fused, valid = FusedPolicy(one.policy, require_fused(one.policy, CPU), CPU), one.samples.valid
    draw = counters(WORLDS, AGENTS)
    shape = (WORLDS, AGENTS)
    draw = dataclasses.replace(draw, world=draw.world.view(shape), agent=draw.agent.view(shape))
    one.samples.action = one.samples.action.clone()
    for t in range(STEPS):
        obs = {part: x[t] for part, x in one.samples.obs.items()}
        action, log_prob = fused.act(Inputs(obs, None if one.samples.mask is None else one.samples.mask[t]), draw)
        assert log_prob.shape == shape
        one.samples.action[t], one.samples.log_prob[t] = action, log_prob
    value = fused.values(one.samples.obs)
    mask = None if one.samples.mask is None else one.samples.mask[:-1]
    again = fused.log_prob(Inputs({part: x[:-1] for part, x in one.samples.obs.items()}, mask), one.samples.action)
    torch.testing.assert_close(again[valid], one.samples.log_prob[valid], rtol=1e-6, atol=4e-6)
    rows = both.rows.samples.obs[:-1].flatten(0, 1).double()
    with torch.no_grad():
        wanted = exact.evaluate(Inputs(rows, None if mask is None else mask.flatten(0, 2)), one.samples.action.flatten(0, 2))
    for found, right in ((again, wanted.log_prob), (value[:-1], wanted.value)):
        assert (found.flatten() - right)[valid.flatten()].abs().max() < 2e-3
    kernels, _ = prepared(one, CONFIG)
    clip = torch.tensor(1e-5)
    kernels.args.clip_coef = clip.data_ptr()
    guard.kernel_gradient(kernels, one.index, one.used)
    _, _, kl, outside, count = kernels.sums[kernels.sizes.actor_columns - 5 : kernels.sizes.actor_columns]
    assert count == valid.sum() and outside == 0.0 and abs(kl / count) < 1e-7


def test_agents_of_some_rows_of_a_slab_act_alike():
    """Both parts are views of wider slabs, as those of a policy with some agents of a role are."""
    one = twins(**CASES["small"]).worlds
    fused = FusedPolicy(one.policy, require_fused(one.policy, CPU), CPU)
    wide = {"shared": torch.full((STEPS + 1, WORLDS, 9), 7.0), "own": torch.full((STEPS + 1, WORLDS, AGENTS + 2, 4), 7.0)}
    part = {"shared": wide["shared"][..., 3:5], "own": wide["own"][:, :, 1 : 1 + AGENTS]}
    for name, x in part.items():
        x.copy_(one.samples.obs[name])
    torch.testing.assert_close(fused.values(part), fused.values(one.samples.obs), rtol=0, atol=0, equal_nan=True)
