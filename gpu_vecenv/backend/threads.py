"""Threads that share the worlds of a launch with its caller. They run the loop of kernels/launch/threads.h, outside Python."""

from __future__ import annotations

import ctypes
import threading
import weakref

import numpy as np

from gpu_vecenv.errors import DeviceError


class Threads:
    """A caller and ``count - 1`` threads, started once.

    Args:
        library: compiled kernels of an env.
        count: number of threads, including the caller.

    Raises:
        DeviceError: the system starts fewer threads; the started ones have ended.
    """

    def __init__(self, library: ctypes.CDLL, count: int) -> None:
        shared = np.zeros(library.gv_threads_size(count), np.uint8)  # memory through which the threads and the caller signal
        library.gv_threads_open(ctypes.c_void_p(shared.ctypes.data), count)
        self._address = shared.ctypes.data
        self._launch = library.gv_threads_launch
        self._launch.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
        self._launch.restype = None
        # The threads and the finalizer refer to the shared memory and not to this object, so that Python can collect it.
        self.close = weakref.finalize(self, _close, library, shared)
        started: list[threading.Thread] = []
        try:
            for number in range(1, count):
                thread = threading.Thread(target=_work, args=(library, shared, number), name="gpu_vecenv", daemon=True)
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
        """In a forked child: end nothing, because the threads do not exist there and their lock may have been held."""
        self.close.detach()

    def launch(self, kernel: int | None, args: int, num_worlds: int) -> None:
        """Run the kernel at an address over all worlds and return when it is done."""
        self._launch(self._address, kernel, args, num_worlds)


def _work(library: ctypes.CDLL, shared: np.ndarray, number: int) -> None:
    library.gv_threads_work(ctypes.c_void_p(shared.ctypes.data), number)


def _close(library: ctypes.CDLL, shared: np.ndarray) -> None:
    library.gv_threads_close(ctypes.c_void_p(shared.ctypes.data))
