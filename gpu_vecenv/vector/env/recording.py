"""Files of recorded steps, which ``gpu-vecenv verify`` and ``replay`` step again to the same bits; see docs/recordings.md.

A file is an ``.npz`` of NumPy without pickled objects, so reading it runs no code of it.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gpu_vecenv import __version__
from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.errors import RecordingError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.params import Params
from gpu_vecenv.spec.validation import abbreviated, host_array
from gpu_vecenv.vector.env.env_version import env_version

FORMAT, VERSION = "gpu_vecenv steps", 1

ABOUT = {
    "format": str, "version": int, "kind": str, "env_id": str, "params": dict, "env_version": dict, "num_worlds": int,
    "autoreset_mode": str, "package": str, "device": str, "note": str,
}  # fmt: skip
"""Names in the member ``about`` and the types of their values."""

Kind = Literal["evaluation", "world"]

_UNREADABLE = (OSError, ValueError, LookupError, EOFError, TypeError, MemoryError, zipfile.BadZipFile, zlib.error, struct.error,
               NotImplementedError, RuntimeError)  # fmt: skip
"""Errors of ``numpy.load`` for bytes that ``numpy.savez`` did not write."""


@dataclass(frozen=True)
class Part:
    """Steps of all worlds from one start."""

    actions: Mapping[str, np.ndarray]
    """Role to its actions, ``(T, N, agents of the role, ...)``; one entry named ``""`` if all agents have one array."""
    results: Mapping[str, np.ndarray]
    """Names to what the steps gave; see docs/recordings.md."""
    seed: int | None = None
    """Seed of the reset before the first step; None for a start from ``state``."""
    state: Mapping[str, np.ndarray] = field(default_factory=dict)
    """State fields before the first step, ``(N, ...)``."""


@dataclass(frozen=True)
class Recording:
    """Steps of an env: where they began, the actions, and what they gave."""

    kind: Kind
    """``"evaluation"`` for whole episodes from seeds, ``"world"`` for some steps of one world from a state."""
    env_id: str
    """Registered id, without or with its module; empty for an env without one."""
    params: Mapping[str, Any]
    """All parameters of the env."""
    env_version: Mapping[str, str]
    """See ``env_version()``."""
    num_worlds: int
    parts: tuple[Part, ...]
    device: str
    """The device that made the steps, such as ``cuda:0 (NVIDIA H100 80GB HBM3)``."""
    autoreset_mode: str = "same_step"
    """Mode of autoreset by its name in lower case."""
    note: str = ""
    """Why a world was written."""
    package: str = __version__
    """Version of this package that wrote the file."""

    @classmethod
    def of_layout(cls, kind: Kind, env_id: str, layout: Layout, parts: tuple[Part, ...], **more: Any) -> Recording:
        """Return a recording of an env with the parameters of a layout."""
        return cls(kind=kind, env_id=env_id, params=dict(layout.params), env_version=env_version(layout), parts=parts, **more)

    def changed_parts(self, layout: Layout) -> list[str]:
        """Return the parts of the env, as in ``env_version()``, that have changed since the file was written."""
        return [part for part, digest in env_version(layout).items() if self.env_version.get(part) != digest]

    def require_version(self, layout: Layout, may_change: Collection[str] = ()) -> None:
        """Raise RecordingError if the env is not the one that was recorded, apart from the parts that may change."""
        present = env_version(layout)
        if changed := [part for part in self.changed_parts(layout) if part not in may_change]:
            raise RecordingError(
                f"expected {self.env_id or layout.spec.name} as it was recorded, got one whose {' and '.join(changed)} changed "
                f"(recorded {_hashes(self.env_version, changed)}, present {_hashes(present, changed)})"
            )

    def write(self, path: str | Path) -> Path:
        """Write the file, whole or not at all.

        Raises:
            RecordingError: a parameter that the file cannot hold.
            OSError: the file cannot be written.
        """
        path = Path(path)
        about = {
            "format": FORMAT, "version": VERSION, "kind": self.kind, "env_id": self.env_id, "params": _jsonable(self.params),
            "env_version": dict(self.env_version), "num_worlds": self.num_worlds, "autoreset_mode": self.autoreset_mode,
            "package": self.package, "device": self.device, "note": self.note,
        }  # fmt: skip
        arrays: dict[str, np.ndarray] = {"about": np.array(json.dumps(about))}
        for number, part in enumerate(self.parts):
            for name, values in part.actions.items():
                arrays[f"{number}/actions/{name}"] = values
            for kind, members in (("results", part.results), ("state", part.state)):
                arrays |= {f"{number}/{kind}/{name}": values for name, values in members.items()}
            if part.seed is not None:
                arrays[f"{number}/seed"] = np.array(part.seed, np.uint64)
        with atomic_file(path) as partial, open(partial, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # numpy's stub takes the names for its own option
        return path


def read_recording(path: str | Path) -> Recording:
    """Read a file that ``Recording.write()`` wrote. Nothing in it is run or imported.

    Raises:
        RecordingError: the file is missing, damaged, of another kind, or of a newer version of the format.
    """
    path = Path(path)
    if not path.is_file():
        raise RecordingError(f"{path}: expected a file of recorded steps, got {'no file' if path.exists() else 'none'}")
    if not zipfile.is_zipfile(path):  # NumPy would say how to load pickled objects
        raise RecordingError(f"{path}: expected a file of recorded steps, got another one, or a part of one")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays.pop("about")[()]))
    except _UNREADABLE as error:
        raise RecordingError(f"{path}: expected a file of recorded steps, got one that cannot be read: {error}") from error
    _check_about(path, about)
    parts: dict[str, _Members] = {}
    for name, values in arrays.items():
        number, _, rest = name.partition("/")
        kind, _, key = rest.partition("/")
        if not number.isdecimal() or kind not in ("actions", "results", "state", "seed"):
            raise RecordingError(f"{path}: expected members as docs/recordings.md names them, got {abbreviated(name)}")
        parts.setdefault(number, _Members()).arrays[kind][key] = values
    if not parts or sorted(parts) != sorted(map(str, range(len(parts)))):
        raise RecordingError(f"{path}: expected parts numbered from 0 on, got {abbreviated(list(parts))}")
    read = [parts[str(number)].part(path, about["num_worlds"]) for number in range(len(parts))]
    known = {name: about[name] for name in ABOUT if name not in ("format", "version")}
    return Recording(**known, parts=tuple(read))


class _Members:
    """Arrays of one part while a file is read."""

    def __init__(self) -> None:
        self.arrays: dict[str, dict[str, np.ndarray]] = {"actions": {}, "results": {}, "state": {}, "seed": {}}

    def part(self, path: Path, num_worlds: int) -> Part:
        """Return the part, checked as far as it does not depend on the env."""
        actions, seed, state = (self.arrays[name] for name in ("actions", "seed", "state"))
        shapes = [values.shape[:2] for values in actions.values()]
        if not actions or len({*shapes}) != 1 or len(shapes[0]) != 2 or shapes[0][1] != num_worlds:
            raise RecordingError(f"{path}: expected actions of T steps and {num_worlds} worlds, got {shapes}")
        start = seed.get("")
        if (start is None) == (not state) or start is not None and (start.shape != () or start.dtype != np.uint64):
            raise RecordingError(f"{path}: expected a seed, uint64, or a state, got {start!r} and {len(state)} state fields")
        return Part(actions, self.arrays["results"], None if start is None else int(start), state)


def _check_about(path: Path, about: Any) -> None:
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise RecordingError(f"{path}: expected a file of recorded steps, got another kind of file")
    if about.get("version") != VERSION:
        raise RecordingError(f"{path}: expected version {VERSION} of the format, got {abbreviated(about.get('version'))}")
    for name, kind in ABOUT.items():
        if type(about.get(name)) is not kind:
            raise RecordingError(f"{path}: expected {name} of type {kind.__name__}, got {abbreviated(about.get(name))}")
    if about["kind"] not in ("evaluation", "world") or about["num_worlds"] < 1:
        raise RecordingError(f"{path}: expected an evaluation or a world, got {abbreviated(about['kind'])}")


def _jsonable(params: Params) -> dict[str, Any]:
    """Return parameters as JSON holds them; arrays become lists.

    Raises:
        RecordingError: another value, such as a function.
    """

    def plain(value: Any) -> Any:
        value = host_array(value)
        if not isinstance(value, np.ndarray | np.generic):
            raise TypeError
        return value.tolist()

    for name, value in params.items():
        try:
            json.dumps(value, default=plain)
        except (TypeError, ValueError) as error:
            raise RecordingError(f"expected parameters that a file can hold, got {name} = {abbreviated(value)}") from error
    jsonable: dict[str, Any] = json.loads(json.dumps(dict(params), default=plain))
    return jsonable


def device_name(device: str) -> str:
    """Return a device with the name of its GPU."""
    if not device.startswith("cuda"):
        return device
    import torch

    return f"{device} ({torch.cuda.get_device_name(device)})"


def _hashes(version: Mapping[str, str], parts: list[str]) -> str:
    return " ".join(version.get(part, "none") for part in parts)
