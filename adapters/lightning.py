"""Lightning: training runs as a ``LightningModule``, with Lightning's loop, callbacks, loggers and checkpoints."""

from __future__ import annotations

import atexit
import dataclasses
import json
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gpu_vecenv.errors import MissingExtraError, SequenceError
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.config import Precision, TrainConfig
from gpu_vecenv.train.config.checks import COUNT, require
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.processes.join import OtherGroup
from gpu_vecenv.train.processes.states import whole_state
from gpu_vecenv.train.runner.periodic_evaluation import PeriodicEvaluation, evaluation_metrics
from gpu_vecenv.train.runner.torch_settings import torch_threads
from gpu_vecenv.train.runner.trainer import Trainer

try:
    import lightning.pytorch as lightning
    from lightning.pytorch import callbacks
    from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy, Strategy
except ImportError as error:
    raise MissingExtraError('this adapter needs Lightning: pip install "gpu-vecenv[lightning]"') from error

STATE = "gpu_vecenv"
"""Key of a run's state in checkpoints of Lightning."""

INSTEAD = {
    "out": "Trainer(default_root_dir=...)",
    "checkpoint_interval": "ModelCheckpoint(every_n_train_steps=...)",
    "keep_checkpoints": "ModelCheckpoint(save_top_k=...)",
    "wandb": "Trainer(logger=WandbLogger(...))",
    "evaluation_interval": "Trainer(val_check_interval=...)",
    "evaluation_episodes": "LightningRun(evaluation_episodes=...)",
    "stop_at": "EarlyStopping(stopping_threshold=...)",
    "patience": "EarlyStopping(patience=...)",
    "best_of": 'ModelCheckpoint(monitor="evaluation/ROLE")',
}
"""Options of ``TrainConfig`` for which Lightning has its own, and these."""

PRECISIONS: dict[str, Precision] = {"32-true": "float32", "bf16-mixed": "bfloat16"}
"""Precisions of Lightning, and those of ``TrainConfig`` that they mean."""

REFUSED_CALLBACKS: dict[type, str] = {
    callbacks.BaseFinetuning: "it freezes weights; TrainConfig(frozen=...) names policies that do not learn",
    callbacks.BatchSizeFinder: "num_envs and num_steps are the sizes of a run",
    callbacks.LearningRateFinder: "the algorithms have schedules of their own",
    callbacks.LearningRateMonitor: "learning rates are among the metrics, such as learning_rate/agent",
    callbacks.ModelPruning: "it replaces weights, which stay at their addresses",
    callbacks.StochasticWeightAveraging: "it copies the module with its env, and sets rates of an optimiser that algorithms lack",
    callbacks.WeightAveraging: "it copies the module with its env",
}
"""Callbacks of Lightning that cannot have their effect, and why."""

DDP_OPTIONS = {
    "_ddp_kwargs": "options of DistributedDataParallel, such as find_unused_parameters",
    "_ddp_comm_hook": "ddp_comm_hook",
    "_ddp_comm_state": "ddp_comm_state",
    "_ddp_comm_wrapper": "ddp_comm_wrapper",
    "_model_averaging_period": "model_averaging_period",
}
"""Attributes of ``DDPStrategy`` with options that are about gradients of ``DistributedDataParallel``, and these."""

GPU_TRANSITIONS = 1 << 24
"""Transitions of the agents of a process in a training step on a GPU, if no number of iterations is given. An H100 takes some
20 ms for as many, with small networks; Lightning's own work after a step takes 0.8 ms."""

MOST_ITERATIONS = 32
"""Largest number of iterations that a training step has without a given one. The shortest iterations take a millisecond."""


