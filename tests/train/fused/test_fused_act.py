"""Actions, log-probabilities and values by the kernels against torch in float64, and against the draws of policies."""

import copy
import dataclasses
import gc
import math
import weakref

import pytest
import torch
from counters import counters
from fused_runs import FusedPPO
from gymnasium import spaces
from reference import BOX, SCALARS, TAG, case, slow
from test_fused_gradient import CONFIG, prepared

from gpu_vecenv.errors import ArrayTypeError, ShapeError
from gpu_vecenv.train import PPOConfig
from gpu_vecenv.train.fused import act
from gpu_vecenv.train.fused.act import FusedPolicy
from gpu_vecenv.train.fused.eligibility import require_fused
from gpu_vecenv.train.fused.guard import kernel_gradient
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.policies.draw import draw_choices, draw_normal

CPU = torch.device("cpu")
AGENTS = 3

CASES = {
    "discrete": {"action": spaces.Discrete(2)},
    "multi-discrete, 71 features": {"action": TAG, "features": 71},
    "masked, odd sizes": {
        "action": spaces.MultiDiscrete([5, 3, 4]), "features": 11, "hidden": (24, 40), "activation": "elu", "masked": (0, 2),
    },
    "numbers": {"action": BOX, "features": 3},
    "raw observations, relu": {"action": spaces.Discrete(6), "hidden": (40,), "activation": "relu", "normalize": False},
    "split": {"action": TAG, "features": 75, "hidden": (256, 256)},
    "split, numbers, three layers": {"action": BOX, "features": 3, "hidden": (136, 40, 24), "activation": "elu"},
    "wide": {"action": TAG, "features": 735},
    "wide, numbers, one layer": {"action": BOX, "features": 71, "hidden": (136,), "activation": "elu"},
}  # fmt: skip
COSTLY = ("multi-discrete, 71 features", "raw observations, relu", "split, numbers, three layers")
"""Cases that the tests leave out when they have little time: each compiles kernels of its own."""


