"""Guard of an env: a call during another call raises an error."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from gpu_vecenv.errors import ClosedError, ConcurrentCallError


class ReentrancyGuard:
    """Guard of one env. A call writes the argument struct and launches a kernel with it; two calls at once would mix values.

    Args:
        name: name of the env, for messages.

    Attributes:
        in_call: True during a call.
        lock: held during a call. It is reentrant, so a signal handler may close the env whose call it interrupted.
        closing: True once ``close()`` was called.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.closing = False
        self.clear()
        _guards.add(self)

    def clear(self) -> None:
        """Mark the env as not in a call."""
        self.in_call, self.lock = False, threading.RLock()

    def busy(self) -> Exception:
        """Return the error for a call during another call."""
        if self.closing:
            return ClosedError(f"{self._name} is being closed by another thread; make a new env.")
        return ConcurrentCallError(
            f"{self._name}: this env is already in a call, made by another thread or interrupted by a signal handler; make one "
            "env per thread, or put a lock around its calls."
        )


class _Guarded(Protocol):
    _guard: ReentrancyGuard


E = TypeVar("E", bound=_Guarded)
P = ParamSpec("P")
R = TypeVar("R")


def guarded(method: Callable[Concatenate[E, P], R]) -> Callable[Concatenate[E, P], R]:
    """Make a method raise ``_guard.busy()`` while a guarded method of the same env runs, in any thread."""

    @functools.wraps(method)
    def call(env: E, /, *args: P.args, **kwargs: P.kwargs) -> R:
        guard = env._guard
        if guard.in_call or not guard.lock.acquire(False):
            raise guard.busy()
        try:
            guard.in_call = True  # inside the try block, so that Ctrl-C on this line releases the lock
            return method(env, *args, **kwargs)
        finally:
            guard.in_call = False
            guard.lock.release()

    return call


_guards: weakref.WeakSet[ReentrancyGuard] = weakref.WeakSet()


def _clear_guards() -> None:
    """Clear all guards in a forked child. Threads of the parent that were in a call do not exist there."""
    for guard in list(_guards):
        guard.clear()


os.register_at_fork(after_in_child=_clear_guards)
