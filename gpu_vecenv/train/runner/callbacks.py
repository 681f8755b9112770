"""Calls of the user's code during a run, and checks of the objects that are called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.errors import CallbackError
from gpu_vecenv.train.run_folder.sink import Sink

if TYPE_CHECKING:
    from gpu_vecenv.train.runner.measure import Evaluation
    from gpu_vecenv.train.runner.trainer import Trainer


class Callback:
    """Methods that the trainer calls; each does nothing unless a subclass overrides it.

    The trainer waits for them, and the GPU waits for the trainer. An exception ends the run and leaves its last checkpoint. Each
    method can end the run with a save by ``trainer.request_stop(reason)``. Methods return None; ``on_iteration`` may also return
    True, or False to end the run in this way. Another value raises ``CallbackError``.
    """

    def on_start(self, trainer: Trainer) -> None:
        """Training starts or continues; the first checkpoint of a new run is not written yet."""

    def on_iteration(self, trainer: Trainer, metrics: dict[str, float]) -> bool | None:
        """An iteration is done; NaN stands for no value. Return False to end the run."""

    def on_episodes(self, trainer: Trainer, policy: str, mean_return: float, mean_length: float) -> None:
        """Episodes of a policy's agents ended in the iteration: their mean return, and their mean length in steps."""

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation, best: bool) -> None:
        """The policies were evaluated; ``best`` is True if the result is the best so far."""

    def on_save(self, trainer: Trainer, path: Path) -> None:
        """A checkpoint was written."""

    def on_end(self, trainer: Trainer) -> None:
        """Training ends, or stops to be continued later."""


def checked_callbacks(callbacks: Sequence[Callback]) -> tuple[Callback, ...]:
    """Return the callbacks of a run.

    Raises:
        CallbackError: no list or tuple, or an entry that is no instance of ``Callback``.
    """
    for callback in _entries("callbacks", "Callback objects", callbacks):
        if not isinstance(callback, Callback):
            raise CallbackError(f"callbacks: expected instances of Callback, got {_named(callback)}")
    return tuple(callbacks)


def checked_sinks(sinks: Sequence[Sink]) -> tuple[Sink, ...]:
    """Return the sinks of a run.

    Raises:
        CallbackError: no list or tuple, or an entry without the methods of ``Sink``.
    """
    for sink in _entries("sinks", "objects with the methods of Sink", sinks):
        missing = [name for name in ("log", "flush", "close") if not callable(getattr(sink, name, None))]
        if missing or isinstance(sink, type):
            lacking = f" without {', '.join(missing)}" if missing else ""
            raise CallbackError(f"sinks: expected objects with the methods log, flush and close, got {_named(sink)}{lacking}")
    return tuple(sinks)


def _entries(option: str, expected: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise CallbackError(f"{option}: expected a list or tuple of {expected}, got {_named(value)}")
    return value


def _named(value: object) -> str:
    """Return a value's text for an error message; that of a class says how to make an instance."""
    if isinstance(value, type):
        return f"the class {value.__name__}; make an instance, such as {value.__name__}()"
    return abbreviated(value)


def reason_to_stop(callback: Callback, method: str, answer: object) -> str:
    """Return why a run ends after a callback returned ``answer``, which is not None; empty if it goes on.

    Raises:
        CallbackError: the value has no meaning.
    """
    name = f"{type(callback).__name__}.{method}"
    if method != "on_iteration":
        raise CallbackError(f"{name}: expected None, got {abbreviated(answer)}; trainer.request_stop(reason) ends a run")
    if not isinstance(answer, bool | np.bool_):
        raise CallbackError(f"{name}: expected None, True, or False to end the run, got {abbreviated(answer)}")
    return "" if answer else f"{name} returned False"