class LightningRun(lightning.LightningModule):
    """A training run as a ``LightningModule``: a training step is some iterations, each a rollout and the update that uses it.

    The run has the bits of ``Trainer.train()``. The algorithms update the policies themselves, so Lightning's optimisation is
    manual, and ``global_step`` counts training steps. A checkpoint of Lightning holds the whole run, so ``fit(ckpt_path=...)``
    goes on with the same bits. The run ends at ``total_steps``, or earlier by a limit of Lightning's trainer.

    With ``strategy="ddp"`` it is a run in several processes, as under ``torchrun``: ``num_envs`` and ``total_steps`` are totals,
    and all of them make the same calls.

    Example::

        lightning.pytorch.Trainer().fit(LightningRun(TrainConfig("WarpTag-v0", total_steps=100_000)))

    Attributes:
        config: the options as given.
        policies: policies by name, after ``run`` was made. They stay on the run's device, as long as the run exists.
    """

    def __init__(
        self,
        config: TrainConfig | Mapping[str, Any],
        iterations_per_epoch: int | None = None,
        evaluation_episodes: int = TrainConfig.evaluation_episodes,
        networks: Mapping[str, nn.Module] | None = None,
        iterations_per_step: int | None = None,
    ) -> None:
        """Check the options; ``run`` is made when it is used first, on the device of Lightning's trainer if one is attached.

        Args:
            config: the run's options, or ``TrainConfig.to_options()``, which checkpoints hold. ``device`` is ``auto`` or the
                device of Lightning's trainer.
            iterations_per_epoch: iterations in an epoch of Lightning, a multiple of ``iterations_per_step``; None: one epoch is
                the whole run.
            evaluation_episodes: episodes in which validation and tests measure the policies.
            networks: see ``gpu_vecenv.train.Trainer``. A checkpoint does not hold them, so give them to
                ``load_from_checkpoint()``, too.
            iterations_per_step: iterations in a training step. Lightning's own work follows each step, so it delays short
                iterations less if a step has several; a GPU has all of them in its queue. Callbacks, loggers and checkpoints
                then see every n-th iteration, and the last step of a run may have fewer. None: one on the CPU; on a GPU as many
                as have ``GPU_TRANSITIONS``, at most ``MOST_ITERATIONS``, and a divisor of ``iterations_per_epoch``.

        Raises:
            ConfigError: an option has a counterpart in Lightning, which the error names, or is out of range.
        """
        super().__init__()
        self.automatic_optimization = False
        self.config = config if isinstance(config, TrainConfig) else _from_options(config)
        for name, instead in INSTEAD.items():
            value, default = getattr(self.config, name), getattr(TrainConfig, name)
            require(value == default, name, f"{default}, as Lightning has {instead}", value)
        for name, value in (("iterations_per_step", iterations_per_step), ("iterations_per_epoch", iterations_per_epoch)):
            require(value is None or COUNT.test(value), name, COUNT.expected, value)
        if iterations_per_epoch is not None and iterations_per_step is not None:
            fits = iterations_per_epoch % iterations_per_step == 0
            require(
                fits, "iterations_per_epoch", f"a multiple of iterations_per_step, {iterations_per_step}", iterations_per_epoch
            )
        require(COUNT.test(evaluation_episodes), "evaluation_episodes", COUNT.expected, evaluation_episodes)
        self.iterations_per_epoch, self.evaluation_episodes = iterations_per_epoch, evaluation_episodes
        self.iterations_per_step, self._networks = iterations_per_step, networks
        self._run: Trainer | None = None
        self._evaluation: PeriodicEvaluation | None = None
        self._group: OtherGroup | None = None
        counts = ("iterations_per_epoch", "evaluation_episodes", "iterations_per_step")
        self.save_hyperparameters({"config": self.config.to_options(), **{name: getattr(self, name) for name in counts}})

    @property
    def run(self) -> Trainer:
        """The run: its env, iterations, policies, and ``save()`` for a checkpoint that ``evaluate()`` and ``watch`` read.

        Raises:
            ConfigError, PolicyMapError, OutOfMemoryError: see ``gpu_vecenv.train.Trainer``.
        """
        if self._run is None:
            trainer = self._attached()
            config = self.config if trainer is None else suited(self.config, trainer)
            if trainer is not None and trainer.world_size > 1:
                self._group = group_of(trainer)
                config = dataclasses.replace(config, device=config.device.partition(":")[0])
            processes = None if self._group is None else self._group.processes
            run = Trainer(config, quiet=True, networks=self._networks, processes=processes)
            if self._group is not None:  # Lightning ends NCCL's group at the exit, and a graph with sums must be freed before
                atexit.register(_close, weakref.ref(run))
            self.policies = Residents(run.policies)
            episodes = dataclasses.replace(run.config, evaluation_episodes=self.evaluation_episodes)
            self._run, self._evaluation = run, PeriodicEvaluation(episodes, run.parts)
        return self._run

    @property
    def step_size(self) -> int:
        """Iterations in a training step: ``iterations_per_step``, or those of its default."""
        if self.iterations_per_step is not None:
            return self.iterations_per_step
        if not self.run.env.device.startswith("cuda"):
            return 1
        worlds_here = self.run.config.num_envs // self.num_processes
        transitions = worlds_here * self.run.parts.num_steps * self.run.env.num_agents
        return default_step_size(transitions, self.iterations_per_epoch)

    @property
    def num_processes(self) -> int:
        """Number of processes of ``run``."""
        return 1 if self._group is None else self._group.processes.count

    @property
    def evaluation(self) -> PeriodicEvaluation:
        """The evaluation of the policies of ``run`` in validation and tests."""
        self.configure_model()
        assert self._evaluation is not None
        return self._evaluation

    def _attached(self) -> lightning.Trainer | None:
        """Return Lightning's trainer, if the module is attached to one."""
        try:
            return self.trainer
        except RuntimeError:
            return None

    def configure_callbacks(self) -> list[callbacks.Callback]:
        """Check the options of Lightning's trainer before any callback prepares itself; Lightning calls this.

        Returns:
            No callbacks in one process; in several ones, that which tells whether all of them live.

        Raises:
            ConfigError: an option cannot have its effect, or differs from that of a run that exists already.
        """
        require_supported(self.trainer)
        config = suited(self.config, self.trainer)
        if self._run is not None:
            for name, now in (("device", self._run.env.device), ("precision", self._run.config.precision)):
                require(getattr(config, name) == now, name, f"{now!r}, as the run has it already", getattr(config, name))
            asked, count = self.trainer.world_size, self.num_processes
            require(asked == count, "devices", f"{count}, the number of processes that the run has already", asked)
        has_it = any(isinstance(callback, SignsOfLife) for callback in self.trainer.callbacks)
        return [] if has_it or self.trainer.world_size == 1 else [SignsOfLife()]

    def configure_model(self) -> None:
        """Make the run; Lightning calls this."""
        self.run  # noqa: B018  (it is made at its first use)

    def on_fit_start(self) -> None:
        """Take the module out of ``DistributedDataParallel``, which has no gradients to add up; Lightning calls this."""
        self.trainer.strategy.model = self

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimiser whose steps are iterations; Lightning calls this."""
        return IterationOptimizer(self.policies.parameters())

    def train_dataloader(self) -> Iterations:
        """Return the numbers of the iterations to come; Lightning calls this."""
        return Iterations(self)

    def val_dataloader(self) -> range:
        """Return one batch: a validation is one evaluation; Lightning calls this."""
        return range(1)

    test_dataloader = val_dataloader

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, float]:
        """Run the iterations of a step and publish the metrics of the last one; Lightning calls this.

        Args:
            batch: number of the first iteration, from ``train_dataloader()``.
            batch_idx: number of the batch in Lightning's epoch.

        Returns:
            The metrics of the last iteration, which callbacks get as ``outputs``; NaN stands for no value.

        Raises:
            NonFiniteError: see ``gpu_vecenv.train.Trainer.train()``.
            SequenceError: ``batch`` is another one, such as that of a data loader of the user.
        """
        run = self.run
        if not isinstance(batch, int) or batch != run.iteration:
            raise SequenceError(
                f"training_step: expected {run.iteration}, the number of the next iteration, got {abbreviated(batch)}; "
                "rollouts are the data, so fit() takes no train_dataloaders"
            )
        metrics: dict[str, float] = self.optimizers().step(self._iterate)
        if run.finished:
            self.trainer.should_stop = True
        self._publish(metrics)
        return metrics

    def _iterate(self) -> dict[str, float]:
        """Run the next iterations, as many as a step has, and return the metrics of the last one."""
        run, pipeline = self.run, self.run.pipeline
        metrics: dict[str, float] = {}
        left = min(self.step_size, run.num_iterations - run.iteration)
        with torch_threads(run.config.threads):
            while left or pipeline.count:
                while left and pipeline.count < pipeline.most:
                    run.launch()
                    left -= 1
                metrics = run.finish()
        return metrics

    def _publish(self, metrics: Mapping[str, float]) -> None:
        """Give the metrics that have a value to callbacks, to the progress bar, and in their turn to loggers.

        ``self.log()`` would do the same, but it takes a third of a millisecond for each of some thirty metrics.
        """
        trainer = self.trainer
        values = {name: x for name, x in metrics.items() if x == x}
        tensors = dict(zip(values, torch.tensor([*values.values()], device="cpu").unbind(), strict=True))
        trainer.callback_metrics.update(tensors)
        trainer.logged_metrics.update(tensors)
        recent = {name: x for name, x in values.items() if name.startswith("recent_return/")}
        trainer.progress_bar_metrics.update(recent)
        every, step = trainer.log_every_n_steps, trainer.global_step
        if every and (step % every == 0 or trainer.should_stop):
            for logger in trainer.loggers:
                logger.log_metrics({**values, "epoch": trainer.current_epoch}, step - 1)
                logger.save()

    @torch.inference_mode(False)
    def validation_step(self, batch: Any, batch_idx: int) -> dict[str, float]:
        """Evaluate the policies, and log ``evaluation/ROLE``, the mean return of each role; Lightning calls this.

        Returns:
            The metrics of the evaluation.

        Raises:
            UnfinishedError: an episode did not end within 10,000 steps, or the env's time limit if it is longer.
        """
        run = self.run
        with torch_threads(run.config.threads), torch.autocast(torch.device(run.env.device).type, enabled=False):
            if self._group is None:
                metrics = evaluation_metrics(self.evaluation.measured())
            else:  # the first process measures
                metrics = self._group.processes.from_first(lambda: evaluation_metrics(self.evaluation.measured()))
        # All processes have the same number, of which Lightning's mean may be another one by rounding.
        self.log_dict(metrics, batch_size=1, reduce_fx="max", sync_dist=self._group is not None)
        return metrics

    test_step = validation_step

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the state of the run to a checkpoint that holds more than weights; Lightning calls this."""
        if "optimizer_states" in checkpoint:
            state = self.run.state_dict()
            checkpoint[STATE] = state if self._group is None else whole_state(self._group.processes, state)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the state of the run from a checkpoint that holds it; Lightning calls this.

        Raises:
            CheckpointError, ConfigError: see ``gpu_vecenv.train.Trainer.load_state_dict()``.
        """
        trainer = self._attached()
        path = Path((trainer and trainer.ckpt_path) or "checkpoint of Lightning")
        run = self.run  # also for weights alone, which have a place only then
        if STATE in checkpoint:
            run.load_state_dict(checkpoint[STATE], path)


class SignsOfLife(callbacks.Callback):
    """Lets the processes of a run watch each other while Lightning works, so that a lost one ends the others by its name."""

    def setup(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        """Give signs again, if the run exists already; Lightning calls this before its work."""
        if (group := other_group(pl_module)) is not None:
            group.begin()

    def teardown(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        """Wait for the other processes, and give no more signs; Lightning calls this after its work."""
        if (group := other_group(pl_module)) is not None:
            group.end()

    def on_exception(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException) -> None:
        """Tell the other processes; Lightning calls this for an error."""
        if (group := other_group(pl_module)) is not None:
            group.fail(exception)


class Iterations:
    """Data source of Lightning's loop: for each training step to come, the number of its first iteration.

    Rollouts are made in the training step, because one CUDA graph holds rollout and update.
    """

    def __init__(self, module: LightningRun) -> None:
        self._module = module

    def __len__(self) -> int:
        """Return the number of training steps in an epoch of Lightning, those before an interruption included."""
        module = self._module
        run, in_epoch = module.run, module.trainer.fit_loop.epoch_loop.batch_progress.current.ready
        size = module.step_size
        left = -(-(run.num_iterations - run.iteration) // size) + in_epoch if not run.finished else 0
        return left if module.iterations_per_epoch is None else min(left, module.iterations_per_epoch // size)

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: the run's state says which iteration is next. Lightning asks data sources that can be resumed."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See ``state_dict()``."""

    def __iter__(self) -> Iterator[int]:
        """Return the numbers from the next iteration to the end of the run, one for each step."""
        run = self._module.run
        return iter(range(run.iteration, run.num_iterations, self._module.step_size))


