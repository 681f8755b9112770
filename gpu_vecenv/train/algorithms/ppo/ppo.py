"""Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347) of one policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gpu_vecenv.train.algorithms.contract import Algorithm
from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
from gpu_vecenv.train.algorithms.ppo.backend import Backend, TorchBackend
from gpu_vecenv.train.algorithms.ppo.loss import TERMS
from gpu_vecenv.train.algorithms.schedules import DeviceScalars, scalars_at
from gpu_vecenv.train.algorithms.shards import Part
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.policies.contract import Actor, Policy
from gpu_vecenv.train.returns.gae import gae
from gpu_vecenv.train.returns.masks import TransitionMasks
from gpu_vecenv.train.returns.normalize import RewardNorm, share_statistics
from gpu_vecenv.train.returns.scan import Advantages
from gpu_vecenv.train.run_folder.checkpoint import require_same_form
from gpu_vecenv.train.storage.samples import Samples

ADAPTIVE_STEP, ADAPTIVE_RANGE = 1.5, (1e-6, 1e-2)
"""Factor of one change of the adaptive learning rate, and its bounds (Rudin et al. 2022, arXiv 2109.11978, and rsl_rl). A rate of
the start beyond a bound is the bound instead."""


class PPO(Algorithm):
    """Advantages, then epochs of minibatches over the transitions that count.

    With one epoch of one minibatch the ratio is 1 and the update is that of A2C.
    """

    metric_names = (
        *TERMS, "grad_norm", "explained_variance", "learning_rate", "valid_fraction", "choice_fraction", "updates",
        "skipped",
    )  # fmt: skip
    sums_over_processes = takes_shards = True
    of_worlds = ("reward_norm/running_return",)

    def __init__(
        self,
        policy: Policy,
        config: PPOConfig,
        shape: tuple[int, ...],
        seed: int,
        device: torch.device,
        backend: Callable[..., Backend] = TorchBackend,
        schedule_steps: int = 1,
        part: Part = Part(),  # noqa: B008  (a tuple)
    ):
        """Set up the optimiser.

        Args:
            policy: the policy to train, on the device.
            config: hyperparameters.
            shape: shape of a step's samples, (B,) or (B, a).
            seed: int64 seed of the order of minibatches.
            device: device of the samples.
            backend: what computes, made from the arguments of ``Backend``.
            schedule_steps: steps of the run after which schedules are at their end.
            part: what this process has of the samples.
        """
        self.policy, self.config = policy, config
        self.adam = MaskedAdam(policy.parameters(), config.max_grad_norm)
        self.reward_norm = RewardNorm(shape, config.gamma).to(device) if config.normalize_rewards else None
        if self.reward_norm is not None:
            share_statistics(self.reward_norm, part.processes)
        self.shuffles = torch.tensor(seed, dtype=torch.int64, device=device)
        self.factor = torch.ones((), dtype=torch.float32, device=device)
        self.schedule_steps = schedule_steps
        self.backend = backend(policy, config, self.adam, self.shuffles, self.factor, part=part)
        self.largest = self.backend.largest
        low, high = ADAPTIVE_RANGE
        self.adaptive_range = min(low, config.learning_rate), max(high, config.learning_rate)

    def actor(self) -> Actor | None:
        """See ``Algorithm.actor()``."""
        return self.backend.actor()

    def evaluation_actor(self) -> Actor | None:
        """Return the actor of rollouts, so that evaluations have the same arithmetic."""
        return self.actor()

    def scalars_at(self, steps: int) -> Sequence[float]:
        """Return learning rate, entropy weight and clip range."""
        return scalars_at(self.config, steps, self.schedule_steps)

    def begin(self, samples: Samples) -> None:
        """Evaluate the first rollout's actions again, because the running statistics of observations have changed since.

        The first statistics change what the networks read so much that ratios to the old log-probabilities would mean nothing.
        """
        self.backend.renew_log_prob(samples)

    def update(self, samples: Samples, scalars: tuple[Tensor, ...]) -> Tensor:
        """See ``Algorithm.update()``."""
        settings = DeviceScalars(*scalars)
        metrics = self.backend.learn(samples, settings, self._advantages(samples))
        self._adapt(metrics[TERMS.index("kl")], settings.learning_rate)
        return metrics

    @torch.no_grad()
    def _advantages(self, samples: Samples) -> Advantages:
        """Return advantage, value target and value, each float32 (T, B[, a]); 0 for transitions that do not count."""
        config = self.config
        masks = TransitionMasks(samples.valid, samples.episode_end, samples.timed_out, samples.ended)
        if self.reward_norm is not None:
            self.reward_norm.update(samples.reward, masks.valid, masks.episode_end)
        final = config.bootstrap_at_time_limit and samples.final_obs is not None
        value, final_value = self.backend.values(samples, bool(final))
        scale = None if self.reward_norm is None else self.reward_norm.scale
        return gae(samples.reward, value, final_value, masks, config.gamma, config.gae_lambda, scale)

    def _adapt(self, kl: Tensor, base_rate: Tensor) -> None:
        """Change the factor of an adaptive rate: down if the KL divergence is over twice its target, up if under half of it."""
        target = self.config.target_kl
        if self.config.learning_rate_schedule != "adaptive" or target is None:
            return
        change = torch.where(kl > 2.0 * target, 1.0 / ADAPTIVE_STEP, torch.where(kl < 0.5 * target, ADAPTIVE_STEP, 1.0))
        rate = (self.factor * base_rate * change).clamp(*self.adaptive_range)
        self.factor.copy_(rate / base_rate)

    def state_dict(self) -> dict[str, Any]:
        """Return Adam's moments, the reward scale, the number of shuffles and the factor of the learning rate."""
        return {
            "adam": self.adam.state_dict(),
            "reward_norm": None if self.reward_norm is None else self.reward_norm.state_dict(),
            "deals": self.shuffles.clone(),
            "factor": self.factor.clone(),
        }

    def load_state_dict(self, state: dict[str, Any], where: str) -> None:
        """See ``Algorithm.load_state_dict()``."""
        expected = self.state_dict()
        if isinstance(state, dict) and state.get("adam") != {}:  # empty before the first update
            expected["adam"] = self.adam.like()
        require_same_form(state, expected, where)
        self.adam.load_state_dict(state["adam"], f"{where}/adam")
        if self.reward_norm is not None:
            self.reward_norm.load_state_dict(state["reward_norm"])
        self.shuffles.copy_(state["deals"])
        if self.config.learning_rate_schedule == "adaptive":  # the other schedules have no factor
            self.factor.copy_(state["factor"])

    def options_changed(self, before: PPOConfig) -> None:
        """See ``Algorithm.options_changed()``."""
        if before.learning_rate != self.config.learning_rate:
            self.factor.fill_(1.0)
        if before.gamma != self.config.gamma and self.reward_norm is not None:
            self.reward_norm.reset()
