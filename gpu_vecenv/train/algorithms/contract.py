"""The calls between a run and an algorithm."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.train.algorithms.shards import APART, Part, Shards
from gpu_vecenv.train.config import NetworkConfig
from gpu_vecenv.train.policies.contract import Actor
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.storage.policy_rows import PolicyRows
from gpu_vecenv.train.storage.samples import Samples


@dataclass(frozen=True)
class Setup:
    """Parts of a run that the algorithm of a policy gets, beside the policy and the options."""

    rows: PolicyRows
    """Rows of the policy: the spaces of its agents are ``rows.group``, the shape of a step's samples is ``rows.shape``."""
    network: NetworkConfig
    """Shape of the policy's network, for algorithms that have further networks."""
    spec: EnvSpec
    """Description of the env."""
    device: torch.device
    """Device of the run; of the policy, too, unless memory is counted alone."""
    seed: int
    """int64 seed, which depends on the run's seed and on the policy's name."""
    schedule_steps: int
    """Steps of the run, summed over worlds, after which schedules are at their end."""
    fused: bool
    """The run wants kernels of its own in place of torch, where they fit the policy."""
    shares_gpu: bool
    """Other runs use the GPU at the same time, so launches leave multiprocessors to them. Results do not depend on it."""
    processes: Processes | None = None
    """Processes of the run, each with worlds of its own; None: this one alone. An algorithm that sums over them says so by
    ``Algorithm.sums_over_processes``."""
    shards: Shards | None = None
    """Parts of the samples that are shuffled into minibatches apart; None: one part."""

    @property
    def part(self) -> Part:
        """``processes`` and ``shards``."""
        return Part(self.processes, self.shards)

    @property
    def num_processes(self) -> int:
        """Number of processes of the run."""
        return 1 if self.processes is None else self.processes.count

    @property
    def seed_of_process(self) -> int:
        """``seed``, or another one for each further process, for numbers that are drawn for its own transitions."""
        rank = 0 if self.processes is None else self.processes.rank
        return self.seed + rank * APART


class Algorithm(ABC):
    """Updates one policy from its samples of each rollout.

    ``update()`` has fixed shapes, does not read the device on the host, and branches on no data, so a CUDA graph can capture it.
    All that changes from one update to the next is in tensors whose addresses stay, and in ``state_dict()``.
    """

    metric_names: tuple[str, ...]
    """Names of the numbers that ``update()`` returns. ``skipped`` counts steps that were left out because a gradient was not
    finite; the runner then stops the run."""
    not_fused: str = "its algorithm has none"
    """Reason why the policy has no fused kernels; empty if it has them."""
    largest: float = math.inf
    """Largest normalised observation with which ``actor()`` can compute."""
    sums_over_processes: bool = False
    """Updates are those of the samples of all processes, ``Setup.processes``. Without it a run has one process."""
    takes_shards: bool = False
    """Minibatches take an equal share of each of ``Setup.shards``. Without it a process has one shard."""
    of_worlds: tuple[str, ...] = ()
    """Entries of ``state_dict()`` that belong to the worlds of a process, such as ``replay``, or ``a/b`` in a dict ``a``. A run
    that goes on with another number of processes has those of a new run."""

    def actor(self) -> Actor | None:
        """Return what chooses actions in rollouts in place of the policy, or None."""
        return None

    def evaluation_actor(self) -> Actor | None:
        """Return what chooses actions in evaluations during training in place of the policy, or None.

        Evaluations have another number of rows than rollouts.
        """
        return None

    def scalars_at(self, steps: int) -> Sequence[float]:
        """Return the settings of an update that depend on the steps of the run, a fixed number of them.

        The host computes them for many iterations at a time, without a wait for the device.

        Args:
            steps: steps done when the iteration begins, summed over worlds.
        """
        return ()

    def begin(self, samples: Samples) -> None:  # noqa: B027  (nothing, unless an algorithm overrides it)
        """Prepare the first update of a run, after the policy has observed its first rollout."""

    @abstractmethod
    def update(self, samples: Samples, scalars: tuple[Tensor, ...]) -> Tensor:
        """Take the transitions of a rollout, and improve the policy.

        Args:
            samples: the policy's samples of a rollout. The next rollout overwrites their arrays, so an algorithm copies what it
                needs later, such as into a ``Replay``.
            scalars: what ``scalars_at()`` returned, float32 () each, on the device. Their addresses do not change, so a captured
                graph reads the present values.

        Returns:
            Metrics on the device, float32 (len(metric_names),).
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return all that the next update depends on, but for the policy and the options.

        Tensors may be those that updates write in place: the caller has written or compared them before the next iteration, so a
        copy of a replay buffer would only take memory.
        """

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any], where: str) -> None:
        """Restore what ``state_dict()`` returned; ``where`` names the state in errors.

        Raises:
            CheckpointError: the state has another form.
        """

    def options_changed(self, before: Any) -> None:  # noqa: B027  (nothing, unless an algorithm overrides it)
        """Drop what a loaded state owes to other options than those of this run; called after ``load_state_dict()``.

        Args:
            before: options of the run that wrote the state; they may be the same.
        """
