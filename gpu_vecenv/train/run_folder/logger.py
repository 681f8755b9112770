"""Writes metrics to ``metrics.jsonl``, to TensorBoard if it is installed, and to the terminal."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import sys
from pathlib import Path
from types import TracebackType

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE, read_metrics
from gpu_vecenv.train.run_folder.progress import Progress


class Logger:
    """Records one dict of numbers for each iteration. Use as a context manager."""

    def __init__(self, out: Path | None, total_steps: int, first_iteration: int = 0, quiet: bool = False):
        """Set the logger up; entering the context opens the files.

        Args:
            out: folder for files; None writes no files.
            total_steps: steps of the whole run, summed over worlds, for the progress bar.
            first_iteration: iterations already done; lines of later ones, from an interrupted run, are removed.
            quiet: print nothing.
        """
        self.out = out
        self.total_steps = total_steps
        self.first_iteration = first_iteration
        self._resources = contextlib.ExitStack()
        self._progress = Progress(sys.stdout, quiet)
        self._returns: dict[str, float] = {}

    def __enter__(self) -> Logger:
        """Open files and the progress bar."""
        self._file = self._board = None
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
            path = self.out / METRICS_FILE
            _keep_before(path, self.first_iteration)
            self._file = self._resources.enter_context(open(path, "a", encoding="utf-8"))
            if importlib.util.find_spec("tensorboard") is not None:
                from torch.utils.tensorboard import SummaryWriter

                board = SummaryWriter(str(self.out / "tensorboard"), purge_step=self.first_iteration)
                self._board = self._resources.enter_context(board)
        self._resources.enter_context(self._progress)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close everything."""
        self._resources.close()

    def log(self, metrics: dict[str, float]) -> None:
        """Record an iteration.

        Args:
            metrics: numbers by name, among them ``iteration`` and ``steps``. NaN means no value: JSON null.
        """
        if self._file is not None:
            line = {name: None if math.isnan(x) else x for name, x in metrics.items()}
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        if self._board is not None:
            for name, x in metrics.items():
                if not math.isnan(x):
                    self._board.add_scalar(name, x, int(metrics["iteration"]))
        self._show(metrics)

    def _show(self, metrics: dict[str, float]) -> None:
        """Show an iteration; a policy without a finished episode keeps its last mean return."""
        fresh = {k: v for k, v in metrics.items() if k.startswith("return/") and not math.isnan(v)}
        self._returns.update(fresh)
        notes = [f"{name} {mean:.2f}" for name, mean in self._returns.items()]
        losses = [f"{k.removeprefix('policy_loss/')} {v:+.3f}" for k, v in metrics.items() if "policy_loss/" in k]
        values = [f"{v:.3f}" for k, v in metrics.items() if k.startswith("value_loss/")]
        notes += ["loss " + " ".join(losses), "value loss " + " ".join(values)]
        counts = f"{metrics['steps']:,.0f} steps  {metrics['steps_per_second']:,.0f} steps/s"
        self._progress.show(metrics["steps"] / self.total_steps, counts, "  ".join(notes))


def _keep_before(path: Path, first_iteration: int) -> None:
    """Remove the lines of iterations that will run again, and a line that a crash cut short."""
    if not path.exists():
        return
    metrics = read_metrics(path)
    lines = path.read_text(encoding="utf-8").split("\n")[: len(metrics)]
    kept = [line + "\n" for line, m in zip(lines, metrics, strict=True) if (m["iteration"] or 0) <= first_iteration]
    with atomic_file(path) as partial:
        partial.write_text("".join(kept), encoding="utf-8")
