"""The built-in recurrent network, compared with torch's cells."""

import itertools

import pytest
import torch
from gymnasium import spaces
from policy_cases import AGENTS, group, observations, policy_of
from torch import nn

from gpu_vecenv.train import ConfigError, NetworkConfig
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.policies.networks import WorldSpec

CHOICES = spaces.Discrete(4)
CELLS = {"gru": nn.GRUCell, "lstm": nn.LSTMCell}
SHAPES = [((8, 8), False), ((8,), True), ((), False), ((), True)]
CASES = list(itertools.product(CELLS, SHAPES))


def network_of(memory, shape=((8,), False), **fields):
    return NetworkConfig(shape[0], shared_trunk=shape[1], memory=memory, memory_size=5, **fields)


def cell_of(network, features):
    """Return a function of observations (B, F) and states that is torch's cell with the weights of a network."""
    cell = (nn.GRUCell if network.state_shape == (5,) else nn.LSTMCell)(features, 5)
    cell.load_state_dict(network.memory.state_dict())

    def step(obs, state):
        if isinstance(cell, nn.GRUCell):
            after = cell(obs, state)
            return after, after
        h, c = cell(obs, (state[:, 0], state[:, 1]))
        return h, torch.stack((h, c), dim=1)

    return step


def layers_of(network, units):
    """Return outputs and values of the layers after the memory."""
    units = network.trunk(units)
    return network.actor_layers(units), network.critic_layers(units).squeeze(-1)


