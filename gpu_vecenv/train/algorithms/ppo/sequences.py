"""PPO of policies with a state: minibatches are sequences of steps, along which the policy runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor

from gpu_vecenv.train.algorithms.ppo.backend import SharedNumbers, TorchBackend
from gpu_vecenv.train.algorithms.ppo.loss import Minibatch
from gpu_vecenv.train.algorithms.shards import choose_by_shard
from gpu_vecenv.train.algorithms.shuffle import Transitions
from gpu_vecenv.train.policies.contract import Evaluated, Observation, wide
from gpu_vecenv.train.storage.samples import Samples


class RecurrentBackend(TorchBackend):
    """Learns from sequences, whole rollouts of samples or segments of ``PPOConfig.sequence_length`` steps.

    Before an update learns, the policy runs along the rollout with the weights that acted. That gives the values of all
    observations and the states from which segments start. Gradients flow through the states inside a sequence, and not beyond
    its start, where an episode ends, or where an agent leaves.

    Attributes:
        starts: states before the first step of each sequence, float32 (T / L * B[, a], *state_shape), by ``values()``.
    """

    starts: Tensor

    @torch.no_grad()
    def renew_log_prob(self, samples: Samples) -> None:
        """See ``Backend.renew_log_prob()``."""
        for steps, evaluated, _, _ in self._along(samples):
            log_prob = samples.log_prob[steps]
            log_prob.copy_(torch.where(samples.valid[steps], evaluated.log_prob, log_prob))

    @torch.no_grad()
    def values(self, samples: Samples, final: bool) -> tuple[Tensor, Tensor | None]:
        """See ``Backend.values()``; also sets ``starts``."""
        num_steps, length = samples.num_steps, self._length(samples)
        value, final_value, starts = [], [], [cast(Tensor, samples.state)[None]]
        last = starts[0]
        for steps, evaluated, after, begun in self._along(samples):
            value.append(evaluated.value)
            if final:  # the episode that ends with a step goes on in its value, so its state is not forgotten
                inputs = samples.steps(cast(Observation, samples.final_obs), steps, state=after)
                final_value.append(self.policy.value(inputs).view_as(evaluated.value))
            starts.append(begun[length - 1 - steps.start % length :: length])
            last = begun[-1:]
        at_end = self.policy.value(samples.steps(samples.obs, slice(num_steps, num_steps + 1), state=last))
        self.starts = torch.cat(starts)[:-1].flatten(0, 1)  # the last one belongs to the next rollout
        return torch.cat((*value, at_end.view_as(value[0][:1]))), torch.cat(final_value) if final else None

    def _along(self, samples: Samples) -> Iterator[tuple[slice, Evaluated, Tensor, Tensor]]:
        """Run the policy along the rollout, in parts of about ``MAX_CHUNK_ROWS`` rows at most.

        Yields:
            The steps of a part, S of them; their evaluations; the states after each, float32 (S, B[, a], *state_shape); and the
            same where states of episodes and lives that end are zeros, as before the next step.
        """
        sample = torch.arange(samples.reward.shape[1], dtype=torch.int64, device=samples.reward.device)
        state = cast(Tensor, samples.state)
        for steps in self._chunks(samples.num_steps, samples):
            sequences = samples.sequences((torch.full_like(sample, steps.start), sample), steps.stop - steps.start)
            evaluated, after = self.policy.evaluate_sequence(*sequences, state)
            begun = torch.where(wide(samples.episode_end[steps], after), 0.0, after)
            yield steps, evaluated, after, begun
            state = begun[-1]

    def _length(self, samples: Samples) -> int:
        """Return L, the steps of a sequence."""
        return self.config.sequence_length or samples.num_steps

    def places(self, samples: Samples) -> list[Transitions]:
        """Return what an epoch shuffles into minibatches, by shard: the T / L * B sequences, by segment and sample."""
        valid = samples.valid.unflatten(0, (-1, self._length(samples))).any(1)
        return choose_by_shard(valid.flatten(2).any(-1) if valid.dim() > 2 else valid, samples.all_valid, self.shards)

    def transitions(self, samples: Samples, index: Tensor, used: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """See ``TorchBackend.transitions()``; the arrays are (..., L, b)."""
        length = self._length(samples)
        within = torch.arange(length, dtype=torch.int64, device=index.device).unsqueeze(1)
        segments, places = (x.unsqueeze(-2) for x in samples.place(index))
        steps, use = segments * length + within, used.unsqueeze(-2)
        at = steps, places.expand_as(steps)
        return at, samples.valid[at] & (use if samples.valid.dim() == 2 else use.unsqueeze(-1))

    def minibatches(
        self, samples: Samples, index: Tensor, used: Tensor, loss_inputs: Tensor, shared: Sequence[SharedNumbers | None]
    ) -> Iterator[tuple[Minibatch, Evaluated]]:
        """Yield the minibatches of an epoch, see ``TorchBackend.minibatches()``; their arrays are (L, b[, a])."""
        length, loss_inputs = self._length(samples), loss_inputs.unflatten(1, samples.reward.shape[:2])
        for chosen, use, of_all in zip(index, used, shared, strict=True):
            at, counts = self.transitions(samples, chosen, use)
            sequences = samples.sequences((at[0][0], at[1][0]), length)
            choice = None if samples.choice is None else samples.choice[at]
            finite = torch.where(counts, loss_inputs[:, at[0], at[1]], 0.0)
            batch = self.minibatch_of(sequences.inputs, sequences.action, finite, counts, choice, of_all)
            yield batch, self.policy.evaluate_sequence(*sequences, self.starts[chosen])[0]
