"""Checkpoints of runs: reading the file or the newest of a run's folder, and checking options and state in it."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import torch

from gpu_vecenv.errors import CompileError, DeviceError
from gpu_vecenv.spec.validation import abbreviated, describe
from gpu_vecenv.train.config import AUTO, NetworkConfig, TrainConfig
from gpu_vecenv.train.errors import CheckpointError
from gpu_vecenv.train.processes.states import num_states
from gpu_vecenv.train.run_folder.checkpoint_file import OTHER_VERSION, read_checkpoint, reason, verified_content
from gpu_vecenv.train.run_folder.checkpoints import CHECKPOINT_FOLDER, OLD_NAME, numbered
from gpu_vecenv.train.run_folder.runs import run_folders, runs_nearby

FREE_WEIGHTS = 1 << 24
"""Weights of a layered network that options may ask for although the state has fewer. A network of the user can be smaller than
the one that the options describe, and a file alone does not tell which networks are the user's."""


def checkpoint_path(path: str | Path) -> Path:
    """Return the checkpoint file of ``path``, which is the file itself, or a run's folder: its newest checkpoint.

    Raises:
        CheckpointError: the folder holds no checkpoint, one of an older layout, or several runs.
    """
    path = Path(path)
    if not path.is_dir():
        return path
    newest = next(iter(numbered(path)), None)
    if newest is not None:
        return newest
    old = path / CHECKPOINT_FOLDER / OLD_NAME
    if old.exists():
        raise CheckpointError(f"{old}: expected checkpoints of format version 3, got that of an older version. {OTHER_VERSION}")
    runs = run_folders(path)
    if runs:
        raise CheckpointError(f"{path}: expected the folder of one run, such as {runs[0]}, got a folder of {len(runs)} runs")
    raise CheckpointError(f"{path / CHECKPOINT_FOLDER}: expected a checkpoint file, got none")


def load_checkpoint(path: str | Path, device: str | torch.device = "cpu") -> dict[str, Any]:
    """Read a checkpoint.

    Args:
        path: the file, or the folder of a run, whose newest checkpoint is read.
        device: device of the tensors.

    Raises:
        CheckpointError: the file is missing, damaged, no checkpoint, or of another format version. If the newest one of a folder
            is damaged, the error names the next older intact one.
    """
    path = Path(path)
    if not path.exists() and not any(folder.is_file() for folder in path.parents):
        raise CheckpointError(f"{path}: expected a checkpoint file, got none{runs_nearby(path)}")
    while True:
        file = checkpoint_path(path)
        try:
            return read_checkpoint(file, device)
        except CheckpointError as error:
            if file == path:
                raise
            if checkpoint_path(path) != file:  # a trainer has saved a newer one and removed this one
                continue
            older = next((other for other in numbered(path) if other != file and _is_intact(other)), None)
            if older is None:
                raise
            raise CheckpointError(
                f"{error}; the next older intact checkpoint is {older}: resume from this file, which removes the damaged one"
            ) from error


def _is_intact(file: Path) -> bool:
    try:
        verified_content(file)
    except CheckpointError:
        return False
    return True


def saved_config(path: str | Path, state: dict[str, Any]) -> TrainConfig:
    """Return the options of the run that wrote a checkpoint.

    No module is imported, because a file must not decide which code runs. For an env id such as ``module:Env-v0`` the caller has
    imported the module or registered the id after the colon.

    Args:
        path: the file, or the folder of a run; errors name it.
        state: the checkpoint's content, as ``load_checkpoint()`` returns it.

    Raises:
        CheckpointError: the options are damaged, do not fit the state, or name a module that is not imported.
    """
    path = checkpoint_path(path)
    try:
        config = TrainConfig.from_json(state["config"])
        rows = len(state["collector"]["alive"]) * num_states(state)
        weights = sum(x.numel() for policy in state["policies"].values() for x in policy.values())
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise CheckpointError(f"{path}: expected a run's options and state, got {reason(error)}") from error
    # Options larger than the saved state are refused: one wrong number could otherwise fill the memory.
    networks = [config.network.hidden_sizes if isinstance(config.network, NetworkConfig) else ()]
    networks += [policy_config.network.get("hidden_sizes", ()) for policy_config in config.policies.values()]
    sizes = max(networks, key=_weights)
    if config.num_envs == AUTO or (config.num_envs or 1) > rows or _weights(sizes) > max(weights, FREE_WEIGHTS):
        raise CheckpointError(
            f"{path}: expected options that fit the state, got num_envs {config.num_envs} and hidden_sizes {sizes} "
            f"with the state of {rows} rows and {weights} weights"
        )
    return without_import(config, path)


