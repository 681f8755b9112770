"""Samples made by hand, and PPO to learn from them."""

import dataclasses

import numpy as np
import torch
from policy_cases import ACTIONS, AGENTS, OWN, SHARED, draws, policy_of

from gpu_vecenv.train import PPOConfig
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.algorithms.schedules import DeviceScalars
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.storage.samples import Samples

T, WORLDS, FEATURES = 8, 6, 6
GAMMA, DECAY = 0.9, 0.8
PLAIN = PPOConfig(
    num_epochs=1, num_minibatches=1, gamma=GAMMA, gae_lambda=DECAY, entropy_coef=0.03, max_grad_norm=1e9, learning_rate=1e-2,
    normalize_advantages="none", normalize_rewards=False, normalize_observations=False, bootstrap_at_time_limit=True,
)  # fmt: skip
"""One step along the plain gradient."""


@dataclasses.dataclass
class Case:
    """A policy, its samples, and the facts from which their masks follow, each bool (T, B[, a])."""

    policy: torch.nn.Module
    samples: Samples
    alive: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor


def flags(shape, seed=0):
    """Return who is alive before and after each step, and ends of worlds; by loops over worlds and agents."""
    chance = np.random.default_rng(seed)
    before, after, terminated, truncated = np.zeros((4, T, *shape), bool)
    for world in range(shape[0]):
        alive = chance.random(shape[1:]) < 0.8
        for t in range(T):
            before[t, world] = alive
            after[t, world] = alive & (chance.random(shape[1:]) < 0.85)
            terminated[t, world], truncated[t, world] = chance.random() < 0.12, chance.random() < 0.25
            ended = (terminated | truncated)[t, world].any()
            # In a new episode an agent may be absent from its start.
            alive = chance.random(shape[1:]) < 0.9 if ended else after[t, world]
    return [torch.from_numpy(x) for x in (before, after, terminated, truncated)]


def case(action=ACTIONS[1], shared=False, masked=(), normalize=False, off=0.3, seed=0, scale=1.0, forced=0.0):
    """Return a policy with drawn actions, whose old log-probabilities are ``off`` by a random number of about that size.

    Args:
        action: one agent's space.
        shared: observations have a shared part, so samples are worlds of three agents.
        masked: masked entries of the action.
        normalize: the policy normalises observations.
        off: deviation of the errors.
        seed: seed of the numbers.
        scale: scale of the rewards.
        forced: share of the rows whose masks allow one choice of each entry, or none.
    """
    generator = torch.Generator().manual_seed(seed)
    policy = policy_of(action, shared, masked, normalize)
    with torch.no_grad():  # outputs of the first weights are nearly 0
        policy.network.actor_layers[-1].weight.mul_(80.0)
    shape = (WORLDS, AGENTS) if shared else (WORLDS,)

    def numbers(*sizes):
        return torch.randn(*sizes, generator=generator)

    def observations(steps):
        if shared:
            return {"shared": numbers(steps, WORLDS, SHARED), "own": numbers(steps, *shape, OWN)}
        return numbers(steps, *shape, FEATURES)

    obs, mask, free = observations(T + 1), None, None
    if masked:
        sizes = [policy.choices[entry] for entry in masked]
        parts = [torch.rand(T + 1, *shape, size, generator=generator) < 0.6 for size in sizes]
        one = torch.rand(T + 1, *shape, generator=generator) < forced
        for part in parts:
            part[..., 0] |= ~part.any(-1)
            allowed = torch.randint(part.shape[-1] + 1, (int(one.sum()), 1), generator=generator)
            part[one] = torch.arange(part.shape[-1]) == allowed
        mask = torch.cat(parts, dim=-1)
        if len(masked) == policy.group.num_entries:
            free = torch.stack([part[:-1].sum(-1) > 1 for part in parts]).any(0)
    before, after, terminated, truncated = flags(shape, seed)
    actions, log_probs = [], []
    for t in range(T):
        at = {name: x[t] for name, x in obs.items()} if shared else obs[t]
        with torch.no_grad():
            chosen, log_prob = policy.act(Inputs(at, None if mask is None else mask[t]), draws(WORLDS, shared, t=t))
        actions.append(chosen)
        log_probs.append(log_prob + off * numbers(*log_prob.shape))
    samples = Samples(
        obs=obs,
        action=torch.stack(actions),
        log_prob=torch.stack(log_probs),
        reward=scale * numbers(T, *shape),
        valid=before,
        episode_end=terminated | truncated | ~(before & after),
        ended=terminated | truncated,
        timed_out=truncated & ~terminated & before & after,
        mask=mask,
        final_obs=observations(T),
        choice=None if free is None else before & free,
    )
    return Case(policy, samples, after, terminated, truncated)


def ppo_of(case, config=PLAIN, seed=3):
    return PPO(case.policy, config, tuple(case.samples.reward.shape[1:]), seed, torch.device("cpu"))


def scalars(config, rate=None):
    """Settings at the start of a run."""
    numbers = (config.learning_rate if rate is None else rate, config.entropy_coef, config.clip_coef)
    return DeviceScalars(*torch.tensor(numbers))


def learn(case, config=PLAIN, rate=None, updates=1, ppo=None):
    """Update a policy; return the algorithm, and the metrics of the last update by name."""
    ppo = ppo_of(case, config) if ppo is None else ppo
    for _ in range(updates):
        metrics = ppo.update(case.samples, scalars(config, rate))
    return ppo, dict(zip(ppo.metric_names, metrics.tolist(), strict=True))


def weights(policy):
    return torch.cat([x.detach().flatten() for x in policy.parameters()]).clone()
