"""Sizes of a run that are found by measuring, for ``TrainConfig(num_envs="auto")``."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gpu_vecenv.backend.memory import TorchMemory
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.train.config import AUTO, AutoSizes, ResolvedConfig, TrainConfig, resolve, resolve_new
from gpu_vecenv.train.config.checks import COUNT, checked, require
from gpu_vecenv.train.config.presets import preset_of
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.processes.join import own_device
from gpu_vecenv.train.processes.launcher import num_processes
from gpu_vecenv.train.run_folder.progress import Progress
from gpu_vecenv.train.run_folder.sizes_table import print_sizes, save_sizes
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.executor import require_gpu
from gpu_vecenv.train.runner.memory import training_needs
from gpu_vecenv.train.runner.run_state import RunState
from gpu_vecenv.train.runner.size_grid import Grid, Reference, Sizes
from gpu_vecenv.train.runner.size_search import Search, Trial
from gpu_vecenv.train.runner.size_trials import Trials

MEMORY_SHARE = 0.8
"""Part of the free memory that a run may take by the memory model, which counts neither graphs nor compiled kernels."""

FIELDS = ("num_steps", "num_epochs", "num_minibatches", "gamma")
"""Options of an algorithm whose sizes can be found."""

REPLACED = ("num_steps", "num_minibatches")
"""Options of an algorithm that a search replaces."""


@dataclass(frozen=True)
class FoundSizes:
    """Result of a search: options with sizes, and the table of trials."""

    config: TrainConfig
    """Options of the run with the sizes found, and without ``auto_sizes``."""
    sizes: Sizes
    """The sizes: worlds, steps of a rollout, minibatches of an epoch."""
    table: dict[str, Any]
    """The trials that were measured, as ``auto_sizes.json`` of a run's folder holds it."""

    def save(self, folder: str | Path) -> None:
        """Write ``auto_sizes.json`` to a folder.

        Raises:
            OSError: the file cannot be written.
        """
        save_sizes(self.table, Path(folder))


