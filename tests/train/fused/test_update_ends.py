"""Start and end of a fused update, compared with operations on whole arrays."""

import dataclasses
import math

import pytest
import torch
from fused_runs import FusedPPO
from gymnasium import spaces
from reference import BOX, SCALARS, case, scales

from gpu_vecenv.train import PPOConfig
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.fused.update_ends import TILE, UpdateEnds
from gpu_vecenv.train.returns.moments import moments
from gpu_vecenv.train.returns.scan import Advantages

CPU = torch.device("cpu")


def ends_of(config, samples, policy, factor=1.0):
    """Return kernels and ends of an update whose sums are not clear, and the algorithm."""
    ppo = FusedPPO(policy, config, tuple(samples.reward.shape[1:]), 0, CPU)
    ppo.factor.fill_(factor)
    kernels = ppo.backend._prepared(samples, SCALARS)
    kernels.work.fill_(math.nan), kernels.stopped.fill_(7)
    ppo.adam.prepared()[0]["step"].fill_(41.0)
    return kernels, UpdateEnds(kernels, config, SCALARS, ppo.factor, ppo.shuffles), ppo


@pytest.mark.parametrize("normalize", ["rollout", "minibatch", "none"])
@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("rows", [5, TILE - 1, TILE + 3])
@pytest.mark.parametrize("action", [spaces.Discrete(2), BOX], ids=["discrete", "numbers"])
def test_an_update_begins_with_what_operations_on_whole_arrays_give(normalize, share, rows, action):
    """Samples that do not count have log-probabilities of NaN. Log-probabilities have a gap between steps."""
    config = PPOConfig(normalize_advantages=normalize, num_epochs=2, num_minibatches=3)
    one, g = case(action=action, rows=rows), torch.Generator().manual_seed(rows)
    samples = one.samples
    shape = samples.reward.shape
    samples.valid = torch.rand(shape, generator=g) < share
    wide = torch.randn(shape[0], shape[1] + 3, generator=g)
    samples.log_prob = wide[:, : shape[1]]
    samples.log_prob[~samples.valid] = math.nan
    advantage, value = (torch.where(samples.valid, x, 0.0) for x in 7.0 + 3.0 * torch.randn(2, *shape, generator=g))
    if action is BOX:
        with torch.no_grad():
            one.policy.log_std.copy_(torch.tensor([0.5, -3.0, 0.0]))
    kernels, ends, ppo = ends_of(config, samples, one.policy, factor=0.25)
    found = Advantages(torch.stack((advantage, advantage + value, value)))
    estimates = moments(found.stacked[:2].flatten(1).t(), samples.valid.flatten())
    numbers = ends.begin(samples.log_prob, found, estimates)

    kept = advantage[samples.valid].double()
    want = advantage.double()
    if normalize == "rollout" and share > 0.0:
        want = (want - kept.mean()) / (kept.std(correction=0) + 1e-8)
    columns = torch.stack((samples.log_prob, value, want.float(), found.target)).flatten(1)
    torch.testing.assert_close(numbers.t(), columns, rtol=1e-5, atol=1e-5, equal_nan=True)
    torch.testing.assert_close(kernels.scales, scales(columns, samples.valid.flatten(), config, one.policy), rtol=0, atol=0)
    assert ppo.adam.rate == SCALARS.learning_rate * 0.25
    assert kernels.steps.tolist() == [41.0] + [0.0] * 6
    assert not kernels.totals.any() and not kernels.stopped.any() and kernels.work.sum() == 41.0


@pytest.mark.parametrize("normalize", ["rollout", "minibatch", "none"])
def test_the_actors_scale_is_that_of_rows_with_a_choice(normalize):
    """Advantages of rows without a choice are a hundred times as large; the critic learns from all rows."""
    config = PPOConfig(normalize_advantages=normalize)
    one = case(action=spaces.MultiDiscrete([3, 4]), rows=300, masked=(0, 1), forced=0.8)
    samples, g = one.samples, torch.Generator().manual_seed(0)
    kernels, ends, _ = ends_of(config, samples, one.policy)
    advantage, value = torch.randn(2, *samples.reward.shape, generator=g)
    advantage = torch.where(samples.valid, torch.where(samples.choice, advantage + 3.0, 100.0 * advantage), 0.0)
    found = Advantages(torch.stack((advantage, advantage + value, value)))
    estimates = moments(found.stacked[:2].flatten(1).t(), samples.valid.flatten())
    of_choice = moments(found.stacked[0].view(-1, 1), samples.choice.flatten())
    numbers = ends.begin(samples.log_prob, found, estimates, of_choice)
    kept = advantage[samples.choice].double()
    want = (advantage - kept.mean()) / (kept.std(correction=0) + 1e-8) if normalize == "rollout" else advantage
    torch.testing.assert_close(numbers[:, 2], want.float().flatten(), rtol=1e-5, atol=1e-5)
    columns, choice = torch.stack((samples.log_prob, value, want, found.target)).flatten(1), samples.choice.flatten()
    actor = scales(columns, samples.valid.flatten(), config, one.policy, choice)[0]
    raw = torch.stack((samples.log_prob, value, advantage, found.target)).flatten(1)
    critic = scales(raw, samples.valid.flatten(), config, one.policy, choice)[1]
    assert kernels.scales.tolist() == [actor, critic]


def test_advantages_that_are_not_finite_leave_no_finite_scale():
    one = case(action=spaces.Discrete(2), rows=9)
    kernels, ends, _ = ends_of(PPOConfig(), one.samples, one.policy)
    numbers = torch.full((3, *one.samples.reward.shape), math.nan)
    ends.begin(one.samples.log_prob, Advantages(numbers), moments(numbers[:2].flatten(1).t(), one.samples.valid.flatten()))
    assert kernels.scales.isnan().all()


@pytest.mark.parametrize("taken", [0.0, 3.0])
def test_metrics_follow_from_the_sums(taken):
    one = case(action=spaces.Discrete(2), rows=9)
    samples = one.samples
    samples.valid = torch.rand(samples.reward.shape, generator=torch.Generator().manual_seed(0)) < 0.7
    kernels, ends, ppo = ends_of(dataclasses.replace(PPOConfig(), num_minibatches=2), samples, one.policy)
    numbers = torch.randn(3, *samples.reward.shape, generator=torch.Generator().manual_seed(1))
    ends.begin(samples.log_prob, Advantages(numbers), moments(numbers[:2].flatten(1).t(), samples.valid.flatten()))
    kernels.totals.copy_(torch.tensor([1.0, 2.0, 4.0, 5.0, 7.0, 8.0, taken, 4.0, taken]))
    advantage, target = (x[samples.valid].double() for x in numbers[:2])
    explained = 1.0 - advantage.var(correction=0) / (target.var(correction=0) + 1e-8)
    means = [x / 3.0 if taken else math.nan for x in (1.0, 2.0, 4.0, 5.0, 7.0, 8.0)]
    others = [explained.item(), SCALARS.learning_rate.item(), samples.valid.float().mean().item(), 1.0, taken, 4.0 - taken]
    ppo.shuffles.fill_(2**40)
    got = ends.end().tolist()
    if not taken:
        got = [math.nan if math.isinf(x) else x for x in got]
    assert ppo.shuffles == 2**40 + 4
    assert got == pytest.approx([*means, *others], rel=1e-6, nan_ok=True)
    assert len(got) == len(PPO.metric_names)
