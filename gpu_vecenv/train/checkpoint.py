"""One file that holds all a run needs to go on; written atomically, read without running code."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from gpu_vecenv.train.config import TrainConfig
from gpu_vecenv.train.errors import CheckpointError

FORMAT = "gpu_vecenv.train"
VERSION = 1
FILE_NAME = "latest.pt"
"""Name of the checkpoint inside a run's ``checkpoint`` folder."""

_TYPES = {"config": str, "iteration": int, "policies": dict, "learners": dict, "collector": dict, "episodes": dict}
"""What a checkpoint holds."""


def checkpoint_path(path: str | Path) -> Path:
    """Return the checkpoint file meant by ``path``: the file itself, or a run's folder."""
    path = Path(path)
    return path / "checkpoint" / FILE_NAME if path.is_dir() else path


def save_checkpoint(path: str | Path, state: dict[str, Any]) -> None:
    """Write ``state`` to ``path``; until it is safely on disk, the file that was there before stays.

    Args:
        path: file to write; its folder is made if needed.
        state: tensors, numbers, strings, lists and dicts only.

    Raises:
        OSError: the disk refused; the previous file is untouched.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            torch.save({"format": FORMAT, "version": VERSION, **state}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # The rename itself must survive a power cut, too.
    finally:
        os.close(folder)


def load_checkpoint(path: str | Path, device: str | torch.device = "cpu") -> dict[str, Any]:
    """Read a checkpoint.

    Args:
        path: the file, or the folder of a run.
        device: where tensors go.

    Raises:
        CheckpointError: no such file, damaged, not written by this trainer, or another format version.
    """
    path = checkpoint_path(path)
    try:
        # torch.load does not compare checksums; the archive holds one for each record.
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        state = None if damaged else torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: expected a checkpoint file, got none") from None
    except pickle.UnpicklingError:
        raise CheckpointError(
            f"{path}: expected tensors, numbers, text, lists and dicts only, got objects that could run code; not loaded"
        ) from None
    except (zipfile.BadZipFile, RuntimeError, EOFError, OSError, ValueError, LookupError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{path}: expected a checkpoint, got an unreadable file ({reason})") from error
    if damaged:
        raise CheckpointError(f"{path}: damaged, the checksum of {damaged} does not match")
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointError(f"{path}: expected a {FORMAT} checkpoint, got a file of something else")
    if state.get("version") != VERSION:
        raise CheckpointError(f"{path}: expected format version {VERSION}, got {state.get('version')!r}")
    missing = [key for key in _TYPES if key not in state]
    if missing:
        raise CheckpointError(f"{path}: expected keys {list(_TYPES)}, got a file without {missing}")
    for key, kind in _TYPES.items():
        if not isinstance(state[key], kind):
            raise CheckpointError(f"{path}: expected {key} of type {kind.__name__}, got {type(state[key]).__name__}")
    return state


def saved_config(path: str | Path, state: dict[str, Any]) -> TrainConfig:
    """Return the options of the run that wrote a checkpoint.

    Args:
        path: the file, or the folder of a run, for the error's text.
        state: what ``load_checkpoint()`` read there.

    Raises:
        CheckpointError: the options are damaged.
    """
    try:
        return TrainConfig.from_json(state["config"])
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{checkpoint_path(path)}: expected a run's options, got {error}") from error
