"""Several runs side by side, for the command ``train --seeds``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_vecenv.cli.key_value import require_within
from gpu_vecenv.train.config import AUTO, TrainConfig
from gpu_vecenv.train.errors import ConfigError, RunsError
from gpu_vecenv.train.run_folder.intervals import mean_interval
from gpu_vecenv.train.run_folder.runs import holds_run, run_folders
from gpu_vecenv.train.runner.auto_sizes import find_sizes
from gpu_vecenv.train.runner.many import resume_many, train_many
from gpu_vecenv.train.runner.one_of_many import RunResult
from gpu_vecenv.train.runner.waiting import AT_ONCE, MAX_AT_ONCE

MAX_SEEDS = 10_000
"""Most runs of a command."""


def holds_runs(folder: str) -> bool:
    """True if a folder holds several runs, and not one."""
    return not holds_run(Path(folder)) and bool(run_folders(folder))


def env_id_of(folder: str) -> str:
    """Return the env id of the first run in a folder."""
    return TrainConfig.of_run(run_folders(folder)[0]).env_id


def train_seeds(config: TrainConfig, seeds: int, at_once: int | None, devices: Sequence[str] = ()) -> dict[str, RunResult]:
    """Train ``seeds`` runs with the seeds from ``config.seed`` on, in folders ``seed-0``, ``seed-1`` and so on of ``config.out``.

    Args:
        config: options of the runs.
        seeds: number of runs.
        at_once: most runs at a time, with devices on each of them; None for the default.
        devices: devices that the runs take in turn; empty: that of ``config``.

    Raises:
        ConfigError: a number is out of range. For other errors see ``train_many()``.
    """
    require_within("--seeds", seeds, 1, MAX_SEEDS)
    if devices and config.device != "auto":
        raise ConfigError(f"--devices: expected no --device with it, got {config.device}")
    if config.num_envs == AUTO:  # once, so that all runs have the same sizes
        first = devices[0] if devices else config.device
        sharing = min(-(-seeds // max(1, len(devices))), _at_once(at_once)) * max(1, devices.count(first))
        sizes = find_sizes(dataclasses.replace(config, device=first), at_once=sharing)
        config = dataclasses.replace(sizes.config, device=config.device)
    seeds_of_runs = range(config.seed, config.seed + seeds)
    configs = {f"seed-{seed}": dataclasses.replace(config, seed=seed, out=None) for seed in seeds_of_runs}
    return train_many(configs, config.out, at_once=_at_once(at_once), devices=devices or None)


def resume_seeds(
    folder: str, options: Mapping[str, Any], at_once: int | None, devices: Sequence[str] = ()
) -> dict[str, RunResult]:
    """Go on with the runs in a folder; for errors see ``resume_many()``."""
    return resume_many(folder, at_once=_at_once(at_once), devices=devices or None, **options)


def _at_once(at_once: int | None) -> int:
    if at_once is not None:
        require_within("--at-once", at_once, 1, MAX_AT_ONCE)
    return AT_ONCE if at_once is None else at_once


def print_returns(results: Mapping[str, RunResult]) -> None:
    """Print the mean return of each policy over runs that have one, and its interval.

    Args:
        results: results by name; returns are those of the last 100 episodes.
    """
    names = dict.fromkeys(name for result in results.values() for name in result.metrics if name.startswith("recent_return/"))
    for name in names:
        values = [x for result in results.values() if (x := result.metrics.get(name, float("nan"))) == x]
        if values:
            mean, half = mean_interval(values)
            interval = f", 95 % interval {mean - half:.2f} to {mean + half:.2f}" if len(values) > 1 else ""
            where = f"runs from {min(values):.2f} to {max(values):.2f}"
            print(f"{name.partition('/')[2]}: mean return {mean:.2f} over {len(values)} runs{interval}, {where}")


def raise_failures(results: Mapping[str, RunResult]) -> None:
    """Raise RunsError if a run ended with an error."""
    failed = {name: result.error for name, result in results.items() if result.error is not None}
    if failed:
        name, error = next(iter(failed.items()))
        raise RunsError(f"{len(failed)} of {len(results)} runs ended with an error, the first of them {name}: {error}") from error
