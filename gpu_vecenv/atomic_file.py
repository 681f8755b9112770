"""Atomic writes: a reader of a file sees the old content or the whole new content."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Container, Iterator
from pathlib import Path

DISK_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Error numbers of a write that a disk cannot store: full, over quota, file too large, input/output error, read-only."""


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Replace ``path`` by what the block writes to the yielded path; if the block raises, ``path`` is unchanged.

    The new file is on disk before it takes the old one's name, so a power cut leaves one of the two.

    Args:
        path: file to write; its folder exists.

    Yields:
        A path in the same folder with the same suffix, for the block to write. No file is left there.

    Raises:
        OSError: the file could not be written; the error names ``path``.
    """
    # Each writer of the same file has its own partial file, also in containers that share a folder.
    partial = path.with_name(f"{path.stem}.{secrets.token_hex(8)}.partial{path.suffix}")
    try:
        with name_in_errors(path, DISK_REFUSALS):  # other errors in the block keep their text
            yield partial
            _sync(partial)
            os.replace(partial, path)
    except OSError as error:
        if error.filename == str(partial) and error.filename2 is None:  # the partial file could not be opened
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)
    _sync(path.parent)  # the rename must survive a power cut, too


@contextlib.contextmanager
def name_in_errors(path: Path, error_numbers: Container[int] | None = None) -> Iterator[None]:
    """Add ``path`` to an OSError that names no file, such as that of a write to a full disk.

    Args:
        path: file or folder that the block reads or writes.
        error_numbers: error numbers (errno) to whose errors it is added; None for all.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None and (error_numbers is None or error.errno in error_numbers):
            error.filename = str(path)
        raise


def remove_stale(folder: Path, pattern: str, age: float = 3600.0) -> None:
    """Remove partial files that killed processes left.

    Args:
        folder: folder of the files.
        pattern: pattern of their names for ``Path.glob()``.
        age: seconds since the last write. An older file is removed, because no process writes it any more.
    """
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):  # another process may remove it, too
            if time.time() - path.stat().st_mtime > age:
                path.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot sync folders
            raise
    finally:
        os.close(descriptor)
