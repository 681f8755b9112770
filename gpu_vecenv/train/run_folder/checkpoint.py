"""Checkpoints: files from which a run resumes.

A checkpoint is written atomically. Reading it verifies all bytes and runs no code from it. Its first line holds the version of
the format and the SHA-256 of the other bytes, which ``torch.save`` writes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import itertools
import pickle
import re
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import torch

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.errors import CompileError, DeviceError
from gpu_vecenv.spec.given import abbreviated, describe
from gpu_vecenv.train.config import TrainConfig
from gpu_vecenv.train.errors import CheckpointError

FORMAT = "gpu_vecenv.train"
VERSION = 2
FILE_NAME = "latest.pt"
"""Name of the checkpoint inside a run's ``checkpoint`` folder."""

_HEADER = re.compile(rb"gpu_vecenv\.train checkpoint ([0-9]{1,9}) ([0-9a-f]{64})\n")
_MAX_HEADER = 128
"""Bytes to read of a first line; a header is shorter."""

_TYPES = {"config": str, "iteration": int, "policies": dict, "learners": dict, "collector": dict, "episodes": dict}
"""Keys of a checkpoint, and the types of their values."""

_UNREADABLE = (
    RuntimeError, EOFError, OSError, ValueError, LookupError, TypeError, AttributeError, AssertionError,
    ArithmeticError, MemoryError, struct.error,
)  # fmt: skip
"""Errors of ``torch.load`` for bytes that ``torch.save`` did not write."""


def checkpoint_path(path: str | Path) -> Path:
    """Return the checkpoint file of ``path``, which is the file itself or a run's folder."""
    path = Path(path)
    return path / "checkpoint" / FILE_NAME if path.is_dir() else path


def save_checkpoint(path: str | Path, state: dict[str, Any]) -> None:
    """Write ``state`` to ``path``. An earlier file is replaced only when the new one is complete.

    Args:
        path: file to write; its folder is made if needed.
        state: tensors, numbers, strings, lists and dicts only.

    Raises:
        OSError: the file cannot be written; an earlier file is unchanged.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    torch.save(state, content)
    with atomic_file(path) as partial, open(partial, "wb") as file:
        file.write(f"{FORMAT} checkpoint {VERSION} {hashlib.sha256(content.getbuffer()).hexdigest()}\n".encode())
        file.write(content.getbuffer())


def load_checkpoint(path: str | Path, device: str | torch.device = "cpu") -> dict[str, Any]:
    """Read a checkpoint.

    Args:
        path: the file, or the folder of a run.
        device: device of the tensors.

    Raises:
        CheckpointError: the file is missing, damaged, no checkpoint, or of another format version.
    """
    path = checkpoint_path(path)
    content = _checked_content(path)
    try:
        state = torch.load(io.BytesIO(content), map_location=device, weights_only=True)
    except pickle.UnpicklingError:
        raise CheckpointError(
            f"{path}: expected tensors, numbers, text, lists and dicts only, got objects that could run code; not loaded"
        ) from None
    except _UNREADABLE as error:
        raise CheckpointError(f"{path}: expected a checkpoint, got an unreadable file ({_reason(error)})") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path}: expected a dict, got {type(state).__name__}")
    missing = [key for key in _TYPES if key not in state]
    if missing:
        raise CheckpointError(f"{path}: expected keys {list(_TYPES)}, got a file without {missing}")
    for key, kind in _TYPES.items():
        if not isinstance(state[key], kind) or isinstance(state[key], bool):
            raise CheckpointError(f"{path}: expected {key} of type {kind.__name__}, got {type(state[key]).__name__}")
    if not 0 <= state["iteration"] < 2**63:
        raise CheckpointError(f"{path}: expected an iteration from 0 to 2**63 - 1, got {abbreviated(state['iteration'])}")
    return state


def _checked_content(path: Path) -> bytes:
    """Return the bytes after the first line, verified by the digest in it."""
    if path.exists() and not path.is_file():  # reading a pipe may block
        raise CheckpointError(f"{path}: expected a checkpoint file, got something that is no file")
    try:
        with open(path, "rb") as file:
            header = file.readline(_MAX_HEADER)
            match = _HEADER.fullmatch(header)
            content = file.read() if match else b""
    except FileNotFoundError:
        raise CheckpointError(f"{path}: expected a checkpoint file, got none") from None
    except (OSError, ValueError, MemoryError) as error:
        raise CheckpointError(f"{path}: expected a checkpoint, got an unreadable file ({_reason(error)})") from error
    if match is None:
        kind = "a file of format version 1 or another kind of file" if header.startswith(b"PK") else "another kind of file"
        raise CheckpointError(f"{path}: expected a {FORMAT} checkpoint of format version {VERSION}, got {kind}")
    if int(match[1]) != VERSION:
        raise CheckpointError(f"{path}: expected format version {VERSION}, got {int(match[1])}")
    if hashlib.sha256(content).hexdigest().encode() != match[2]:
        raise CheckpointError(f"{path}: damaged, expected the SHA-256 in its first line, got another")
    return content


def _reason(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


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
        rows = len(state["collector"]["alive"])
        weights = sum(x.numel() for policy in state["policies"].values() for x in policy.values())
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise CheckpointError(f"{path}: expected a run's options and state, got {_reason(error)}") from error
    # Options larger than the saved state are refused: one wrong number could otherwise fill the memory.
    sizes = () if config.network is None else config.network.hidden_sizes
    if (config.num_envs or 1) > rows or sum(a * b for a, b in itertools.pairwise((1, *sizes, 1))) > weights:
        raise CheckpointError(
            f"{path}: expected options that fit the state, got num_envs {config.num_envs} and hidden_sizes {sizes} "
            f"with the state of {rows} rows and {weights} weights"
        )
    module, _, name = config.env_id.rpartition(":")
    if not module or module in sys.modules:
        return config
    if name not in gymnasium.registry:
        raise CheckpointError(
            f"{path}: its env {config.env_id!r} needs the module {module!r}, and a checkpoint must not import one: "
            "import it first, on the command line with --modules"
        )
    return dataclasses.replace(config, env_id=name)


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
    elif isinstance(expected, dict) or _form(saved) != _form(expected):
        raise CheckpointError(f"{where}: expected {_form(expected)}, got {_form(saved)}")


def _form(value: object) -> str:
    if isinstance(value, dict):
        return f"a dict with the keys {list(value)}"
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}"
    if value.is_meta or value.is_nested or value.layout != torch.strided:
        return "a tensor that is sparse, nested or without data"
    return f"a tensor of {describe(value).dtype} and shape {tuple(value.shape)}"
