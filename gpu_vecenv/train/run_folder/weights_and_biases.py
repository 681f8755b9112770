"""Sends metrics to Weights & Biases, with world steps on the x axis."""

from __future__ import annotations

import importlib.util
import math
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.train.errors import ConfigError

ID_FILE = "wandb-id.txt"
"""File of a run's folder with the id of the run at Weights & Biases, under which a resumed run continues."""


class WeightsAndBiases:
    """Logs to a project. The package's own settings apply, such as the environment variable ``WANDB_MODE=offline``.

    A resumed run continues under its id. Weights & Biases takes no step twice, so that repeated iterations add no points.
    """

    def __init__(self, project: str, run: Path | None, options: Mapping[str, Any]) -> None:
        """Start the run, or continue it.

        Args:
            project: name of the project.
            run: the run's folder; None without one: the package chooses the place of its files, and the id is new.
            options: the run's options, which the web page shows.

        Raises:
            ConfigError: the package ``wandb`` is not installed.
        """
        require_wandb(project)
        import wandb

        where = {} if run is None else {"dir": str(run), "id": _id(run), "resume": "allow"}
        self._run = wandb.init(project=project, config=dict(options), **where)

    def log(self, metrics: Mapping[str, float]) -> None:
        """Send an iteration; NaN is left out."""
        self._run.log({name: x for name, x in metrics.items() if not math.isnan(x)}, step=int(metrics["steps"]))

    def flush(self) -> None:
        """Do nothing: the package's own process stores each point when it is logged."""

    def close(self) -> None:
        """Wait until all points are stored or sent."""
        self._run.finish()


def require_wandb(project: str | None) -> None:
    """Raise ConfigError if a project is given and the package ``wandb`` is not installed."""
    if project is not None and importlib.util.find_spec("wandb") is None:
        raise ConfigError(f"wandb: expected the package wandb for the project {project!r}, got none: pip install wandb")


def _id(run: Path) -> str:
    path = run / ID_FILE
    if not path.exists():
        with atomic_file(path) as partial:
            partial.write_text(secrets.token_hex(8) + "\n", encoding="ascii")
    return path.read_text(encoding="ascii").strip()
