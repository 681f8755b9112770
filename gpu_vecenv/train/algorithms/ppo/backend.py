"""Back ends of PPO, which compute log-probabilities, values and the epochs of an update."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
from gpu_vecenv.train.algorithms.ppo.loss import TERMS, Minibatch, PPOLoss, standardized
from gpu_vecenv.train.algorithms.schedules import DeviceScalars
from gpu_vecenv.train.algorithms.shards import Part, choose_by_shard, shuffle_by_shard
from gpu_vecenv.train.algorithms.shared_gradient import SharedGradient
from gpu_vecenv.train.algorithms.shuffle import Transitions
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.policies.contract import Actor, Evaluated, Inputs, Observation, Policy, wide
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.returns.moments import moments
from gpu_vecenv.train.returns.scan import Advantages
from gpu_vecenv.train.storage.samples import Samples

MAX_CHUNK_ROWS = 1 << 18
"""Most rows in one call of the policy outside minibatches; bounds temporary memory."""


class Backend(ABC):
    """Computes for the PPO of one policy."""

    largest: float = math.inf
    """See ``Algorithm.largest``."""

    def __init__(
        self, policy: Policy, config: PPOConfig, adam: MaskedAdam, shuffles: Tensor, factor: Tensor,
        part: Part = Part(),  # noqa: B008  (a tuple)
    ) -> None:  # fmt: skip
        """Store what an update changes.

        Args:
            policy: the policy to train, on the device.
            config: hyperparameters.
            adam: optimiser of its weights.
            shuffles: int64 (), seed of the next order of minibatches, which an update increases by its epochs.
            factor: float32 (), factor of the learning rate.
            part: what this process has of the samples.
        """
        self.policy, self.config, self.adam, self.shuffles, self.factor = policy, config, adam, shuffles, factor
        self.processes, self.shards = part
        self.shared = None if self.processes is None else SharedGradient(adam.parameters, self.processes)

    def actor(self) -> Actor | None:
        """See ``Algorithm.actor()``."""
        return None

    @abstractmethod
    def renew_log_prob(self, samples: Samples) -> None:
        """Write the log-probabilities that the actions have now into ``samples.log_prob``."""

    @abstractmethod
    def values(self, samples: Samples, final: bool) -> tuple[Tensor, Tensor | None]:
        """Return the values of observations, with the weights that acted in the rollout.

        Args:
            samples: the policy's samples of a rollout.
            final: also return values of final observations, which samples have.

        Returns:
            Values before each step and after the last one, float32 (T + 1, B[, a]), and of final observations, float32
            (T, B[, a]), which may be undefined where ``samples.timed_out`` is False; None for ``final=False``.
        """

    @abstractmethod
    def learn(self, samples: Samples, scalars: DeviceScalars, estimates: Advantages) -> Tensor:
        """Set the learning rate, learn from all minibatches of all epochs, and count them in ``shuffles``.

        Args:
            samples: the policy's samples of a rollout.
            scalars: settings of this update.
            estimates: advantages, targets and values, float32 (T, B[, a]).

        Returns:
            float32, the numbers of ``PPO.metric_names``.
        """


class TorchBackend(Backend):
    """Computes with operations of torch."""

    @torch.no_grad()
    def renew_log_prob(self, samples: Samples) -> None:
        """See ``Backend.renew_log_prob()``."""
        for steps in self._chunks(samples.num_steps, samples):
            inputs = samples.steps(samples.obs, steps, with_mask=True)
            action = samples.action[steps].flatten(0, 1)
            samples.log_prob[steps] = self.policy.evaluate(inputs, action).log_prob.view_as(samples.log_prob[steps])

    def learn(self, samples: Samples, scalars: DeviceScalars, estimates: Advantages) -> Tensor:
        """See ``Backend.learn()``."""
        config, valid, choice = self.config, samples.valid, samples.choice
        self.adam.rate.copy_(scalars.learning_rate * self.factor)
        advantage, target, value = estimates
        # Rows of one array, so that a minibatch takes them in one operation.
        loss_inputs = torch.stack((samples.log_prob, value, advantage, target)).flatten(1, 2)
        mean, var, count = of_choice = moments(loss_inputs[2:].flatten(1).t(), valid.flatten(), self.processes)
        if choice is not None:
            of_choice = moments(loss_inputs[2].view(-1, 1), choice.flatten(), self.processes)
        if config.normalize_advantages == "rollout":
            loss_inputs[2].sub_(of_choice.mean[0]).div_(of_choice.var[0].sqrt() + 1e-8)
        sums, planned_steps = self._epochs(samples, scalars, loss_inputs)
        taken_steps, skipped = sums[-1], planned_steps - sums[-1]
        # Means are NaN, which stands for no value, if no step was taken; those of the policy also if none had a choice.
        steps = taken_steps if choice is None else torch.stack((sums[-2], sums[-1], *[sums[-2]] * 3, sums[-1]))
        means = sums[:-2] / steps
        # The advantage is the target minus the value. Without a transition, count / count is NaN, which stands for no value.
        one = count / count
        explained = torch.addcdiv(one, var[0], var[1] + 1e-8, value=-1.0)
        with_choice = one if choice is None else of_choice.num_samples / count
        size = valid.numel() * (1 if self.processes is None else self.processes.count)
        of_update = (explained, self.adam.rate, count / size, with_choice, taken_steps, skipped)
        return torch.cat((means, torch.stack(of_update))).float()

    def _epochs(self, samples: Samples, scalars: DeviceScalars, loss_inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Learn from all minibatches of all epochs.

        Args:
            samples: the policy's samples of a rollout.
            scalars: settings of this update.
            loss_inputs: float32 (4, T * B[, a]), log-probability, value, advantage and target.

        Returns:
            Sums of ``TERMS`` and of the gradient norm over the steps that were taken, number of those with a choice and of all,
            float32 (8,); number of steps that were planned, float32 ().
        """
        config, valid = self.config, samples.valid
        sums = torch.zeros(len(TERMS) + 3, dtype=torch.float32, device=valid.device)
        one, nothing, planned_steps = torch.ones_like(sums[:1]), torch.zeros_like(sums), torch.zeros_like(sums[0])
        stopped = torch.zeros_like(one, dtype=torch.bool)
        loss = PPOLoss(config, scalars.entropy_coef, scalars.clip_coef)
        places = self.places(samples)
        for epoch in range(config.num_epochs):
            before = sums.clone()
            index, used = shuffle_by_shard(places, config.num_minibatches, self.shuffles, epoch + 1, self.shards)
            here = anywhere = used.any(1)  # minibatches with a transition of this process
            shared: Sequence[SharedNumbers | None] = [None] * config.num_minibatches
            if self.processes is not None:
                anywhere, shared = self._shared_numbers(samples, index, used, loss_inputs, self.processes)
            planned = anywhere & ~stopped
            planned_steps += planned.sum()
            batches = self.minibatches(samples, index, used, loss_inputs, shared)
            for (batch, evaluated), mask, any_here in zip(batches, planned, here, strict=True):
                self.adam.zero_grad()
                terms = loss.backward(evaluated, batch, self.policy.name)
                if self.shared is not None:
                    terms = self.shared.add_up(terms, None if samples.all_valid else any_here)
                norm, taken = self.adam.step(mask)
                with_choice = one if batch.choice is None else self._any_choice(batch)
                sums += torch.where(taken, torch.cat((terms, norm.view(1), with_choice, one)), nothing)
            if config.target_kl is not None and config.learning_rate_schedule != "adaptive":
                added = sums - before
                kl = added[TERMS.index("kl")] / added[-2]  # NaN if the epoch took no step with a choice
                stopped |= kl > config.target_kl
        self.shuffles += config.num_epochs
        return sums, planned_steps

    @staticmethod
    def _any_choice(batch: Minibatch) -> Tensor:
        """Return 1 if a transition of a minibatch has a choice, else 0, float32 (1,)."""
        if batch.totals is not None:
            return (batch.totals[:1] > 0).float()
        return batch.choice.any().float().view(1)  # type: ignore[union-attr]

    def places(self, samples: Samples) -> list[Transitions]:
        """Return what an epoch shuffles into minibatches, by shard: the T * B transitions."""
        valid = samples.valid.flatten(2).any(-1) if samples.valid.dim() > 2 else samples.valid
        return choose_by_shard(valid, samples.all_valid, self.shards)

    def _shared_numbers(
        self, samples: Samples, index: Tensor, used: Tensor, loss_inputs: Tensor, processes: Processes
    ) -> tuple[Tensor, list[SharedNumbers]]:
        """Return which minibatches of an epoch have a transition in any process, bool (M,), and what their parts share."""
        at, counts = self.transitions(samples, index, used)
        advantage = None
        if self.config.normalize_advantages == "minibatch":
            advantage = loss_inputs[2].unflatten(0, samples.reward.shape[:2])[at]
        choice = None if samples.choice is None else samples.choice[at] & counts
        return shared_numbers(advantage, counts, choice, processes)

    def transitions(self, samples: Samples, index: Tensor, used: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Return steps and samples of the transitions of one minibatch or several, int64 (..., b), and those that count, bool."""
        at = samples.place(index)
        return at, used if samples.valid.dim() == 2 else samples.valid[at] & used.unsqueeze(-1)

    def minibatches(
        self, samples: Samples, index: Tensor, used: Tensor, loss_inputs: Tensor, shared: Sequence[SharedNumbers | None]
    ) -> Iterator[tuple[Minibatch, Evaluated]]:
        """Yield the minibatches of an epoch, evaluated with the present weights.

        Args:
            samples: the policy's samples.
            index: int64 (M, b), indices into ``places()`` of each minibatch.
            used: bool (M, b), False for places that fill a minibatch up.
            loss_inputs: float32 (4, T * B[, a]), log-probability, value, advantage and target.
            shared: what each minibatch has in common with its parts in other processes; None: it has no others.
        """
        for chosen, at, use, of_all in zip(index, zip(*samples.place(index), strict=True), used, shared, strict=True):
            batch = self._minibatch(samples, at, use, loss_inputs[:, chosen], of_all)
            yield batch, self.policy.evaluate(batch.inputs, batch.action)

    def values(self, samples: Samples, final: bool) -> tuple[Tensor, Tensor | None]:
        """See ``Backend.values()``."""
        value = self._values(samples, samples.obs, samples.num_steps + 1)
        return value, self._values(samples, cast(Observation, samples.final_obs), samples.num_steps) if final else None

    def _values(self, samples: Samples, obs: Observation, num_steps: int) -> Tensor:
        """Return the values of observations of some steps, float32 (num_steps, B[, a])."""
        chunks = [self.policy.value(samples.steps(obs, steps)) for steps in self._chunks(num_steps, samples)]
        return torch.cat(chunks).view(-1, *samples.reward.shape[1:])

    def _chunks(self, num_steps: int, samples: Samples) -> list[slice]:
        """Return the steps in slices of about MAX_CHUNK_ROWS rows at most."""
        size = max(1, MAX_CHUNK_ROWS // samples.reward[0].numel())
        return [slice(t, min(t + size, num_steps)) for t in range(0, num_steps, size)]

    def _minibatch(
        self, samples: Samples, at: tuple[Tensor, Tensor], used: Tensor, loss_inputs: Tensor, shared: SharedNumbers | None
    ) -> Minibatch:
        """Return some transitions.

        Args:
            samples: the policy's samples.
            at: their steps and samples, each int64 (b,).
            used: bool (b,), False for transitions that fill the minibatch up.
            loss_inputs: float32 (4, b[, a]), log-probability, value, advantage and target.
            shared: see ``minibatches()``.
        """
        inputs, action, counts = samples.chosen(at), samples.action[at], used
        if samples.valid.dim() > 2:  # agents that do not count, in worlds that do, may hold NaN, as in Samples.chosen()
            counts = samples.valid[at] & used.unsqueeze(-1)
            loss_inputs = torch.where(counts, loss_inputs, 0.0)
            action = torch.where(wide(counts, action), action, 0)
        choice = None if samples.choice is None else samples.choice[at]
        return self.minibatch_of(inputs, action, loss_inputs, counts, choice, shared)

    def minibatch_of(
        self, inputs: Inputs, action: Tensor, loss_inputs: Tensor, counts: Tensor, choice: Tensor | None,
        shared: SharedNumbers | None,
    ) -> Minibatch:  # fmt: skip
        """Return a minibatch of transitions that are finite.

        Args:
            inputs: inputs of the policy.
            action: (b, ...), see ``Minibatch``.
            loss_inputs: float32 (4, b), log-probability, value, advantage and target.
            counts: bool (b,), the transitions that count.
            choice: bool (b,), transitions with a choice; None if all have one.
            shared: see ``minibatches()``.
        """
        log_prob, value, advantage, target = loss_inputs
        totals = None if shared is None else shared.totals
        if choice is not None:
            choice = choice & counts
        if self.config.normalize_advantages == "minibatch":
            if shared is None:
                advantage = standardized(advantage, counts if choice is None else choice)
            else:
                advantage = (advantage - shared.mean) / (shared.deviation + 1e-8)
        if choice is not None:  # 0 times an infinite advantage is NaN
            advantage = torch.where(choice, advantage, 0.0)
        return Minibatch(inputs, action, log_prob, value, advantage, target, counts, choice, totals)


class SharedNumbers(NamedTuple):
    """Numbers that are equal in all processes' parts of a minibatch."""

    totals: Tensor
    """See ``Minibatch.totals``."""
    mean: Tensor
    """float32 (), mean of the advantages that count for the policy; 0 if it is not asked for."""
    deviation: Tensor
    """float32 (), their deviation."""


def shared_numbers(
    advantage: Tensor | None, counts: Tensor, choice: Tensor | None, processes: Processes
) -> tuple[Tensor, list[SharedNumbers]]:
    """Return counts and moments of minibatches whose parts are in several processes, by one sum over processes.

    Args:
        advantage: float32 (M, ...), advantages of this process; None: mean and deviation are 0.
        counts: bool (M, ...), those that count.
        choice: bool (M, ...), those with a choice, among those that count; None: all that count have one.
        processes: processes of the run.

    Returns:
        Minibatches with a transition that counts, bool (M,), and the numbers of each.
    """
    counts = counts.flatten(1)
    of_policy = counts if choice is None else choice.flatten(1)
    number = counted = counts.sum(1).double()
    if choice is not None:
        number = of_policy.sum(1).double()
    mean = squares = torch.zeros_like(number)
    if advantage is not None:
        used = torch.where(of_policy, advantage.flatten(1), 0.0).double()
        mean = used.sum(1) / number.clamp(min=1)
        squares = torch.where(of_policy, (used - mean.unsqueeze(1)).square(), 0.0).sum(1)
    each = processes.gathered(torch.stack((number, counted, mean, squares)))
    number, counted, means, squares = each.unbind(1)
    sums = each[:, :2].sum(0).float()
    total = number.sum(0).clamp(min=1)
    mean = (number * means).sum(0) / total
    deviation = ((squares + number * (means - mean).square()).sum(0) / total).sqrt()
    totals = sums[1] if choice is None else torch.stack((sums[0], sums[1], *[sums[0]] * 3), 1)
    return sums[1] > 0, [SharedNumbers(*values) for values in zip(totals, mean.float(), deviation.float(), strict=True)]
