"""PPO of a GRU with kernels of its own: ``kernels/learner/gru_update.cu``."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from gpu_vecenv.backend.source import Program
from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
from gpu_vecenv.train.algorithms.shards import choose_by_shard, places_of_minibatch
from gpu_vecenv.train.algorithms.shuffle import Transitions
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.fused.kernels import UpdateKernels, empty_halves, is_addressed_by_rows, multiprocessors, slab
from gpu_vecenv.train.fused.recurrent_act import FusedRecurrentPolicy, gru_layers
from gpu_vecenv.train.fused.recurrent_plan import RecurrentSizes, recurrent_update_program
from gpu_vecenv.train.fused.split import CPU_SLICES
from gpu_vecenv.train.fused.tile_plan import GROUP_ROWS
from gpu_vecenv.train.fused.update import FusedBackend
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.storage.samples import Samples

PARTS = 4
"""Parts of the gradient of a GRU that blocks sum apart: derivatives by r, z, n and by what r multiplies."""


class RecurrentKernels(UpdateKernels):
    """Kernels for one policy and one size of minibatches of sequences.

    Attributes:
        stash: 16-bit numbers of all steps of a minibatch between the kernels, see ``RecurrentSizes.stash_columns``.
    """

    sizes: RecurrentSizes

    def __init__(
        self, policy: ActorCritic, sizes: RecurrentSizes, config: PPOConfig, adam: MaskedAdam, num_rows: int, alone: bool = True,
        processes: Processes | None = None,
    ) -> None:  # fmt: skip
        """Allocate the arrays; see ``UpdateKernels``. Rows are sequences."""
        self._length = config.sequence_length or config.num_steps
        super().__init__(policy, sizes, config, adam, num_rows, alone, processes)
        room = stash_rows(self.sizes, num_rows, self._length)
        self.stash = empty_halves(self.sizes.stash_columns * room, device=self.device).zero_()
        slices = CPU_SLICES
        if self.device.type == "cuda":
            slices = max(1, multiprocessors(self.device) * self.sizes.update_memory.resident // PARTS)
        slices = min(slices, self.args.actor_blocks)
        self.call.set(room=room, slices=slices, stash=self.stash, length=self._length, segment=self._length)

    def _program(self) -> Program:
        return recurrent_update_program(self.sizes)

    def _layers(self) -> tuple[list[tuple[Tensor, Tensor]], list[tuple[Tensor, Tensor]]]:
        *actor, critic = gru_layers(self.policy)
        return actor, [critic]

    def begin(self) -> None:
        """See ``UpdateKernels.begin()``; kernels find all layers in one list."""
        super().begin()
        self.args.layers[0][-1] = self.args.layers[1][0]

    def gradient(self, samples: Tensor, minibatch: int = 0) -> None:
        """See ``UpdateKernels.gradient()``.

        Args:
            samples: int32 (b,), sequences of the minibatch, -1 for rows that fill it up.
            minibatch: number of the minibatch in the update.
        """
        self.call.set(samples=samples, minibatch=minibatch)
        shared_bytes, work = self.sizes.update_memory.shared_bytes, self._rows * self._length
        self.call.launch("gv_gru_gradient", self.args.actor_blocks, work, shared_bytes)
        self.call.launch("gv_gru_sums", PARTS * self.args.slices, work, shared_bytes)

    def walk(
        self, samples: Samples, starts: Tensor, log_prob: Tensor | None = None, final: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Go through a rollout with the present weights.

        Args:
            samples: the policy's samples, to which ``FusedBackend.prepared()`` has pointed.
            starts: float32 (T / L * B, H), gets the states before the first steps of segments.
            log_prob: float32 (T, B), gets the log-probabilities of the actions; None: they are not wanted.
            final: also return values of final observations.

        Returns:
            Values, float32 (T + 1, B), and of final observations where ``samples.timed_out``, float32 (T, B). Others are 0, also
            those of transitions that do not count.
        """
        steps, width = samples.valid.shape
        value, final_value = torch.zeros(2 * steps + 1, width, dtype=torch.float32, device=self.device).split((steps + 1, steps))
        obs = samples.final_obs if final else None
        if isinstance(obs, Tensor):
            obs = obs if is_addressed_by_rows(obs) else obs.contiguous()
            self.call.set(final_obs=slab(obs))
        self.call.set(
            samples=None, state=samples.state, starts=starts, value=value, final_value=final_value, log_prob=log_prob,
            timed_out=samples.timed_out.contiguous() if final else None,
        )  # fmt: skip
        self._final_obs = obs  # a queued kernel reads it
        self.args.rows, self.args.length = width, steps
        self.call.launch("gv_walk", -(-width // GROUP_ROWS), steps * width, self.sizes.update_memory.shared_bytes)
        self.args.rows, self.args.length = self._rows, self._length
        return value, final_value


class FusedRecurrentBackend(FusedBackend):
    """PPO of a GRU, with the meaning of ``RecurrentBackend``; its results differ from torch's by rounding to 16 bits.

    Attributes:
        starts: states before the first step of each sequence, float32 (T / L * B, H), by ``values()``.
    """

    sizes: RecurrentSizes
    starts: Tensor

    def new_actor(self, alone: bool) -> FusedRecurrentPolicy:
        """See ``FusedBackend.new_actor()``."""
        return FusedRecurrentPolicy(cast(ActorCritic, self.policy), self.sizes, self.shuffles.device, alone)

    def new_kernels(self, samples: Samples) -> RecurrentKernels:
        """See ``FusedBackend.new_kernels()``."""
        sequences = places_of_minibatch(self._sequences(samples), self.config.num_minibatches, self.shards)
        policy = cast(ActorCritic, self.policy)
        return RecurrentKernels(policy, self.sizes, self.config, self.adam, sequences, self.fused.alone, self.processes)

    def prepared(self, samples: Samples) -> RecurrentKernels:
        """See ``FusedBackend.prepared()``."""
        kernels = cast(RecurrentKernels, super().prepared(samples))
        valid = None if samples.all_valid else samples.valid.contiguous()
        kernels.call.set(valid=valid, episode_end=samples.episode_end.contiguous())
        return kernels

    @torch.no_grad()
    def renew_log_prob(self, samples: Samples) -> None:
        """See ``Backend.renew_log_prob()``."""
        log_prob = torch.empty_like(samples.log_prob, memory_format=torch.contiguous_format)
        self.prepared(samples).walk(samples, self._new_starts(samples), log_prob)
        samples.log_prob.copy_(torch.where(samples.valid, log_prob, samples.log_prob))

    @torch.no_grad()
    def values(self, samples: Samples, final: bool) -> tuple[Tensor, Tensor | None]:
        """See ``Backend.values()``; also sets ``starts``."""
        self.starts = self._new_starts(samples)
        value, final_value = self.prepared(samples).walk(samples, self.starts, final=final)
        return value, final_value if final else None

    def places(self, samples: Samples) -> list[Transitions]:
        """Return what an epoch shuffles into minibatches, by shard: the T / L * B sequences, by segment and sample."""
        valid = samples.valid.unflatten(0, (-1, self._length(samples))).any(1)
        return choose_by_shard(valid, samples.all_valid, self.shards)

    def transitions(self, samples: Samples, shuffled: Tensor) -> Tensor:
        """See ``FusedBackend.transitions()``."""
        length, width = self._length(samples), samples.valid.shape[1]
        sequence = shuffled.clamp(min=0).long().unsqueeze(-1)
        step = sequence // width * length + torch.arange(length, dtype=torch.int64, device=shuffled.device)
        chosen = step * width + sequence % width
        counts = (shuffled >= 0).unsqueeze(-1) & samples.valid.flatten()[chosen]
        return torch.where(counts, chosen, -1).int().flatten(2)

    def _length(self, samples: Samples) -> int:
        """Return L, the steps of a sequence."""
        return self.config.sequence_length or samples.num_steps

    def _sequences(self, samples: Samples) -> int:
        return samples.valid.numel() // self._length(samples)

    def _new_starts(self, samples: Samples) -> Tensor:
        return torch.empty(self._sequences(samples), self.sizes.hidden[0], dtype=torch.float32, device=self.shuffles.device)


def stash_rows(sizes: RecurrentSizes, sequences: int, length: int) -> int:
    """Return the rows of the arrays between kernels: whole tiles of sequences, and of their steps."""
    steps = sizes.rows // GROUP_ROWS
    return -(-sequences // GROUP_ROWS) * GROUP_ROWS * -(-length // steps) * steps
