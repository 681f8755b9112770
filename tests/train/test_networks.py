"""The built-in network, networks of users, and the check of their shapes."""

import dataclasses

import pytest
import torch
from dispatched import idle_kernels
from gymnasium import spaces
from policy_cases import ACTIONS, AGENTS, group, observations, policy_of
from torch import nn

from gpu_vecenv.train import ConfigError, NetworkConfig
from gpu_vecenv.train.policies.build import make_policy, weight_seed
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.policies.networks import FeedForward, NetworkSpec, SharedLinear
from gpu_vecenv.train.policies.registry import network_builder, register_network

CHOICES = spaces.Discrete(4)
SPEC = NetworkSpec.of(group(CHOICES))
SHAPES = [
    NetworkConfig((8, 8)),
    NetworkConfig((8,), "relu", shared_trunk=True),
    NetworkConfig(()),
    NetworkConfig((), shared_trunk=True),
]


def whole_rows(inputs):
    """Return observations of worlds as rows (B * a, S + P)."""
    shared = inputs.obs["shared"].repeat_interleave(AGENTS, 0)
    return torch.cat((shared, inputs.obs["own"].reshape(len(shared), -1)), dim=-1)


@pytest.mark.parametrize("network", SHAPES, ids=str)
def test_a_shared_part_equals_the_same_network_on_whole_rows(network):
    """Weights, results and gradients are those of the network that reads the shared features beside each agent's own."""
    split, plain = policy_of(CHOICES, shared=True, network=network), policy_of(CHOICES, network=network)
    inputs = observations(16, shared=True)
    rows = Inputs(whole_rows(inputs))
    assert all(torch.equal(a, b) for a, b in zip(split.parameters(), plain.parameters(), strict=True))
    action = torch.arange(16 * AGENTS).reshape(16, AGENTS) % 4
    results = split.evaluate(inputs, action), plain.evaluate(rows, action.reshape(-1))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs.reshape(16, AGENTS), rtol=1e-5, atol=1e-5)
    for result in results:
        (result.log_prob + result.value * result.value).sum().backward()
    for ours, theirs in zip(split.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("network", SHAPES, ids=str)
def test_results_are_those_of_the_layers_with_their_hooks(network):
    """Layers without hooks are not called themselves."""
    module, obs = policy_of(CHOICES, network=network).network, observations(16).obs.requires_grad_()
    layers = [layer for part in (module.trunk, module.actor_layers, module.critic_layers) for layer in part]

    def by_layers():
        features = module.trunk(obs)
        return module.actor_layers(features), module.critic_layers(features).squeeze(-1)

    def assert_equal():
        for ours, theirs in zip(module(obs), by_layers(), strict=True):
            assert torch.equal(ours, theirs)

    assert_equal()
    before, called = module(obs)[0], []
    for register in ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"):
        called.clear()
        hooks = [getattr(layer, register)(lambda layer, *_: called.append(layer)) for layer in layers]
        sum(x.sum() for x in module(obs)).backward()
        assert all(called.count(layer) == 1 for layer in layers)
        for hook in hooks:
            hook.remove()
    module.actor_layers[-1].register_forward_pre_hook(lambda layer, arguments: (2.0 * arguments[0],))
    assert_equal()
    torch.nn.utils.parametrize.register_parametrization(module.critic_layers[-1], "weight", nn.Tanh())
    assert_equal()
    assert not torch.equal(module(obs)[0], before)


def test_the_first_layer_reads_the_shared_part_once_a_world(monkeypatch):
    policy, shapes = policy_of(CHOICES, shared=True), []
    linear = nn.functional.linear
    monkeypatch.setattr(nn.functional, "linear", lambda x, *rest: shapes.append(tuple(x.shape)) or linear(x, *rest))
    policy.value(observations(16, shared=True))
    assert shapes[:2] == [(16, 2), (16, AGENTS, 4)]


@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
@pytest.mark.parametrize("action_space", ACTIONS, ids=str)
def test_the_update_calls_read_nothing_from_the_device(monkeypatch, action_space, shared):
    """Tensors without data cannot be read, so no Python code depends on values."""
    idle_kernels(monkeypatch)
    policy = policy_of(action_space, shared, normalize=True).to("meta")
    lead = (16, AGENTS) if shared else (16,)
    inputs = observations(16, shared)
    obs = {part: x.to("meta") for part, x in inputs.obs.items()} if shared else inputs.obs.to("meta")
    action = torch.zeros(*lead, *action_space.shape, device="meta")
    evaluated = policy.evaluate(Inputs(obs), action)
    (evaluated.log_prob + evaluated.entropy + evaluated.value).sum().backward()
    assert policy.value(Inputs(obs)).shape == lead
    steps = {part: x[None] for part, x in obs.items()} if shared else obs[None]
    policy.observe(steps, torch.ones(1, *lead, dtype=torch.bool, device="meta"))


def test_hidden_layers_start_orthogonal_and_the_policy_uniform():
    policy = policy_of(CHOICES)
    weight = policy.network.actor_layers[2].weight
    torch.testing.assert_close(weight @ weight.T, 2.0 * torch.eye(8), atol=1e-5, rtol=1e-5)
    probabilities = policy.outputs(torch.randn(100, 6)).softmax(-1)
    assert probabilities.sub(0.25).abs().max() < 0.02
    assert all((layer.bias == 0).all() for layer in policy.network.critic_layers if isinstance(layer, nn.Linear))


def test_actor_and_critic_share_their_hidden_layers_only_with_a_shared_trunk():
    def moved_by_value(shared_trunk):
        policy = policy_of(CHOICES, network=NetworkConfig((8,), shared_trunk=shared_trunk))
        policy.value(observations(4)).sum().backward()
        return any(p.grad is not None and bool(p.grad.any()) for p in policy.network.trunk.parameters()), policy

    assert moved_by_value(True)[0]
    assert not moved_by_value(False)[0]
    separate = moved_by_value(False)[1]
    assert all(p.grad is None for p in separate.network.actor_layers.parameters())


def test_the_seed_and_the_name_of_a_policy_determine_its_weights():
    def weights(name="a", seed=3):
        return policy_of(CHOICES, name=name, seed=seed).state_dict()["network.actor_layers.0.weight"]

    torch.rand(5)
    state = torch.get_rng_state()
    first = weights()
    assert torch.equal(torch.get_rng_state(), state)
    weights(name="another")
    assert torch.equal(first, weights())
    assert not torch.equal(first, weights(name="b"))
    assert not torch.equal(first, weights(seed=4))
    # A hash that differs between processes or versions would make runs differ. The bytes are those of sha256sum.
    assert weight_seed(3, "a").to_bytes(8, "little").hex() == "8c702fba0ff69c0c"


class Own(nn.Module):
    """A user's network, with submodules named like the optional methods."""

    def __init__(self, num_features=6, num_outputs=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(num_features, 8), nn.Dropout(0.5), nn.BatchNorm1d(8))
        self.actor, self.critic = nn.Linear(8, num_outputs), nn.Linear(8, 1)

    def forward(self, obs):
        features = self.body(obs)
        return self.actor(features), self.critic(features).squeeze(-1)


@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
def test_a_users_network_gets_whole_rows(shared):
    network = Own()
    policy = policy_of(CHOICES, shared, module=network)
    assert policy.network is network
    assert network.training
    assert network.body[2].num_batches_tracked == 0  # the check left no trace
    network.eval()
    inputs = observations(16, shared)
    outputs, value = network(whole_rows(inputs) if shared else inputs.obs)
    lead = (16, AGENTS) if shared else (16,)
    torch.testing.assert_close(policy.outputs(inputs.obs), outputs.reshape(*lead, 4))
    torch.testing.assert_close(policy.value(inputs), value.reshape(lead))
    assert policy.evaluate(inputs, torch.zeros(lead)).value.shape == lead


def test_a_users_network_gets_both_parts_if_it_declares_shared_parts():
    class Pooled(nn.Module):
        shared_parts = True

        def __init__(self):
            super().__init__()
            self.shared, self.own = nn.Linear(2, 4), nn.Linear(4, 4)

        def forward(self, obs):
            hidden = self.shared(obs["shared"]).unsqueeze(1) + self.own(obs["own"]) + obs["own"].mean(1, keepdim=True)
            return hidden, hidden.sum(-1)

    policy = policy_of(CHOICES, shared=True, module=Pooled())
    assert policy.outputs(observations(16, shared=True).obs).shape == (16, AGENTS, 4)


def test_methods_of_a_users_network_save_the_other_half():
    calls = []

    class Halves(FeedForward):
        def forward(self, obs):
            calls.append("forward")
            return super().forward(obs)

    policy = policy_of(CHOICES, module=Halves(SPEC, NetworkConfig((8,)), torch.Generator()))
    calls.clear()
    policy.outputs(observations(4).obs)
    policy.value(observations(4))
    assert calls == []
    policy.evaluate(observations(4), torch.zeros(4))
    assert calls == ["forward"]


def test_a_registered_network_is_built_by_name():
    seen = []

    def builder(spec):
        seen.append(spec)
        return Own(sum(spec.parts), spec.num_outputs)

    register_network("test_networks.own", builder)
    policies = [policy_of(spaces.MultiDiscrete([2, 3]), shared=True, module="test_networks.own", name=name) for name in "aab"]
    weights = [policy.network.body[0].weight for policy in policies]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert (seen[0].parts, seen[0].num_outputs) == ((2, 4), 5)
    with pytest.raises(
        ConfigError, match=r"expected one of .*test_networks\.own.*, got 'other'; first import the module that calls"
    ):
        network_builder("other")
    with pytest.raises(ConfigError, match="expected a name, got ''"):
        register_network("", builder)
    with pytest.raises(ConfigError, match="expected a function that returns"):
        register_network("text", "module:Class")


class Fixed(nn.Module):
    """Returns given results."""

    def __init__(self, *results):
        super().__init__()
        self.results = results

    def forward(self, obs):
        return self.results if len(self.results) > 1 else self.results[0]


class Apart(FeedForward):
    def critic(self, obs):
        return super().critic(obs) + 1.0


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Own(num_outputs=3), r"'runner', called with float32 \(2, 6\): outputs: expected float32 \(2, 4\), got float32 \(2, 3\)"),
        (Own(num_features=5), r"expected \(outputs, value\), got RuntimeError: mat1 and mat2"),
        (Fixed(torch.zeros(2, 4), torch.zeros(2, 1)), r"value: expected float32 \(2,\), got float32 \(2, 1\)"),
        (Fixed(torch.full((2, 4), torch.nan), torch.zeros(2)), "outputs: expected finite numbers, got NaN"),
        (Fixed(torch.zeros(2, 4), torch.tensor([0.0, torch.inf])), "value: expected finite numbers"),
        (Fixed(torch.zeros(2, 4).double(), torch.zeros(2)), r"outputs: expected float32 \(2, 4\), got float64 \(2, 4\)"),
        (Fixed(torch.zeros(2, 4)), r"expected a tuple \(outputs, value\), got float32 \(2, 4\)"),
        (Fixed(torch.zeros(2, 4), None), r"value: expected float32 \(2,\), got NoneType"),
        (Apart(SPEC, NetworkConfig(()), torch.Generator()), r"expected critic\(\) to return what forward\(\) returns"),
        (lambda obs: obs, "expected a torch.nn.Module, got function"),
    ],
)  # fmt: skip
def test_a_network_that_does_not_fit_raises_an_error(network, message):
    with pytest.raises(ConfigError, match=message):
        make_policy("runner", group(CHOICES), 0, NetworkConfig(), module=network)


def test_the_check_uses_the_number_of_agents_in_a_world():
    agents = dataclasses.replace(group(CHOICES, shared=True), count=2)
    with pytest.raises(
        ConfigError, match=r"called with float32 \(4, 6\): outputs: expected float32 \(4, 4\), got float32 \(4, 3\)"
    ):
        make_policy("runner", agents, 0, NetworkConfig(), module=Own(num_outputs=3))


def test_the_layer_of_two_parts_has_the_weight_of_a_plain_layer():
    layer = SharedLinear(2, 4, 5)
    assert {name: tuple(p.shape) for name, p in layer.named_parameters()} == {"weight": (5, 6), "bias": (5,)}
