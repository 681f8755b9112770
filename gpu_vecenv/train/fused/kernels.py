"""Launches of the kernels of an update: the gradient of a minibatch, the sum over blocks, and the step of Adam."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, cast

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.source import Program
from gpu_vecenv.backend.trainer_programs import SLAB
from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.fused.tile_plan import ADAM_COLUMNS, REDUCED, Sizes, update_program
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.policies.networks import FeedForward
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.returns.normalize import RunningNorm

CPU_BLOCKS = 8
"""Blocks of a network on the CPU. Sums depend on it and not on the number of threads, so results do not either."""

SMALL_BYTES = 4096
"""Shared memory of a block of the kernels after the gradient."""


class UpdateKernels:
    """The kernels for one policy and one size of minibatches, and the arrays that they work on.

    Attributes:
        partial: float32, gradient of each block, the actor's first.
        sums: float32 (columns,), sums over rows: gradient and terms of the actor, then of the critic.
        totals: float32 (9,), sums of ``TERMS``, gradient norm and 1 over the steps taken; number of steps that were wanted, and
            of steps taken with a choice.
        stopped: int32, a flag for each epoch, and one more: no step may be taken in it.
        steps: float32, Adam's steps before each minibatch, and after the last one.
        work: float32, totals, steps and other sums; an update begins with zeros, but for the first number of steps.
        scales: float32 (2,), powers of two that multiply derivatives in 16 bits, of the actor and of the critic.
        moments: float32 (2,), mean of the advantages that is subtracted, and the factor after it.
    """

    def __init__(
        self, policy: ActorCritic, sizes: Sizes, config: PPOConfig, adam: MaskedAdam, num_rows: int, alone: bool = True,
        processes: Processes | None = None,
    ) -> None:  # fmt: skip
        """Allocate the arrays.

        Args:
            policy: fits the sizes, see ``fused_sizes()``.
            sizes: sizes of its networks.
            config: hyperparameters.
            adam: optimiser of the policy's parameters.
            num_rows: b, rows of a minibatch.
            alone: no other run uses the GPU.
            processes: processes of the run, over which ``reduce()`` adds up; None: this one alone.
        """
        device = adam.rate.device
        sizes = dataclasses.replace(sizes.of_update, alone=self._are_few(sizes, num_rows, device, alone))
        self.policy, self.sizes, self.adam, self.device = policy, sizes, adam, device
        self._rows, self._processes = num_rows, processes
        columns = sizes.actor_columns + sizes.critic_columns
        self._reduce_teams = -(-columns // REDUCED)
        self._adam_teams = -(-columns // ADAM_COLUMNS) + 1  # one more adds to the totals
        blocks = self._blocks()
        self._make_arrays(config, blocks * columns, (1 + sizes.may_lack_choice) * self._reduce_teams)
        self.call = self._prepared_call(config, blocks)
        self.args = self.call.args

    def _make_arrays(self, config: PPOConfig, partial: int, squares: int) -> None:
        """Allocate the arrays, with so many numbers of partial sums and of squares."""
        minibatches, columns = config.num_epochs * config.num_minibatches, self.sizes.actor_columns + self.sizes.critic_columns
        counts = (partial, columns, squares, 9 + 2 + minibatches + 1)
        sums_and_work = [torch.zeros(count, dtype=torch.float32, device=self.device) for count in counts]
        self.partial, self.sums, self.squares, self.work = sums_and_work
        self.totals, self._epoch_start, self.steps = self.work.split((9, 2, minibatches + 1))
        self.stopped = torch.zeros(config.num_epochs + 1, dtype=torch.int32, device=self.device)
        self.scales = torch.ones(2, dtype=torch.float32, device=self.device)
        self.moments = torch.tensor([0.0, 1.0], dtype=torch.float32, device=self.device)

    def _settings(self, config: PPOConfig) -> dict[str, Any]:
        """Return the arguments of the loss and of the optimiser, and the arrays of this object that all kernels have."""
        stops = config.target_kl is not None and config.learning_rate_schedule != "adaptive"
        return {
            "clip_value": config.clip_value, "value_coef": config.value_coef, "max_grad_norm": config.max_grad_norm,
            "eps": self.adam.eps, "target_kl": config.target_kl if stops else math.inf, "moments": self.moments,
            "rate": self.adam.rate, "partial": self.partial, "sums": self.sums, "squares": self.squares, "totals": self.totals,
            "epoch_start": self._epoch_start, "stopped": self.stopped, "steps": self.steps,
        }  # fmt: skip

    @staticmethod
    def _are_few(sizes: Sizes, num_rows: int, device: torch.device, alone: bool) -> bool:
        """True if a GPU has a multiprocessor for each tile of all networks, or two if several runs share it."""
        needed_multiprocessors = (1 if alone else 2) * sizes.num_networks * -(-num_rows // sizes.tile_rows)
        return device.type == "cuda" and needed_multiprocessors <= multiprocessors(device)

    def _blocks(self) -> int:
        """Return the blocks of one network: one for each tile, or its share of those that the GPU holds at a time."""
        tiles = -(-self._rows // self.sizes.tile_rows)
        if self.device.type == "cpu":
            return min(tiles, CPU_BLOCKS)
        return min(tiles, max(1, multiprocessors(self.device) * self.sizes.update_memory.resident // self.sizes.sharing))

    def _program(self) -> Program:
        return update_program(self.sizes)

    def _prepared_call(self, config: PPOConfig, blocks: int) -> Call:
        policy = self.policy
        (offset, scale, shift), limit = norm_numbers(policy, self.sizes.part_features[1], self.device)
        call = Call(
            self._program(), self.device, norm={"offset": offset, "scale": scale, "shift": shift, "limit": limit},
            rows=self._rows, actor_blocks=blocks, critic_blocks=blocks, scales=self.scales, **self._settings(config),
        )  # fmt: skip
        if (box := policy.box) is not None:
            call.set(box={"log_std": policy.log_std, "centre": box.centre, "half_width": box.half_width})
        return call

    def begin(self) -> None:
        """Point to weights, moments and numbers of steps, whose tensors a checkpoint may have replaced."""
        state = dict(zip(cast("list[Tensor]", self.adam.parameters), self.adam.prepared(), strict=True))
        networks = self._layers()
        for places, layers in zip(self.args.layers, networks, strict=True):
            for place, (weight, bias) in zip(places, layers, strict=False):
                place.weight, place.bias = weight.data_ptr(), bias.data_ptr()
        of_actor, of_critic = ([tensor for layer in layers for tensor in layer] for layers in networks)
        if self.policy.box is not None:
            of_actor.append(self.policy.log_std)
        places = iter(self.args.tensors)
        for first, parameters in ((0, of_actor), (self.sizes.actor_columns, of_critic)):
            for tensor in parameters:
                place, moments = next(places), state[tensor]
                place.weight, place.first, place.size = tensor.data_ptr(), first, tensor.numel()
                place.m, place.v = moments["exp_avg"].data_ptr(), moments["exp_avg_sq"].data_ptr()
                place.step = moments["step"].data_ptr()
                first += tensor.numel()

    def pack_masks(self, num_samples: int) -> None:
        """Write the masks of all samples in the form that the gradient reads, if it reads another one."""

    def arranged(self, shuffled: Tensor) -> Tensor:
        """Return minibatches, int32 (E, M, b), with samples in the order in which their gradient takes least time."""
        return shuffled

    def _layers(self) -> tuple[list[tuple[Tensor, Tensor]], list[tuple[Tensor, Tensor]]]:
        """Return weight and bias of the layers of actor and critic, in the order of the columns of their sums."""
        network = cast(FeedForward, self.policy.network)
        actor, critic = (
            [cast("tuple[Tensor, Tensor]", (layer.weight, layer.bias)) for layer in layers if isinstance(layer, nn.Linear)]
            for layers in (network.actor_layers, network.critic_layers)
        )
        return actor, critic

    def gradient(self, samples: Tensor, minibatch: int = 0) -> None:
        """Compute the gradients of a minibatch in blocks.

        Args:
            samples: int32 (b,), samples of the minibatch, -1 for rows that fill it up.
            minibatch: number of the minibatch in the update; from 1 on, the launch before must be that of ``step()``.
        """
        self.call.set(samples=samples, minibatch=minibatch)
        self._launch("gv_gradient", self.args.actor_blocks + self.args.critic_blocks, self.sizes.update_memory.shared_bytes)

    def reduce(self) -> None:
        """Add the sums of all blocks, and then those of all processes."""
        self._launch("gv_reduce", self._reduce_teams, SMALL_BYTES)
        if self._processes is None:
            return
        self._processes.sum(self.sums)
        # The sums of all have the form of one block of each network. The kernel copies them to their place, and squares them.
        rows = ("actor_blocks", "critic_blocks", "slices", "wide_slices", "world_slices")
        of_blocks = {name: getattr(self.args, name) for name in ("partial", *rows)}
        for name in of_blocks:
            setattr(self.args, name, self.sums.data_ptr() if name == "partial" else 1)
        self._launch("gv_reduce", self._reduce_teams, SMALL_BYTES)
        for name, value in of_blocks.items():
            setattr(self.args, name, value)

    def step(self, epoch: int, minibatch: int, ends_epoch: bool) -> None:
        """Take the step of a minibatch, if its mask is True.

        Args:
            epoch: number of the epoch in the update.
            minibatch: number of the minibatch in the update.
            ends_epoch: it is the last one of its epoch.
        """
        self.args.epoch, self.args.minibatch, self.args.ends_epoch = epoch, minibatch, int(ends_epoch)
        self._launch("gv_adam", self._adam_teams, SMALL_BYTES)

    def _launch(self, name: str, teams: int, shared_bytes: int) -> None:
        self.call.launch(name, teams, self._rows, shared_bytes)


def multiprocessors(device: torch.device) -> int:
    """Return the number of multiprocessors of a GPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count


