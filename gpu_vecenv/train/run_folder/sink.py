"""The receiver of a run's metrics: a file, TensorBoard, Weights & Biases, the terminal, or an object of the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Sink(Protocol):
    """Takes one dict of numbers for each iteration.

    Example::

        class Print:
            def log(self, metrics):
                print(metrics["steps"], metrics["return/agent"])

            def flush(self): ...
            def close(self): ...
    """

    def log(self, metrics: Mapping[str, float]) -> None:
        """Take an iteration: numbers by name, among them ``iteration`` and ``steps``. NaN means no value."""

    def flush(self) -> None:
        """Store all that was logged; called before a checkpoint is written, so that a resumed run misses nothing."""

    def close(self) -> None:
        """Store all that was logged, and release what the sink owns; called once, also after an error."""
