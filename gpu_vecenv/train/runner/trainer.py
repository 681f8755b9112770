"""The trainer: builds a run, iterates, saves and resumes it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

import torch
from torch import nn

from gpu_vecenv.backend.memory import TorchMemory
from gpu_vecenv.errors import SequenceError
from gpu_vecenv.train.config import AUTO, ResolvedConfig, TrainConfig, resolve, resolve_new
from gpu_vecenv.train.config.checks import MAX_LONG, checked, integer, is_name, require
from gpu_vecenv.train.errors import ConfigError, NonFiniteError
from gpu_vecenv.train.fused.cost import not_fused_lines
from gpu_vecenv.train.processes.group import Processes, rank_and_count
from gpu_vecenv.train.processes.states import num_states, state_of, whole_state
from gpu_vecenv.train.run_folder.best import BestReturn
from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint, saved_config
from gpu_vecenv.train.run_folder.checkpoint_file import require_content, save_checkpoint
from gpu_vecenv.train.run_folder.folder import lock_run_folder, require_no_run
from gpu_vecenv.train.run_folder.live_file import remove_address, write_address
from gpu_vecenv.train.run_folder.logger import Logger
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE
from gpu_vecenv.train.run_folder.run_files import RunFiles
from gpu_vecenv.train.run_folder.sink import Sink
from gpu_vecenv.train.run_folder.terminal import say
from gpu_vecenv.train.run_folder.weights_and_biases import require_wandb
from gpu_vecenv.train.runner.auto_sizes import FoundSizes, find_sizes
from gpu_vecenv.train.runner.build import close_on_error, load_policy, make_env
from gpu_vecenv.train.runner.callbacks import Callback, checked_callbacks, checked_sinks, reason_to_stop
from gpu_vecenv.train.runner.effects import require_effects, require_parts, require_read, require_teams, require_used
from gpu_vecenv.train.runner.executor import GraphExecutor, make_executor
from gpu_vecenv.train.runner.interrupt import StopRequest
from gpu_vecenv.train.runner.iteration import IN_FLIGHT, WISHES
from gpu_vecenv.train.runner.memory import memory_in_errors, require_rollout_room
from gpu_vecenv.train.runner.nonfinite_world import with_world
from gpu_vecenv.train.runner.opponents import functions_again, with_opponents
from gpu_vecenv.train.runner.other_count import other_count_text, state_for_other_count, worlds_seed
from gpu_vecenv.train.runner.periodic_evaluation import PeriodicEvaluation
from gpu_vecenv.train.runner.pipeline import LaunchLimit, Pipeline, until_next
from gpu_vecenv.train.runner.preset_lines import preset_lines
from gpu_vecenv.train.runner.resumed import Resumed, move_text, require_kept, resumed_run
from gpu_vecenv.train.runner.run_state import RunState, policies_with_networks
from gpu_vecenv.train.runner.spread import device_of_process, require_shared_wrappers, spread_of
from gpu_vecenv.train.runner.stagger import stagger_starts
from gpu_vecenv.train.runner.torch_settings import torch_threads
from gpu_vecenv.train.runner.users_code import UsersCode


class Trainer:
    """Multi-agent training on one device, or on that of one process of several.

    A trainer with ``config.out`` locks that folder until ``close()`` is called or the trainer is deleted. No other trainer can
    write to a locked folder.

    Attributes:
        found_sizes: what the search for ``num_envs="auto"`` found; None without one.

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
        shares_gpu: bool = False,
        processes: Processes | None = None,
        resumed: Resumed | None = None,
        **code: Unpack[UsersCode],
    ):
        """Build env, policies and algorithms.

        Args:
            config: the run's options.
            quiet: print nothing.
            callbacks: objects whose methods the trainer calls.
            sinks: objects that take the metrics; ``close()`` closes them.
            shares_gpu: other runs use the GPU at the same time, as in ``train_many()``; launches then leave a part of it to them.
                Results do not depend on it.
            processes: processes of the run, see ``joined()``. Each of them makes a trainer with the same options, and the same
                calls. The first one alone prints, evaluates, writes files and gives metrics to sinks. None: this one alone.
            resumed: checkpoint to resume from, passed by ``resume()``; None starts a new run.
            **code: networks, opponents and a function for rewards, by the names of ``UsersCode``.

        Raises:
            CallbackError: ``callbacks`` or ``sinks`` is no list or tuple, or an entry has the wrong type.
            ConfigError, PolicyMapError: options do not fit the env, or the package that ``wandb`` needs is missing.
            CheckpointError: a file of ``load_policies`` is unusable, or ``resumed`` does not fit the options.
            RunExistsError, RunLockedError: ``config.out`` holds a run, which ``resume()`` continues, or is locked.
            OutOfMemoryError: the run does not fit into memory; the message says what it needs.
            OSError: the run's folder cannot be made or written.
        """
        self.processes = processes
        self._is_first = processes is None or processes.is_first
        self.quiet, self.callbacks = quiet or not self._is_first, checked_callbacks(callbacks)
        self._sinks = checked_sinks(sinks if self._is_first else ())
        require_wandb(config.wandb)
        self.found_sizes: FoundSizes | None = None
        self._code = code
        networks, opponents = code.get("networks"), code.get("opponents")
        self._reward = code.get("reward")
        self._resources = contextlib.ExitStack()
        for sink in self._sinks:
            self._resources.callback(sink.close)
        with close_on_error(self):
            if resumed is None:
                require_effects(config)
                config, self._functions = with_opponents(config, opponents)
                config, self.found_sizes = self._with_sizes(config, networks, shares_gpu)
            else:
                if resumed.folder is not None:
                    self._resources.callback(resumed.folder.close)
                self._functions = functions_again(resumed, opponents)
            self._build(config, networks, shares_gpu, is_new=resumed is None)
            if resumed is not None:
                self._load(resumed)
                self._folder = resumed.folder
            else:
                self._start()
                # The folder comes last, so that wrong options leave no folder behind.
                writes = config.out is not None and self._is_first
                self._folder = lock_run_folder(Path(str(config.out))) if writes else None
                if self._folder is not None:
                    self._resources.callback(self._folder.close)
            self._files = None if self._folder is None else RunFiles(self._folder, self.config)
            if self._folder is not None and self.found_sizes is not None:
                self.found_sizes.save(self._folder.path)

    @classmethod
    def resume(
        cls,
        path: str | Path,
        quiet: bool = False,
        *,
        callbacks: Sequence[Callback] = (),
        sinks: Sequence[Sink] = (),
        shares_gpu: bool = False,
        processes: Processes | None = None,
        **changes: Any,
    ) -> Trainer:
        """Resume from a checkpoint; on the same kind of device the run ends as it would have without the interruption.

        Args:
            path: the folder of a run, of which the newest checkpoint is read, or a checkpoint file. The run's folder is the
                default of ``out``. Checkpoints and metrics of later iterations are removed from it when the run goes on.
            quiet: print nothing.
            callbacks: see ``Trainer``.
            sinks: see ``Trainer``.
            shares_gpu: see ``Trainer``.
            processes: see ``Trainer``. All of them read the checkpoint. With as many as before, the run ends as it would have;
                with another number, worlds begin new episodes, and a line says what else differs.
            **changes: options to change, such as ``total_steps`` or ``out``; and what of ``UsersCode`` no checkpoint holds: the
                ``networks`` of the run, the functions among its ``opponents``, and its function for rewards, ``reward``.

        Raises:
            CallbackError: see ``Trainer``.
            CheckpointError: the file is no checkpoint, is damaged, or does not fit the run.
            ConfigError: an option in ``changes`` is unknown, out of range, or one that a run keeps, such as ``num_envs``.
            DeviceError: the run's device is missing here.
            RunExistsError, RunLockedError: ``out`` holds another run, or another trainer has locked it.
            OSError: the run's folder cannot be made or written.
        """
        callbacks, sinks = checked_callbacks(callbacks), checked_sinks(sinks)
        code: dict[str, Any] = {name: changes.pop(name) for name in ("networks", "opponents") if name in changes}
        if callable(changes.get("reward")):  # text is the option
            code["reward"] = changes.pop("reward")
        with resumed_run(path, changes, processes) as resumed:
            options: dict[str, Any] = {"callbacks": callbacks, "sinks": sinks, "shares_gpu": shares_gpu, "processes": processes}
            return cls(resumed.config, quiet, **options, **code, resumed=resumed)

    @property
    def live_address(self) -> str | None:
        """Address of the page that shows worlds of the run, on this machine; None without one."""
        return None if self.pipeline.live is None else self.pipeline.live.server.address

    def _with_sizes(
        self, config: TrainConfig, networks: Mapping[str, nn.Module] | None, shares_gpu: bool
    ) -> tuple[TrainConfig, FoundSizes | None]:
        """Return the options of a new run with numbers for ``num_envs="auto"``, and what the search for them found."""
        if config.num_envs != AUTO:
            return config, None
        if self._functions:
            raise ConfigError(f"num_envs: expected a number with functions among the opponents, got {AUTO!r}")
        if config.out is not None:
            require_no_run(Path(config.out))  # before the search, which takes seconds
        sizes = find_sizes(config, self.quiet, networks=networks, shares_gpu=shares_gpu, processes=self.processes)
        return sizes.config, sizes

    def _build(self, config: TrainConfig, networks: Mapping[str, nn.Module] | None, shares_gpu: bool, is_new: bool) -> None:
        # A resumed run names no module, or one that is imported.
        resolved = device_of_process(resolve_new(config), self.processes, is_new)
        spread = spread_of(resolved, *rank_and_count(self.processes))
        num_worlds = None if self.processes is None else spread.num_worlds
        self.env = make_env(resolved, num_worlds, first_world=spread.first_world)
        self._resources.callback(self.env.close)
        require_shared_wrappers(self.env, self.processes)
        self.config: ResolvedConfig = dataclasses.replace(resolved, device=self.env.device)
        self._free_bytes = TorchMemory(self.env.device).free_bytes()
        require_rollout_room(self.config, self.env, self._free_bytes)
        if is_new:
            require_used(config, policies_with_networks(self.env, config.policy_map, self._functions))
        with torch_threads(resolved.threads), memory_in_errors(self.config, self.env, self._free_bytes):
            self.parts = RunState(self.env, self.config, networks, shares_gpu, self.processes, self._functions, self._reward)
        if is_new:
            with_networks = {name: rows for name, rows in self.parts.rows.items() if name not in self.parts.fixed}
            require_read(config, with_networks, networks or {})
            require_parts(config, with_networks)
            require_teams(config, with_networks)
        self.executor = make_executor(resolved, self.env, self.quiet, self.processes)
        if isinstance(self.executor, GraphExecutor):
            self._resources.callback(self.executor.close)
        # A callback may read and change the run after an iteration, and the CPU has no queue.
        alone = bool(self.callbacks) or self.env.device == "cpu"
        self.pipeline = Pipeline(self.parts, self.executor, 1 if alone else IN_FLIGHT)
        self.periodic_evaluation = PeriodicEvaluation(self.config, self.parts)
        self._resources.callback(self.periodic_evaluation.close)
        self._iteration = 0
        self._phase: Literal["idle", "training", "ending"] = "idle"
        self._stop_reason = ""
        self._stop: StopRequest | None = None
        self._all_stop = False
        self._limit: LaunchLimit | None = None
        self.metrics: dict[str, float] = {}

    def _start(self) -> None:
        """Begin a new run."""
        self.parts.collector.reset(self.config.seed)
        if self.config.stagger_starts:
            stagger_starts(self.env, self.parts.collector, self.parts.spread.first_world, self.config.num_envs)
        for name, path in self.config.load_policies.items():
            load_policy(self.policies, name, path, acts_only=name in self.config.frozen)

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return self._iteration

    @property
    def policies(self) -> dict[str, Any]:
        """Policies by name."""
        return self.parts.policies

    @property
    def best(self) -> BestReturn:
        """The best evaluation so far."""
        return self.periodic_evaluation.best

    @property
    def finished(self) -> str:
        """The reason why the run is over, or why ``request_stop()`` ended the last ``train()``; empty while it may go on."""
        return "done" if self.iteration >= self.num_iterations else self.periodic_evaluation.finished or self._stop_reason

    @property
    def steps_per_iteration(self) -> int:
        """Steps of a rollout, summed over worlds."""
        return self.config.num_envs * self.parts.num_steps

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
                If an observation or a reward was the cause, the message names role, world and step, and ``file`` holds the world
                before it, for ``gpu-vecenv replay``.
            RunGoneError, RunLockedError: the run's folder was removed or replaced; the trainer was closed or forked.
            ConfigError: ``iterations`` is no integer, or negative.
            MetricsError: the run's metrics are unreadable.
            UnfinishedError, OSError: the episodes of an evaluation do not end; a file cannot be written.
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
        iterations = checked("train: iterations", iterations, integer(0, MAX_LONG).or_none())
        if self._phase != "idle":
            raise SequenceError("train(): this trainer is training already; a callback or another thread called train() again.")
        self._phase, self._stop_reason, self.metrics = "training", "", {}
        try:
            with memory_in_errors(self.config, self.env, self._free_bytes):
                yield from self._pauses(stop, iterations)
            self._phase = "ending"
            self._call("on_end")
        finally:
            self._phase = "idle"

    def _pauses(self, stop: StopRequest, iterations: int | None) -> Generator[None]:
        """See ``pauses()``; ``on_end`` is still to be called."""
        stop_at = self.num_iterations if iterations is None else min(self.iteration + iterations, self.num_iterations)
        out, saves = None if self._folder is None else self._folder.path, self.config.out is not None
        self._stop, self._all_stop = stop, False
        if not self.quiet:
            say(_run_text(self.config, self.parts))
            for line in preset_lines(self.config, self.parts.algorithms) if self.iteration == 0 else ():
                say(line)
            for line in _still_lines(self.config, self.parts):
                say(line)
            if self.live_address is not None:
                say(f"live: {self.live_address}")
        if self._folder is not None:
            self._folder.check()
        limit = LaunchLimit(saves, self.config.checkpoint_interval, self.config.evaluation_interval)
        limit.agreed = None if self.processes is None else False
        self._limit = limit
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
            if self._files is not None:
                self._files.begin(self.iteration)
            if saves and self.iteration == 0:
                self.save()  # From here on a killed run can be resumed.
            logger.begin()
            if self._folder is not None:
                self._folder.remember(METRICS_FILE)
            while self.pipeline.count or self._goes_on(stop_at):
                most = min(self.pipeline.most, limit.most(self.iteration))
                while self.pipeline.count < most and self._goes_on(stop_at):
                    self.launch()
                yield
                self.metrics = self.finish()
                logger.log(self.metrics)
                self._report(self.metrics)
                if limit.saves(self.iteration) and not self.pipeline.count:
                    logger.flush()  # No line of an iteration before a checkpoint may be missing.
                    self.save()
                    limit.saved()
            logger.flush()
            if saves:  # inside the block, so that a second signal of a closing terminal does not stop the save
                path = self.save()
        if saves and not self.quiet:
            why = stop.received or self.finished or ("stopped" if self._all_stop else "paused")
            say(f"{why}: iteration {self.iteration}, saved {path}")

    def serve_live_page(self, port: int = 0) -> str | None:
        """Serve a page that shows worlds of the run, on this machine alone, until ``close()``.

        Args:
            port: port of this machine; 0 takes a free one.

        Returns:
            Its address, also ``live_address``. Of several processes the first one has the page, which shows its worlds; None in
            the others.

        Raises:
            MissingExtraError: packages of the extra "web" are missing.
            CompileError: the kernels cannot be compiled for pages.
            ParameterError: the port is taken or not allowed.
            SequenceError: there is a page, or iterations are in flight.
            OSError: the address cannot be written to the run's folder.
        """
        from gpu_vecenv.train.runner.live import LiveView

        self.pipeline.require_none()
        if self.live_address is not None:
            raise SequenceError(f"serve_live_page(): expected one call, got another one; the page is at {self.live_address}")
        if not self._is_first:
            return None
        live = LiveView(self.config.env_id, self.env, self.parts, port, self.config.out)
        self._resources.callback(live.close)
        self.pipeline.live, self._sinks = live, (*self._sinks, live.curves)
        if self._folder is not None:
            write_address(self._folder.path, live.server.address)
            self._resources.callback(remove_address, self._folder.path, live.server.address)
        return live.server.address

    def request_stop(self, reason: str) -> None:
        """End the present ``train()`` after the iterations in flight, with a save; ``finished`` then holds the reason.

        Callbacks, sinks and other threads may call this; the first reason counts. The run can go on: ``train()`` or ``resume()``
        continues it.

        Args:
            reason: printable text.

        Raises:
            ConfigError: ``reason`` is empty or no printable text.
            SequenceError: ``train()`` is not running, or is ending already.
        """
        require(is_name(reason), "request_stop: reason", "printable text", reason)
        if self._phase != "training":
            raise SequenceError("request_stop(): expected a call during train(), by a callback, a sink or another thread.")
        self._stop_reason = self._stop_reason or reason

    def launch(self) -> None:
        """Queue the next iteration on the caller's current stream and return; the device may still be busy with earlier ones.

        Raises:
            SequenceError: as many iterations as possible are in flight, or one of them is evaluated. Call ``finish()`` first.
        """
        if self.pipeline.count >= until_next(self.config.evaluation_interval, self.iteration):
            raise SequenceError("launch(): an evaluation follows the iterations in flight; call finish() for each of them first.")
        self.pipeline.launch(self.iteration + self.pipeline.count, self._wishes())

    def finish(self) -> dict[str, float]:
        """Wait for the oldest iteration in flight and evaluate if it is due; return the metrics.

        Raises:
            SequenceError: no iteration is in flight.
            NonFiniteError: see ``train()``. Later iterations in flight are dropped, and iterations since the newest checkpoint
                are repeated to find the world.
        """
        later = self.pipeline.count - 1
        try:
            return self.finish_alone()
        except NonFiniteError as error:
            raise with_world(self, error, later) from None

    def finish_alone(self) -> dict[str, float]:
        """Do what ``finish()`` does; an error does not look for the world."""
        values, rate = self.pipeline.finish()
        self._iteration += 1
        if self.processes is not None:
            self._all_stop |= values.pop(WISHES[0]) > 0
            wants_save = values.pop(WISHES[1]) > 0
            if self._limit is not None:
                self._limit.agreed = wants_save
        counts = {"iteration": self.iteration, "steps": self.iteration * self.steps_per_iteration}
        evaluated = self.periodic_evaluation.evaluate(self.iteration)
        return {**counts, "steps_per_second": rate * self.steps_per_iteration, **values, **evaluated}

    def _wants_stop(self) -> bool:
        """Return True if a signal, a callback or another thread asked this process to end ``train()``."""
        return (self._stop is not None and self._stop.received is not None) or self._stop_reason != ""

    def _wishes(self) -> tuple[bool, bool]:
        """Return what this process of several wants of all; see ``WISHES``."""
        if self.processes is None:
            return False, False
        return self._wants_stop(), self._is_first and self._limit is not None and self._limit.wants_save()

    def _goes_on(self, stop_at: int) -> bool:
        """True if ``train()`` may launch an iteration."""
        asked = self._wants_stop() if self.processes is None else self._all_stop
        return self.iteration + self.pipeline.count < stop_at and not asked and not self.periodic_evaluation.finished

    def _report(self, metrics: dict[str, float]) -> None:
        """Call callbacks after an iteration, and keep the checkpoint of the best evaluation."""
        for name in self.parts.rows:
            if not math.isnan(metrics[f"return/{name}"]):
                self._call("on_episodes", name, metrics[f"return/{name}"], metrics[f"episode_length/{name}"])
        if self.callbacks:
            self._call("on_iteration", dict(metrics))  # a copy, because a callback may change it
        found_best, self.periodic_evaluation.found_best = self.periodic_evaluation.found_best, False
        if found_best and self.config.out is not None:
            state = self._whole_state()
            if self._files is not None and state is not None:
                self._files.save_best(state)
        if self.periodic_evaluation.latest is not None:
            self._call("on_evaluation", self.periodic_evaluation.latest, self.periodic_evaluation.latest_is_best)
            self.periodic_evaluation.latest = None

    def _call(self, method: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            answer = getattr(callback, method)(self, *arguments)
            if answer is not None and (reason := reason_to_stop(callback, method, answer)):
                self.request_stop(reason)

    def save(self, path: str | Path | None = None) -> Path:
        """Write a checkpoint.

        Args:
            path: the file; None means the checkpoint of this iteration in the run's folder, where the newest ones are kept.

        Returns:
            The file. Of several processes, which all make this call, the first one writes it.

        Raises:
            ConfigError: neither ``path`` nor ``config.out`` is given.
            SequenceError: iterations are in flight; ``finish()`` comes first.
            RunGoneError: the run's folder was removed or replaced since this trainer was made.
            OSError: the file cannot be written; an earlier checkpoint is unchanged.
        """
        if path is None and self.config.out is None:
            raise ConfigError("save: expected a path, or a run with `out`, got neither")
        state, written = self._whole_state(), None if path is None else Path(path)
        if state is not None and written is not None:
            save_checkpoint(written, state)
        elif state is not None and self._files is not None:
            written = self._files.save(state)
        if self.processes is not None:  # the others wait for the file, which may take longer than they wait for a sum
            written = Path(self.processes.from_first(lambda: str(written)))
        assert written is not None  # a run with `out` has files in its first process
        self._call("on_save", written)
        return written

    def _whole_state(self) -> dict[str, Any] | None:
        """Return the content of a checkpoint, with the states of all processes; None in all but the first one."""
        state = self.state_dict()
        return state if self.processes is None else whole_state(self.processes, state)

    def state_dict(self) -> dict[str, Any]:
        """Return the content of a checkpoint; its tensors are those of the run, which the next iteration changes.

        A run in several processes returns the state of this one.

        Raises:
            SequenceError: iterations are in flight; ``finish()`` comes first.
        """
        self.pipeline.require_none()
        return {
            "config": self.config.to_json(),
            "iteration": self.iteration,
            **self.parts.state_dict(),
            "best": self.best.state_dict(),
        }

    def repeated_from(self, path: Path) -> Trainer:
        """Return a trainer of the same run as it was at a checkpoint, without a folder, callbacks and sinks."""
        state, config = load_checkpoint(path), dataclasses.replace(self.config, out=None)
        saved = resolve(saved_config(path, state))
        return type(self)(config, True, resumed=Resumed(path, state, None, saved, config), **self._code)

    def load_state_dict(self, state: dict[str, Any], path: str | Path) -> None:
        """Go on from what ``state_dict()`` returned; the options of that run may differ as those of ``resume()`` may.

        Args:
            state: the state, whose tensors are copied.
            path: the file that it comes from; errors name it.

        Raises:
            CheckpointError: the state is damaged, or does not fit the run.
            ConfigError: an option that a run keeps has another value.
            SequenceError: iterations are in flight; ``finish()`` comes first.
        """
        self.pipeline.require_none()
        require_content(state, Path(path))
        saved = resolve(saved_config(path, state))
        require_kept(saved, self.config)
        self._load(Resumed(Path(path), state, None, saved, self.config))

    def _load(self, resumed: Resumed) -> None:
        """Take the state of a checkpoint."""
        rank, count = rank_and_count(self.processes)
        before, state = num_states(resumed.state), resumed.state
        self.parts.collector.reset(self.config.seed)  # An env must be reset before its state can be set.
        if before == count:
            state = state_of(state, rank)
        else:
            self.parts.collector.reset(worlds_seed(self.config.seed, state["iteration"]))
            state = state_for_other_count(state, self.parts)
            if not self.quiet:
                say(f"{resumed.path}: {other_count_text(before, count, self.parts)}")
        self.parts.load_state_dict(state, resumed.path, resumed.saved)
        self.periodic_evaluation.load_state_dict(resumed.state["best"], f"{resumed.path}: best", resumed.saved)
        self._iteration = resumed.state["iteration"]
        if (text := move_text(resumed.saved.device, self.env.device)) and not self.quiet:
            say(f"{resumed.path}: {text}")

    def close(self) -> None:
        """Free the graph, close the env and the sinks, and unlock the run's folder."""
        self._resources.close()


def _run_text(config: ResolvedConfig, parts: RunState) -> str:
    """Return the env, its size, the device and the folder of a run, and a line for each policy without fused kernels."""
    env, device = parts.collector.env, config.device
    if device.startswith("cuda"):
        device += f" ({torch.cuda.get_device_name(device)})"
    size = f"{config.num_envs} worlds x {env.num_agents} agents"
    if parts.processes is not None:
        size += f" in {parts.processes.count} processes, summed by {parts.processes.summed_by},"
    text = f"{config.env_id}: {size} on {device}, torch threads: {config.threads}, out: {config.out}"
    steps = [f"rollouts are made step by step: {parts.why_steps}"] if parts.why_steps else []
    return "\n".join([text, *steps, *not_fused_lines(parts.not_fused, config)])


def _still_lines(config: ResolvedConfig, parts: RunState) -> list[str]:
    """Return a line for each policy whose learning rate falls to zero before the end of the run, where nothing is learned."""
    if config.schedule_steps >= config.total_steps:
        return []
    still = [name for name in parts.algorithms if getattr(config.options_of(name), "learning_rate_schedule", "") == "linear"]
    return [f"{name}: the learning rate is 0 from step {config.schedule_steps:,} on (schedule_steps)" for name in still]