def made(name, rows=300):
    """Return a policy in kernels, inputs of rows, counters, and a place for outputs."""
    one = case(**CASES[name], rows=rows, filling=0)
    fused = FusedPolicy(one.policy, require_fused(one.policy, CPU), CPU)
    inputs = Inputs(one.samples.obs[:-1].flatten(0, 1)[:rows], None)
    if one.samples.mask is not None:
        inputs = inputs._replace(mask=one.samples.mask[:-1].flatten(0, 1)[:rows])
    draw = counters(-(-rows // AGENTS), AGENTS)
    draw = dataclasses.replace(draw, world=draw.world[:rows].contiguous(), agent=draw.agent[:rows].contiguous())
    return fused, inputs, draw, torch.empty(rows, fused.sizes.outputs)


def drawn(fused, inputs, draw, outputs, deterministic=False):
    """Return actions and log-probabilities of ``policies/draw.py`` for given outputs."""
    policy = fused.policy
    if policy.box is not None:
        action, log_prob, _ = draw_normal(outputs, policy.log_std.detach(), draw, deterministic)
        return policy.box.to_env_(action), log_prob
    action, log_prob, _ = draw_choices(outputs, policy.choices, draw, inputs.mask, policy.masked, deterministic)
    return action.squeeze(-1) if policy.discrete else action, log_prob


@pytest.mark.parametrize("rows", [1, 129, 300])
@pytest.mark.parametrize("name", slow(CASES, *COSTLY))
def test_log_probabilities_and_values_are_those_of_float64(name, rows):
    fused, inputs, draw, outputs = made(name, rows)
    action, log_prob = fused.act(inputs, draw, outputs=outputs)
    exact = copy.deepcopy(fused.policy).double()
    with torch.no_grad():
        given = action.double() if action.is_floating_point() else action
        wanted = exact.evaluate(Inputs(inputs.obs.double(), inputs.mask), given)
    bound = 2e-3 if fused.sizes.wide else 1e-3  # features of a wide network have no low parts
    assert (log_prob.double() - wanted.log_prob).abs().max() < bound
    assert (fused.value(inputs).double() - wanted.value).abs().max() < bound
    # Another logarithm, and with numbers the rounding to the env's units.
    again = fused.log_prob(Inputs(*(x if x is None else x[None] for x in inputs[:2])), action[None])[0]
    torch.testing.assert_close(again, log_prob, rtol=1e-6, atol=4e-6)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", slow(CASES, *COSTLY))
def test_actions_have_the_bits_of_draws_from_the_same_outputs(name, deterministic):
    fused, inputs, draw, outputs = made(name)
    for _ in range(2):  # the second call is prepared
        action, log_prob = fused.act(inputs, draw, deterministic, outputs)
        wanted, wanted_log_prob = drawn(fused, inputs, draw, outputs, deterministic)
        assert action.dtype == wanted.dtype
        assert torch.equal(action, wanted) and torch.equal(log_prob, wanted_log_prob)
    if not deterministic:
        assert len(action.unique()) > 1


@pytest.mark.parametrize("name", ["wide", "split"])
def test_weights_may_be_held_between_changes(name, monkeypatch):
    """Values, which use the memory of the actor's weights, come in between."""
    fused, inputs, draw, outputs = made(name)
    packs, launch = [], act._Call.launch

    def launched(call, kernel, *args):
        packs.extend([kernel] if kernel == "gv_pack_first" else [])
        launch(call, kernel, *args)

    monkeypatch.setattr(act._Call, "launch", launched)
    wanted = fused.act(inputs, draw, outputs=outputs)[1].clone(), outputs.clone()
    packs.clear()
    with fused.hold_weights():
        for _ in range(3):
            assert torch.equal(fused.act(inputs, draw, outputs=outputs)[1], wanted[0])
        assert len(packs) == fused.sizes.wide
        fused.value(inputs)
        assert torch.equal(fused.act(inputs, draw, outputs=outputs)[1], wanted[0]) and torch.equal(outputs, wanted[1])
    with torch.no_grad():
        fused.policy.network.actor_layers[0].weight.mul_(0.5)
    fused.act(inputs, draw, outputs=outputs)
    assert not torch.equal(outputs, wanted[1])
    changed = outputs.clone()
    FusedPolicy(fused.policy, fused.sizes, CPU).act(inputs, draw, outputs=outputs)
    assert torch.equal(outputs, changed)


@pytest.mark.parametrize("name", slow(CASES, *COSTLY, "split", "masked, odd sizes"))
def test_every_ratio_of_the_first_minibatch_is_one(name):
    """A clip range of 1e-5 counts rows outside it. The divergence is half the square of a difference that is rounding."""
    one = case(**CASES[name])
    fused = FusedPolicy(one.policy, require_fused(one.policy, CPU), CPU)
    steps, samples = one.samples.valid.shape
    world, agent = torch.meshgrid(*(torch.arange(n, dtype=torch.int32) for n in (steps, samples)), indexing="ij")
    draw = dataclasses.replace(counters(steps, samples), world=world.contiguous(), agent=agent.contiguous())
    inputs = Inputs(one.samples.obs[:-1], None if one.samples.mask is None else one.samples.mask[:-1])
    one.samples.action, one.samples.log_prob = fused.act(inputs, draw)
    assert one.samples.log_prob.shape == (steps, samples)
    kernels, _numbers = prepared(one, CONFIG)
    clip = torch.tensor(1e-5)
    kernels.args.clip_coef = clip.data_ptr()
    kernel_gradient(kernels, one.index, one.used)
    _, _, kl, outside, count = kernels.sums[kernels.sizes.actor_columns - 5 : kernels.sizes.actor_columns]
    assert count == one.used.sum() and outside == 0.0 and abs(kl / count) < 1e-7


@pytest.mark.parametrize("name", ["masked, odd sizes", "numbers"])
def test_rows_may_be_far_apart(name):
    """Inputs and results are parts of slabs: rows of some agents of each world, and some columns."""
    fused, inputs, draw, outputs = made(name)
    worlds, first = 100, 2
    shape = (worlds, AGENTS)
    action, log_prob = fused.act(inputs, draw, outputs=outputs)
    action, sizes = action.view(*shape, -1), fused.sizes

    def slab(like, columns, fill):
        return torch.full((worlds, AGENTS + 4, columns + 5), fill, dtype=like.dtype)

    arrays = []
    for array in inputs[:2]:
        if array is not None:
            whole = slab(array, array.shape[-1], 1)
            part = whole[:, first : first + AGENTS, 1:-4]
            part.copy_(array.view(*shape, -1))
            arrays.append(part)
    apart = Inputs(*arrays)
    targets = slab(action, sizes.entries, -7), slab(log_prob, 1, -7.0)
    parts = targets[0][:, first : first + AGENTS, 2:-3], targets[1][:, first : first + AGENTS, 3]
    place = dataclasses.replace(
        draw, world=draw.world.view(shape), agent=draw.agent.view(shape), out=(*parts, torch.empty(shape))
    )
    for _ in range(2):
        found = fused.act(apart, place)
        assert [x.data_ptr() for x in found] == [x.data_ptr() for x in parts]
        assert torch.equal(found[0], action) and torch.equal(found[1], log_prob.view(shape))
        assert all((target != -7).sum() == part.numel() for target, part in zip(targets, parts, strict=True))
    assert torch.equal(fused.values(apart.obs), fused.value(inputs).view(shape))
    assert torch.equal(fused.log_prob(apart, parts[0]), fused.log_prob(apart, action))


def test_changes_of_weights_statistics_and_arrays_count_at_once():
    fused, inputs, draw, outputs = made("discrete")
    other = made("discrete")[0]
    fused.act(inputs, draw, outputs=outputs)
    with torch.no_grad():
        for policy in (fused.policy, other.policy):
            policy.network.actor_layers[0].weight.mul_(-1.5)
            policy.obs_norm.update(5.0 * inputs.obs[None], torch.ones(1, 300, dtype=torch.bool))
        moved = fused.policy.network.actor_layers[2].weight
        moved.data = moved.data.clone()
    new = Inputs(inputs.obs.flip(0))
    wanted = torch.empty_like(outputs)
    action, log_prob = fused.act(new, draw, outputs=outputs)
    expected = other.act(new, draw, outputs=wanted)
    assert torch.equal(outputs, wanted) and torch.equal(action, expected[0]) and torch.equal(log_prob, expected[1])


def test_memory_for_units_stays_when_more_rows_need_more():
    """A recorded graph may use it."""
    fused, inputs, _, _ = made("split", 30)
    fused.value(inputs)
    units = weakref.ref(fused.room_for_units(30))
    _, more, of_more, _ = made("split", 900)
    fused.act(more, of_more)
    gc.collect()
    assert units() is not None and len(fused.room_for_units(30)) >= 900


def test_threads_and_teams_change_no_bit():
    fused, inputs, draw, outputs = made("discrete", 3000)
    first = (*fused.act(inputs, draw, outputs=outputs), fused.value(inputs), outputs.clone())
    fused.most_teams = 3
    again = (*fused.act(inputs, dataclasses.replace(draw), outputs=outputs), fused.value(inputs), outputs)
    assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))