def without_import(config: TrainConfig, path: Path) -> TrainConfig:
    """Return options of a file with an env id that imports no module, because a file must not decide which code runs.

    Args:
        config: the options.
        path: the file; the error names it.

    Raises:
        CheckpointError: the env id names a module that is not imported.
    """
    module, _, name = config.env_id.rpartition(":")
    if not module or module in sys.modules:
        return config
    if name not in gymnasium.registry:
        raise CheckpointError(
            f"{path}: its env {config.env_id!r} needs the module {module!r}, and a file must not import one: "
            "import it first, on the command line with --modules"
        )
    return dataclasses.replace(config, env_id=name)


def _weights(hidden_sizes: Iterable[int]) -> int:
    """Return the number of weights between the layers of a network with one input and one output."""
    return sum(a * b for a, b in itertools.pairwise((1, *hidden_sizes, 1)))


@contextlib.contextmanager
def checkpoint_in_errors(path: str | Path | None, changes: Iterable[str] = ()) -> Iterator[None]:
    """Raise CheckpointError, which names the checkpoint, for an error that its options cause while env and policies are built.

    Args:
        path: the file, or the folder of a run; None leaves errors unchanged.
        changes: options that the caller changed. A change of an option other than out, total_steps, device and seed may cause
            the error, which is then left unchanged.

    Raises:
        CheckpointError: the options do not fit together, or need too much memory.
    """
    try:
        yield
    except (CheckpointError, DeviceError, CompileError, torch.OutOfMemoryError):
        raise
    except (ValueError, TypeError, ArithmeticError, MemoryError, RuntimeError, gymnasium.error.Error) as error:
        if path is None or set(changes) - {"out", "total_steps", "device", "seed"}:
            raise
        raise CheckpointError(
            f"{checkpoint_path(path)}: expected options of a run that can be built here, got {type(error).__name__}: {error}"
        ) from error


def require_same_form(saved: object, expected: object, where: str) -> None:
    """Check that a saved value has the form of the value that it replaces.

    Args:
        saved: value of a checkpoint.
        expected: value that it replaces; types, keys, shapes and dtypes are compared.
        where: name of the value in the error message.

    Raises:
        CheckpointError: the forms differ.
    """
    if isinstance(expected, dict) and isinstance(saved, dict) and expected.keys() == saved.keys():
        for key in expected:
            require_same_form(saved[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, dict) and isinstance(saved, dict):
        raise CheckpointError(f"{where}: expected {_form(expected)}, got a dict {_difference(saved, expected)}")
    elif isinstance(expected, dict) or _form(saved) != _form(expected):
        raise CheckpointError(f"{where}: expected {_form(expected)}, got {_form(saved)}")


def require_same_parts(state: Mapping[str, Any], expected: Mapping[str, Any], path: Path) -> None:
    """Check that a checkpoint has the state fields of the env, and values of the form that this run's parts have.

    Args:
        state: content of the checkpoint.
        expected: that of a checkpoint that the run would write now.
        path: the checkpoint; the error names it.

    Raises:
        CheckpointError: a state field is new or no longer there, or the forms differ.
    """
    saved, fields = state["collector"].get("env"), expected["collector"]["env"]
    if isinstance(saved, dict) and saved.keys() != fields.keys():
        raise CheckpointError(
            f"{path}: expected the state fields of the env, {list(fields)}, got a file {_difference(saved, fields)}: "
            "the env was changed since the run began, and a run goes on only with the env that it began with"
        )
    for key in ("collector", "episodes", "policies"):
        require_same_form(state[key], expected[key], f"{path}: {key}")
    known = list(expected["policies"])  # not those of the algorithms: a policy that has learned may be frozen from now on
    unknown = [name for name in state["algorithms"] if name not in known]
    if unknown:
        raise CheckpointError(f"{path}: algorithms: expected policies out of {known}, got {abbreviated(unknown)}")


def _difference(saved: dict[Any, Any], expected: dict[Any, Any]) -> str:
    """Return in words which keys differ, of which there are some."""
    missing, unknown = [key for key in expected if key not in saved], [key for key in saved if key not in expected]
    parts = [f"without {abbreviated(missing)}"] * bool(missing) + [f"with {abbreviated(unknown)}"] * bool(unknown)
    return " and ".join(parts)


def _form(value: object) -> str:
    if isinstance(value, dict):
        return f"a dict with the keys {abbreviated(list(value))}"
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}"
    if value.is_meta or value.is_nested or value.layout != torch.strided:
        return "a tensor that is sparse, nested or without data"
    return f"a tensor of {describe(value).dtype} and shape {tuple(value.shape)}"
