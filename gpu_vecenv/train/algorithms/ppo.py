"""Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347) of one policy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gpu_vecenv.train.algorithms.contract import Algorithm, DeviceScalars
from gpu_vecenv.train.algorithms.deal import choose, deal
from gpu_vecenv.train.algorithms.gated_adam import GatedAdam
from gpu_vecenv.train.algorithms.loss import TERMS, Minibatch, PPOLoss, standardized
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.contract import Observation, Policy
from gpu_vecenv.train.returns.gae import gae
from gpu_vecenv.train.returns.masks import TransitionMasks
from gpu_vecenv.train.returns.moments import moments
from gpu_vecenv.train.returns.normalize import RewardNorm
from gpu_vecenv.train.returns.scan import Advantages
from gpu_vecenv.train.run_folder.checkpoint import require_same_form
from gpu_vecenv.train.storage.samples import Samples

MAX_CHUNK_ROWS = 1 << 18
"""Most rows in one call of the policy outside minibatches; bounds temporary memory."""

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

    def __init__(self, policy: Policy, config: PPOConfig, shape: tuple[int, ...], seed: int, device: torch.device):
        """Set up the optimiser.

        Args:
            policy: the policy to train, on the device.
            config: hyperparameters.
            shape: shape of a step's samples, (B,) or (B, a).
            seed: int64 seed of the order of minibatches.
            device: device of the samples.

        Raises:
            ConfigError: the policy has a state. Minibatches of transitions would take them as independent of earlier steps.
        """
        if policy.state_shape is not None:
            raise ConfigError(
                f"policy {policy.name!r}: PPO learns from single transitions; expected a policy without a state, or an algorithm "
                f"that learns from sequences, got a state of {policy.state_shape}"
            )
        self.policy, self.config = policy, config
        self.adam = GatedAdam(policy.parameters(), config.max_grad_norm)
        self.reward_norm = RewardNorm(shape, config.gamma).to(device) if config.normalize_rewards else None
        self.deals = torch.tensor(seed, dtype=torch.int64, device=device)
        self.factor = torch.ones((), dtype=torch.float32, device=device)
        low, high = ADAPTIVE_RANGE
        self.adaptive_range = min(low, config.learning_rate), max(high, config.learning_rate)

    @torch.no_grad()
    def begin(self, samples: Samples) -> None:
        """Evaluate the first rollout's actions again, because the running statistics of observations have changed since.

        The first statistics change what the networks read so much that ratios to the old log-probabilities would mean nothing.
        """
        for steps in self._chunks(samples.num_steps, samples):
            inputs = samples.steps(samples.obs, steps, with_mask=True)
            action = samples.action[steps].flatten(0, 1)
            samples.log_prob[steps] = self.policy.evaluate(inputs, action).log_prob.view_as(samples.log_prob[steps])

    def update(self, samples: Samples, scalars: DeviceScalars) -> Tensor:
        """See ``Algorithm.update()``."""
        config, valid, choice = self.config, samples.valid, samples.choice
        self.adam.rate.copy_(scalars.learning_rate * self.factor)
        advantage, target, value = self._advantages(samples)
        # Rows of one array, so that a minibatch takes them in one operation.
        numbers = torch.stack((samples.log_prob, value, advantage, target)).flatten(1, 2)
        found = moments(numbers[2:].flatten(1).t(), valid.flatten())
        mean, var, count = of_choice = found
        if choice is not None:
            of_choice = moments(numbers[2].view(-1, 1), choice.flatten())
        if config.normalize_advantages == "rollout":
            numbers[2].sub_(of_choice.mean[0]).div_(of_choice.var[0].sqrt() + 1e-8)
        sums, wanted_steps = self._epochs(samples, scalars, numbers)
        taken_steps, skipped = sums[-1], wanted_steps - sums[-1]
        # Means are NaN, which stands for no value, if no step was taken; those of the policy also if none had a choice.
        steps = taken_steps if choice is None else torch.stack((sums[-2], sums[-1], *[sums[-2]] * 3, sums[-1]))
        means = sums[:-2] / steps
        self._adapt(means[TERMS.index("kl")], scalars.learning_rate)
        # The advantage is the target minus the value. Without a transition, count / count is NaN, which stands for no value.
        one = count / count
        explained = torch.addcdiv(one, var[0], var[1] + 1e-8, value=-1.0)
        with_choice = one if choice is None else of_choice.num_samples / count
        others = (explained, self.adam.rate, count / valid.numel(), with_choice, taken_steps, skipped)
        return torch.cat((means, torch.stack(others))).float()

    def _epochs(self, samples: Samples, scalars: DeviceScalars, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Learn from all minibatches of all epochs.

        Args:
            samples: the policy's samples of a rollout.
            scalars: settings of this update.
            numbers: float32 (4, T * B[, a]), log-probability, value, advantage and target.

        Returns:
            Sums of ``TERMS`` and of the gradient norm over the steps that were taken, number of those with a choice and of all,
            float32 (8,); number of steps that were wanted, float32 ().
        """
        config, valid = self.config, samples.valid
        sums = torch.zeros(len(TERMS) + 3, dtype=torch.float32, device=valid.device)
        one, nothing, wanted_steps = torch.ones_like(sums[:1]), torch.zeros_like(sums), torch.zeros_like(sums[0])
        stopped = torch.zeros_like(one, dtype=torch.bool)
        loss = PPOLoss(config, scalars.entropy_coef, scalars.clip_coef)
        counted = valid.flatten(2).any(-1) if valid.dim() > 2 else valid
        transitions = choose(counted.flatten(), samples.all_valid)
        for epoch in range(config.num_epochs):
            before = sums.clone()
            index, used = deal(transitions, config.num_minibatches, self.deals, epoch + 1)
            wanted = used.any(1) & ~stopped
            wanted_steps += wanted.sum()
            for chosen, at, use, open_gate in zip(index, zip(*samples.place(index), strict=True), used, wanted, strict=True):
                batch = self._minibatch(samples, at, use, numbers[:, chosen])
                self.adam.zero_grad()
                terms = loss.backward(self.policy, batch)
                norm, taken = self.adam.step(open_gate)
                with_choice = one if batch.choice is None else batch.choice.any().float().view(1)
                sums += torch.where(taken, torch.cat((terms, norm.view(1), with_choice, one)), nothing)
            if config.target_kl is not None and config.learning_rate_schedule != "adaptive":
                added = sums - before
                kl = added[TERMS.index("kl")] / added[-2]  # NaN if the epoch took no step with a choice
                stopped |= kl > config.target_kl
        self.deals += config.num_epochs
        return sums, wanted_steps

    @torch.no_grad()
    def _advantages(self, samples: Samples) -> Advantages:
        """Return advantage, value target and value, each float32 (T, B[, a]); 0 for transitions that do not count."""
        config = self.config
        masks = TransitionMasks(samples.valid, samples.cut, samples.timed_out, samples.ended)
        if self.reward_norm is not None:
            self.reward_norm.update(samples.reward, masks.valid, masks.cut)
        value = self._values(samples, samples.obs)
        final_value = None
        if config.bootstrap_at_time_limit and samples.final_obs is not None:
            final_value = self._values(samples, samples.final_obs, samples.timed_out)
        scale = None if self.reward_norm is None else self.reward_norm.scale
        return gae(samples.reward, value, final_value, masks, config.gamma, config.gae_lambda, scale)

    def _values(self, samples: Samples, obs: Observation, wanted: Tensor | None = None) -> Tensor:
        """Return the values of observations, float32 (S, B[, a]).

        Args:
            samples: the policy's samples of a rollout.
            obs: observations of S steps.
            wanted: bool (S, B[, a]), False for values that nobody reads and that may be undefined; None: all are wanted.
        """
        own = obs["own"] if isinstance(obs, dict) else obs
        chunks = [self.policy.value(samples.steps(obs, steps)) for steps in self._chunks(len(own), samples)]
        return torch.cat(chunks).view(-1, *samples.reward.shape[1:])

    def _chunks(self, num_steps: int, samples: Samples) -> list[slice]:
        """Return the steps in slices of about MAX_CHUNK_ROWS rows at most."""
        size = max(1, MAX_CHUNK_ROWS // samples.reward[0].numel())
        return [slice(t, min(t + size, num_steps)) for t in range(0, num_steps, size)]

    def _minibatch(self, samples: Samples, at: tuple[Tensor, Tensor], used: Tensor, numbers: Tensor) -> Minibatch:
        """Return some transitions.

        Args:
            samples: the policy's samples.
            at: their steps and samples, each int64 (b,).
            used: bool (b,), False for transitions that fill the minibatch up.
            numbers: float32 (4, b[, a]), log-probability, value, advantage and target.
        """
        inputs, action, counts = samples.chosen(at), samples.action[at], used
        choice = None if samples.choice is None else samples.choice[at]
        if samples.valid.dim() > 2:  # agents that do not count, in worlds that do, may hold NaN, as in Samples.chosen()
            counts = samples.valid[at] & used.unsqueeze(-1)
            numbers = torch.where(counts, numbers, 0.0)
            action = torch.where(counts.view(*counts.shape, *[1] * (action.dim() - counts.dim())), action, 0)
        log_prob, value, advantage, target = numbers
        if choice is not None:
            choice = choice & counts
        if self.config.normalize_advantages == "minibatch":
            advantage = standardized(advantage, counts if choice is None else choice)
        if choice is not None:  # those of others may be too large to be multiplied by 0
            advantage = torch.where(choice, advantage, 0.0)
        return Minibatch(inputs, action, log_prob, value, advantage, target, counts, choice)

    def _adapt(self, kl: Tensor, base_rate: Tensor) -> None:
        """Change the factor of an adaptive rate: down if the KL divergence is over twice its target, up if under half of it."""
        target = self.config.target_kl
        if self.config.learning_rate_schedule != "adaptive" or target is None:
            return
        change = torch.where(kl > 2.0 * target, 1.0 / ADAPTIVE_STEP, torch.where(kl < 0.5 * target, ADAPTIVE_STEP, 1.0))
        rate = (self.factor * base_rate * change).clamp(*self.adaptive_range)
        self.factor.copy_(rate / base_rate)

    def state_dict(self) -> dict[str, Any]:
        """Return Adam's moments, the reward scale, the number of deals and the factor of the learning rate."""
        return {
            "adam": self.adam.state_dict(),
            "reward_norm": None if self.reward_norm is None else self.reward_norm.state_dict(),
            "deals": self.deals.clone(),
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
        self.deals.copy_(state["deals"])
        if self.config.learning_rate_schedule == "adaptive":  # the other schedules have no factor
            self.factor.copy_(state["factor"])

    def options_changed(self, before: PPOConfig) -> None:
        """See ``Algorithm.options_changed()``."""
        if before.learning_rate != self.config.learning_rate:
            self.factor.fill_(1.0)
        if before.gamma != self.config.gamma and self.reward_norm is not None:
            self.reward_norm.reset()
