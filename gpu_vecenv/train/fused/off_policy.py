"""Makes SAC, TD3 and DDPG of a policy, on the CPU with kernels of their own where they fit, and counts their memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from gpu_vecenv.backend.trainer_programs import MOST_HOST_LAYERS
from gpu_vecenv.train.algorithms.contract import Algorithm, Setup
from gpu_vecenv.train.algorithms.off_policy import memory
from gpu_vecenv.train.algorithms.off_policy.batch import Minibatch
from gpu_vecenv.train.algorithms.off_policy.learner import OffPolicy
from gpu_vecenv.train.algorithms.sac import make_sac as make_sac_by_torch
from gpu_vecenv.train.algorithms.sac.sac import SAC
from gpu_vecenv.train.algorithms.td3 import TD3
from gpu_vecenv.train.config import NetworkConfig
from gpu_vecenv.train.config.off_policy import OffPolicyConfig
from gpu_vecenv.train.config.sac import SACConfig
from gpu_vecenv.train.config.td3 import DDPGConfig, TD3Config
from gpu_vecenv.train.fused.host_explorer import HostExplorer
from gpu_vecenv.train.fused.host_off_policy import HostSteps, are_watched
from gpu_vecenv.train.fused.host_off_policy_layout import Layout
from gpu_vecenv.train.fused.host_rows import HostRows
from gpu_vecenv.train.policies.actor import ActorPolicy, Deterministic, SquashedGaussian
from gpu_vecenv.train.policies.contract import Actor
from gpu_vecenv.train.storage.replay import Batch
from gpu_vecenv.train.storage.samples import Samples


class _OnHost(OffPolicy):
    """Gradient steps by kernels. Counts and metrics are numbers of the host, which take less time than operations of torch."""

    not_fused = ""
    policy: SquashedGaussian | Deterministic

    def use_kernels(self, layout: Layout, network: NetworkConfig) -> None:
        """Make the kernels, and the arrays that updates write again and again."""
        self.steps = HostSteps(cast("SAC | TD3", self), layout, network)
        self.network, self.replay.keeps_batch = network, True
        self._rows: HostRows | None = None
        rows, entries = self.num_rows, self.policy.group.num_entries
        self._noise = torch.empty(
            self.options.gradient_steps, self.num_normals, rows, entries, dtype=torch.float32, device=self.gate.device
        )
        self._noise_of_steps = self._noise.unbind()
        self._new = torch.zeros((), dtype=torch.int64, device=self.gate.device)
        self._row = torch.zeros(len(self.metric_names), dtype=torch.float32, device=self.gate.device)
        arrays = {"new": self._new, "row": self._row, "filled": self.replay.filled, "seen": self.seen, "gate": self.gate,
                  "begun": self.begun}  # fmt: skip
        self._on_host = {name: array.numpy() for name, array in arrays.items()}

    def _normals(self) -> Sequence[Tensor]:
        """See ``OffPolicy``."""
        entries = self.policy.group.num_entries
        self.noise.normal(entries, self._noise)
        return self._noise_of_steps

    def _rows_of(self, batch: Batch) -> Minibatch:
        """See ``OffPolicy``."""
        if self.options.priority_exponent is not None:  # importance weights are other arrays each time
            return super()._rows_of(batch)
        if self._rows is None or self._rows.batch is not batch:
            self._rows = HostRows(self.policy, batch)
        return self._rows.now()

    def _count(self, samples: Samples) -> tuple[Tensor, Tensor]:
        """See ``OffPolicy``."""
        on_host = self._on_host
        on_host["new"][()] = np.count_nonzero(samples.valid.numpy())
        on_host["seen"] += on_host["new"]
        wanted = bool(on_host["seen"] >= self.options.learning_starts and on_host["filled"] > 0)
        on_host["gate"][()] = wanted
        on_host["begun"] |= wanted
        return self._new, self.replay.filled

    def _metrics(self, metrics: Sequence[dict[str, Tensor]], new: Tensor, filled: Tensor) -> Tensor:
        """See ``OffPolicy``."""
        wanted, count, steps = bool(self._on_host["gate"]), int(self._on_host["new"]), sum(bool(x.numpy()) for x in self.taken)
        means = dict.fromkeys(self.terms, math.nan)
        for name in self.terms if wanted else ():
            of_steps = [float(each[name].numpy()) for each in metrics if name in each]
            means[name] = sum(of_steps) / len(of_steps)
        update_to_data = self.options.gradient_steps * self.num_rows / count if wanted and count else math.nan
        self._on_host["row"][:] = (
            *means.values(), self._on_host["filled"], update_to_data, steps, wanted * len(self.taken) - steps
        )  # fmt: skip
        return self._row.clone()  # a caller may keep the metrics of several updates


class HostSAC(_OnHost, SAC):
    """Soft actor-critic of numbers whose gradient steps are those of kernels."""

    policy: SquashedGaussian

    def __init__(self, policy: SquashedGaussian, options: SACConfig, setup: Setup):
        """See ``SAC``."""
        super().__init__(policy, options, setup)
        self.use_kernels(layout_of(policy, options, setup), setup.network)

    def explorer(self) -> Actor:
        """See ``OffPolicy.explorer()``."""
        return HostExplorer(super().explorer(), self.policy, self.network, None)

    def gradient_step(self, step: int, batch: Minibatch, noise: Tensor) -> tuple[dict[str, Tensor], Tensor | None]:
        """See ``OffPolicy.gradient_step()``."""
        if are_watched(self.policy):
            return super().gradient_step(step, batch, noise)
        return self.steps.take(step, batch, noise, True)


class HostTD3(_OnHost, TD3):
    """TD3 or DDPG whose gradient steps are those of kernels."""

    policy: Deterministic

    def __init__(self, policy: Deterministic, options: TD3Config | DDPGConfig, setup: Setup):
        """See ``TD3``."""
        super().__init__(policy, options, setup)
        self.use_kernels(layout_of(policy, options, setup), setup.network)

    def explorer(self) -> Actor:
        """See ``OffPolicy.explorer()``."""
        return HostExplorer(super().explorer(), self.policy, self.network, self.options.exploration_noise)

    def gradient_step(self, step: int, batch: Minibatch, noise: Tensor) -> tuple[dict[str, Tensor], Tensor | None]:
        """See ``OffPolicy.gradient_step()``."""
        if are_watched(self.policy):
            return super().gradient_step(step, batch, noise)
        return self.steps.take(step, batch, noise, (step + 1) % self.options.policy_delay == 0)


def layout_of(policy: ActorPolicy, options: SACConfig | TD3Config | DDPGConfig, setup: Setup) -> Layout:
    """Return the places of an algorithm's numbers."""
    if isinstance(options, SACConfig):
        return Layout(policy, setup.network, 2, False)
    return Layout(policy, setup.network, options.num_critics, True)


