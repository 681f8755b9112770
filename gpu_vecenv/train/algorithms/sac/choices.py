"""Soft actor-critic of one policy whose actions are choices (Christodoulou 2019, arXiv 1910.07207).

A policy draws the k entries of a MultiDiscrete action independently, and the critics' value of an action is the sum of values of
its choices: Q(s, a) = Q_1(s, a_1) + ... + Q_k(s, a_k). Expectations over actions are then sums over choices. With one entry this
is the algorithm of the paper. An entry whose mask allows no choice adds nothing.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.algorithms.contract import Setup
from gpu_vecenv.train.algorithms.off_policy.batch import Minibatch, Observed
from gpu_vecenv.train.algorithms.sac.sac import SAC
from gpu_vecenv.train.config import SACConfig
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.actor import ActorPolicy

TARGET_SHARE = 0.98
"""Target of the entropy, as a share of that of uniform choices (Christodoulou 2019, appendix)."""


class Choices(NamedTuple):
    """Distribution over the C choices of all entries, side by side, of R rows."""

    probability: Tensor
    """float32 (R, C), 0 for choices that are not allowed."""
    log_prob: Tensor
    """float32 (R, C), 0 for choices that are not allowed."""


class ChoicesSAC(SAC):
    """Soft actor-critic with expectations over choices in place of draws."""

    num_normals = 0

    def __init__(self, policy: ActorPolicy, options: SACConfig, setup: Setup):
        """See ``Algorithm``.

        Raises:
            ConfigError: critics with atoms, or an entropy ``target_entropy`` that no policy has.
        """
        if options.num_atoms != 1:
            raise ConfigError(f"num_atoms: expected 1 with {policy.group.action}, got {options.num_atoms}")
        self.group, device = policy.group, setup.device
        super(SAC, self).__init__(policy, options, setup, 2, policy.num_features, sum(self.group.choices))
        self._add_temperature(options, setup)
        first = list(accumulate(self.group.choices, initial=0))[:-1]
        self.first = torch.tensor(first, dtype=torch.int64, device=device)
        uniform = sum(map(math.log, self.group.choices))
        self.target_entropy = self.target_of(TARGET_SHARE * uniform, uniform)

    def gradient_step(self, step: int, batch: Minibatch, noise: Tensor) -> tuple[dict[str, Tensor], Tensor | None]:
        """See ``OffPolicy.gradient_step()``; ``noise`` has no numbers."""
        alpha, before, after = self.temperature.value, batch.before, batch.after
        allowed = allowed_choices(self.group, before.mask)
        with torch.no_grad():  # equation 10 of Christodoulou 2019
            following = self.choices(after, allowed_choices(self.group, after.mask))
            values = self.targets(after.rows).amin(0) - alpha * following.log_prob
            target = batch.reward + batch.discount * (following.probability * values).sum(1)
        at = batch.action + self.first
        chosen = at.expand(2, -1, -1)
        used = 1.0 if allowed is None else allowed.gather(1, at)
        outputs = self.critics(before.rows)
        error = (outputs.gather(2, chosen) * used).sum(2) - target
        critic_loss = 0.5 * (error.square() @ batch.weighted).sum()
        critic_loss = self.learn("critics", critic_loss)
        policy = self.choices(before, allowed)
        with torch.no_grad():
            values = self.critics(before.rows).amin(0)
        loss = torch.dot((policy.probability * (alpha * policy.log_prob - values)).sum(1), batch.share)  # equation 12
        loss = self.learn("actor", loss)
        with torch.no_grad():
            entropies = -(policy.probability * policy.log_prob).sum(1)
            entropy = self._total(torch.dot(entropies, batch.share))
            surplus = self._total(torch.dot(entropies - self.targets_of(allowed), batch.share))
            q = self._total(((error + target) @ batch.share).mean())
        self.learn_temperature(surplus)
        self.targets.follow(self.critics, self.options.tau * self.gate)
        terms = {"critic_loss": critic_loss, "q": q, "actor_loss": loss, "entropy": entropy}
        return {**terms, "temperature": alpha}, error.detach().abs().mean(0)

    def choices(self, observed: Observed, allowed: Tensor | None) -> Choices:
        """Return the policy's distribution over choices."""
        logits = self.outputs(observed.features)
        if allowed is not None:
            logits = torch.where(allowed, logits, torch.finfo(logits.dtype).min)
        log_prob = torch.cat([torch.log_softmax(part, dim=1) for part in logits.split(self.group.choices, dim=1)], dim=1)
        if allowed is None:
            return Choices(log_prob.exp(), log_prob)
        log_prob = torch.where(allowed, log_prob, 0.0)
        return Choices(torch.where(allowed, log_prob.exp(), 0.0), log_prob)

    def targets_of(self, allowed: Tensor | None) -> Tensor | float:
        """Return the target of each row's entropy, which depends on the choices that are allowed unless it is an option."""
        if allowed is None or self.options.target_entropy is not None:
            return self.target_entropy
        counts = torch.stack([part.sum(1) for part in allowed.split(self.group.choices, dim=1)])
        return TARGET_SHARE * counts.clamp(min=1).log().sum(0)


def allowed_choices(group: Group, mask: Tensor | None) -> Tensor | None:
    """Return which of the choices of all entries are allowed, bool (R, C); None allows all.

    Args:
        group: agents.
        mask: bool (R, M), choices of the entries ``group.limited``.
    """
    if mask is None:
        return None
    of_entry = dict(zip(group.limited, mask.split(group.limited_choices, dim=1), strict=True))
    parts = [of_entry.get(entry, mask.new_ones(len(mask), count)) for entry, count in enumerate(group.choices)]
    return torch.cat(parts, dim=1)