def test_no_rows_have_no_actions():
    fused, inputs, draw, _ = made("discrete")
    none = dataclasses.replace(draw, world=draw.world[:0], agent=draw.agent[:0])
    action, log_prob = fused.act(Inputs(inputs.obs[:0]), none)
    assert action.shape == log_prob.shape == fused.value(Inputs(inputs.obs[:0])).shape == (0,)


def test_arrays_that_do_not_fit_are_refused():
    fused, inputs, draw, _ = made("discrete")
    with pytest.raises(ShapeError, match=r"obs must have the axes \(300,\) and 4 numbers a row"):
        fused.act(Inputs(inputs.obs[:, :3]), draw)
    with pytest.raises(ArrayTypeError, match="obs must be torch.float32"):
        fused.act(Inputs(inputs.obs.double()), draw)
    with pytest.raises(ArrayTypeError, match=r"draw\.t must be"):
        fused.act(inputs, dataclasses.replace(draw, t=draw.t.long()))
    action, log_prob = torch.empty(2, 300, dtype=torch.int32).t(), torch.empty(300)
    with pytest.raises(ShapeError, match="1 numbers a row"):
        fused.act(inputs, dataclasses.replace(draw, out=(action, log_prob, log_prob)))


def test_values_that_are_not_wanted_may_be_left_out():
    fused, inputs, _, _ = made("discrete", 300)
    obs = inputs.obs.view(2, 150, -1)
    wanted = torch.zeros(2, 150, dtype=torch.bool)
    wanted[0, 5] = wanted[1, 149] = True
    found = fused.values(obs, wanted)
    assert torch.equal(found[wanted], fused.values(obs)[wanted])