def why_not_host(policy: ActorPolicy, options: OffPolicyConfig, setup: Setup) -> str:
    """Return why an algorithm has no kernels of its own; empty if it has them."""
    if not setup.fused:
        return "the run does not want them"
    if setup.device.type != "cpu" or not policy.group.continuous:
        return Algorithm.not_fused
    if setup.processes is not None:
        return "several processes share its updates"
    if options.num_atoms != 1:
        return "its critics have atoms"
    if setup.network.layer_norm:
        return "its hidden layers are normalised"
    if (hidden := len(setup.network.hidden_sizes)) >= MOST_HOST_LAYERS:
        return f"it has {hidden} hidden layers, not at most {MOST_HOST_LAYERS - 1}"
    if any(p.dtype != torch.float32 or not p.requires_grad or not p.is_contiguous() for p in policy.parameters()):
        return "its weights are not all float32 and trained"
    return ""


def make_sac(policy: ActorPolicy, options: SACConfig, setup: Setup) -> Algorithm:
    """Return soft actor-critic for the actions of a policy."""
    reason = why_not_host(policy, options, setup)
    algorithm = make_sac_by_torch(policy, options, setup) if reason else HostSAC(cast(SquashedGaussian, policy), options, setup)
    algorithm.not_fused = reason
    return algorithm


def make_td3(policy: Deterministic, options: TD3Config | DDPGConfig, setup: Setup) -> Algorithm:
    """Return TD3 or DDPG of a policy."""
    reason = why_not_host(policy, options, setup)
    algorithm = (TD3 if reason else HostTD3)(policy, options, setup)
    algorithm.not_fused = reason
    return algorithm


def sac_memory(policy: ActorPolicy, options: SACConfig, setup: Setup) -> tuple[int, int]:
    """Return the bytes that last, and the most bytes that an update takes at a time."""
    lasting, update = memory.sac_memory(policy, options, setup)
    return lasting + _kernel_bytes(policy, options, setup), update


def td3_memory(policy: ActorPolicy, options: TD3Config | DDPGConfig, setup: Setup) -> tuple[int, int]:
    """Return the bytes that last, and the most bytes that an update takes at a time."""
    lasting, update = memory.td3_memory(policy, options, setup)
    return lasting + _kernel_bytes(policy, options, setup), update


def _kernel_bytes(policy: ActorPolicy, options: SACConfig | TD3Config | DDPGConfig, setup: Setup) -> int:
    """Return the bytes of the kernels' arrays, for gradient steps and for actions."""
    if why_not_host(policy, options, setup):
        return 0
    of_steps = layout_of(policy, options, setup).num_floats(memory.num_rows(options, setup))
    of_actions = HostExplorer.layout_of(policy, setup.network).num_floats_of_actions(math.prod(setup.rows.shape))
    return 4 * sum((*of_steps.values(), *of_actions.values()))
