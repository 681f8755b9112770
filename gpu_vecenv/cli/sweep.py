"""The command ``sweep``: a search for good options, by Optuna."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from gpu_vecenv.cli.key_value import Settings, help_option
from gpu_vecenv.cli.run_options import LearningOptions, RunOptions, given_options, with_file
from gpu_vecenv.train.config import read_yaml
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.runner.build import import_modules
from gpu_vecenv.train.runner.waiting import AT_ONCE


def sweep(
    env_id: tyro.conf.Positional[Annotated[str | None, help_option("the config's", "[ENV_ID]")]] = None,
    *,
    space: Annotated[Path, help_option("", "FILE")],
    trials: int = 100,
    sampler: Literal["tpe", "random", "cmaes", "grid"] = "tpe",
    pruner: Literal["none", "median", "halving", "hyperband"] = "none",
    metric: Annotated[str | None, help_option("recent_return of the first policy that learns", "METRIC")] = None,
    direction: Literal["maximize", "minimize"] = "maximize",
    at_once: int = AT_ONCE,
    sampler_seed: int = 0,
    storage: Annotated[str | None, help_option("a file in the folder", "URL")] = None,
    resume: bool = False,
    config: Annotated[Path | None, help_option("none", "FILE")] = None,
    modules: Annotated[Settings, help_option("none", "MODULE ...")] = (),
    options: Annotated[RunOptions, tyro.conf.arg(name="")] = RunOptions(),  # noqa: B008  (frozen)
    learning: Annotated[LearningOptions, tyro.conf.arg(name="")] = LearningOptions(),  # noqa: B008
) -> None:
    """Search for good options: train runs with different ones side by side, which Optuna suggests; write the best as YAML.

    Example: gpu-vecenv sweep WarpCartPole-v1 --space space.yaml --trials 200 --total-steps 1000000 --out runs/sweep

    Args:
        env_id: registered env id, such as WarpCartPole-v1.
        space: YAML file with options by their paths, and their values: {low: 1e-4, high: 1e-2, log: true} or a list.
        trials: number of runs, those before --resume included.
        sampler: what suggests options; cmaes needs the package cmaes.
        pruner: what ends runs that do worse than others.
        metric: metric of the last iteration to compare runs by, such as evaluation/runner.
        direction: maximize or minimize.
        at_once: runs at a time, 1 to 32; as many are suggested together.
        sampler_seed: seed of the sampler; --seed is that of the runs.
        storage: storage of Optuna, such as sqlite:///sweep.db.
        resume: go on with the sweep in the folder.
        config: YAML file with options of all runs; options given here replace its own.
        modules: modules that register the runs' algorithms, networks and env, to import first.
        options: options of all runs.
        learning: options of their policies and of how they learn.
    """
    from gpu_vecenv.train.runner.sweep import BEST_FILE, PICTURE, SweepOptions
    from gpu_vecenv.train.runner.sweep import sweep as search

    import_modules(modules)
    of_command_line = given_options(options, learning)
    settings = with_file(of_command_line if env_id is None else {"env_id": env_id, **of_command_line}, config)
    if not settings.get("env_id"):
        raise ConfigError(f"expected an env id, such as WarpTag-v0, or a --config with one, got {settings.get('env_id')!r}")
    out = Path(str(settings.pop("out", None) or f"runs/sweep-{settings['env_id']}"))
    how = SweepOptions(trials, sampler, pruner, metric, direction, at_once, sampler_seed, storage)
    result = search(settings, read_yaml(space), out, how, resume)
    print(f"best of {len(result.study.get_trials(deepcopy=False))} runs: {result.value:.6g}")
    for path, value in result.values.items():
        print(f"  {path}: {value}")
    print(f"options: {out / BEST_FILE}  (gpu-vecenv train --config {out / BEST_FILE} --out runs/best)")
    print(f"picture: {out / PICTURE}")
