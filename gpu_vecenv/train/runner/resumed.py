"""A checkpoint that a trainer resumes from, and the options that a resumed run may change."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_vecenv.backend.select import choose_device
from gpu_vecenv.errors import DeviceError
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.config import ResolvedConfig, TrainConfig, resolve
from gpu_vecenv.train.config.algorithms import registered
from gpu_vecenv.train.config.checks import require_known
from gpu_vecenv.train.config.former import refuse_former
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.run_folder.checkpoint import checkpoint_in_errors, checkpoint_path, load_checkpoint, saved_config
from gpu_vecenv.train.run_folder.checkpoints import run_of
from gpu_vecenv.train.run_folder.folder import RunFolder, lock_run_folder
from gpu_vecenv.train.run_folder.weights_and_biases import require_wandb
from gpu_vecenv.train.runner.build import close_on_error


@dataclass(frozen=True)
class Resumed:
    """A checkpoint to resume from, read after the run's folder was locked."""

    path: Path
    """The checkpoint file, which error messages name."""
    state: dict[str, Any]
    """Content of the file, as ``load_checkpoint()`` returns it."""
    folder: RunFolder | None
    """The folder that the resumed run writes to; None if it writes no files."""
    saved: ResolvedConfig
    """Options of the run so far."""
    config: TrainConfig
    """Options of the resumed run."""


@contextlib.contextmanager
def resumed_run(path: str | Path, changes: Mapping[str, Any], processes: Processes | None = None) -> Iterator[Resumed]:
    """Lock a run's folder and read its checkpoint; an error of the block unlocks the folder.

    Args:
        path: the folder of a run, or a checkpoint file.
        changes: options to change.
        processes: processes of the run, of which the first one locks the folder and chooses the file; None: this one alone.

    Raises:
        CheckpointError, ConfigError, DeviceError, RunExistsError, RunLockedError, OSError: see ``Trainer.resume()``.
    """
    run = Path(path) if Path(path).is_dir() else run_of(Path(path))
    changes = dict(changes) if run is None else {"out": str(run), **changes}
    file = checkpoint_path(path)
    first = changed(saved_config(path, load_checkpoint(path)), changes)
    require_wandb(first.wandb)
    if "device" in changes:
        choose_device(first.device)
    is_first = processes is None or processes.is_first
    folder = lock_run_folder(Path(first.out), file) if first.out is not None and is_first else None
    with contextlib.nullcontext() if folder is None else close_on_error(folder):
        # Read again: another trainer may have saved before the folder was locked.
        file = checkpoint_path(path)
        if processes is not None:
            file = Path(processes.from_first(lambda: str(file)))
        state = load_checkpoint(file)
        saved = saved_config(file, state)
        try:
            with checkpoint_in_errors(file, changes):
                yield Resumed(file, state, folder, resolve(saved), changed(saved, changes))
        except DeviceError as error:
            if "device" in changes:
                raise
            raise DeviceError(
                f"{path}: this run was on {saved.device}, which is missing here ({error}) "
                "Resume on another device: --device cpu (device='cpu')."
            ) from error


def changed(saved: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    """Return the options of a run that goes on with changes.

    Raises:
        ConfigError: an option is unknown, out of range, or one that a run keeps.
    """
    refuse_former(changes)
    require_known("TrainConfig", changes, [field.name for field in dataclasses.fields(TrainConfig)])
    config = dataclasses.replace(saved, **changes)
    require_kept(resolve(saved), resolve(config))
    return config


def require_kept(before: ResolvedConfig, now: ResolvedConfig) -> None:
    """Check that a run keeps what its state depends on: the form of its arrays, its iterations, and what has happened already.

    Raises:
        ConfigError: an option that a run keeps has another value; the message names it.
    """
    policies = sorted({*before.policies, *now.policies})
    fixed, present = _fixed_options(before, policies), _fixed_options(now, policies)
    for name, value in fixed.items():
        if present.get(name, value) != value:
            raise ConfigError(
                f"{name}: expected {abbreviated(value)}, as in the run that is resumed, got {abbreviated(present[name])}; "
                "a new run takes other values, and load_policies gives it the weights of this one"
            )
    thawed = sorted(set(before.frozen) - set(now.frozen))
    if thawed:
        raise ConfigError(f"frozen: expected {thawed[0]!r} in it, as in the run that is resumed, which has no optimiser of it")


def _fixed_options(config: ResolvedConfig, policies: Iterable[str]) -> dict[str, Any]:
    """Return the options by name that a run keeps when it is resumed.

    Args:
        config: the options.
        policies: names of policies, of which settings of their own are returned, too.
    """
    fixed: dict[str, Any] = {
        "env_id": config.env_id.rpartition(":")[2],
        "num_envs": config.num_envs,
        "seed": config.seed,
        # None gives each role the policy of its name.
        "policy_map": {role: name for role, name in (config.policy_map or {}).items() if role != name} or None,
        "load_policies": config.load_policies,
        "stagger_starts": config.stagger_starts,
        "reward": config.reward,
    }
    for policy in ("", *policies):  # no policy has an empty name, so it stands for the run
        where = f"policies[{policy!r}]." if policy else ""
        algorithm, options = config.algorithm_of(policy), config.options_of(policy)
        fields = ("num_steps", *registered(algorithm).config_class.kept)
        fixed |= {f"{where}{algorithm}.{name}": getattr(options, name) for name in fields}
        fixed |= {f"{where}algorithm": algorithm, f"{where}module": config.settings_of(policy).module}
        fixed |= {f"{where}network.{name}": value for name, value in vars(config.network_of(policy)).items()}
    return fixed


def move_text(before: str, now: str) -> str:
    """Return a warning if a run goes on with a device of another kind, whose networks round differently; empty otherwise."""
    if before.partition(":")[0] == now.partition(":")[0]:
        return ""
    return f"moved from {before} to {now}; the rest of the run is not bit-identical to an uninterrupted one"
