"""Soft actor-critic of one policy whose actions are numbers (Haarnoja et al. 2018, arXiv 1812.05905)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gpu_vecenv.train.algorithms.contract import Setup
from gpu_vecenv.train.algorithms.masked_adam import gradient_scale
from gpu_vecenv.train.algorithms.off_policy.batch import Minibatch
from gpu_vecenv.train.algorithms.off_policy.learner import OffPolicy
from gpu_vecenv.train.config import SACConfig
from gpu_vecenv.train.config.checks import require
from gpu_vecenv.train.policies.actor import ActorPolicy, squashed_outputs


class Temperature:
    """Weight alpha of the entropy, which moves so that the entropy approaches a target."""

    def __init__(self, options: SACConfig, device: torch.device):
        """Start at ``SACConfig.temperature``."""
        self.log = nn.Parameter(torch.full((), math.log(options.temperature), dtype=torch.float32, device=device))

    @property
    def value(self) -> Tensor:
        """Alpha without gradients, float32 ()."""
        return self.log.detach().exp()

    def loss(self, surplus: Tensor) -> Tensor:
        """Return J(alpha) of equation 18 for the mean entropy minus its target, float32 ()."""
        # It is its derivative by the logarithm, too.
        return self.value * surplus.detach()


class SAC(OffPolicy):
    """Critics learn soft values, the policy learns to maximise them, and the temperature holds the entropy at its target."""

    terms = ("critic_loss", "q", "actor_loss", "entropy", "temperature")
    num_normals = 2
    options: SACConfig

    def __init__(self, policy: ActorPolicy, options: SACConfig, setup: Setup):
        """See ``Algorithm``.

        Raises:
            ConfigError: no policy has the entropy ``target_entropy``.
        """
        entries, features = policy.group.num_entries, policy.num_features
        super().__init__(policy, options, setup, 2, features + entries, 1)
        self._add_temperature(options, setup)
        self.target_entropy = self.target_of(-float(entries), entries * math.log(2.0))

    def gradient_step(self, step: int, batch: Minibatch, noise: Tensor) -> tuple[dict[str, Tensor], Tensor | None]:
        """See ``OffPolicy.gradient_step()``."""
        alpha = self.temperature.value
        with torch.no_grad():  # equation 6, with the smaller of two values
            next_action, next_log_prob = squashed_outputs(self.outputs(batch.after.features), noise[0])
            following = self.targets(torch.cat((batch.after.rows, next_action), dim=1))
            target = self.head.target(following, batch.reward, batch.discount, -alpha * next_log_prob)
        terms, error = self.learn_critics(torch.cat((batch.before.rows, batch.action), dim=1), target, batch.weighted, 0.5)
        action, log_prob = squashed_outputs(self.outputs(batch.before.features), noise[1])
        inputs = torch.cat((batch.before.rows, action), dim=1)
        loss, entropy = self.learn_actor(inputs, batch.share, alpha, log_prob)  # equation 7
        self.learn_temperature(entropy - self.target_entropy)
        self.targets.follow(self.critics, self.options.tau * self.gate)
        return {**terms, "actor_loss": loss, "entropy": entropy, "temperature": alpha}, error

    def _add_temperature(self, options: SACConfig, setup: Setup) -> None:
        self.temperature = Temperature(options, setup.device)
        self.adams["temperature"] = self.adam([self.temperature.log], options.temperature_learning_rate or 0.0)

    def target_of(self, usual: float, most: float) -> float:
        """Return the target of the entropy, the option or the usual one.

        Args:
            usual: target without the option.
            most: entropy of uniform random actions; towards a larger target the temperature would grow for ever.

        Raises:
            ConfigError: no policy has the entropy of the option.
        """
        target = self.options.target_entropy
        if target is None:
            return usual
        require(target <= most, "target_entropy", f"at most {most:.4g}, that of uniform random actions", target)
        return target

    def learn_temperature(self, surplus: Tensor) -> None:
        """Take a step of the temperature, if it is learned, for the mean entropy minus its target."""
        if self.options.temperature_learning_rate is not None:
            loss, scale = self.temperature.loss(surplus), gradient_scale(surplus.device)
            self.take_step("temperature", loss, [loss if scale == 1.0 else loss * scale])

    @torch.no_grad()
    def options_changed(self, before: SACConfig) -> None:
        """Start from ``SACConfig.temperature`` if it is another one, or if the temperature is no longer learned."""
        now = self.options
        if now.temperature != before.temperature or now.temperature_learning_rate is None:
            self.temperature.log.fill_(math.log(now.temperature))

    def tensors(self) -> dict[str, Tensor]:
        """See ``OffPolicy.tensors()``."""
        return {**super().tensors(), "log_temperature": self.temperature.log.detach()}