def norm_numbers(policy: ActorCritic, features: int, device: torch.device, part: str = "own") -> tuple[list[Tensor], float]:
    """Return offset, scale and shift of the features, float32 (features,) each, and the limit of the normalised ones.

    Features that are not normalised have no limit; the results of one beyond ``LARGEST_HALF`` of ``program.py`` are NaN.
    """
    norm = None if policy.obs_norm is None else policy.obs_norm.parts[part]
    if isinstance(norm, RunningNorm):
        return [norm.offset, norm.scale, norm.shift], norm.clip
    zeros = torch.zeros(features, dtype=torch.float32, device=device)
    return [zeros, torch.ones_like(zeros), zeros], math.inf


def empty_halves(*shape: int, device: torch.device) -> Tensor:
    """Return memory for numbers of 16 bits; the CPU keeps them as floats."""
    return torch.empty(shape, dtype=torch.float16 if device.type == "cuda" else torch.float32, device=device)


def slab(array: Tensor) -> Any:
    """Return a rollout's array, float32, int32 or bool (T, B, ...), as an argument; the axes after B have no gaps."""
    return SLAB.form(array.data_ptr(), array.stride(0), array.stride(1))


def is_addressed_by_rows(array: Tensor) -> bool:
    """True if the numbers of a sample lie one after the other, and steps are whole numbers of samples apart."""
    return bool(array[0, 0].is_contiguous()) and array.stride(1) > 0 and array.stride(0) % array.stride(1) == 0
