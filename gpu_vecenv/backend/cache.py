"""Cache of kernels compiled at first use: files on disk, loaded only if they are whole and belong to this user or root."""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import os
import shutil
import stat
import tempfile
import warnings
from pathlib import Path

import platformdirs

from gpu_vecenv.atomic_file import atomic_file, remove_stale
from gpu_vecenv.errors import CompileError

VARIABLE = "GPU_VECENV_CACHE_DIR"
REMEDY = f"Set {VARIABLE} to a folder of your own that can be written."

_DIGEST = hashlib.sha256().digest_size
_libraries: dict[Path, ctypes.CDLL] = {}
_names: set[str] = set()


def cache_dir() -> Path:
    """Return the folder of compiled kernels: a lasting one if possible, otherwise one that this process removes at its end.

    Raises:
        CompileError: neither folder can be made.
    """
    return lasting_dir() or _temporary_dir()


def lasting_dir() -> Path | None:
    """Return ``GPU_VECENV_CACHE_DIR``, else the user's cache folder, made if missing; None if it cannot be made."""
    path = os.environ.get(VARIABLE)
    if path:
        return Path(path)
    try:
        folder = Path(platformdirs.user_cache_dir("gpu_vecenv"))
        if not folder.is_absolute():  # older platformdirs return "~/.cache" for a user without a home
            return None
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder


@functools.cache
def _temporary_dir() -> Path:
    try:
        folder = Path(tempfile.mkdtemp(prefix="gpu_vecenv-"))
    except OSError as error:
        raise CompileError(f"compiled kernels cannot be stored: {error}. {REMEDY}") from error
    atexit.register(_remove, folder, os.getpid())
    warnings.warn(
        f"This user has no cache folder, and none can be made, so compiled kernels are stored in {folder} until this "
        f"process ends. {REMEDY}",
        stacklevel=2,
    )
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child may end earlier
        shutil.rmtree(folder, ignore_errors=True)


def load(path: Path) -> ctypes.CDLL:
    """Load the library that ``store()`` wrote at ``path``. A process loads each library once.

    It must pass the checks of ``read()``. The file descriptor that was checked is loaded, so that nobody can exchange the file in
    between.

    Raises:
        OSError: the file is missing, may not be loaded, or cannot be loaded.
    """
    if path not in _libraries:
        file = _open(path)
        try:
            _checked(file, path)
            # dlopen returns the library that it has loaded under a name before, so every name must be new: the descriptor
            # stays open, and used numbers are skipped.
            # A debugger opens the name, too, so it has the number of this process.
            while (name := f"/proc/{os.readlink('/proc/self')}/fd/{file}") in _names:
                file = os.dup(file)
            _libraries[path] = ctypes.CDLL(name)
        except OSError:
            os.close(file)
            raise
        _names.add(name)
    return _libraries[path]


def read(path: Path) -> bytes:
    """Return the bytes that ``store()`` wrote at ``path``.

    It must be a plain file, not a link. It must belong to this user or to root, no other user may write it, and its digest must
    match.

    Raises:
        OSError: the file is missing, cannot be read, or fails a check.
    """
    file = _open(path)
    try:
        return _checked(file, path)
    finally:
        os.close(file)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe must not block


def _checked(file: int, path: Path) -> bytes:
    """Return the content of an open file before its digest.

    Raises:
        OSError: a damaged file, or one that another user can write.
    """
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{path} is not a plain file")
    if status.st_uid not in (0, os.geteuid()):
        raise PermissionError(f"{path} belongs to another user ({status.st_uid})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{path} can be written by other users")
    with open(file, "rb", closefd=False) as opened:
        content = opened.read()
    if content != _sealed(path, content[:-_DIGEST]):
        raise OSError(f"{path} is damaged")
    return content[:-_DIGEST]


def _sealed(path: Path, library: bytes) -> bytes:
    """Append the SHA-256 of the file name and the library to the library.

    The loader ignores bytes after an ELF object.
    """
    return library + hashlib.sha256(os.fsencode(path.name) + library).digest()


def store(path: Path, library: bytes) -> None:
    """Write a library for ``load()`` or ``read()``, and remove unfinished files of killed processes.

    Raises:
        OSError: the file cannot be written.
    """
    write_library(path, _sealed(path, library))
    remove_stale(path.parent, f"*.partial{path.suffix}")


def write_library(path: Path, content: bytes) -> None:
    """Write a file that no other user may write, and make its folder if it is missing. A link is replaced, not followed.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as partial:
        partial.touch(0o644)
        partial.chmod(0o644)  # even if the user's umask lets a group write
        partial.write_bytes(content)
