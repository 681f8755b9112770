"""The part of a run that a process has: its worlds, and its shards of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from gpu_vecenv.train.algorithms.contract import Algorithm
from gpu_vecenv.train.algorithms.shards import Shards
from gpu_vecenv.train.config import ResolvedConfig
from gpu_vecenv.train.config.checks import require
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.processes.join import own_device
from gpu_vecenv.train.storage.policy_rows import PolicyRows
from gpu_vecenv.train.storage.wrapped_env import as_wrapped
from gpu_vecenv.vector.wrappers.normalize import NormalizeObservation, NormalizeReward

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


@dataclasses.dataclass(frozen=True)
class Spread:
    """Worlds and shards of one process, by number among those of the run."""

    first_world: int
    num_worlds: int
    first_shard: int
    num_shards: int

    def shards_of(self, rows: PolicyRows) -> Shards | None:
        """Return the shards of the samples of a policy."""
        by_sample = [worlds if worlds.dim() == 1 else worlds[:, 0] for worlds in rows.worlds]
        return Shards.of(torch.cat(by_sample), self.first_shard, self.num_shards, self.num_worlds)


def spread_of(config: ResolvedConfig, rank: int, count: int) -> Spread:
    """Return what a process has of a run.

    Args:
        config: resolved options.
        rank: number of the process.
        count: number of processes.

    Raises:
        ConfigError: the worlds cannot be divided equally among the shards, or the shards among the processes.
    """
    shards = config.shards or count
    require(config.num_envs % count == 0, "num_envs", f"a multiple of {count}, the number of processes", config.num_envs)
    require(shards % count == 0, "shards", f"a multiple of {count}, the number of processes", shards)
    require(config.num_envs % shards == 0, "num_envs", f"a multiple of {shards}, the number of shards", config.num_envs)
    worlds, shards_of_each = config.num_envs // count, shards // count
    return Spread(rank * worlds, worlds, rank * shards_of_each, shards_of_each)


def device_of_process(config: ResolvedConfig, processes: Processes | None, is_new: bool) -> ResolvedConfig:
    """Return options with the device of this process, of several ones.

    Raises:
        ConfigError: the options of a new run name a GPU by its number.
    """
    if processes is None:
        return config
    require(not is_new or ":" not in config.device, "device", "auto, cpu or cuda in a run of several processes", config.device)
    return dataclasses.replace(config, device=processes.device or own_device(config.device))


def require_spread(algorithms: Mapping[str, Algorithm], spread: Spread, processes: Processes | None) -> None:
    """Check that algorithms learn from the samples of all processes, and in shards.

    Raises:
        ConfigError: one does not.
    """
    for name, algorithm in algorithms.items():
        kind = type(algorithm).__name__
        if processes is not None and not algorithm.sums_over_processes:
            expected = "expected an algorithm that sums over them, Algorithm.sums_over_processes"
            raise ConfigError(f"processes: {expected}, for the policy {name!r}, got {kind} and {processes.count} processes")
        if spread.num_shards > 1 and not algorithm.takes_shards:
            expected = f"expected None or the number of processes for the policy {name!r}: {kind} has no minibatches of a rollout"
            raise ConfigError(f"shards: {expected}, got {spread.num_shards} for each process")


def require_shared_wrappers(env: GpuVectorEnv, processes: Processes | None) -> None:
    """Raise ConfigError for wrappers with running statistics of their own: each process would have others."""
    if processes is None or (wrapped := as_wrapped(env)) is None:
        return
    for wrapper in wrapped.wrappers.values():
        if isinstance(wrapper, NormalizeObservation | NormalizeReward):
            raise ConfigError(
                f"processes: expected no {type(wrapper).__name__} around the env of a run in {processes.count} processes, each "
                "of which would have statistics of its own; normalize_observations and normalize_rewards of the algorithm have "
                "those of all processes"
            )
