"""One checkpoint file: it is written atomically, all its bytes are verified, and reading it runs no code from it.

The first line holds the version of the format and the SHA-256 of the other bytes, which ``torch.save`` writes.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import re
import struct
from pathlib import Path
from typing import Any, cast

import torch

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.errors import CheckpointError

FORMAT = "gpu_vecenv.train"
VERSION = 3

OTHER_VERSION = "To go on, finish the run with the version of gpu_vecenv that wrote it, or start a new run in another folder."
"""End of the error for a file of another format version."""

_HEADER = re.compile(rb"gpu_vecenv\.train checkpoint ([0-9]{1,9}) ([0-9a-f]{64})\n")
_MAX_HEADER = 128
"""Bytes to read of a first line; a header is shorter."""

_TYPES = {
    "config": str, "iteration": int, "policies": dict, "algorithms": dict, "collector": dict, "episodes": dict,
    "reset_pool": dict, "best": dict,
}  # fmt: skip
"""Keys of a checkpoint, and the types of their values."""

_UNREADABLE = (
    RuntimeError, EOFError, OSError, ValueError, LookupError, TypeError, AttributeError, AssertionError,
    ArithmeticError, MemoryError, struct.error,
)  # fmt: skip
"""Errors of ``torch.load`` for bytes that ``torch.save`` did not write."""


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


def read_checkpoint(path: Path, device: str | torch.device = "cpu") -> dict[str, Any]:
    """Read a checkpoint file.

    Args:
        path: the file.
        device: device of the tensors.

    Raises:
        CheckpointError: the file is missing, damaged, no checkpoint, or of another format version.
    """
    content = verified_content(path)
    try:
        state = torch.load(io.BytesIO(content), map_location=device, weights_only=True)
    except pickle.UnpicklingError:
        raise CheckpointError(
            f"{path}: expected tensors, numbers, text, lists and dicts only, got objects that could run code; not loaded"
        ) from None
    except _UNREADABLE as error:
        raise CheckpointError(f"{path}: expected a checkpoint, got an unreadable file ({reason(error)})") from error
    require_content(state, path)
    return cast(dict[str, Any], state)


def require_content(state: object, path: Path) -> None:
    """Check that a value has the keys of a checkpoint, with values of their types.

    Args:
        state: the value.
        path: the file that it comes from; the error names it.

    Raises:
        CheckpointError: a key is missing, or a value has another type.
    """
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


def verified_content(path: Path) -> bytes:
    """Return the bytes after the first line, verified by the digest in it.

    Raises:
        CheckpointError: the file is missing, damaged, no checkpoint, or of another format version.
    """
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
        raise CheckpointError(f"{path}: expected a checkpoint, got an unreadable file ({reason(error)})") from error
    if match is None:
        kind = "a file of format version 1 or another kind of file" if header.startswith(b"PK") else "another kind of file"
        raise CheckpointError(f"{path}: expected a {FORMAT} checkpoint of format version {VERSION}, got {kind}")
    if int(match[1]) != VERSION:
        raise CheckpointError(f"{path}: expected format version {VERSION}, got {int(match[1])}. {OTHER_VERSION}")
    if hashlib.sha256(content).hexdigest().encode() != match[2]:
        raise CheckpointError(f"{path}: damaged, expected the SHA-256 in its first line, got another")
    return content


def reason(error: BaseException) -> str:
    """Return the first line of an error's text; the name of its type if it has no text."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
