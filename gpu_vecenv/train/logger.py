"""Where metrics go: ``metrics.jsonl``, TensorBoard if installed, and the terminal."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gpu_vecenv.train.errors import MetricsError
from gpu_vecenv.train.run_folder import replacing

if TYPE_CHECKING:
    from rich.progress import Progress

METRICS_FILE = "metrics.jsonl"
PLAIN_INTERVAL_S = 5.0
"""Seconds between two lines where there is no terminal to redraw."""


class Logger:
    """Records one dict of numbers an iteration. Use as a context manager."""

    def __init__(self, out: Path | None, total_steps: int, first_iteration: int = 0, quiet: bool = False):
        """Open the files.

        Args:
            out: folder for files; None writes none.
            total_steps: world steps of the whole run, for the progress bar.
            first_iteration: iterations done before; later lines of an earlier, interrupted run are dropped.
            quiet: print nothing.
        """
        self.out = out
        self.total_steps = total_steps
        self.first_iteration = first_iteration
        self._resources = contextlib.ExitStack()
        self._console = None if quiet else _Console(total_steps)

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
        if self._console is not None:
            self._resources.enter_context(self._console)
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
        if self._console is not None:
            self._console.show(metrics)


class _Console:
    """A rich progress bar on a terminal, otherwise a plain line every few seconds."""

    def __init__(self, total_steps: int):
        self.total_steps = total_steps
        self.progress: Progress | None = None
        self.last_line = -math.inf
        self.returns: dict[str, float] = {}

    def __enter__(self) -> _Console:
        if importlib.util.find_spec("rich") is not None:
            from rich import progress
            from rich.console import Console

            console = Console()
            if console.is_terminal:
                columns = (
                    progress.BarColumn(bar_width=20),
                    progress.TaskProgressColumn(),
                    progress.TextColumn("{task.description}"),
                    progress.TimeRemainingColumn(),
                )
                self.progress = progress.Progress(*columns, console=console)
                self.progress.start()
                self.task = self.progress.add_task("starting", total=self.total_steps)
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress is not None:
            self.progress.stop()

    def show(self, metrics: dict[str, float]) -> None:
        """Show an iteration; a policy without a finished episode keeps its last mean return."""
        fresh = {k: v for k, v in metrics.items() if k.startswith("return/") and not math.isnan(v)}
        self.returns.update(fresh)
        text = self._describe(metrics)
        if self.progress is not None:
            self.progress.update(self.task, completed=metrics["steps"], description=text)
            return
        now, done = time.monotonic(), metrics["steps"] >= self.total_steps
        if done or now - self.last_line >= PLAIN_INTERVAL_S:
            self.last_line = now
            left = (self.total_steps - metrics["steps"]) / max(metrics["steps_per_second"], 1e-9)
            percent = 100.0 * metrics["steps"] / self.total_steps
            print(f"{percent:3.0f}%  {text}  {max(left, 0.0):.0f} s left", flush=True)

    def _describe(self, metrics: dict[str, float]) -> str:
        parts = [f"{metrics['steps']:,.0f} steps", f"{metrics['steps_per_second']:,.0f}/s"]
        parts += [f"{name} {mean:.2f}" for name, mean in self.returns.items()]
        losses = [
            f"{k.removeprefix('policy_loss/')} {v:+.3f}" for k, v in metrics.items() if "policy_loss/" in k
        ]
        values = [f"{v:.3f}" for k, v in metrics.items() if k.startswith("value_loss/")]
        return "  ".join([*parts, "loss " + " ".join(losses), "value loss " + " ".join(values)])


def _keep_before(path: Path, first_iteration: int) -> None:
    """Drop the lines of iterations that will be done again, and what a crash left of a line."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]:
        with contextlib.suppress(MetricsError):
            if _parsed(line, path)["iteration"] <= first_iteration:
                kept.append(line + "\n")
    with replacing(path) as file:
        file.write("".join(kept).encode())


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Return the lines of a ``metrics.jsonl``, given the file or its folder; values are numbers, or None for no value.

    A last line without an end was cut short by a crash, and is left out.

    Raises:
        MetricsError: no such file, or not lines of JSON.
    """
    path = Path(path)
    path = path / METRICS_FILE if path.is_dir() else path
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        raise MetricsError(f"{path}: expected the metrics of a run, got no such file") from None
    except UnicodeDecodeError as error:
        raise MetricsError(f"{path}: expected lines of JSON, got {error}") from error
    return [_parsed(line, path) for line in lines]


def _parsed(line: str, path: Path) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MetricsError(f"{path}: expected lines of JSON, got {error}") from error
    good = isinstance(values, dict) and isinstance(values.get("iteration"), int)
    if not good or not all(isinstance(value, int | float | None) for value in values.values()):
        raise MetricsError(f"{path}: expected lines of JSON with numbers by name and an iteration, got {line!r}")
    return values