def find_sizes(
    config: TrainConfig,
    quiet: bool = False,
    *,
    networks: Mapping[str, nn.Module] | None = None,
    at_once: int = 1,
    shares_gpu: bool = False,
    processes: Processes | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> FoundSizes:
    """Measure sizes of a run on its device, and return the fastest ones that fit and keep enough updates to learn.

    A run that is too short for these updates has the sizes of the env's preset, the only ones that are measured then.
    ``Trainer`` calls this for ``num_envs="auto"``. Trials change neither networks nor random numbers of the run, so a run with
    the sizes found has the bits of one whose options name them.

    Args:
        config: options with ``num_envs="auto"``. Their length of a rollout and number of minibatches, and the worlds and steps of
            the env's preset, are the reference, which is known to learn.
        quiet: print nothing.
        networks: see ``Trainer``.
        at_once: runs that share the memory of the device.
        shares_gpu: see ``Trainer``.
        processes: see ``Trainer``. The first process measures the part of the run that each of them has, without the sums
            between them; all of them get its result.
        clock: clock of iterations, in seconds. On a busy CPU, ``time.process_time`` does not count other programs.

    Raises:
        ConfigError: ``num_envs`` is a number, no sizes fit into the bounds, an algorithm does not learn from each rollout by
            minibatches, other options do not fit the env, or ``processes`` is missing in a process of several.
        OutOfMemoryError: not even the fewest worlds fit into memory.
        LostRankError: a process is gone.
    """
    require(config.num_envs == AUTO, "find_sizes: num_envs", repr(AUTO), config.num_envs)
    count = 1 if processes is None else processes.count
    if processes is None and num_processes() > 1:
        raise ConfigError(f"find_sizes: processes: expected those of the run, of which there are {num_processes()}, got None")
    options = (networks, at_once, shares_gpu, clock, count)
    if processes is None:
        of_process, table = _measured(config, quiet, *options)
    else:
        here = dataclasses.replace(config, device=processes.device or own_device(config.device))
        of_process, table = processes.from_first(lambda: _measured(here, quiet, *options))
    local = Sizes(*of_process)
    sizes = local._replace(num_envs=local.num_envs * count)
    named = dataclasses.replace(config, num_envs=None, auto_sizes=None)
    return FoundSizes(with_sizes(named, resolve_new(named), sizes), sizes, table)


def _measured(
    config: TrainConfig,
    quiet: bool,
    networks: Mapping[str, nn.Module] | None,
    at_once: int,
    shares_gpu: bool,
    clock: Callable[[], float],
    count: int,
) -> tuple[Sizes, dict[str, Any]]:
    """Return the fastest sizes of the part of one of ``count`` processes, and the table of trials, which is printed."""
    started = time.monotonic()
    plan = plan_search(config, networks, at_once, shares_gpu, clock, count)
    bounds = plan.grid.bounds
    with Progress(sys.stdout, quiet, task="measuring sizes of the run") as progress:

        def report(trials: Sequence[Trial]) -> None:
            best = max(trial.rate for trial in trials)
            done = min(1.0, (time.monotonic() - started) / bounds.seconds)
            progress.show(done, f"{len(trials)} sizes tried  {best:,.0f} steps/s")

        left = bounds.seconds - (time.monotonic() - started)
        search = Search(plan.grid, plan.measure, left, time.monotonic, report)
        sizes = search.run()
    table = _table(search, sizes, plan.device, time.monotonic() - started, count)
    if not quiet:
        print_sizes(table)
    return sizes, table


@dataclass(frozen=True)
class Plan:
    """Sizes that may be tried, and the trials that measure them."""

    grid: Grid
    """Sizes that may be tried."""
    measure: Trials
    """Measures some."""
    config_of: Callable[[Sizes], TrainConfig]
    """Options of the run with some sizes."""
    device: torch.device
    """Device of the run."""


def plan_search(
    config: TrainConfig,
    networks: Mapping[str, nn.Module] | None = None,
    at_once: int = 1,
    shares_gpu: bool = False,
    clock: Callable[[], float] = time.perf_counter,
    count: int = 1,
) -> Plan:
    """Return the sizes that ``find_sizes()`` may try, and what measures them; arguments and errors are its own.

    ``count`` processes have equal parts of the run; sizes, steps and bounds are those of a part.
    """
    at_once = checked("find_sizes: at_once", at_once, COUNT)
    named = dataclasses.replace(config, num_envs=None, auto_sizes=None)
    resolved = resolve_new(named)

    def config_of(sizes: Sizes) -> TrainConfig:
        return with_sizes(named, resolved, sizes)

    def needs(sizes: Sizes) -> int:
        return sum(training_needs(resolve(config_of(sizes)), layout, device).values())

    layout, device, reference = _probe(resolved, config_of, networks or {})
    free = TorchMemory(str(device)).free_bytes()
    room = None if free is None else int(MEMORY_SHARE * free / at_once)
    bounds = config.auto_sizes if isinstance(config.auto_sizes, AutoSizes) else AutoSizes()
    grid = Grid(_part_of(bounds, count), _part_of_reference(reference, count), resolved.total_steps // count, needs, room)
    return Plan(grid, Trials(lambda sizes: resolve(config_of(sizes)), networks or {}, shares_gpu, clock), config_of, device)


def _part_of(bounds: AutoSizes, count: int) -> AutoSizes:
    """Return the bounds of one of several processes, which have equal numbers of worlds.

    Raises:
        ConfigError: no multiple of ``count`` lies within the bounds of worlds.
    """
    if bounds.num_envs is None:
        return bounds
    least, most = bounds.num_envs
    part = (-(-least // count), most // count)
    require(part[0] <= part[1], "auto_sizes.num_envs", f"a multiple of {count}, the number of processes, in it", bounds.num_envs)
    return dataclasses.replace(bounds, num_envs=part)


def _part_of_reference(reference: Reference, count: int) -> Reference:
    sizes = reference.sizes._replace(num_envs=max(1, reference.sizes.num_envs // count))
    return dataclasses.replace(reference, sizes=sizes, total_steps=reference.total_steps // count)


def with_sizes(config: TrainConfig, resolved: ResolvedConfig, sizes: Sizes) -> TrainConfig:
    """Return options with some sizes; other options of the algorithm are those of the resolved config."""
    name = config.algorithm
    options = resolved.ppo if name == "ppo" else resolved.algorithms[name]
    options = dataclasses.replace(options, num_steps=sizes.num_steps, num_minibatches=sizes.num_minibatches)
    group: dict[str, Any] = {"ppo": options} if name == "ppo" else {"algorithms": {**config.algorithms, name: options}}
    return dataclasses.replace(config, num_envs=sizes.num_envs, **group)


def _probe(
    resolved: ResolvedConfig, config_of: Callable[[Sizes], TrainConfig], networks: Mapping[str, nn.Module]
) -> tuple[Layout, torch.device, Reference]:
    """Make the run with one world, which checks its options, and return layout and device of its env, and the reference.

    Raises:
        ConfigError: see ``find_sizes()``.
    """
    _require_one_algorithm(resolved)
    name, usual = resolved.algorithm, preset_of(resolved.env_id).on(resolved.device).of(resolved.algorithm)
    options = resolved.ppo if name == "ppo" else resolved.algorithms[name]
    small = resolve(config_of(Sizes(1, options.num_steps, 1)))
    with torch.random.fork_rng(devices=[]), contextlib.closing(make_env(small)) as env:
        device = torch.device(env.device)
        require_gpu(small, device)
        plain = dataclasses.replace(small, kernels="torch")  # fused kernels would be compiled for one world
        parts = RunState(env, plain, copy.deepcopy(dict(networks)))
        learning = {policy: resolved.options_of(policy) for policy in parts.algorithms}
        layout, remember = env.layout, any(parts.policies[policy].state_shape for policy in learning)
    horizon = math.inf if remember else max(_horizon(each) for each in learning.values())
    sizes = Sizes(usual.num_envs, options.num_steps, options.num_minibatches)
    return layout, device, Reference(sizes, usual.total_steps, horizon)


def _horizon(options: Any) -> float:
    """Return 1 / (1 - gamma * lambda), the steps after which advantages hardly count later rewards; infinity without a lambda."""
    decay = options.gamma * getattr(options, "gae_lambda", getattr(options, "q_lambda", 1.0))
    return math.inf if decay >= 1 else 1 / (1 - decay)


def _require_one_algorithm(resolved: ResolvedConfig) -> None:
    """Raise ConfigError unless all policies learn from each rollout by epochs of minibatches, as many for each."""
    name, options = resolved.algorithm, resolved.options_of("")  # no policy has an empty name, so these are the run's
    missing = [field for field in FIELDS if not hasattr(options, field)]
    if missing:
        raise ConfigError(
            f"num_envs: expected a number with the algorithm {name!r}, which does not learn from each rollout by epochs of "
            f"minibatches (it has no option {missing[0]}), got {AUTO!r}; more worlds would change its updates for each transition"
        )
    for policy in resolved.policies:
        if policy in resolved.frozen:
            continue
        if resolved.algorithm_of(policy) != name:
            raise ConfigError(
                f"num_envs: expected a number in a run of several algorithms, got {AUTO!r} with {name!r} and "
                f"{resolved.algorithm_of(policy)!r} of the policy {policy!r}"
            )
        if "num_minibatches" in resolved.settings_of(policy).groups().get(name, {}):
            raise ConfigError(f"policies[{policy!r}]: expected no num_minibatches with num_envs={AUTO!r}, which finds them")


def _table(search: Search, sizes: Sizes, device: torch.device, seconds: float, count: int) -> dict[str, Any]:
    """Return what was measured, in numbers and text; rows are those of one of ``count`` processes."""
    grid = search.grid

    def row(trial: Trial) -> dict[str, Any]:
        return {
            "sizes": trial.sizes._asdict(),
            "updates": trial.sizes.updates(grid.total_steps),
            "bytes": grid.bytes_of(trial.sizes),
            "steps_per_second": trial.rate,
            "iteration_s": trial.sizes.batch / trial.rate if trial.rate else None,
            "note": trial.note,
        }

    limits = f"at most {grid.most_batch:,} steps in a rollout of all worlds, for {grid.bounds.min_updates:,} updates"
    if grid.keeps_reference:
        why = "the run is short" if grid.total_steps < grid.least_steps else "no others fit"
        limits = f"{why}: sizes of the preset, with {grid.bounds.min_updates:,} updates from {grid.least_steps:,} steps on"
    limits += "" if grid.room is None else f"; at most {grid.room / 1e6:,.0f} MB"
    late = f", {search.skipped} left out for lack of time" if search.skipped else ""
    tried = "1 size" if len(search.trials) == 1 else f"{len(search.trials)} sizes"
    total, usual = sizes._replace(num_envs=sizes.num_envs * count), grid.reference.sizes
    took = ", ".join(f"{name}={value}" for name, value in total._asdict().items())
    replaced = [f"{name}={getattr(usual, name)}" for name in REPLACED if getattr(usual, name) != getattr(sizes, name)]
    took += f" in place of {' and '.join(replaced)}" if replaced else ""
    took += f", measured as {sizes.num_envs} worlds in one of {count} processes" if count > 1 else ""
    return {
        "device": str(device),
        "total_steps": grid.total_steps,
        "processes": count,
        "min_updates": grid.bounds.min_updates,
        "room_bytes": grid.room,
        "seconds": seconds,
        "skipped": search.skipped,
        "reference": grid.reference.sizes._asdict(),
        "chosen": sizes._asdict(),
        "rows": [row(trial) for trial in search.trials],
        "text": f"took {took}: {tried} tried in {seconds:.1f} s{late}; {limits}",
    }
