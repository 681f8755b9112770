"""A run's folder: one trainer locks it at a time; unfinished files of killed runs are removed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path

from gpu_vecenv.atomic_file import name_in_errors, remove_stale
from gpu_vecenv.train.errors import RunExistsError, RunGoneError, RunLockedError
from gpu_vecenv.train.run_folder.checkpoints import has_checkpoint, run_of
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE

LOCK_FILE = ".lock"

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of file systems that have no locks."""


class RunFolder:
    """A folder that this process locks until ``close()``, until this object is deleted, or until the process ends.

    Args:
        path: the folder; it is made if needed.

    Raises:
        RunLockedError: a trainer of this or another process has locked it.
        RunGoneError: the folder was removed or replaced while it was locked.
        OSError: the folder cannot be made or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        # A finalizer instead of __del__: it runs once, and also at the interpreter's end.
        self._release = weakref.finalize(self, _release, descriptor, os.getpid())
        try:
            with name_in_errors(path / LOCK_FILE):
                _lock(descriptor, path)
        except BaseException:
            self.close()
            raise
        self._known = {LOCK_FILE: os.fstat(descriptor)}
        self.check()  # Another process may have removed the folder just before it was locked.
        _locked.add(self)
        self._remove_leftovers()

    def remember(self, name: str) -> None:
        """Add a file that ``check()`` compares. The caller keeps it open, so that no other file gets its inode number."""
        self._known[name] = os.stat(self.path / name)

    def check(self) -> None:
        """Check that the path still leads to the folder that was locked.

        Raises:
            RunGoneError: the folder, or a file given to ``remember()``, was removed or replaced.
            RunLockedError: the folder is no longer locked by this process: after ``close()``, or in a forked process.
        """
        if not self._release.alive:
            raise RunLockedError(f"{self.path}: expected the trainer that locked this folder, got a closed one or a fork's copy")
        for name, known in self._known.items():
            status = None
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                status = os.stat(self.path / name)
            if status is None or not os.path.samestat(status, known):
                got = "none" if status is None else "another"
                raise RunGoneError(
                    f"{self.path / name}: expected the file that the trainer opened, got {got}: "
                    "the run's folder was removed or replaced while the trainer was running"
                )

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Raise RunGoneError for an OSError if the folder is gone. Otherwise add the folder to an error without a file name.

        Raises:
            RunGoneError, RunLockedError: see ``check()``.
        """
        try:
            with name_in_errors(self.path):
                yield
        except OSError:
            self.check()
            raise

    def close(self) -> None:
        """Unlock the folder."""
        self._release()

    def _remove_leftovers(self) -> None:
        """Remove unfinished files.

        Only a trainer writes options, metrics and checkpoints, so unfinished files of these are always stale. ``plot`` and
        ``watch`` may still be writing other files, so those are removed only when they are old.
        """
        for pattern in ("metrics.*.partial.jsonl", "config.*.partial.yaml", "checkpoint/*.partial.*"):
            for path in self.path.glob(pattern):
                path.unlink(missing_ok=True)
        remove_stale(self.path, "*.partial.*")


_locked: weakref.WeakSet[RunFolder] = weakref.WeakSet()


def lock_run_folder(path: Path, resumed_from: Path | None = None) -> RunFolder:
    """Lock the folder of a new or resumed run.

    Args:
        path: the folder.
        resumed_from: the checkpoint file of a resumed run; None for a new run.

    Raises:
        RunExistsError: the folder holds a run, and ``resumed_from`` is not in that folder.
        RunGoneError, RunLockedError, OSError: see ``RunFolder``.
    """
    folder = RunFolder(path)
    same_run = resumed_from is not None and path.resolve() in (resumed_from.resolve().parent, run_of(resumed_from.resolve()))
    if not same_run:
        try:
            require_no_run(path)
        except RunExistsError:
            folder.close()
            raise
    return folder


def require_no_run(path: Path) -> None:
    """Raise RunExistsError if a folder holds a run."""
    if (path / METRICS_FILE).exists() or has_checkpoint(path):
        raise RunExistsError(
            f"{path}: expected a new folder, got one with a run in it: continue the run with --resume (Trainer.resume), "
            "or choose another --out"
        )


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 1000).decode(errors="replace").strip() or "another process"
        if owner == _this_process():
            owner += " (this one: close() its trainer first)"
        raise RunLockedError(f"{path}: expected a folder that no other trainer works on, got one locked by {owner}") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        warnings.warn(f"{path}: cannot be locked ({error.strerror}); make sure that no other trainer works on it", stacklevel=4)
    os.truncate(descriptor, 0)
    os.write(descriptor, f"{_this_process()}\n".encode())


def _this_process() -> str:
    """Return the text that the lock file holds while this process locks it."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _release(descriptor: int, owner_pid: int) -> None:
    """Close the lock file. The process that locked it unlocks it first: a child between fork and exec may have it open, too."""
    if os.getpid() == owner_pid:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _close_in_child() -> None:
    """Close the parent's lock files in a forked child. Otherwise the folders would stay locked after the parent ends."""
    for folder in list(_locked):
        folder.close()


os.register_at_fork(after_in_child=_close_in_child)