class IterationOptimizer(torch.optim.Optimizer):
    """Optimiser whose steps are iterations of a run, in which algorithms update the policies. Lightning counts its steps."""

    def __init__(self, parameters: Iterator[nn.Parameter]) -> None:
        super().__init__(parameters, {})

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Call ``closure``, which runs the iterations."""
        return closure()


class Residents(nn.ModuleDict):
    """The policies of a run. They stay on its device, because algorithms and CUDA graphs hold the addresses of their weights.

    Lightning moves a module to the CPU at the end of ``fit()``; these ones do not follow.
    """

    def __init__(self, policies: Mapping[str, nn.Module]) -> None:
        super().__init__()
        for name, policy in policies.items():
            try:
                self.add_module(name, policy)
            except KeyError as error:
                raise ConfigError(f"policies: expected names that torch.nn.ModuleDict takes, got {name!r}: {error}") from error

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Residents:
        """Refuse a change of the weights' dtype and a move to another GPU."""
        for x in self.parameters():
            there = fn(torch.empty(0, dtype=x.dtype, device=x.device))
            if there.dtype != x.dtype or there.device not in (x.device, torch.device("cpu")):
                got = f"{there.dtype} on {there.device}"
                raise ConfigError(f"policies: expected {x.dtype} on {x.device}, as in the run, got {got}")
        return self


