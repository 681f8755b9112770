"""Computes for PPO with kernels of its own."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
from gpu_vecenv.train.algorithms.ppo.backend import Backend
from gpu_vecenv.train.algorithms.schedules import DeviceScalars
from gpu_vecenv.train.algorithms.shards import Part, choose_by_shard, places_of_minibatch, shuffle_samples_by_shard
from gpu_vecenv.train.algorithms.shuffle import Transitions
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.fused.act import FusedActor, FusedPolicy
from gpu_vecenv.train.fused.eligibility import require_fused
from gpu_vecenv.train.fused.kernels import UpdateKernels, is_addressed_by_rows, slab
from gpu_vecenv.train.fused.split import SplitKernels
from gpu_vecenv.train.fused.update_ends import UpdateEnds
from gpu_vecenv.train.fused.wide import WideKernels
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.policies.contract import Actor, Inputs, Observation, Policy, apply
from gpu_vecenv.train.returns.minibatch_moments import minibatch_moments
from gpu_vecenv.train.returns.moments import moments
from gpu_vecenv.train.returns.scan import Advantages
from gpu_vecenv.train.storage.samples import Samples

VALID_FRACTION = 8
"""Number of the share of valid transitions among the metrics."""


class FusedBackend(Backend):
    """PPO of a policy that fits the kernels of ``kernels/learner``; its results differ from torch's by rounding to 16 bits.

    Weights and Adam's moments are those of the module and of torch, so checkpoints do not depend on who wrote them.
    """

    def __init__(
        self, policy: Policy, config: PPOConfig, adam: MaskedAdam, shuffles: Tensor, factor: Tensor, shares_gpu: bool = False,
        part: Part = Part(),  # noqa: B008  (a tuple)
    ) -> None:  # fmt: skip
        """Prepare the kernels; see ``Backend``.

        Args:
            policy: the policy to train.
            config: hyperparameters.
            adam: optimiser of its weights.
            shuffles: seed of the next order of minibatches.
            factor: factor of the learning rate.
            shares_gpu: other runs use the GPU at the same time.
            part: what this process has of the samples.

        Raises:
            ConfigError: the policy does not fit; the message says why.
        """
        super().__init__(policy, config, adam, shuffles, factor, part)
        self.sizes = self.fitted(policy, shuffles.device)
        self.fused = self.new_actor(alone=not shares_gpu)
        self.largest = self.fused.largest
        self._kernels: UpdateKernels | None = None
        self._packed: Observation | None = None  # whose normal features are packed

    fitted = staticmethod(require_fused)
    """Returns the sizes of a policy's networks, or raises ConfigError."""

    def new_actor(self, alone: bool) -> FusedActor:
        """Return what acts; ``alone``: no other run uses the GPU."""
        policy = cast(ActorCritic, self.policy)  # as a policy that fits is one
        return FusedPolicy(policy, self.sizes, self.shuffles.device, alone)

    def actor(self) -> Actor:
        """See ``Algorithm.actor()``."""
        return cast(Actor, self.fused)

    def renew_log_prob(self, samples: Samples) -> None:
        """See ``Backend.renew_log_prob()``."""
        mask = None if samples.mask is None else samples.mask[:-1]
        inputs = Inputs(apply(samples.obs, lambda x: x[:-1]), mask)
        samples.log_prob.copy_(cast(FusedPolicy, self.fused).log_prob(inputs, samples.action))

    def values(self, samples: Samples, final: bool) -> tuple[Tensor, Tensor | None]:
        """See ``Backend.values()``."""
        fused = cast(FusedPolicy, self.fused)
        if self.sizes.wide and not self.sizes.shared:  # as the values read all features, they pack them for the update
            self._packed = samples.obs
            value = fused.values(samples.obs, packed=cast(WideKernels, self._kernels_of(samples)).packed_rows)
        else:
            value = fused.values(samples.obs)
        return value, fused.values(cast(Observation, samples.final_obs), samples.timed_out) if final else None

    @torch.no_grad()
    def learn(self, samples: Samples, scalars: DeviceScalars, estimates: Advantages) -> Tensor:
        """See ``Backend.learn()``."""
        of_valid = moments(estimates.stacked[:2].flatten(1).t(), samples.valid.flatten(), self.processes)
        of_choice = None
        if samples.choice is not None:
            of_choice = moments(estimates.stacked[0].view(-1, 1), samples.choice.flatten(), self.processes)
        kernels = self._prepared(samples, scalars)
        ends = UpdateEnds(kernels, self.config, scalars, self.factor, self.shuffles)
        self._learn(kernels, samples, ends.begin(_by_row(samples.log_prob, samples), estimates, of_valid, of_choice))
        metrics = ends.end()
        if self.processes is not None:
            metrics[VALID_FRACTION] /= self.processes.count
        return metrics

    def _learn(self, kernels: UpdateKernels, samples: Samples, loss_inputs: Tensor) -> None:
        """Learn from all minibatches of all epochs.

        Args:
            kernels: point to samples and settings.
            samples: the policy's samples of a rollout.
            loss_inputs: float32 (T * B[ * a], 4), log-probability, value, advantage and target.
        """
        config = self.config
        kernels.call.set(numbers=loss_inputs)
        sizes = (config.num_minibatches, self.shuffles, 1, config.num_epochs, self.shards)
        shuffled, number = kernels.arranged(shuffle_samples_by_shard(self.places(samples), *sizes)), 0
        shuffled = self.rows(samples, shuffled)
        normal = None
        if config.normalize_advantages == "minibatch":
            choice = None if samples.choice is None else samples.choice.flatten()
            normal = minibatch_moments(loss_inputs[:, 2], self.transitions(samples, shuffled), choice, self.processes)
        for epoch in range(config.num_epochs):
            for minibatch in range(config.num_minibatches):
                if normal is not None:
                    kernels.call.set(moments=normal[epoch, minibatch])
                kernels.gradient(shuffled[epoch, minibatch], number)
                kernels.reduce()
                kernels.step(epoch, number, minibatch == config.num_minibatches - 1)
                number += 1

    def places(self, samples: Samples) -> list[Transitions]:
        """Return what an epoch shuffles into minibatches, by shard."""
        valid = samples.valid if samples.valid.dim() == 2 else samples.valid.any(-1)
        return choose_by_shard(valid, samples.all_valid, self.shards)

    @staticmethod
    def rows(samples: Samples, shuffled: Tensor) -> Tensor:
        """Return the rows of shuffled samples, int32 (E, M, b * a); -1 for those that do not count."""
        if samples.valid.dim() == 2:
            return shuffled
        agents = samples.valid.shape[2]
        rows = shuffled.unsqueeze(-1) * agents + torch.arange(agents, dtype=torch.int32, device=shuffled.device)
        counts = samples.valid.flatten()[rows.clamp(min=0)] & (shuffled >= 0).unsqueeze(-1)
        return torch.where(counts, rows, -1).flatten(2)

    def transitions(self, samples: Samples, shuffled: Tensor) -> Tensor:
        """Return the transitions of minibatches, int32 (E, M, b), of the rows; -1 for those that fill one up."""
        return shuffled

    def new_kernels(self, samples: Samples) -> UpdateKernels:
        """Return the kernels for samples of this size."""
        agents = samples.valid[0, 0].numel()
        rows = agents * places_of_minibatch(samples.valid.numel() // agents, self.config.num_minibatches, self.shards)
        common = cast(ActorCritic, self.policy), self.sizes, self.config, self.adam, rows, self.fused.alone, self.processes
        if self.sizes.wide:
            return WideKernels(*common, tuple(samples.valid.shape))
        return (SplitKernels if self.sizes.split else UpdateKernels)(*common)

    def _prepared(self, samples: Samples, scalars: DeviceScalars) -> UpdateKernels:
        """Return the kernels, which point to samples, settings and weights."""
        kernels = self.prepared(samples)
        kernels.call.set(entropy_coef=scalars.entropy_coef, clip_coef=scalars.clip_coef)
        return kernels

    def prepared(self, samples: Samples) -> UpdateKernels:
        """Return the kernels, which point to samples and weights."""
        own_part = samples.obs if isinstance(samples.obs, Tensor) else samples.obs["own"]
        kernels = self._kernels_of(samples)
        args = kernels.args
        by_row = [x if x is None else _by_row(x, samples) for x in (own_part, samples.action, samples.mask)]
        # A policy with all agents of a role has views of the slabs, with a gap between steps at most.
        arrays = [x if x is None or is_addressed_by_rows(x) else x.contiguous() for x in by_row]
        self._arrays = arrays
        for name, array in zip(("obs", "action", "mask"), arrays, strict=True):
            if array is not None:
                setattr(args, name, slab(array))
        if isinstance(samples.obs, dict):
            cast(WideKernels, kernels).set_shared(samples.obs["shared"], self.fused.shared_norm())
        kernels.call.set(samples_per_step=samples.valid.shape[-1], choice=samples.choice)
        if isinstance(kernels, WideKernels):
            kernels.rows_are_packed, self._packed = self._packed is samples.obs, None
        kernels.begin()
        kernels.pack_masks(samples.valid.numel())
        return kernels

    def _kernels_of(self, samples: Samples) -> UpdateKernels:
        """Return the kernels, made for the first samples."""
        if self._kernels is None:
            self._kernels = self.new_kernels(samples)
        return self._kernels


def _by_row(array: Tensor, samples: Samples) -> Tensor:
    """Return an array of samples with two axes before those of a row, (T, B), or (T * B, a) of worlds."""
    return array.flatten(0, 1) if samples.valid.dim() == 3 else array
