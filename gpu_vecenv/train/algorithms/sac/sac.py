"""Soft actor-critic of one policy whose actions are numbers (Haarnoja et al. 2018, arXiv 1812.05905)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gpu_vecenv.train.algorithms.contract import Setup
from gpu_vecenv.train.algorithms.off_policy.batch import Minibatch
from gpu_vecenv.train.algorithms.off_policy.learner import OffPolicy
from gpu_vecenv.train.config import SACConfig
from gpu_vecenv.train.policies.actor import ActorPolicy, gaussian, squashed


class Temperature:
    """Weight alpha of the entropy, which moves so that the entropy approaches a target."""

    def __init__(self, options: SACConfig, device: torch.device):
        """Start at ``SACConfig.temperature``."""
        first = torch.full((), math.log(options.temperature), dtype=torch.float32, device=device)
        self.log = nn.Parameter(first, requires_grad=options.temperature_learning_rate is not None)

    @property
    def value(self) -> Tensor:
        """Alpha without gradients, float32 ()."""
        return self.log.detach().exp()

    def loss(self, surplus: Tensor) -> Tensor:
        """Return J(alpha) of equation 18 for the mean entropy minus its target, float32 ()."""
        return self.log.exp() * surplus.detach()


class SAC(OffPolicy):
    """Critics learn soft values, the policy learns to maximise them, and the temperature holds the entropy at its target."""

    terms = ("critic_loss", "q", "actor_loss", "entropy", "temperature")
    num_normals = 2
    options: SACConfig

    def __init__(self, policy: ActorPolicy, options: SACConfig, setup: Setup):
        """See ``Algorithm``."""
        entries, features = policy.group.num_entries, policy.num_features
        super().__init__(policy, options, setup, 2, features + entries, 1)
        self._add_temperature(options, setup)
        self.target_entropy = -float(entries) if options.target_entropy is None else options.target_entropy

    def gradient_step(self, step: int, batch: Minibatch, noise: Tensor) -> tuple[dict[str, Tensor], Tensor | None]:
        """See ``OffPolicy.gradient_step()``."""
        alpha = self.temperature.value
        with torch.no_grad():  # equation 6, with the smaller of two values
            next_action, next_log_prob = squashed(*gaussian(self.policy.outputs(batch.after.features).flatten(0, -2)), noise[0])
            following = self.targets(torch.cat((batch.after.rows, next_action), dim=1))
            target = self.head.target(following, batch.reward, batch.discount, -alpha * next_log_prob)
        terms, error = self.learn_critics(torch.cat((batch.before.rows, batch.action), dim=1), target, batch.weighted, 0.5)
        action, log_prob = squashed(*gaussian(self.policy.outputs(batch.before.features).flatten(0, -2)), noise[1])
        values = self.head.mean(self.critics(torch.cat((batch.before.rows, action), dim=1))).amin(0)
        loss = torch.dot(alpha * log_prob - values, batch.share)  # equation 7
        loss = self.learn("actor", loss)
        entropy = self._total(-torch.dot(log_prob.detach(), batch.share))
        self.learn_temperature(entropy - self.target_entropy)
        self.targets.follow(self.critics, self.options.tau * self.gate)
        return {**terms, "actor_loss": loss, "entropy": entropy, "temperature": alpha}, error

    def _add_temperature(self, options: SACConfig, setup: Setup) -> None:
        self.temperature = Temperature(options, setup.device)
        if options.temperature_learning_rate is not None:
            self.adams["temperature"] = self.adam([self.temperature.log], options.temperature_learning_rate)

    def learn_temperature(self, surplus: Tensor) -> None:
        """Take a step of the temperature, if it is learned, for the mean entropy minus its target."""
        if "temperature" in self.adams:
            self.learn("temperature", self.temperature.loss(surplus))

    def tensors(self) -> dict[str, Tensor]:
        """See ``OffPolicy.tensors()``."""
        return {**super().tensors(), "log_temperature": self.temperature.log.detach()}
