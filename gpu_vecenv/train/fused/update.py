"""PPO whose epochs are kernels of their own."""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_vecenv.train.algorithms.contract import DeviceScalars
from gpu_vecenv.train.algorithms.deal import choose, deal_samples
from gpu_vecenv.train.algorithms.loss import TERMS
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.fused.act import FusedPolicy
from gpu_vecenv.train.fused.applies import require_fused
from gpu_vecenv.train.fused.kernels import UpdateKernels, is_addressed_by_rows, slab
from gpu_vecenv.train.fused.side_by_side import has_gpu_for_itself
from gpu_vecenv.train.fused.split import SplitKernels
from gpu_vecenv.train.fused.update_ends import UpdateEnds
from gpu_vecenv.train.policies.contract import Inputs, Observation, Policy
from gpu_vecenv.train.returns.moments import moments
from gpu_vecenv.train.returns.standards import standards
from gpu_vecenv.train.storage.samples import Samples


class FusedPPO(PPO):
    """PPO of a policy that fits the kernels of ``kernels/learner``; its results differ from PPO's by rounding to 16 bits.

    Weights and Adam's moments are those of the module and of torch, so checkpoints do not depend on who wrote them.
    """

    def __init__(self, policy: Policy, config: PPOConfig, shape: tuple[int, ...], seed: int, device: torch.device):
        """Set up the optimiser; see ``PPO``.

        Raises:
            ConfigError: the policy does not fit; the message says why.
        """
        super().__init__(policy, config, shape, seed, device)
        self.sizes = require_fused(policy, device)
        self.fused = FusedPolicy(policy, self.sizes, device)  # type: ignore[arg-type]  # a policy that fits is an ActorCritic
        self._kernels: UpdateKernels | None = None
        self._alone = has_gpu_for_itself(device)

    def actor(self) -> FusedPolicy:
        """See ``Algorithm.actor()``."""
        return self.fused

    def begin(self, samples: Samples) -> None:
        """See ``PPO.begin()``."""
        mask = None if samples.mask is None else samples.mask[:-1]
        samples.log_prob.copy_(self.fused.log_prob(Inputs(_rows(samples.obs)[:-1], mask), samples.action))

    def _values(self, samples: Samples, obs: Observation, wanted: Tensor | None = None) -> Tensor:
        """See ``PPO._values()``."""
        return self.fused.values(_rows(obs), wanted)

    @torch.no_grad()
    def update(self, samples: Samples, scalars: DeviceScalars) -> Tensor:
        """See ``Algorithm.update()``."""
        found = self._advantages(samples)
        estimates = moments(found.numbers[:2].flatten(1).t(), samples.valid.flatten())
        of_choice = None
        if samples.choice is not None:
            of_choice = moments(found.numbers[0].view(-1, 1), samples.choice.flatten())
        kernels = self._prepared(samples, scalars)
        ends = UpdateEnds(kernels, self.config, scalars, self.factor, self.deals)
        self._learn(kernels, samples, ends.begin(samples.log_prob, found, estimates, of_choice))
        metrics = ends.end()
        self._adapt(metrics[TERMS.index("kl")], scalars.learning_rate)
        return metrics

    def _learn(self, kernels: UpdateKernels, samples: Samples, numbers: Tensor) -> None:
        """Learn from all minibatches of all epochs.

        Args:
            kernels: point to samples and settings.
            samples: the policy's samples of a rollout.
            numbers: float32 (T * B, 4), log-probability, value, advantage and target.
        """
        config = self.config
        kernels.call.set(numbers=numbers)
        transitions, number = choose(samples.valid.flatten(), samples.all_valid), 0
        dealt = deal_samples(transitions, config.num_minibatches, self.deals, 1, config.num_epochs)
        choice = None if samples.choice is None else samples.choice.flatten()
        normal = standards(numbers[:, 2], dealt, choice) if config.normalize_advantages == "minibatch" else None
        for epoch in range(config.num_epochs):
            for minibatch in range(config.num_minibatches):
                if normal is not None:
                    kernels.call.set(moments=normal[epoch, minibatch])
                kernels.gradient(dealt[epoch, minibatch], number)
                kernels.reduce()
                kernels.step(epoch, number, minibatch == config.num_minibatches - 1)
                number += 1

    def _prepared(self, samples: Samples, scalars: DeviceScalars) -> UpdateKernels:
        """Return the kernels, which point to samples, settings and weights."""
        obs = _rows(samples.obs)
        if self._kernels is None:
            rows = -(-samples.valid.numel() // self.config.num_minibatches)
            make = SplitKernels if self.sizes.split else UpdateKernels
            self._kernels = make(self.policy, self.sizes, self.config, self.adam, rows, self._alone)  # type: ignore[arg-type]  # as above
        args = self._kernels.args
        # A policy with all agents of a role has views of the slabs, with a gap between steps at most.
        arrays = [x if x is None or is_addressed_by_rows(x) else x.contiguous() for x in (obs, samples.action, samples.mask)]
        self._arrays = arrays
        for name, array in zip(("obs", "action", "mask"), arrays, strict=True):
            if array is not None:
                setattr(args, name, slab(array))
        self._kernels.call.set(
            samples_per_step=samples.valid.shape[1], choice=samples.choice, entropy_coef=scalars.entropy_coef,
            clip_coef=scalars.clip_coef,
        )  # fmt: skip
        self._kernels.begin()
        return self._kernels


def _rows(obs: Observation) -> Tensor:
    """Return observations of samples that are rows."""
    if not isinstance(obs, Tensor):
        raise ConfigError("fused update: expected samples of rows, without a shared part")
    return obs
