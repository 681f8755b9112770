"""Continuous actions: scaled to their bounds, with log-probabilities of normalised units."""

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from policy_cases import draws, group, observations, policy_of

import gpu_vecenv  # noqa: F401  (registers the env ids)
from gpu_vecenv.train import NetworkConfig
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.policies.random import RandomPolicy

BOX = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([-1.0, 40.0], np.float32))


def first_actions(box, num=50_000, **network):
    """Return first actions, float64 (num, k), of a policy whose means are near 0 in normalised units."""
    action, _ = policy_of(box, network=NetworkConfig((8,), **network)).act(Inputs(torch.zeros(num, 6)), draws(num))
    return action.detach().double().numpy()


@pytest.mark.parametrize("log_std", [0.0, -1.0])
def test_first_actions_spread_over_the_bounds(log_std):
    """Mean and deviation are centre and half width times exp(log_std); the clipped share is that of a normal distribution."""
    action, half = first_actions(BOX, log_std=log_std), (BOX.high - BOX.low) / 2
    assert np.allclose(action.mean(0) / half, (BOX.low + BOX.high) / 2 / half, atol=0.03)
    assert np.allclose(action.std(0) / half, math.exp(log_std), rtol=0.02)
    clipped = ((action < BOX.low) | (action > BOX.high)).mean(0)
    assert np.allclose(clipped, math.erfc(math.exp(-log_std) / math.sqrt(2)), atol=0.01)


@pytest.mark.parametrize(
    ("low", "high"), [(-np.inf, np.inf), (0.0, np.inf), (-np.inf, 1.0), (3.0, 3.0)], ids=["none", "low", "high", "equal"]
)
def test_a_number_without_two_finite_bounds_is_left_alone(low, high):
    action = first_actions(spaces.Box(np.array([low, -10.0], np.float32), np.array([high, 10.0], np.float32)))
    assert np.allclose(action.mean(0), 0.0, atol=0.2)
    assert np.allclose(action.std(0), [1.0, 10.0], rtol=0.02)


def test_wide_bounds_do_not_overflow():
    largest = np.finfo(np.float32).max / 2
    assert np.isfinite(first_actions(spaces.Box(-largest, largest, (2,)), num=100, log_std=-3.0)).all()


def test_log_probability_and_entropy_are_those_of_normalised_units():
    """Compared with torch.distributions, and with the density in the env's units, from which they differ by a constant."""
    policy, inputs = policy_of(BOX, network=NetworkConfig((8,), log_std=-0.5)), observations(32)
    action, log_prob = policy.act(inputs, draws(32))
    again, entropy, _ = policy.evaluate(inputs, action)
    centre, half = torch.tensor([-1.5, 20.0]), torch.tensor([0.5, 20.0])
    normal = torch.distributions.Normal(policy.outputs(inputs.obs), math.exp(-0.5))
    expected = normal.log_prob((action - centre) / half).sum(-1)
    torch.testing.assert_close(log_prob, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(again, log_prob, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(entropy, normal.entropy().sum(-1))
    in_env = torch.distributions.Normal(centre + half * normal.mean, half * normal.stddev).log_prob(action).sum(-1)
    torch.testing.assert_close(log_prob - in_env, half.log().sum().expand(32), rtol=1e-4, atol=1e-4)


def test_a_deterministic_action_is_the_mean_in_the_envs_units():
    policy, inputs = policy_of(BOX), observations(8)
    action, _ = policy.act(inputs, draws(8), deterministic=True)
    torch.testing.assert_close(action, torch.tensor([-1.5, 20.0]) + torch.tensor([0.5, 20.0]) * policy.outputs(inputs.obs))


def test_bounds_are_no_part_of_the_state_of_a_policy():
    assert not [name for name in policy_of(BOX).state_dict() if "centre" in name or "half" in name]


def test_a_third_of_tags_first_continuous_accelerations_is_clipped():
    env = gymnasium.make_vec("WarpTag-v0", num_worlds=1, device="cpu", continuous_actions=True)
    box = env.unwrapped.layout.groups[0].action
    env.close()
    policy = make_policy("tagger", group(box), 0, NetworkConfig())
    action, _ = policy.act(Inputs(torch.zeros(20_000, 6)), draws(20_000))
    outside = (action < torch.tensor(box.low)) | (action > torch.tensor(box.high))
    assert (outside.float().mean(0) < 0.34).all()


def test_an_algorithm_converts_observations_and_actions_by_calls_of_any_policy():
    policy, obs = policy_of(BOX, normalize=True), 5.0 + 3.0 * torch.randn(400, 6)
    policy.observe(obs.unsqueeze(0), torch.ones(1, 400, dtype=torch.bool))
    read = policy.normalized(obs)
    torch.testing.assert_close(read, (obs - obs.mean(0)) / obs.std(0, correction=0), rtol=1e-4, atol=1e-4)
    inside = torch.rand(50, 2) * 2 - 1
    low, high = torch.from_numpy(BOX.low), torch.from_numpy(BOX.high)
    torch.testing.assert_close(policy.env_actions(inside), low + (inside + 1) / 2 * (high - low))
    torch.testing.assert_close(policy.normalized_actions(policy.env_actions(inside)), inside, rtol=1e-4, atol=1e-5)
    plain, number = policy_of(spaces.Discrete(3)), torch.arange(3, dtype=torch.int32)
    assert plain.env_actions(number) is number and plain.normalized_actions(number) is number
    random = RandomPolicy(group(BOX))
    assert random.normalized(obs) is obs and random.env_actions(inside) is random.normalized_actions(inside) is inside
