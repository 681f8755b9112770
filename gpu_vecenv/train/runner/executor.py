"""Ways to run an iteration on the device. Another way replaces the executor; iteration and algorithms stay as they are."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from gpu_vecenv.train.runner.iteration import Iteration


class Executor(Protocol):
    """Runs iterations."""

    def __call__(self, iteration: Iteration, first: bool) -> Tensor:
        """Run an iteration; see ``Iteration.run()``."""


def eager(iteration: Iteration, first: bool) -> Tensor:
    """Run an iteration operation by operation."""
    return iteration.run(first)
