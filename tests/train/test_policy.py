"""Policies on the contract: distributions, draws, masks, shared parts, normalisation, random policies."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from policy_cases import ACTIONS, draws, group, observations, policy_of

from gpu_vecenv.train import ConfigError, NetworkConfig
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.policies.random import RandomPolicy


@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
@pytest.mark.parametrize("action_space", ACTIONS, ids=str)
def test_evaluate_gives_the_log_probability_and_value_of_act(action_space, shared):
    policy, inputs = policy_of(action_space, shared), observations(32, shared)
    lead = (32, 3) if shared else (32,)
    action, log_prob = policy.act(inputs, draws(32, shared))
    again, entropy, value = policy.evaluate(inputs, action)
    assert action.shape == (*lead, *action_space.shape)
    assert action.dtype == (torch.float32 if isinstance(action_space, spaces.Box) else torch.int32)
    assert log_prob.shape == entropy.shape == value.shape == lead
    torch.testing.assert_close(again, log_prob, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(policy.value(inputs), value)
    assert all(result.requires_grad for result in (again, value))


@pytest.mark.parametrize("action_space", ACTIONS, ids=str)
def test_an_action_depends_on_the_counters_of_its_row_alone(action_space):
    policy, inputs = policy_of(action_space), observations(64)
    action, _ = policy.act(inputs, draws(64))
    some = torch.tensor([50, 3, 3, 17])
    alone, _ = policy.act(Inputs(inputs.obs[some]), draws(64, rows=some))
    torch.testing.assert_close(alone, action[some])
    for counter in ("seed", "world_id", "episode", "t", "agent"):
        other, _ = policy.act(inputs, draws(64, **{counter: 1}))
        assert (other != action).reshape(64, -1).any(-1).float().mean() > 0.3, counter


def test_draws_have_the_probabilities_of_the_distribution():
    policy = policy_of(spaces.MultiDiscrete([3, 4]))
    torch.nn.init.normal_(policy.network.actor_layers[-1].bias)
    obs = torch.zeros(1, 6)
    expected = [entry.exp()[0] for entry in policy.outputs(obs).log_softmax(-1).split([3, 4], -1)]
    action, _ = policy.act(Inputs(obs.expand(50_000, -1)), draws(50_000))
    for entry, probabilities in enumerate(expected):
        probabilities = probabilities / probabilities.sum()
        counted = np.bincount(action[:, entry].numpy(), minlength=len(probabilities)) / 50_000
        assert np.allclose(counted, probabilities.detach(), atol=0.01)
    joint = np.corrcoef(action[:, 0].numpy(), action[:, 1].numpy())[0, 1]
    assert abs(joint) < 0.02


def test_deterministic_actions_are_the_likeliest():
    for action_space in ACTIONS:
        policy, inputs = policy_of(action_space), observations(16)
        action, log_prob = policy.act(inputs, draws(16), deterministic=True)
        _, drawn = policy.act(inputs, draws(16))
        assert (log_prob >= drawn).all()
        assert torch.equal(action, policy.act(inputs, draws(16, seed=9), deterministic=True)[0])


def test_a_mask_of_some_entries_equals_a_softmax_over_allowed_choices():
    """Entries 2 and 0 of four are masked, in this order; compared with float64 sums over the allowed choices in NumPy."""
    policy = policy_of(spaces.MultiDiscrete([3, 2, 4, 2]), masked=(2, 0))
    torch.nn.init.normal_(policy.network.actor_layers[-1].weight, generator=torch.Generator().manual_seed(1))
    rng, obs = np.random.default_rng(0), observations(64).obs
    mask = rng.random((64, 7)) < 0.6
    mask[:, [0, 4]] = True  # at least one choice of each entry
    inputs = Inputs(obs, torch.from_numpy(mask))
    action, log_prob = policy.act(inputs, draws(64))
    again, entropy, _ = policy.evaluate(inputs, action)
    likeliest, _ = policy.act(inputs, draws(64), deterministic=True)
    logits = policy.outputs(obs).detach().double().numpy()
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


def test_masks_of_worlds_are_those_of_their_agents():
    policy, inputs = policy_of(spaces.Discrete(5), shared=True, masked=(0,)), observations(200, shared=True)
    mask = torch.rand(200, 3, 5, generator=torch.Generator().manual_seed(0)) < 0.4
    mask[..., 2] = True
    action, _ = policy.act(inputs._replace(mask=mask), draws(200, shared=True))
    assert mask.gather(-1, action.long().unsqueeze(-1)).all()


def test_observations_are_shifted_and_scaled_by_what_was_observed():
    policy = policy_of(spaces.Discrete(4), normalize=True)
    plain = policy_of(spaces.Discrete(4))
    seen = torch.randn(20, 50, 6, generator=torch.Generator().manual_seed(0)) * 3.0 + 7.0
    valid = torch.rand(20, 50, generator=torch.Generator().manual_seed(1)) < 0.5
    before = policy.value(Inputs(seen[0]))
    policy.observe(torch.where(valid.unsqueeze(-1), seen, torch.nan), valid)
    rows = seen[valid].double()
    expected = ((seen[0] - rows.mean(0)) / rows.std(0, correction=0)).float()
    torch.testing.assert_close(policy.value(Inputs(seen[0])), plain.value(Inputs(expected)), rtol=1e-3, atol=1e-3)
    assert not torch.allclose(policy.value(Inputs(seen[0])), before, atol=1e-2)


def test_a_shared_part_has_statistics_of_worlds_and_the_rest_of_agents():
    policy = policy_of(spaces.Discrete(4), shared=True, normalize=True)
    generator = torch.Generator().manual_seed(0)
    shared, own = torch.randn(5, 40, 2, generator=generator) + 4.0, torch.randn(5, 40, 3, 4, generator=generator) - 2.0
    valid = torch.rand(5, 40, 3, generator=generator) < 0.4
    seen = valid.any(-1)
    assert not seen.all()
    nan = torch.tensor(torch.nan)
    policy.observe(
        {"shared": torch.where(seen.unsqueeze(-1), shared, nan), "own": torch.where(valid.unsqueeze(-1), own, nan)}, valid
    )
    norms = policy.obs_norm.parts
    for part, rows in (("shared", shared[seen]), ("own", own[valid])):
        torch.testing.assert_close(norms[part].mean.double(), rows.double().mean(0), rtol=1e-4, atol=1e-4)
        assert norms[part].count == len(rows)


@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 4)], ids=str)
def test_images_are_not_normalised_and_networks_get_their_shape(shape):
    class Pictures(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(int(np.prod(shape)), 4)

        def forward(self, obs):
            assert obs.shape[1:] == shape
            return self.head(obs.flatten(1)), obs.flatten(1).sum(-1)

    policy = make_policy("agent", group(shape=shape), 0, NetworkConfig(), module=Pictures())
    policy.observe(torch.rand(3, 2, *shape) * 255, torch.ones(3, 2, dtype=torch.bool))
    picture = torch.rand(5, *shape) * 255
    torch.testing.assert_close(policy.value(Inputs(picture)), picture.flatten(1).sum(-1))
    built_in = make_policy("agent", group(shape=shape), 0, NetworkConfig((8,)))
    assert built_in.value(Inputs(picture)).shape == (5,)


def test_bytes_are_not_normalised():
    assert make_policy("agent", group(dtype=np.uint8), 0, NetworkConfig()).obs_norm is None
    assert make_policy("agent", group(), 0, NetworkConfig()).obs_norm is not None


@pytest.mark.parametrize("space", [spaces.MultiBinary(3), spaces.Box(-1, 1, (2, 2)), spaces.MultiDiscrete([[2, 2]])], ids=str)
def test_unsupported_spaces_raise_an_error(space):
    with pytest.raises(ConfigError, match="expected Discrete, flat MultiDiscrete or flat Box, got"):
        policy_of(space)


@pytest.mark.parametrize("action_space", ACTIONS, ids=str)
def test_random_policy_covers_the_space_evenly(action_space):
    action, _ = RandomPolicy(group(action_space)).act(Inputs(torch.zeros(40_000, 6)), draws(40_000))
    action = action.numpy().reshape(40_000, -1).astype(np.float64)
    box = isinstance(action_space, spaces.Box)
    low, high = (action_space.low, action_space.high) if box else (0, np.asarray(group(action_space).choices) - 1)
    assert (action >= low).all()
    assert (action <= high).all()
    assert np.allclose(action.mean(0), (low + np.asarray(high)) / 2, atol=0.05)
    if box:
        assert np.allclose(action.std(0), (high - low) / 12**0.5, atol=0.02)


@pytest.mark.parametrize("bound", [np.inf, 3e38])
def test_a_random_policy_for_an_unbounded_space_raises_an_error(bound):
    with pytest.raises(ConfigError, match="expected bounds with finite float32 distances"):
        RandomPolicy(group(spaces.Box(-bound, bound, (2,))))


@pytest.mark.parametrize(
    ("space", "masked", "allowed"),
    [
        (spaces.Discrete(4), (0,), [[1, 3]]),
        (spaces.MultiDiscrete([3, 2, 4]), (2, 0), [[0, 2], [0, 1], [1, 2, 3]]),
    ],
    ids=str,
)
def test_random_policies_draw_allowed_choices_evenly(space, masked, allowed):
    agents = group(space, masked=masked)
    mask = torch.cat([torch.tensor([choice in allowed[entry] for choice in range(agents.choices[entry])]) for entry in masked])
    inputs = Inputs(torch.zeros(20_000, 6), mask.expand(20_000, -1))
    action, _ = RandomPolicy(agents).act(inputs, draws(20_000))
    for entry, choices in enumerate(allowed):
        values, counts = np.unique(action.numpy().reshape(20_000, -1)[:, entry], return_counts=True)
        assert values.tolist() == choices
        assert np.allclose(counts / 20_000, 1 / len(choices), atol=0.02)


def test_random_policies_act_for_the_agents_of_worlds():
    action, log_prob = RandomPolicy(group(spaces.MultiDiscrete([3, 5]), shared=True)).act(
        observations(8, shared=True), draws(8, shared=True)
    )
    assert action.shape == (8, 3, 2)
    assert log_prob.shape == (8, 3)