@pytest.mark.parametrize(("memory", "shape"), CASES, ids=str)
def test_a_step_is_that_of_torchs_cell(memory, shape):
    network = policy_of(CHOICES, network=network_of(memory, shape)).network
    assert network.state_shape == {"gru": (5,), "lstm": (2, 5)}[memory]
    obs, state = torch.randn(7, 6), torch.randn(7, *network.state_shape)
    units, expected = cell_of(network, 6)(obs, state)
    outputs, value, after = network(obs, state)
    torch.testing.assert_close(after, expected, rtol=1e-5, atol=1e-6)
    for found, wanted in zip((outputs, value), layers_of(network, units), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    for found, wanted in ((network.actor(obs, state), (outputs, after)), ((network.critic(obs, state),), (value,))):
        assert all(map(torch.equal, found, wanted))


@pytest.mark.parametrize(("memory", "shape"), CASES, ids=str)
def test_a_sequence_is_a_loop_over_torchs_cell(memory, shape):
    """Results and gradients, with states that begin anew in the middle."""
    policy = policy_of(CHOICES, network=network_of(memory, shape))
    network, obs = policy.network, torch.randn(6, 7, 6)
    ends, state = torch.rand(6, 7) < 0.3, torch.randn(7, *network.state_shape)
    action = torch.randint(4, (6, 7))
    evaluated, states = policy.evaluate_sequence(Inputs(obs), action, ends, state)
    step, wanted, now = cell_of(network, 6), [], state
    for t in range(6):
        units, after = step(obs[t], now)
        outputs, value = layers_of(network, units)
        logits = outputs.log_softmax(-1)
        wanted.append((logits[torch.arange(7), action[t]], -(logits.exp() * logits).sum(-1), value, after))
        now = after * (~ends[t]).float().view(7, *[1] * (after.dim() - 1))
    wanted = [torch.stack(x) for x in zip(*wanted, strict=True)]
    for found, expected in zip((*evaluated, states), wanted, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    (evaluated.log_prob + evaluated.value.square()).sum().backward()
    own = {name: x.grad.clone() for name, x in network.named_parameters()}
    network.zero_grad()
    cell = step.__closure__[0].cell_contents
    (wanted[0] + wanted[2].square()).sum().backward()
    for name, x in (*cell.named_parameters(prefix="memory"), *network.named_parameters()):
        if x.grad is not None:
            torch.testing.assert_close(own.pop(name), x.grad, rtol=1e-4, atol=1e-5)
    assert not own


@pytest.mark.parametrize("memory", CELLS)
def test_a_shared_part_equals_the_same_memory_on_whole_rows(memory):
    network = network_of(memory)
    split, plain = policy_of(CHOICES, shared=True, network=network), policy_of(CHOICES, network=network)
    inputs, state = observations(4, shared=True), torch.randn(3, 4, AGENTS, *split.state_shape)
    obs = {name: torch.stack((x, 2.0 * x, -x)) for name, x in inputs.obs.items()}
    rows = torch.cat((obs["shared"].unsqueeze(2).expand(-1, -1, AGENTS, -1), obs["own"]), dim=-1).flatten(1, 2)
    action, ends = torch.randint(4, (3, 4, AGENTS)), torch.rand(3, 4, AGENTS) < 0.4
    found = split.evaluate_sequence(Inputs(obs), action, ends, state[0])
    wanted = plain.evaluate_sequence(Inputs(rows), action.flatten(1), ends.flatten(1), state[0].flatten(0, 1))
    for ours, theirs in zip((*found[0], found[1]), (*wanted[0], wanted[1]), strict=True):
        torch.testing.assert_close(ours.flatten(1, 2), theirs, rtol=1e-5, atol=1e-6)


def test_a_memory_reads_normalised_observations_of_several_axes_and_numbers_of_agents():
    for memory in CELLS:
        agents = group(CHOICES, shape=(2, 3))
        plain = make_policy("a", group(CHOICES), 0, network_of(memory))
        policy = make_policy("a", agents, 0, network_of(memory))
        obs, state = 5.0 + torch.randn(7, 6), torch.randn(7, *plain.state_shape)
        plain.observe(obs[None], torch.ones(1, 7, dtype=torch.bool))
        whole = plain.network(plain.obs_norm(obs), state)[1]
        torch.testing.assert_close(plain.value(Inputs(obs, state=state)), whole)
        assert torch.equal(policy.value(Inputs(obs.view(7, 2, 3), state=state)), plain.network.critic(obs, state))
        numbered = make_policy("a", agents, 0, network_of(memory, agent_ids=True), world=WorldSpec(3))
        assert numbered.network.memory.weight_ih.shape[1] == 6 + 3
        agent = torch.tensor([0, 1, 2] * 2 + [0], dtype=torch.int32)
        values = numbered.value(Inputs(obs.view(7, 2, 3), state=state, agent=agent))
        rows = torch.cat((obs, nn.functional.one_hot(agent.long(), 3).float()), dim=-1)
        torch.testing.assert_close(values, numbered.network.critic(rows, state))


@pytest.mark.parametrize("memory", CELLS)
def test_first_weights_keep_a_state_and_depend_on_name_and_seed_alone(memory):
    before = torch.get_rng_state()
    one, same, other = (policy_of(CHOICES, network=network_of(memory), seed=seed).network for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert all(map(torch.equal, one.state_dict().values(), same.state_dict().values()))
    assert not torch.equal(one.memory.weight_hh, other.memory.weight_hh)
    for gate in one.memory.weight_hh.split(5):
        torch.testing.assert_close(gate @ gate.T, torch.eye(5), rtol=0, atol=1e-5)
    keeps = one.memory.bias_ih[5:10]  # z of a GRU, f of an LSTM
    assert keeps.tolist() == [1.0] * 5 and one.memory.bias_ih.sum() == 5.0 and not one.memory.bias_hh.any()


def test_options_of_a_memory_are_checked():
    assert NetworkConfig(memory="gru").memory_size == 64
    for fields, message in (
        ({"memory": "rnn"}, "memory: expected 'gru' or 'lstm', or None, got 'rnn'"),
        ({"memory": "gru", "memory_size": 0}, "memory_size: expected an integer from 1 to 65536, got 0"),
        ({"memory_size": 32}, "memory_size: expected a memory with it, 'gru' or 'lstm', got 32 without one"),
    ):
        with pytest.raises(ConfigError, match=message):
            NetworkConfig(**fields)
