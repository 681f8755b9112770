"""One file that holds all a run needs to go on; written atomically, read without running code."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from gpu_vecenv.train.errors import CheckpointError

FORMAT = "gpu_vecenv.train"
VERSION = 1
FILE_NAME = "latest.pt"
"""Name of the checkpoint inside a run's ``checkpoint`` folder."""

_KEYS = ("config", "iteration", "policies", "learners", "collector", "episodes")


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
        if damaged is not None:
            raise CheckpointError(f"{path}: damaged, the checksum of {damaged} does not match")
        state = torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: expected a checkpoint file, got none") from None
    except (zipfile.BadZipFile, pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{path}: expected a checkpoint, got an unreadable file ({reason})") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointError(f"{path}: expected a {FORMAT} checkpoint, got a file of something else")
    if state.get("version") != VERSION:
        raise CheckpointError(f"{path}: expected format version {VERSION}, got {state.get('version')!r}")
    missing = [key for key in _KEYS if key not in state]
    if missing:
        raise CheckpointError(f"{path}: expected keys {list(_KEYS)}, got a file without {missing}")
    return state
