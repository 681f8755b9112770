"""PPO on the CPU by kernels of its own, in float32."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
from gpu_vecenv.train.algorithms.shards import places_of_minibatch
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.fused.eligibility import require_host
from gpu_vecenv.train.fused.host_act import HostPolicy
from gpu_vecenv.train.fused.host_layout import ROWS, HostLayout
from gpu_vecenv.train.fused.kernels import UpdateKernels
from gpu_vecenv.train.fused.update import FusedBackend
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.storage.samples import Samples

BLOCKS = 16
"""Most teams that learn from a minibatch. Sums depend on it and not on the number of threads, so results do not either."""

SHARED_SIZE = 1 << 17
"""Numbers of a policy from which on threads share work on its parameters."""


def num_blocks(num_rows: int) -> int:
    """Return the teams that learn from a minibatch."""
    return max(1, min(BLOCKS, -(-num_rows // ROWS)))


class HostKernels(UpdateKernels):
    """The kernels of ``kernels/learner/host_update.cu`` for one policy and one size of minibatches."""

    def __init__(
        self, layout: HostLayout, config: PPOConfig, adam: MaskedAdam, num_rows: int, processes: Processes | None = None
    ) -> None:
        """Allocate the arrays.

        Args:
            layout: places of the policy's numbers.
            config: hyperparameters.
            adam: optimiser of the policy's parameters.
            num_rows: b, rows of a minibatch.
            processes: processes of the run, over which ``reduce()`` adds up; None: this one alone.
        """
        self._layout, self.sizes, self.adam, self.device = layout, layout.sizes, adam, adam.rate.device
        self.policy, self._rows, self._processes = layout.policy, num_rows, processes
        self._tensors, self._num_blocks = len(layout.parameters), num_blocks(num_rows)
        self._make_arrays(config, self._num_blocks * sum(layout.partial), self._tensors)
        self.call = layout.call(self._num_blocks, blocks=self._num_blocks, rows=num_rows, **self._settings(config))
        self.args = self.call.args

    def begin(self) -> None:
        """Point to weights, moments and numbers of steps, whose tensors a checkpoint may have replaced."""
        state = dict(zip(cast("list[Tensor]", self.adam.parameters), self.adam.prepared(), strict=True))
        self._layout.point(self.call, state)
        self._run("gv_pack", self._tensors)

    def gradient(self, samples: Tensor, minibatch: int = 0) -> None:
        """See ``UpdateKernels.gradient()``."""
        self.call.set(samples=samples, minibatch=minibatch)
        self.call.launch("gv_gradient", self._num_blocks, self._rows * self._layout.size)

    def reduce(self) -> None:
        """Add the sums of all blocks, and then those of all processes."""
        self._run("gv_reduce", self._tensors + 1)
        if self._processes is not None:
            self._processes.sum(self.sums)
            self._run("gv_square", self._tensors)

    def step(self, epoch: int, minibatch: int, ends_epoch: bool) -> None:
        """See ``UpdateKernels.step()``."""
        self.args.epoch, self.args.minibatch, self.args.ends_epoch = epoch, minibatch, int(ends_epoch)
        self._run("gv_adam", self._tensors + 1)

    def _run(self, name: str, teams: int) -> None:
        """Run a kernel whose teams have a parameter each. Few numbers are not shared by threads."""
        self.call.launch(name, teams, 0 if self._layout.size < SHARED_SIZE else self._layout.size)


class HostBackend(FusedBackend):
    """PPO of a policy that fits ``kernels/learner/host_update.cu``; its results differ from torch's by rounding of float32."""

    fitted = staticmethod(require_host)

    def new_actor(self, alone: bool) -> HostPolicy:  # type: ignore[override]  # it acts as a FusedPolicy does
        """Return what acts; see ``FusedBackend.new_actor()``."""
        self._layout = HostLayout(cast(ActorCritic, self.policy), self.sizes)
        return HostPolicy(self._layout, alone)

    def new_kernels(self, samples: Samples) -> HostKernels:
        """Return the kernels for samples of this size."""
        rows = places_of_minibatch(samples.valid.numel(), self.config.num_minibatches, self.shards)
        return HostKernels(self._layout, self.config, self.adam, rows, self.processes)

    def _learn(self, kernels: UpdateKernels, samples: Samples, loss_inputs: Tensor) -> None:
        super()._learn(kernels, samples, loss_inputs)
        self._arrays = []  # the kernels have run, so a copy of observations need not wait for the next one
