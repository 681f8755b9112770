"""Threads that share the worlds of a launch with its caller: they run the loop of kernels/gv_threads.h, outside Python."""

from __future__ import annotations

import ctypes
import threading
import weakref

import numpy as np

from gpu_vecenv.errors import DeviceError


class Threads:
    """A caller and ``count - 1`` threads, started once.

    Args:
        library: a compiled kernel.
        count: threads to share worlds over, the caller among them.

    Raises:
        DeviceError: the system starts fewer threads; those it has started have ended.
    """

    def __init__(self, library: ctypes.CDLL, count: int) -> None:
        pool = np.zeros(library.gv_threads_size(count), np.uint8)
        library.gv_threads_open(ctypes.c_void_p(pool.ctypes.data), count)
        self._address = pool.ctypes.data
        self._launch = library.gv_threads_launch
        self._launch.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
        self._launch.restype = None
        # The threads, and what ends them, know the pool and not this object, so that it may be collected.
        self.close = weakref.finalize(self, _close, library, pool)
        started: list[threading.Thread] = []
        try:
            for number in range(1, count):
                thread = threading.Thread(target=_work, args=(library, pool, number), name="gpu_vecenv", daemon=True)
                thread.start()
                started.append(thread)
        except RuntimeError as error:
            self.close()
            for thread in started:
                thread.join()
            raise DeviceError(
                f"{count} threads were asked for, the caller among them, and the system started {len(started)} of the other "
                f"{count - 1}: {error}. Set GPU_VECENV_NUM_THREADS to fewer, or raise the limit on processes (ulimit -u)."
            ) from error

    def forget(self) -> None:
        """In a forked child: there are no threads to end, and the lock to tell them may have been held."""
        self.close.detach()

    def launch(self, kernel: int | None, args: int, num_worlds: int) -> None:
        """Run the kernel at an address over all worlds; returns when it is done."""
        self._launch(self._address, kernel, args, num_worlds)


def _work(library: ctypes.CDLL, pool: np.ndarray, number: int) -> None:
    library.gv_threads_work(ctypes.c_void_p(pool.ctypes.data), number)


def _close(library: ctypes.CDLL, pool: np.ndarray) -> None:
    library.gv_threads_close(ctypes.c_void_p(pool.ctypes.data))
