"""Search for good options: runs with different ones train side by side, and Optuna suggests the next ones."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.errors import MissingExtraError
from gpu_vecenv.train.config import TrainConfig
from gpu_vecenv.train.config.checks import COUNT, Check, check_fields, count, integer, is_name, one_of
from gpu_vecenv.train.errors import ConfigError, RunExistsError
from gpu_vecenv.train.run_folder.sweep_plot import plot_sweep
from gpu_vecenv.train.run_folder.terminal import say
from gpu_vecenv.train.runner.callbacks import Callback
from gpu_vecenv.train.runner.many import train_many
from gpu_vecenv.train.runner.one_of_many import RunResult, describe
from gpu_vecenv.train.runner.sweep_space import Setting, read_space, with_values
from gpu_vecenv.train.runner.waiting import AT_ONCE, MAX_AT_ONCE

if TYPE_CHECKING:
    import optuna

    from gpu_vecenv.train.runner.trainer import Trainer

BEST_FILE, STUDY_FILE, PICTURE = "best.yaml", "study.log", "sweep.png"

SAMPLERS = ("tpe", "random", "cmaes", "grid")
PRUNERS = ("none", "median", "halving", "hyperband")


@dataclass(frozen=True)
class SweepOptions:
    """Options of a sweep."""

    trials: int = 100
    """Number of runs, those of an earlier start included."""
    sampler: str = "tpe"
    """``tpe``, ``random``, ``cmaes`` (needs the package cmaes) or ``grid``, which needs choices or steps for all settings."""
    pruner: str = "none"
    """``none``, ``median``, ``halving`` or ``hyperband``: ends runs that do worse than others after as many iterations. The
    device then waits for the host after each iteration."""
    metric: str | None = None
    """Metric of the last iteration to compare runs by. None: ``recent_return`` of the first policy that learns."""
    direction: str = "maximize"
    """``maximize`` or ``minimize``."""
    at_once: int = AT_ONCE
    """Runs at a time; as many are suggested together."""
    seed: int = 0
    """Seed of the sampler; that of the runs is theirs."""
    storage: str | None = None
    """Storage of Optuna, such as ``sqlite:///sweep.db``, which several sweeps may share. None: a file in the folder."""

    def __post_init__(self) -> None:
        """Check types and ranges."""
        checks: Mapping[str, Check] = {
            "trials": COUNT, "sampler": one_of(*SAMPLERS), "pruner": one_of(*PRUNERS),
            "direction": one_of("maximize", "minimize"), "at_once": count(MAX_AT_ONCE), "seed": integer(0, 2**32 - 1),
            "metric": Check(is_name, "a metric").or_none(), "storage": Check(is_name, "a URL of Optuna").or_none(),
        }  # fmt: skip
        check_fields(self, checks)


@dataclass(frozen=True)
class Sweep:
    """Result of a sweep."""

    best: TrainConfig
    """Options of the best run."""
    value: float
    """Its metric."""
    values: dict[str, Any]
    """Its settings by path."""
    study: optuna.Study = field(repr=False)
    """Optuna's study, with all trials."""


