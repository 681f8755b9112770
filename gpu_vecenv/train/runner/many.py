"""Several runs side by side in one process, each equal to the run alone.

Every run has a ``Trainer`` of its own: env, policies, optimisers, folder, and on a GPU a CUDA stream. The runs share nothing that
changes, so each has the bits that it has alone. The host goes round the runs: it queues iterations of one and reads the metrics
of its oldest, while the device works on the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_vecenv.train.config import AUTO, CONFIG_FILE, TrainConfig, import_env, resolve
from gpu_vecenv.train.config.checks import integer, require
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.run_folder.checkpoint import without_import
from gpu_vecenv.train.run_folder.checkpoints import has_checkpoint
from gpu_vecenv.train.run_folder.folder import RunFolder
from gpu_vecenv.train.run_folder.runs import lock_new_runs, run_folders
from gpu_vecenv.train.run_folder.runs_terminal import RunsTerminal
from gpu_vecenv.train.run_folder.terminal import say
from gpu_vecenv.train.runner.callbacks import Callback, checked_callbacks
from gpu_vecenv.train.runner.interrupt import StopRequest
from gpu_vecenv.train.runner.one_of_many import OneOfMany, RunResult, describe
from gpu_vecenv.train.runner.resumed import changed
from gpu_vecenv.train.runner.streams import Streams
from gpu_vecenv.train.runner.trainer import Trainer
from gpu_vecenv.train.runner.waiting import AT_ONCE, MAX_AT_ONCE, Waiting, require_devices, spread


def train_many(
    configs: Mapping[str, TrainConfig],
    out: str | Path | None = None,
    *,
    at_once: int = AT_ONCE,
    quiet: bool = False,
    callbacks: Sequence[Callback] | Mapping[str, Sequence[Callback]] = (),
    devices: Sequence[str] | None = None,
) -> dict[str, RunResult]:
    """Train several runs side by side; each has the results of ``Trainer(config).train()``, to the last bit.

    An error ends its own run alone and is in the run's result. After Ctrl-C, SIGTERM or SIGHUP all runs finish their iterations,
    save and end; ``resume_many()`` goes on.

    Args:
        configs: options of each run by its name. They may differ in all: seed, hyperparameters, network, env, device.
        out: folder in which each run has a folder of its name; None writes no files. The options have no ``out`` of their own.
        at_once: most runs at a time, 1 to 32, with ``devices`` on each of them; another begins when one is over. Memory grows
            with this number, because each run has arrays of its own.
        quiet: print nothing.
        callbacks: objects whose methods the trainers of all runs call; or those of each run by its name.
        devices: devices of this host that the runs take in turn, in the order of ``configs``: the first run the first device. The
            options then name none. None: each run has its own ``device``.

    Returns:
        The result of each run by its name.

    Raises:
        CallbackError: see ``Trainer``.
        ConfigError: there is no run, a name cannot be that of a folder, options have an ``out`` or send to Weights & Biases,
            ``at_once`` is out of range, or ``devices`` names none or has options with a device beside it.
        RunExistsError: ``out`` holds a run or runs.
        RunLockedError: another trainer has locked ``out``.
        OSError: ``out`` cannot be made or written.
        Exception: what ``Trainer(config)`` raises for the first run; no run begins.

    Example::

        config = TrainConfig("WarpCartPole-v1", total_steps=100_000)
        train_many({f"seed-{seed}": dataclasses.replace(config, seed=seed) for seed in range(8)}, "runs/cartpole")
    """
    require(isinstance(configs, Mapping), "train_many: configs", "a mapping of names to TrainConfig", configs)
    for name, config in configs.items():
        require(isinstance(name, str), "train_many: name of a run", "a str", name)
        require(isinstance(config, TrainConfig), f"train_many: {name}", "a TrainConfig", config)
    _require(at_once, configs, devices)
    by_run = {name: callbacks.get(name, ()) if isinstance(callbacks, Mapping) else callbacks for name in configs}
    by_run = {name: checked_callbacks(each) for name, each in by_run.items()}
    for name, config in configs.items():
        require(config.out is None, f"{name}: out", "None, because train_many(out=...) holds all runs", config.out)
        require(devices is None or config.device == "auto", f"{name}: device", "'auto' with devices", config.device)
        import_env(config.env_id)
    if devices is not None:
        configs = {
            name: dataclasses.replace(config, device=spread(number, devices))
            for number, (name, config) in enumerate(configs.items())
        }
    queues = 1 if devices is None else len(devices)
    if out is None:
        return _train([_new(name, config, by_run[name]) for name, config in configs.items()], at_once, queues, quiet, new=True)
    placed = {name: dataclasses.replace(config, out=str(Path(out) / name)) for name, config in configs.items()}
    with contextlib.closing(lock_new_runs(Path(out), configs)):
        return _train([_new(name, config, by_run[name]) for name, config in placed.items()], at_once, queues, quiet, new=True)


def resume_many(
    folder: str | Path,
    *,
    at_once: int = AT_ONCE,
    quiet: bool = False,
    callbacks: Sequence[Callback] = (),
    devices: Sequence[str] | None = None,
    **changes: Any,
) -> dict[str, RunResult]:
    """Go on with the runs in a folder of ``train_many()``, each as ``Trainer.resume()`` does; runs that waited begin.

    Args:
        folder: the folder.
        at_once: see ``train_many()``.
        quiet: print nothing.
        callbacks: see ``train_many()``.
        devices: see ``train_many()``, in the order of the folders; None: each run goes on where it was.
        **changes: options to change in all runs, such as ``total_steps``.

    Returns:
        The result of each run by its name.

    Raises:
        CallbackError: see ``Trainer``.
        CheckpointError: the env of a run that waits is in a module that is not imported.
        ConfigError: the folder holds no runs, the options of a run are damaged, ``changes`` has an ``out``, an option that a run
            keeps or a value out of range, ``at_once`` is out of range, or ``devices`` names none or has a ``device`` beside it.
        RunLockedError: another trainer has locked the folder.
        OSError: the folder cannot be read or written.
    """
    callbacks = checked_callbacks(callbacks)
    require("out" not in changes, "resume_many: out", "none, because runs stay in their folders", changes.get("out"))
    require(devices is None or "device" not in changes, "resume_many: device", "none with devices", changes.get("device"))
    if not run_folders(folder):
        raise ConfigError(f"{folder}: expected a folder of runs, such as {Path(folder) / 'seed-0'}, got none")
    with contextlib.closing(RunFolder(Path(folder))):
        _require_spread(at_once, devices)
        on = [{} if devices is None else {"device": spread(number, devices)} for number in range(len(run_folders(folder)))]
        runs = [_resumed_run(path, callbacks, {**changes, **here}) for path, here in zip(run_folders(folder), on, strict=True)]
        _require(at_once, {run.name: run.result.config for run in runs}, devices)
        return _train(runs, at_once, 1 if devices is None else len(devices), quiet, new=False)


def _require_spread(at_once: int, devices: Sequence[str] | None) -> None:
    """Raise ConfigError for numbers and devices that several runs cannot have."""
    check = integer(1, MAX_AT_ONCE)
    require(check.test(at_once), "at_once", check.expected, at_once)
    if devices is not None:
        require_devices(devices, at_once)


def _require(at_once: int, configs: Mapping[str, TrainConfig], devices: Sequence[str] | None) -> None:
    """Raise ConfigError for what several runs cannot have."""
    _require_spread(at_once, devices)
    require(len(configs) > 0, "runs", "at least one", "none")
    for name, config in configs.items():
        expected = "a number in one of several runs, such as that of find_sizes(config).config"
        require(config.num_envs != AUTO, f"{name}: num_envs", expected, config.num_envs)
        require(config.wandb is None, f"{name}: wandb", "None with several runs in a process", config.wandb)


def _new(name: str, config: TrainConfig, callbacks: Sequence[Callback]) -> OneOfMany:
    return OneOfMany(name, config, lambda: Trainer(config, quiet=True, callbacks=callbacks, shares_gpu=True))


def _resumed_run(path: Path, callbacks: Sequence[Callback], changes: dict[str, Any]) -> OneOfMany:
    """Return the run of a folder."""
    config = changed(TrainConfig.of_run(path), {"out": str(path), **changes})
    if not has_checkpoint(path):
        return _new(path.name, without_import(config, path / CONFIG_FILE), callbacks)
    return OneOfMany(path.name, config, lambda: Trainer.resume(path, quiet=True, callbacks=callbacks, shares_gpu=True, **changes))


def _train(runs: Sequence[OneOfMany], at_once: int, queues: int, quiet: bool, new: bool) -> dict[str, RunResult]:
    """Train runs.

    Args:
        runs: the runs.
        at_once: most runs of a queue at a time.
        queues: number of queues, which the runs take in turn: one for each device that they are spread over.
        quiet: print nothing.
        new: the runs are new: an error that prevents the first one is raised, and the options of those that wait are written, so
            that ``resume_many()`` finds them.
    """
    waiting, active, streams, said = Waiting(runs, queues, at_once), list[OneOfMany](), Streams(), set[str]()
    display = RunsTerminal({run.name: resolve(run.result.config).total_steps for run in runs}, sys.stdout, quiet)
    if not quiet:
        where = f" on each of {queues} devices" if queues > 1 else ""
        envs = ", ".join({run.result.config.env_id: None for run in runs})
        say(f"{len(runs)} runs of {envs}, at most {at_once} at a time{where}")

    def report(run: OneOfMany, texts: Iterable[str]) -> None:
        """Print what was not printed for another run."""
        for text in texts:
            if not quiet and text not in said:
                say(f"{run.name}: {text}")
            said.add(text)

    def end(run: OneOfMany) -> None:
        if run.result.finished or run.result.error is not None:
            display.end(run.name)
        report(run, [describe(run.result.error)] if run.result.error is not None else [])

    with contextlib.closing(display), StopRequest() as stop, contextlib.ExitStack() as undo:
        while active or (waiting and stop.received is None):
            # At most one run begins each time the host goes through the runs, so that the device has work of the others
            # meanwhile.
            if stop.received is None and (run := waiting.take(active)) is not None:
                undo.callback(run.close)
                if run.begin(streams, stop):
                    active.append(run)
                    display.begin(run.name, run.first_steps, run.total_steps)
                    if new and run is runs[0]:
                        _save_options(waiting)
                elif new and run is runs[0] and run.result.error is not None:
                    raise run.result.error
                else:
                    end(run)
            for run in tuple(active):
                report(run, run.notes())
                going = run.go_on()
                display.log(run.name, run.metrics)
                if not going:
                    active.remove(run)
                    end(run)
            display.show()
    if stop.received is not None and not quiet:
        say(f"{stop.received}: {sum(bool(run.result.finished) for run in runs)} of {len(runs)} runs are over, the others stopped")
    return {run.name: run.result for run in runs}


def _save_options(runs: Iterable[OneOfMany]) -> None:
    """Write the options of runs that wait to their folders."""
    for run in runs:
        if run.result.config.out is not None:
            folder = Path(run.result.config.out)
            folder.mkdir(exist_ok=True)
            run.result.config.save(folder)
