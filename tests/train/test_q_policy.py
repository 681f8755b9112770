"""Policies of values: greedy and epsilon-greedy actions, the largest value, masks, networks with layer norms, export."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from counters import counters, words
from gymnasium import spaces
from policy_cases import ACTIONS, draws, group, observations
from test_draw import some_logits, some_mask
from torch import nn

from gpu_vecenv.train import ConfigError, NetworkConfig, PPOConfig, export_policy
from gpu_vecenv.train.fused.eligibility import fused_sizes
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.policies.build import make_policy, make_q_policy
from gpu_vecenv.train.policies.distributions import largest
from gpu_vecenv.train.policies.draw import draw_greedy
from gpu_vecenv.train.policies.q_policy import QPolicy
from tests.devices import DEVICES

SMALL = NetworkConfig((8,), "relu", layer_norm=True)
RAW = PPOConfig(normalize_observations=False)


def q_policy(action=ACTIONS[0], shared=False, masked=(), network=SMALL, module=None):
    return make_q_policy("agent", group(action, shared, masked), 0, network, RAW, module)


# ---- draws --------------------------------------------------------------------------------------------------------------


def expected(values, sizes, mask, words_of, epsilon):
    """Actions, and distances of the draws to boundaries, by a loop in double precision."""
    actions, near = np.zeros((len(values), len(sizes)), int), np.full((len(values), len(sizes)), np.inf)
    ends = np.cumsum(sizes)
    for row, (entry, (end, size)) in itertools.product(range(len(values)), enumerate(zip(ends, sizes, strict=True))):
        allowed = [i for i in range(size) if mask[row, end - size + i]]
        if not allowed:
            continue
        u = (float(words_of[row, entry]) + 0.5) / 2**32
        actions[row, entry] = max(allowed, key=lambda i: (values[row, end - size + i], -i))
        if u < epsilon:
            place = u / epsilon * len(allowed)
            actions[row, entry] = allowed[int(place)]
            near[row, entry] = abs(place - round(place))
        near[row, entry] = min(near[row, entry], abs(u - epsilon))
    return actions, near


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("sizes", [[2], [21, 21], [3, 1, 10, 2], [7] * 70], ids=str)
def test_greedy_draws_are_those_of_an_independent_implementation(sizes, epsilon):
    draw, rows = counters(50, 3, seed=2**40 + 5, world_id=11, episode=3, t=9), 150
    values, mask = some_logits(rows, sizes).round(decimals=0), some_mask(rows, sizes)  # rounded: some are equal
    drawn = draw_greedy(values, sizes, draw, mask, epsilon=torch.tensor(epsilon))
    values, mask = values.numpy(), mask.numpy()
    want, near = expected(values, sizes, mask, words(draw, len(sizes)).reshape(rows, -1), epsilon)
    differs = drawn.action.numpy() != want
    assert drawn.action.dtype == torch.int32 and not differs[near > 1e-5].any() and differs.mean() < 0.01
    log_prob, entropy = np.zeros(rows), np.zeros(rows)
    ends = np.cumsum(sizes)
    for row, (entry, (end, size)) in itertools.product(range(rows), enumerate(zip(ends, sizes, strict=True))):
        allowed = np.flatnonzero(mask[row, end - size : end])
        p = np.full(len(allowed), epsilon / len(allowed))
        p[np.argmax(values[row, end - size : end][allowed])] += 1.0 - epsilon
        log_prob[row] += np.log(p[allowed == int(drawn.action[row, entry])].item())
        entropy[row] -= (p[p > 0] * np.log(p[p > 0])).sum()
    np.testing.assert_allclose(drawn.log_prob, log_prob, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(drawn.entropy, entropy, rtol=1e-5, atol=1e-5)


def test_a_policy_explores_as_often_as_epsilon_says_and_all_allowed_choices_alike():
    rows, epsilon = 200_000, 0.4
    values = torch.tensor([0.0, 3.0, -1.0, 1.0, 5.0]).expand(rows, 5).contiguous()
    mask = torch.tensor([True, True, True, True, False]).expand(rows, 5)
    drawn = draw_greedy(values, [5], counters(rows // 4, 4), mask, epsilon=torch.tensor(epsilon)).action[:, 0]
    counts = torch.bincount(drawn, minlength=5).double()
    p = torch.tensor([0.1, 0.7, 0.1, 0.1]).double()
    assert counts[4] == 0
    assert ((counts[:4] - rows * p) ** 2 / (rows * p)).sum() < 28  # chi-square with 3 degrees of freedom: 4e-6


def test_epsilon_is_read_at_each_draw():
    """Its tensor stays, as a captured graph needs it."""
    draw, values, epsilon = counters(500, 1), some_logits(500, [4]), torch.tensor(0.0)
    greedy = draw_greedy(values, [4], draw).action
    assert torch.equal(draw_greedy(values, [4], draw, epsilon=epsilon).action, greedy)
    epsilon.fill_(1.0)
    assert (draw_greedy(values, [4], draw, epsilon=epsilon).action != greedy).float().mean() > 0.6
    epsilon.fill_(0.0)
    assert torch.equal(draw_greedy(values, [4], draw, epsilon=epsilon).action, greedy)


@pytest.mark.parametrize("device", DEVICES)
def test_greedy_draws_have_the_same_bits_on_every_device_and_in_any_batch(device):
    sizes, draw = [21, 2, 5], counters(500, 3)
    values, mask, epsilon = some_logits(1500, sizes), some_mask(1500, sizes), torch.tensor(0.3)
    want = draw_greedy(values, sizes, draw, mask, epsilon=epsilon)
    rows = torch.arange(0, 1500, 7)
    there = replace(draw, **{name: getattr(draw, name).to(device) for name in ("seed", "world_id", "episode", "t")},
                    world=draw.world[rows].to(device), agent=draw.agent[rows].to(device))  # fmt: skip
    found = draw_greedy(values[rows].to(device), sizes, there, mask[rows].to(device), epsilon=epsilon.to(device))
    assert all(torch.equal(x.cpu(), y[rows]) for x, y in zip(found, want, strict=True))


def test_an_entry_without_an_allowed_choice_is_0_and_nan_gives_a_choice_that_is_allowed():
    values, mask = some_logits(60, [3, 4]), torch.ones(60, 3, dtype=torch.bool)
    mask[::2] = False
    values[5], mask[5] = torch.nan, torch.tensor([False, True, True])
    for epsilon in (None, torch.tensor(1.0)):
        drawn = draw_greedy(values, [3, 4], counters(60, 1), mask, masked=(0,), epsilon=epsilon).action
        assert (drawn[::2, 0] == 0).all() and drawn[5, 0] in (1, 2) and ((drawn >= 0) & (drawn < torch.tensor([3, 4]))).all()


# ---- values -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[4], [3, 5], [2, 2, 3, 2]], ids=str)
@pytest.mark.parametrize("masked", [None, "all", "last"])
def test_the_largest_value_is_that_of_all_actions(sizes, masked):
    """Compared with a loop over the actions of the product of all entries."""
    rows, covered = 40, {None: (), "all": range(len(sizes)), "last": (len(sizes) - 1,)}[masked]
    values, mask = some_logits(rows, sizes), some_mask(rows, [sizes[entry] for entry in covered])
    if masked:
        mask[::5, : sizes[covered[0]]] = False
    found = largest(values, sizes, mask if masked else None, tuple(covered))
    first = np.cumsum([0, *sizes])
    for row in range(rows):
        allowed, column = [list(range(size)) for size in sizes], 0
        for entry in covered:
            allowed[entry] = [i for i in allowed[entry] if mask[row, column + i]] or [0]
            column += sizes[entry]
        want = max(sum(values[row, first[k] + c].item() for k, c in enumerate(action)) for action in itertools.product(*allowed))
        assert found[row].item() == pytest.approx(want, abs=1e-5)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("action", ACTIONS[:2], ids=str)
def test_values_of_actions_and_of_the_greedy_one_agree(action, shared):
    policy, inputs = q_policy(action, shared), observations(30, shared)
    drawn, log_prob = policy.act(inputs, draws(30, shared))
    assert torch.equal(drawn, policy.act(inputs, draws(30, shared, t=1), deterministic=True)[0]) and (log_prob == 0).all()
    best, evaluated = policy.value(inputs), policy.evaluate(inputs, drawn)
    torch.testing.assert_close(evaluated.value, best)
    assert evaluated.value.shape == ((30, 3) if shared else (30,)) and evaluated.value.requires_grad
    other, _ = policy.explore(inputs, draws(30, shared), torch.tensor(1.0))
    differs = (other != drawn).flatten(2 if shared else 1).any(-1) if isinstance(action, spaces.MultiDiscrete) else other != drawn
    assert differs.any() and (policy.evaluate(inputs, other).value < best)[differs].all()
    values = policy.outputs(inputs.obs)
    sizes = policy.choices
    one = values.split(sizes, -1)
    want = sum(part.gather(-1, (other[..., k] if len(sizes) > 1 else other).long().unsqueeze(-1)) for k, part in enumerate(one))
    torch.testing.assert_close(policy.evaluate(inputs, other).value, want.squeeze(-1))


def test_a_module_of_a_user_gives_the_values_and_its_own_value_is_not_read():
    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 4)

        def forward(self, obs):
            return self.layer(obs), torch.full((len(obs),), 100.0)

    policy, inputs = q_policy(module=Module()), observations(9)
    torch.testing.assert_close(policy.value(inputs), policy.network.layer(inputs.obs).amax(-1))


class Recurrent(nn.Module):
    state_shape = (2,)

    def forward(self, obs, state):
        return obs[:, :4], obs[:, 0], state


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"action": ACTIONS[2]}, "expected Discrete or MultiDiscrete actions, as choices have values, got Box"),
        ({"network": replace(SMALL, shared_trunk=True)}, "network.shared_trunk: expected none, as a network of values"),
        ({"network": replace(SMALL, log_std=0.5)}, "network.log_std: expected none, as a network of values"),
        ({"module": Recurrent()}, r"expected a network of values, without a state and without a critic, got a state of \(2,\)"),
    ],
)
def test_what_has_no_values_is_refused_by_name(options, text):
    with pytest.raises(ConfigError, match=text):
        q_policy(**options)


# ---- layer norms --------------------------------------------------------------------------------------------------------


def normed(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


@pytest.mark.parametrize("kind", [ActorCritic, QPolicy])
def test_hidden_layers_are_normalised_before_their_nonlinearity(kind):
    network = NetworkConfig((8, 5), "relu", layer_norm=True)
    policy = q_policy(network=network) if kind is QPolicy else make_policy("agent", group(), 0, network, False)
    x = observations(20).obs
    layers = policy.network.layers if kind is QPolicy else policy.network.actor_layers
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    y = x.double().numpy()
    for layer in linear[:-1]:
        y = np.maximum(normed(y @ layer.weight.detach().double().numpy().T), 0)
    y = y @ linear[-1].weight.detach().double().numpy().T
    np.testing.assert_allclose(policy.outputs(x).detach(), y, rtol=1e-4, atol=1e-5)
    names = [name for name, _ in policy.named_parameters()]
    assert len(names) == (10 if kind is QPolicy else 20)


def test_weights_of_a_seed_are_those_without_layer_norms():
    plain, network = (make_policy("agent", group(), 3, NetworkConfig((8, 5), layer_norm=each)) for each in (False, True))
    linear = [[x.weight for x in policy.modules() if isinstance(x, nn.Linear)] for policy in (plain, network)]
    assert all(torch.equal(x, y) for x, y in zip(*linear, strict=True))


def test_layer_norms_without_effect_are_refused_and_kernels_say_why_they_are_none():
    with pytest.raises(ConfigError, match="layer_norm: expected False without hidden layers, got True"):
        NetworkConfig((), layer_norm=True)
    policy = make_policy("agent", group(), 0, NetworkConfig((8,), layer_norm=True))
    assert fused_sizes(policy, torch.device("cpu")) == "its hidden layers are normalised"
    assert fused_sizes(q_policy(), torch.device("cpu")) == "its network is not the built-in one"


# ---- export -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
def test_an_exported_policy_takes_the_greedy_action(shared, tmp_path):
    policy, inputs = q_policy(spaces.MultiDiscrete([3, 5]), shared, masked=(1,)), observations(30, shared)
    lead = (30, 3) if shared else (30,)
    mask = torch.rand(*lead, 5, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[0] = False
    program = torch.export.load(export_policy(policy, tmp_path / "q.pt2")).module()
    obs = [inputs.obs] if not shared else [inputs.obs["shared"], inputs.obs["own"]]
    action, values = program(*obs, mask)
    torch.testing.assert_close(values, policy.outputs(inputs.obs))
    assert torch.equal(action, policy.act(inputs._replace(mask=mask), draws(30, shared))[0])