def sweep(
    options: Mapping[str, Any] | TrainConfig,
    space: Mapping[str, Any],
    out: str | Path,
    search: SweepOptions = SweepOptions(),  # noqa: B008  (frozen)
    resume: bool = False,
    quiet: bool = False,
) -> Sweep:
    """Train runs with options out of a space, and return the best ones.

    The folder gets ``best.yaml``, which ``gpu-vecenv train --config`` takes, ``sweep.png``, and a file to go on from. Runs
    themselves write no files. After Ctrl-C the runs in progress count as failed, and the best so far is written.

    Args:
        options: options of all runs, as ``TrainConfig.from_options()`` takes them, or a config.
        space: see ``read_space()``.
        out: folder of the sweep.
        search: options of the search.
        resume: go on with the sweep in the folder, up to ``search.trials`` runs in all.
        quiet: print nothing.

    Raises:
        ConfigError: an option, a setting or a metric is unknown or out of range, or no run gave a value.
        RunExistsError: the folder holds a sweep, and ``resume`` is False.
        MissingExtraError: Optuna is not installed.
        OSError: the folder cannot be made or written.

    Example::

        space = {"ppo.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}}
        sweep(TrainConfig("WarpCartPole-v1", total_steps=100_000), space, "runs/sweep", SweepOptions(trials=32))
    """
    if importlib.util.find_spec("optuna") is None:
        raise MissingExtraError('a sweep needs Optuna: pip install "gpu-vecenv[sweep]"')
    settings = read_space(space)
    base = options.to_options() if isinstance(options, TrainConfig) else dict(options)
    base["out"] = None
    _require_options(base, settings)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    study = _study(folder, settings, search, resume)
    _search(study, base, settings, search, quiet)
    ended = study.get_trials(deepcopy=False)
    done = [(trial.number, trial.value, _values_of(trial.user_attrs)) for trial in ended if trial.state.name == "COMPLETE"]
    if not done:
        raise ConfigError("sweep: expected a run that gives a value of its metric, got none")
    best = _values_of(study.best_trial.user_attrs)
    config = TrainConfig.from_options(with_values(base, best))
    with atomic_file(folder / BEST_FILE) as partial:
        Path(partial).write_text(config.to_yaml(), "utf-8")
    results = [(number, math.nan if value is None else value, values) for number, value, values in done]
    metric, logarithmic = str(study.user_attrs.get("metric", "")), {each.path for each in settings if each.spans_orders}
    plot_sweep(folder / PICTURE, results, search.direction == "maximize", metric, logarithmic)
    return Sweep(config, study.best_value, best, study)


def _values_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a trial by path, from its attributes."""
    return dict(attributes["values"])


def _require_options(base: Mapping[str, Any], settings: Iterable[Setting]) -> None:
    """Raise ConfigError unless options with the first values of all settings are those of a run."""
    first = {each.path: each.choices[0] if each.choices else each.low for each in settings}
    config = TrainConfig.from_options(with_values(base, first))
    if config.wandb is not None:
        raise ConfigError(f"wandb: expected None in a sweep, got {config.wandb!r}")


def _study(folder: Path, settings: Iterable[Setting], search: SweepOptions, resume: bool) -> optuna.Study:
    """Return the new or the resumed study of a folder."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    file = folder / STUDY_FILE
    if search.storage is None and file.exists() and not resume:
        advice = "go on with it by --resume, or choose another --out"
        raise RunExistsError(f"{folder}: expected a new folder, got one with a sweep in it: {advice}")
    storage: Any = search.storage
    if storage is None:
        storage = JournalStorage(JournalFileBackend(str(file)))
    study = optuna.create_study(
        storage=storage, study_name=folder.name, direction=search.direction,  # type: ignore[arg-type]  # checked text
        pruner=_pruner(search), load_if_exists=resume or search.storage is not None,
    )  # fmt: skip
    study.sampler = _sampler(search, search.seed + len(study.get_trials(deepcopy=False)))
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)) if resume else ():
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)  # of a process that was killed
    for point in _grid(settings) if search.sampler == "grid" else ():
        study.enqueue_trial(point, skip_if_exists=True)
    return study


def _sampler(search: SweepOptions, seed: int) -> optuna.samplers.BaseSampler:
    """Return what suggests settings. A sweep that goes on has another seed, so that it does not repeat its first suggestions."""
    import optuna

    if search.sampler in ("random", "grid"):  # points of a grid are queued
        return optuna.samplers.RandomSampler(seed=seed)
    if search.sampler == "cmaes":
        return optuna.samplers.CmaEsSampler(seed=seed)
    # Trials that run at the same time count as bad ones, so that suggestions made together differ.
    return optuna.samplers.TPESampler(seed=seed, constant_liar=search.at_once > 1)


def _grid(settings: Iterable[Setting]) -> Iterator[dict[str, Any]]:
    """Yield each combination of the values of all settings, as Optuna stores them."""
    points = {each.path: _points(each) for each in settings}
    for values in itertools.product(*points.values()):
        yield dict(zip(points, values, strict=True))


def _points(setting: Setting) -> list[Any]:
    """Return the values of a setting on a grid."""
    if setting.choices:
        return [json.dumps(choice) for choice in setting.choices]
    if setting.step is None and not setting.is_integer:
        raise ConfigError(f"space: {setting.path}: expected choices or a step for the sampler grid")
    step = setting.step or 1
    return [setting.low + number * step for number in range(int((setting.high - setting.low) / step + 1e-9) + 1)]