def default_step_size(transitions: int, iterations_per_epoch: int | None) -> int:
    """Return the iterations of a training step on a GPU by the transitions of agents in an iteration."""
    most = min(-(-GPU_TRANSITIONS // transitions), MOST_ITERATIONS)
    if iterations_per_epoch is None:
        return most
    return max(size for size in range(1, most + 1) if iterations_per_epoch % size == 0)


def suited(config: TrainConfig, trainer: lightning.Trainer) -> TrainConfig:
    """Return the options of a run on the device and with the precision of Lightning's trainer.

    Raises:
        ConfigError: both have a device or a precision, which differ.
    """
    device = str(trainer.strategy.root_device)
    require(config.device in ("auto", device), "device", f"'auto' or {device!r}, that of Lightning's Trainer", config.device)
    precision = PRECISIONS[trainer.precision]
    if precision == TrainConfig.precision:
        precision = config.precision
    same = config.precision in (TrainConfig.precision, precision)
    require(same, "precision", f"{precision!r}, that of Lightning's Trainer", config.precision)
    return dataclasses.replace(config, device=device, precision=precision)


def require_supported(trainer: lightning.Trainer) -> None:
    """Check that the options of Lightning's trainer can have their effect.

    Raises:
        ConfigError: one cannot; the error names it.
    """
    strategy = trainer.strategy
    require_strategy(strategy)
    require(trainer.num_nodes == 1, "num_nodes", "1, as no test has tried several hosts with Lightning", trainer.num_nodes)
    device = strategy.root_device.type
    require(device in ("cpu", "cuda"), "accelerator", "'cpu' or 'gpu' with CUDA", device)
    if trainer.precision not in PRECISIONS:
        raise ConfigError(
            f"precision: expected one of {list(PRECISIONS)}, got {trainer.precision!r}; with '32-true', "
            "TrainConfig(precision=...) also takes 'tf32' and 'float16'"
        )
    if trainer.overfit_batches:
        raise ConfigError(f"overfit_batches: expected 0, because each iteration has a new rollout, got {trainer.overfit_batches}")
    for callback in trainer.callbacks:
        for kind, reason in REFUSED_CALLBACKS.items():
            if isinstance(callback, kind):
                raise ConfigError(f"callbacks: expected none that cannot have an effect, got {type(callback).__name__}: {reason}")
        if getattr(callback, "_train_time_interval", None) is not None:
            raise ConfigError(
                "callbacks: expected ModelCheckpoint(every_n_train_steps=...), got one with train_time_interval, which Lightning "
                "does not follow in manual optimisation"
            )


def require_strategy(strategy: Strategy) -> None:
    """Check that a strategy is that of one process, or ``ddp`` without options about the gradients.

    Raises:
        ConfigError: it is another one.
    """
    expected = "strategy: expected 'auto' with one device, or 'ddp'"
    if isinstance(strategy, SingleDeviceStrategy):
        return
    if type(strategy) is not DDPStrategy:
        got = type(strategy).__name__
        raise ConfigError(f"{expected}, got {got}: each process has all weights of a run, and a part of its worlds")
    start = getattr(strategy, "_start_method", "popen")
    if start != "popen":
        raise ConfigError(f"{expected}, got one that starts processes by {start!r}: they end with fit(), and the run with them")
    for attribute, option in DDP_OPTIONS.items():
        if getattr(strategy, attribute, None):
            raise ConfigError(f"{expected}, got DDPStrategy with {option}: a run adds up its gradients itself")
    if getattr(strategy, "_layer_sync", None) is not None:
        raise ConfigError("sync_batchnorm: expected False, because it replaces layers, whose weights stay at their addresses")


def other_group(module: lightning.LightningModule) -> OtherGroup | None:
    """Return the processes of a module's run; None if it has none, or is not a run."""
    return module._group if isinstance(module, LightningRun) else None


def group_of(trainer: lightning.Trainer) -> OtherGroup:
    """Return the processes of Lightning's trainer, which has made torch's default group."""
    strategy = trainer.strategy
    assert isinstance(strategy, DDPStrategy) and strategy.cluster_environment is not None
    return OtherGroup(str(strategy.root_device), strategy.num_processes, strategy.cluster_environment.main_address)


def _close(run: weakref.ref[Trainer]) -> None:
    """Close a run that still exists."""
    if (trainer := run()) is not None:
        trainer.close()


def _from_options(options: object) -> TrainConfig:
    """Rebuild options of a checkpoint. No module is imported, because a file must not decide which code runs."""
    require(isinstance(options, Mapping), "config", "a TrainConfig, or its options as a mapping", options)
    return TrainConfig.from_json(json.dumps(options))
