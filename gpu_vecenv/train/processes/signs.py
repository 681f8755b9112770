"""Signs of life of a run's processes, by which a lost one is found and named.

A thread of each process counts up its sign in the store each second, and looks at that of the next process. Sums over processes
of a CUDA graph have no time limit, and an error of a sum does not tell who is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from torch.distributed.distributed_c10d import Store

from gpu_vecenv.train.errors import LostRankError

SIGN_S = 1.0
"""Seconds between two signs."""

STALE_S = 30.0
"""Seconds without a sign after which a process is lost."""

GRACE_S = 10.0
"""Seconds in which a process may end by its own error after another one was lost; then its thread ends it."""

FAILED = 1
"""Exit status of a process that its thread ends."""

GONE = "the store, which this process or its launcher holds, does not answer"

READ_S = 3 * SIGN_S
"""Seconds that a process stays after it has found a lost one: the store may end with it, and the others read the name there."""

LOST = "lost"
"""Key of the first process that was lost: its rank and the reason."""


class Signs:
    """Signs of all processes, in a store. ``close()`` ends the thread."""

    def __init__(self, rank: int, count: int, store: Store) -> None:
        """Start the thread.

        Args:
            rank: number of this process.
            count: number of processes.
            store: signs between processes; the thread has a connection of its own.
        """
        self.rank, self.count, self._store = rank, count, store
        self._next = (rank + 1) % count
        self._ended = threading.Event()
        self._lost: tuple[int, str] | None = None
        store.set(_place(rank), json.dumps((socket.gethostname(), os.getpid())))
        store.set(_sign(rank), "0")
        connection = store.clone()  # type: ignore[attr-defined]  # torch's stubs lack it
        self._thread = threading.Thread(target=self._run, args=(connection,), daemon=True, name="signs of life")
        if count > 1:
            self._thread.start()

    def close(self) -> None:
        """End the thread. The process is then never lost."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        with contextlib.suppress(RuntimeError):
            self._store.set(_sign(self.rank), "ended")

    def fail(self, why: str) -> None:
        """Tell the others that this process ends with an error, and end it by the thread if it does not end by itself."""
        with contextlib.suppress(RuntimeError):
            _tell(self._store, self.rank, why)
        self._lost = self._lost or (self.rank, why)

    def require_all(self) -> None:
        """Raise LostRankError if a process is known to be lost."""
        if self._lost is not None:
            raise self._error("")

    def lost_rank_error(self, cause: str) -> LostRankError:
        """Return the error of a lost process, which is looked for: at once on this host, else until its signs are stale.

        Args:
            cause: text of the error that a call to the others raised.
        """
        until = time.monotonic() + STALE_S + 5 * SIGN_S
        while self._lost is None and time.monotonic() < until:
            for rank in range(self.count):
                if rank != self.rank and self._is_gone(rank, self._store):
                    with contextlib.suppress(RuntimeError):
                        _tell(self._store, rank, "its process ended")  # unless it said why
                        self._lost = _told(self._store)
            time.sleep(SIGN_S / 10)
        return self._error(cause)

    def _error(self, cause: str) -> LostRankError:
        """Return the error of a lost process, after the others have had time to read which one it was."""
        time.sleep(READ_S)
        return LostRankError(self._text(cause))

    def _is_gone(self, rank: int, store: Store) -> bool:
        """Return True if a process was on this host and is not there now; ``store`` is a connection of the calling thread."""
        try:
            host, process = json.loads(store.get(_place(rank)))
            if host != socket.gethostname() or store.get(_sign(rank)) == b"ended":
                return False
            status = Path(f"/proc/{process}/stat").read_text()
        except FileNotFoundError:
            return Path("/proc/self").exists()
        except RuntimeError as error:
            self._lost = self._lost or (0, f"{GONE}: {error}")
            return False
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] in "ZX"  # a process that its parent has not waited for

    def _text(self, cause: str) -> str:
        if self._lost is None:
            return f"a process of {self.count} is lost, and it is not known which one: {cause}"
        rank, why = self._lost
        return f"rank {rank} of {self.count} is lost: {why}"

    def _run(self, store: Store) -> None:
        """Give signs, and look at those of the next process and at the key of the first lost one."""
        number, seen, seen_at = 0, b"", time.monotonic()
        while self._lost is None:
            if self._ended.wait(SIGN_S):
                return
            try:
                number += 1
                store.set(_sign(self.rank), str(number))
                sign = store.get(_sign(self._next)) if store.check([_sign(self._next)]) else b""
                if sign != seen or sign == b"ended":
                    seen, seen_at = sign, time.monotonic()
                elif self._is_gone(self._next, store):  # sums of NCCL in a graph raise no error
                    _tell(store, self._next, "its process ended")
                elif time.monotonic() - seen_at > STALE_S:
                    _tell(store, self._next, f"no sign of life for {STALE_S:.0f} s")
                self._lost = _told(store)
            except RuntimeError as error:  # the store is gone, and with it the process or the agent that holds it
                if time.monotonic() - seen_at > STALE_S:
                    self._lost = 0, f"{GONE}: {error}"
        # The interpreter may wait for the device in its end, when threads no longer run: the default of SIGALRM ends the process.
        signal.setitimer(signal.ITIMER_REAL, 2 * GRACE_S)
        if not self._ended.wait(GRACE_S):
            print(f"rank {self.rank} ends, because {self._text('')}", file=sys.stderr, flush=True)
            os._exit(FAILED)


def _tell(store: Store, rank: int, why: str) -> None:
    """Set the key of the first lost process, unless it is set."""
    store.compare_set(LOST, "", json.dumps((rank, why)))


def _told(store: Store) -> tuple[int, str] | None:
    """Return the rank of the first lost process and the reason; None if none is lost."""
    if not store.check([LOST]):
        return None
    rank, why = json.loads(store.get(LOST))
    return rank, why


def _sign(rank: int) -> str:
    return f"sign/{rank}"


def _place(rank: int) -> str:
    return f"place/{rank}"
