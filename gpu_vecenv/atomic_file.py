"""Writes a file so that a reader sees the old one or the whole new one."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

DISK_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Errors with which a disk refuses to take a write."""


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Replace ``path`` by what the block writes to the yielded path; if the block raises, ``path`` stays as it was.

    The new file is on disk before it takes the old one's name, so a power cut leaves one of the two.

    Args:
        path: file to write; its folder exists.

    Yields:
        A path in the same folder with the same suffix, for the block to write. No file is left there.

    Raises:
        OSError: the disk refused; the error names ``path``.
    """
    # Writers of the same file, in containers that share a folder too, have files of their own.
    partial = path.with_name(f"{path.stem}.{secrets.token_hex(8)}.partial{path.suffix}")
    try:
        yield partial
        _sync(partial)
        os.replace(partial, path)
    except OSError as error:
        # A failed write names no file. An error of something else in the block keeps its text.
        failed_write = error.filename is None and error.errno in DISK_REFUSALS
        failed_open = error.filename == str(partial) and error.filename2 is None
        if failed_write or failed_open:
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)
    _sync(path.parent)  # The rename itself must survive a power cut, too.


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
