"""Policies: distributions, determinism, weights and errors."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from gpu_vecenv.train import ConfigError, NetworkConfig
from gpu_vecenv.train.policies.policy import ActorCritic, RandomPolicy

SPACES = [
    spaces.Discrete(4),
    spaces.MultiDiscrete([3, 5]),
    spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([-1.0, 4.0], np.float32)),
]


def make(space, seed=0):
    return ActorCritic(6, space, NetworkConfig((8, 8)), torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_evaluate_gives_the_log_probability_of_act(space):
    policy, obs = make(space), torch.randn(32, 6)
    action, log_prob = policy.act(obs, torch.Generator().manual_seed(1))
    again, entropy, value = policy.evaluate_actions(obs, action)
    assert action.shape == (32, *space.shape)
    torch.testing.assert_close(again, log_prob)
    torch.testing.assert_close(value, policy.value(obs))
    assert entropy.shape == (32,)
    same, _ = policy.act(obs, torch.Generator().manual_seed(1))
    assert torch.equal(action, same)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_random_policy_covers_the_space_evenly(space):
    action, _ = RandomPolicy(space).act(torch.zeros(40_000, 6), torch.Generator().manual_seed(0))
    action = action.numpy().reshape(40_000, -1).astype(np.float64)
    low, high = (
        (space.low, space.high) if isinstance(space, spaces.Box) else (0, np.asarray(space_sizes(space)) - 1)
    )
    assert (action >= low).all()
    assert (action <= high).all()
    assert np.allclose(action.mean(0), (low + np.asarray(high)) / 2, atol=0.05)


def space_sizes(space):
    return space.nvec if isinstance(space, spaces.MultiDiscrete) else [space.n]


def test_hidden_layers_start_orthogonal_and_the_policy_uniform():
    policy = make(spaces.Discrete(4))
    weight = policy.actor[2].weight
    torch.testing.assert_close(weight @ weight.T, 2.0 * torch.eye(8), atol=1e-5, rtol=1e-5)
    assert policy.distribution(torch.randn(100, 6)).log_probs.exp().sub(0.25).abs().max() < 0.02
    assert all((layer.bias == 0).all() for layer in policy.critic if isinstance(layer, torch.nn.Linear))


def test_a_seed_determines_the_weights():
    a, b, c = (make(spaces.Discrete(4), seed).actor[0].weight for seed in (3, 3, 4))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@pytest.mark.parametrize("space", [spaces.MultiBinary(3), spaces.Box(-1, 1, (2, 2))], ids=str)
def test_unsupported_spaces_raise_an_error(space):
    with pytest.raises(ConfigError, match="expected Discrete, flat MultiDiscrete or flat Box, got"):
        make(space)


def test_a_random_policy_for_an_unbounded_space_raises_an_error():
    with pytest.raises(ConfigError, match="bounded"):
        RandomPolicy(gymnasium.spaces.Box(-np.inf, np.inf, (2,)))

def test_a_mask_of_some_entries_equals_a_softmax_over_allowed_choices():
    """Entries 2 and 0 of four are masked, in this order; compared with float64 sums over the allowed choices in NumPy."""
    space = spaces.MultiDiscrete([3, 2, 4, 2])
    policy = ActorCritic(6, space, NetworkConfig((8,)), torch.Generator().manual_seed(0), masked=(2, 0))
    torch.nn.init.normal_(policy.actor[-1].weight, generator=torch.Generator().manual_seed(1))  # far from uniform
    rng, obs = np.random.default_rng(0), torch.randn(64, 6, generator=torch.Generator().manual_seed(2))
    mask = rng.random((64, 7)) < 0.6
    mask[:, [0, 4]] = True  # at least one choice of each entry
    action, log_prob = policy.act(obs, torch.Generator().manual_seed(3), mask=torch.from_numpy(mask))
    again, entropy, _ = policy.evaluate_actions(obs, action, torch.from_numpy(mask))
    likeliest, _ = policy.act(obs, torch.Generator(), deterministic=True, mask=torch.from_numpy(mask))
    logits = policy.actor(obs).detach().double().numpy()
    for row in range(64):
        allowed = [mask[row, 4:], [True] * 2, mask[row, :4], [True] * 2]
        total, nats = 0.0, 0.0
        for entry, part in enumerate(np.split(logits[row], [3, 5, 9])):
            weights = np.exp(part) * allowed[entry]
            p = weights / weights.sum()
            total += np.log(p[action[row, entry]])
            nats -= sum(x * np.log(x) for x in p if x > 0)
            assert allowed[entry][action[row, entry]]
            assert likeliest[row, entry] == p.argmax()
        assert log_prob[row].item() == pytest.approx(total, abs=1e-5)
        assert again[row].item() == pytest.approx(total, abs=1e-5)
        assert entropy[row].item() == pytest.approx(nats, abs=1e-5)


@pytest.mark.parametrize(
    ("space", "masked", "allowed"),
    [
        (spaces.Discrete(4), (0,), [[1, 3]]),
        (spaces.MultiDiscrete([3, 2, 4]), (2, 0), [[0, 2], [0, 1], [1, 2, 3]]),
    ],
    ids=str,
)
def test_random_policies_draw_allowed_choices_evenly(space, masked, allowed):
    sizes = space_sizes(space)
    mask = torch.cat([torch.tensor([choice in allowed[entry] for choice in range(sizes[entry])]) for entry in masked])
    policy = RandomPolicy(space, masked)
    action, _ = policy.act(torch.zeros(20_000, 6), torch.Generator().manual_seed(0), mask=mask.expand(20_000, -1))
    for entry, choices in enumerate(allowed):
        values, counts = np.unique(action.numpy().reshape(20_000, -1)[:, entry], return_counts=True)
        assert values.tolist() == choices
        assert np.allclose(counts / 20_000, 1 / len(choices), atol=0.02)
