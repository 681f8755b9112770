"""The trainer: builds a run, iterates, saves and resumes it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from gpu_vecenv.errors import DeviceError, SequenceError
from gpu_vecenv.train.config import ResolvedConfig, TrainConfig, resolve
from gpu_vecenv.train.errors import CheckpointError, ConfigError
from gpu_vecenv.train.run_folder.best import BestReturn
from gpu_vecenv.train.run_folder.checkpoint import (
    checkpoint_in_errors,
    checkpoint_path,
    load_checkpoint,
    require_same_form,
    saved_config,
)  # fmt: skip
from gpu_vecenv.train.run_folder.checkpoint_file import save_checkpoint
from gpu_vecenv.train.run_folder.checkpoints import Checkpoints, run_of
from gpu_vecenv.train.run_folder.folder import RunFolder, lock_run_folder
from gpu_vecenv.train.run_folder.logger import Logger
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE
from gpu_vecenv.train.run_folder.sink import Sink
from gpu_vecenv.train.run_folder.terminal import say
from gpu_vecenv.train.runner.build import close_on_error, load_policy, make_env
from gpu_vecenv.train.runner.callbacks import Callback
from gpu_vecenv.train.runner.executor import make_executor
from gpu_vecenv.train.runner.flight import Flight
from gpu_vecenv.train.runner.interrupt import StopRequest
from gpu_vecenv.train.runner.iteration import IN_FLIGHT
from gpu_vecenv.train.runner.pace import Pace, until_next
from gpu_vecenv.train.runner.parts import Parts
from gpu_vecenv.train.runner.resumed import Resumed
from gpu_vecenv.train.runner.stagger import stagger_starts
from gpu_vecenv.train.runner.texts import move_text, run_text
from gpu_vecenv.train.runner.torch_threads import torch_threads
from gpu_vecenv.train.runner.trial import Trial


class Trainer:
    """Multi-agent PPO on one device.

    A trainer with ``config.out`` locks that folder until ``close()`` is called or the trainer is deleted. No other trainer can
    write to a locked folder.

    Example::

        Trainer(TrainConfig("WarpTag-v0", total_steps=100_000, out="runs/tag")).train()
    """

    def __init__(
        self,
        config: TrainConfig,
        quiet: bool = False,
        *,
        callbacks: Sequence[Callback] = (),
        sinks: Sequence[Sink] = (),
        networks: Mapping[str, nn.Module] | None = None,
        resumed: Resumed | None = None,
    ):
        """Build env, policies and algorithms.

        Args:
            config: the run's options.
            quiet: print nothing.
            callbacks: objects whose methods the trainer calls.
            sinks: objects that take the metrics; ``close()`` closes them.
            networks: policy name to the user's network, for policies whose network is not built from the options. A checkpoint
                stores its weights alone, so ``resume()`` takes the networks again.
            resumed: checkpoint to resume from, passed by ``resume()``; None starts a new run.

        Raises:
            ConfigError, PolicyMapError: options do not fit the env.
            CheckpointError: a file of ``load_policies`` is unusable, or ``resumed`` does not fit the options.
            RunExistsError: ``config.out`` already holds a run; ``resume()`` continues it.
            RunLockedError: another trainer has locked ``config.out``.
            OSError: the run's folder cannot be made or written.
        """
        self.quiet, self.callbacks, self._sinks = quiet, tuple(callbacks), tuple(sinks)
        self._resources = contextlib.ExitStack()
        for sink in sinks:
            self._resources.callback(sink.close)
        self._folder: RunFolder | None = None
        with close_on_error(self):
            if resumed is not None:
                self._own_folder(resumed.folder)
                self._build(config, networks)
                self._load(resumed.state, resumed.path)
                if (text := move_text(resumed.device, self.env.device)) and not quiet:
                    say(f"{resumed.path}: {text}")
                return
            self._build(config, networks)
            self.parts.collector.reset(self.config.seed)
            if self.config.stagger_starts:
                stagger_starts(self.env, self.parts.collector)
            for name, path in self.config.load_policies.items():
                load_policy(self.policies, name, path)
            # The folder comes last, so that wrong options leave no folder behind.
            self._own_folder(None if config.out is None else lock_run_folder(Path(config.out)))

    @classmethod
    def resume(
        cls,
        path: str | Path,
        quiet: bool = False,
        *,
        callbacks: Sequence[Callback] = (),
        sinks: Sequence[Sink] = (),
        networks: Mapping[str, nn.Module] | None = None,
        **changes: Any,
    ) -> Trainer:
        """Resume from a checkpoint; on the same kind of device the run ends as it would have without the interruption.

        Args:
            path: the folder of a run, of which the newest checkpoint is read, or a checkpoint file. The run's folder is the
                default of ``out``. Checkpoints and metrics of later iterations are removed from it when the run goes on.
            quiet: print nothing.
            callbacks: see ``Trainer``.
            sinks: see ``Trainer``.
            networks: see ``Trainer``; the same names as in the run.
            **changes: options to change, such as ``total_steps`` or ``out``.

        Raises:
            CheckpointError: the file is no checkpoint, is damaged, or does not fit the run.
            ConfigError: a value in ``changes`` is out of range.
            DeviceError: the run's device is missing here.
            RunExistsError: ``out`` holds another run.
            RunLockedError: another trainer has locked ``out``.
            OSError: the run's folder cannot be made or written.
        """
        run = Path(path) if Path(path).is_dir() else run_of(Path(path))
        if run is not None:
            changes.setdefault("out", str(run))
        file = checkpoint_path(path)
        out = dataclasses.replace(saved_config(path, load_checkpoint(path)), **changes).out
        folder = None if out is None else lock_run_folder(Path(out), file)
        with contextlib.nullcontext() if folder is None else close_on_error(folder):
            # Read again: another trainer may have saved before the folder was locked.
            file = checkpoint_path(path)
            state = load_checkpoint(file)
            saved = saved_config(file, state)
            config = dataclasses.replace(saved, **changes)
            try:
                resumed = Resumed(file, state, folder, saved.device)
                with checkpoint_in_errors(file, changes):
                    return cls(config, quiet, callbacks=callbacks, sinks=sinks, networks=networks, resumed=resumed)
            except DeviceError as error:
                if "device" in changes:
                    raise
                raise DeviceError(
                    f"{path}: this run was on {config.device}, which is missing here ({error}) "
                    "Resume on another device: --device cpu (device='cpu')."
                ) from error

    def _own_folder(self, folder: RunFolder | None) -> None:
        """Store the run's folder; ``close()`` closes it."""
        if folder is not None:
            self._folder = folder
            self._resources.callback(folder.close)

    def _build(self, config: TrainConfig, networks: Mapping[str, nn.Module] | None) -> None:
        resolved = resolve(config)
        self.env = make_env(resolved)
        self._resources.callback(self.env.close)
        self.config: ResolvedConfig = dataclasses.replace(resolved, device=self.env.device)
        with torch_threads(resolved.threads):
            self.parts = Parts(self.env, self.config, networks)
        self.executor = make_executor(resolved.executor, self.env, self.quiet)
        # A callback may read and change the run after an iteration, and the CPU has no queue.
        alone = bool(self.callbacks) or self.env.device == "cpu"
        self.flight = Flight(self.parts, self.executor, 1 if alone else IN_FLIGHT)
        self.trial = Trial(self.config, self.parts)
        self._resources.callback(self.trial.close)
        self.iteration = 0
        self.metrics: dict[str, float] = {}

    @property
    def policies(self) -> dict[str, Any]:
        """Policies by name."""
        return self.parts.policies

    @property
    def best(self) -> BestReturn:
        """The best evaluation so far."""
        return self.trial.best

    @property
    def finished(self) -> str:
        """The reason why the run is over; empty while it may go on."""
        return "done" if self.iteration >= self.num_iterations else self.trial.finished

    @property
    def steps_per_iteration(self) -> int:
        """Steps of a rollout, summed over worlds."""
        return self.config.num_envs * self.config.ppo.num_steps

    @property
    def num_iterations(self) -> int:
        """Iterations in the whole run."""
        return math.ceil(self.config.total_steps / self.steps_per_iteration)

    def train(self, iterations: int | None = None) -> dict[str, float]:
        """Train to the end or for some iterations. After Ctrl-C, SIGTERM or SIGHUP, finish what is in flight, save and return.

        Args:
            iterations: largest number of iterations to run; None trains to ``total_steps`` or to an evaluation that ends the run.

        Returns:
            The last iteration's metrics.

        Raises:
            NonFiniteError: a gradient, a weight or a statistic became infinite or NaN. The newest checkpoint is an earlier one.
            RunGoneError: the run's folder was removed or replaced.
            RunLockedError: the trainer was closed or forked.
            MetricsError: the run's metrics are unreadable.
            OSError: a file cannot be written.
        """
        with StopRequest() as stop, torch_threads(self.config.threads):
            for _ in self.pauses(stop, iterations):
                pass
        return self.metrics

    def pauses(self, stop: StopRequest, iterations: int | None = None) -> Generator[None]:
        """Train as ``train()`` does, in a generator that pauses while the device works, so that other runs can go on meanwhile.

        Args:
            stop: a request to end the run after the iterations in flight, with a save.
            iterations: see ``train()``, as for errors.

        Yields:
            None, before each wait for an iteration; ``metrics`` holds those of the last finished one.
        """
        self.metrics = {}
        stop_at = self.num_iterations if iterations is None else min(self.iteration + iterations, self.num_iterations)
        out = None if self._folder is None else self._folder.path
        if not self.quiet:
            say(run_text(self.config, self.parts))
        if self._folder is not None:
            self._folder.check()
            self._checkpoints().remove_after(self.iteration)
        if out is not None and self.iteration == 0:
            self.config.save(out)
            self.save()  # From here on a killed run can be resumed.
        pace = Pace(out is not None, self.config.checkpoint_interval, self.config.evaluation_interval)
        self._call("on_start")
        with (
            contextlib.nullcontext() if self._folder is None else self._folder.writing(),
            Logger(
                out,
                self.num_iterations * self.steps_per_iteration,
                self.iteration,
                self.quiet,
                first_steps=self.iteration * self.steps_per_iteration,
                wandb=self.config.wandb,
                options=self.config.to_options(),
                sinks=self._sinks,
            ) as logger,
        ):
            if self._folder is not None:
                self._folder.remember(METRICS_FILE)
            while self.flight.count or self._goes_on(stop_at, stop):
                ahead = min(self.flight.most, pace.ahead(self.iteration))
                while self.flight.count < ahead and self._goes_on(stop_at, stop):
                    self.launch()
                yield
                self.metrics = self.finish()
                logger.log(self.metrics)
                self._report(self.metrics)
                if pace.saves(self.iteration) and not self.flight.count:
                    logger.flush()  # No line of an iteration before a checkpoint may be missing.
                    self.save()
                    pace.saved()
            self.flight.settle()
            logger.flush()
            if out is not None:  # inside the block, so that a second signal of a closing terminal does not stop the save
                path = self.save()
        if out is not None and not self.quiet:
            say(f"{stop.received or self.finished or 'paused'}: iteration {self.iteration}, saved {path}")
        self._call("on_end")

    def launch(self) -> None:
        """Queue the next iteration on the caller's current stream and return; the device may still be busy with earlier ones.

        Raises:
            SequenceError: as many iterations as possible are in flight, or one of them is evaluated. Call ``finish()`` first.
        """
        if self.flight.count >= until_next(self.config.evaluation_interval, self.iteration):
            raise SequenceError("launch(): an evaluation follows the iterations in flight; call finish() for each of them first.")
        self.flight.launch(self.iteration + self.flight.count)

    def finish(self) -> dict[str, float]:
        """Wait for the oldest iteration in flight and evaluate if it is due; return the metrics.

        Raises:
            SequenceError: no iteration is in flight.
            NonFiniteError: see ``train()``. Later iterations in flight are dropped.
        """
        values, rate = self.flight.finish()
        self.iteration += 1
        numbers = {"iteration": self.iteration, "steps": self.iteration * self.steps_per_iteration}
        evaluated = self.trial.evaluate(self.iteration)
        return {**numbers, "steps_per_second": rate * self.steps_per_iteration, **values, **evaluated}

    def _goes_on(self, stop_at: int, stop: StopRequest) -> bool:
        """True if ``train()`` may launch an iteration."""
        return self.iteration + self.flight.count < stop_at and stop.received is None and not self.trial.finished

    def _report(self, metrics: dict[str, float]) -> None:
        """Call callbacks after an iteration, and keep the checkpoint of the best evaluation."""
        for name in self.parts.rows:
            if not math.isnan(metrics[f"return/{name}"]):
                self._call("on_episodes", name, metrics[f"return/{name}"], metrics[f"episode_length/{name}"])
        self._call("on_iteration", metrics)
        if self.trial.latest is not None:
            if self.trial.latest_is_best and self._folder is not None:
                self._folder.check()
                self._checkpoints().save_best(self._state())
            self._call("on_evaluation", self.trial.latest, self.trial.latest_is_best)
            self.trial.latest = None

    def _call(self, method: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, method)(self, *arguments)

    def save(self, path: str | Path | None = None) -> Path:
        """Write a checkpoint.

        Args:
            path: the file; None means the checkpoint of this iteration in the run's folder, where the newest ones are kept.

        Returns:
            The file.

        Raises:
            ConfigError: neither ``path`` nor ``config.out`` is given.
            SequenceError: iterations are in flight; ``finish()`` comes first.
            RunGoneError: the run's folder was removed or replaced since this trainer was made.
            OSError: the file cannot be written; an earlier checkpoint is unchanged.
        """
        if path is not None:
            written = Path(path)
            save_checkpoint(written, self._state())
        elif self._folder is None:
            raise ConfigError("save: expected a path, or a run with `out`, got neither")
        else:
            self._folder.check()
            written = self._checkpoints().save(self._state())
        self._call("on_save", written)
        return written

    def _checkpoints(self) -> Checkpoints:
        """Return the checkpoints of the run's folder."""
        assert self._folder is not None
        return Checkpoints(self._folder.path, self.config.keep_checkpoints)

    def _state(self) -> dict[str, Any]:
        """Return the content of a checkpoint."""
        self.flight.settle()
        return {
            "config": self.config.to_json(),
            "iteration": self.iteration,
            **self.parts.state_dict(),
            "reset_pool": self.env.get_reset_pool(),
            "best": self.best.state_dict(),
        }

    def _load(self, state: dict[str, Any], path: Path) -> None:
        self.parts.collector.reset(self.config.seed)  # An env must be reset before its state can be set.
        expected = self._state()
        for key in ("collector", "episodes", "policies"):
            require_same_form(state[key], expected[key], f"{path}: {key}")
        try:
            for name, policy in self.policies.items():
                policy.load_state_dict(state["policies"][name])
            for name, algorithm in self.parts.algorithms.items():
                algorithm.load_state_dict(state["algorithms"].get(name), f"{path}: algorithms/{name}")
            for name, episodes in self.parts.episodes.items():
                episodes.load_state_dict(state["episodes"][name])
            # Before the state of the env: without a pool, a state that is set may hold no entries of one.
            self.env.set_reset_pool(state["reset_pool"] or None)
            self.parts.collector.load_state_dict(state["collector"])
            self.best.load_state_dict(state["best"], f"{path}: best")
        except CheckpointError:
            raise
        except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise CheckpointError(
                f"{path}: expected the state of this run's env and policies, got {type(error).__name__}: {error}"
            ) from error
        self.iteration = state["iteration"]

    def close(self) -> None:
        """Close the env and the sinks, and unlock the run's folder."""
        self._resources.close()