def raw(size, activation, hidden, features=4):
    """Return a policy in kernels that reads observations as they are, and two rows of size ``size``."""
    one = case(action=spaces.Discrete(2), normalize=False, activation=activation, hidden=hidden, rows=2, filling=0)
    fused = FusedPolicy(one.policy, require_fused(one.policy, CPU), CPU)
    return fused, size * torch.tensor([[1.0] * features, [-1.0, 1.0, 1.0, -1.0]])


@pytest.mark.parametrize(
    ("activation", "hidden"),
    [("tanh", (64, 64)), ("relu", (40,)), ("elu", (64, 48, 33)), ("tanh", (144,)),
     pytest.param("tanh", (256, 256), marks=pytest.mark.slow)],
)
def test_numbers_beyond_16_bits_give_no_finite_value(activation, hidden):
    """Observations, and units that have no bound, are not clipped without a word."""
    for size in (65_000.0, 7e4, 1e6, 1e30, math.inf):
        fused, obs = raw(size, activation, hidden)
        obs[1, 1:] = 0.0  # infinite products of one feature have one sign, and would only saturate a unit
        with torch.no_grad():
            for layer in fused.policy.network.critic_layers:
                if isinstance(layer, torch.nn.Linear):  # units stay small, so that only the observation may be too large
                    layer.weight.mul_(1e-3 if activation == "tanh" else 0.1)
            exact = copy.deepcopy(fused.policy).double().value(Inputs(obs.double())).double()
        found = fused.value(Inputs(obs))
        if size < 65_504:
            torch.testing.assert_close(found.double(), exact, rtol=2e-3, atol=1e-3)
        else:
            assert found.isnan().all()


@pytest.mark.parametrize("activation", ["relu", "elu"])
@pytest.mark.parametrize("hidden", [(40,), (64, 48, 33)])
@pytest.mark.parametrize("layer", [0, -1])
def test_units_beyond_16_bits_give_no_finite_value(activation, hidden, layer):
    """Units of a layer are up to 2,000, or 2,000,000."""
    for factor, is_finite in ((1.0, True), (1000.0, False)):
        fused, obs = raw(100.0, activation, hidden)
        critic = [each for each in fused.policy.network.critic_layers if isinstance(each, torch.nn.Linear)][:-1]
        with torch.no_grad():
            critic[layer].weight.mul_(10.0 * factor)
            exact = copy.deepcopy(fused.policy).double().value(Inputs(obs.double())).double()
        found = fused.value(Inputs(obs))
        if is_finite:
            torch.testing.assert_close(found.double(), exact, rtol=5e-3, atol=1.0)
        else:
            assert found.isnan().all()


def test_values_pack_the_rows_that_an_update_reads(monkeypatch):
    """They have the bits that the kernel of the update packs, also over several launches."""
    monkeypatch.setattr(act, "SPLIT_ROWS", 70)
    one = case(**CASES["wide"], rows=150, filling=0)
    ppo = FusedPPO(one.policy, PPOConfig(num_epochs=1, num_minibatches=1), (one.samples.reward.shape[1],), 0, CPU)
    rows = [torch.empty(0)] * 2
    for number in range(2):
        kernels = ppo.backend._kernels_of(one.samples)
        kernels.packed_rows.fill_(torch.nan)
        if number:
            ppo.backend.values(one.samples, final=False)
            monkeypatch.setattr(kernels, "_launch", None)
        ppo.backend._prepared(one.samples, SCALARS)
        rows[number] = kernels.packed_rows.clone()
    assert torch.equal(*rows) and rows[0].isfinite().all()