def _pruner(search: SweepOptions) -> optuna.pruners.BasePruner:
    import optuna

    pruners: dict[str, type[optuna.pruners.BasePruner]] = {
        "none": optuna.pruners.NopPruner,
        "median": optuna.pruners.MedianPruner,
        "halving": optuna.pruners.SuccessiveHalvingPruner,
        "hyperband": optuna.pruners.HyperbandPruner,
    }
    return pruners[search.pruner]()


class _Reporter(Callback):
    """Tells Optuna the metric of a run after each iteration, and ends the run if it is pruned."""

    def __init__(self, trial: optuna.Trial, metric: str | None) -> None:
        self.trial, self.metric, self.pruned = trial, metric, False

    def on_iteration(self, trainer: Trainer, metrics: dict[str, float]) -> bool | None:
        """Report the metric."""
        name = self.metric or f"recent_return/{next(iter(trainer.parts.algorithms))}"
        value = metrics.get(name, math.nan)
        if math.isnan(value):
            return None
        self.trial.report(value, trainer.iteration)
        self.pruned = self.trial.should_prune()
        return False if self.pruned else None


def _search(
    study: optuna.Study, base: Mapping[str, Any], settings: list[Setting], search: SweepOptions, quiet: bool
) -> None:
    """Train the runs of a sweep, as many together as ``search.at_once``."""
    from optuna.trial import TrialState

    trials_in_all = search.trials
    if search.sampler == "grid":
        trials_in_all = min(trials_in_all, math.prod(len(_points(each)) for each in settings))
    while (count := min(trials_in_all - _finished(study), search.at_once)) > 0:
        trials = [study.ask() for _ in range(count)]
        configs, reporters = {}, {}
        for trial in trials:
            values = {each.path: each.suggest(trial) for each in settings}
            trial.set_user_attr("values", values)
            name = f"trial-{trial.number}"
            configs[name] = TrainConfig.from_options(with_values(base, values))
            reporters[name] = [_Reporter(trial, search.metric)] if search.pruner != "none" else []
        results = train_many(configs, at_once=search.at_once, quiet=True, callbacks=reporters)
        stopped = False
        for trial, (name, result) in zip(trials, results.items(), strict=True):
            value, stopped = _value(study, result, search.metric), stopped or (not result.finished and result.error is None)
            pruned = any(each.pruned for each in reporters[name])
            if result.error is not None and not quiet:
                say(f"{name}: {describe(result.error)}")
            if pruned:
                study.tell(trial, state=TrialState.PRUNED)
            elif value is None or not result.finished:
                study.tell(trial, state=TrialState.FAIL)
            else:
                study.tell(trial, value)
        if not quiet:
            say(_progress_text(study, trials_in_all))
        if stopped:
            return
        if not any(result.finished for result in results.values()):
            error = next(result.error for result in results.values() if result.error is not None)
            raise error


def _finished(study: optuna.Study) -> int:
    """Return the number of runs that are over, those without a value included."""
    return sum(trial.state.is_finished() for trial in study.get_trials(deepcopy=False))


def _value(study: optuna.Study, result: RunResult, metric: str | None) -> float | None:
    """Return the metric of a run; None without a finite value.

    Raises:
        ConfigError: runs have no such metric.
    """
    if not result.metrics:
        return None
    name = metric or next(name for name in result.metrics if name.startswith("recent_return/"))
    if name not in result.metrics:
        raise ConfigError(f"metric: expected one of {', '.join(result.metrics)}, got {name!r}")
    if "metric" not in study.user_attrs:
        study.set_user_attr("metric", name)
    value = result.metrics[name]
    return value if math.isfinite(value) else None


def _progress_text(study: optuna.Study, trials: int) -> str:
    """Return how many runs are over, and the best value so far."""
    states = [trial.state.name for trial in study.get_trials(deepcopy=False)]
    best = f", best {study.best_value:.6g} by trial {study.best_trial.number}" if "COMPLETE" in states else ""
    counts = {"pruned": states.count("PRUNED"), "failed": states.count("FAIL")}
    also = "".join(f", {count} {word}" for word, count in counts.items() if count)
    return f"{_finished(study)} of {trials} runs{also}{best}"
