"""The process whose start-up is timed: ``python -m gpu_vecenv.bench.started WORDS`` prints a line at the end of each phase.

Functions import what they need, so that a phase has the imports of a user's program and no others.
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_vecenv.train import Trainer


def end(phase: str) -> None:
    """Print the name of a phase that has ended."""
    print(phase, flush=True)


def step(env_id: str, worlds: int, params: dict[str, Any], device: str) -> None:
    """Make an env, step it once, and wait for the step."""
    from gpu_vecenv.bench.cases import Case
    from gpu_vecenv.bench.env_only import make_env, random_actions
    from gpu_vecenv.bench.timing import synchronise

    end("imported")
    env, _ = make_env(Case(env_id, worlds, params), device)
    end("built")
    env.step(random_actions(env, 1)[0])
    synchronise(device)
    end("stepped")


def train(iterations: int | None, options: dict[str, Any]) -> None:
    """Train in a new folder for some iterations, or until an evaluation ends the run.

    Raises:
        RuntimeError: the run ended without a return of ``stop_at``.
    """
    from gpu_vecenv.train import Callback, TrainConfig, Trainer

    class FirstIteration(Callback):
        def on_iteration(self, trainer: Trainer, metrics: dict[str, float]) -> None:
            if trainer.iteration == 1:
                end("iterated")

    end("imported")
    with tempfile.TemporaryDirectory() as folder:
        config = TrainConfig(**options, out=f"{folder}/run")
        with closing(Trainer(config, quiet=True, callbacks=[FirstIteration()])) as trainer:
            end("built")
            trainer.train(iterations)
            if iterations is None and trainer.best.value < (config.stop_at or 0.0):
                raise RuntimeError(f"expected a mean return of {config.stop_at}, got {trainer.best.value}")
            end("trained")


if __name__ == "__main__":
    name, *arguments = json.loads(sys.argv[1])
    (step if name == "step" else train)(*arguments)
