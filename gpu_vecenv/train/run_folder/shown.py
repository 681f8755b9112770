"""A run's folder, as a notebook shows it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gpu_vecenv.render.notebook import MAX_EMBEDDED, picture_html, pixels, png, table_html, video_html
from gpu_vecenv.train.run_folder.matches import read_matches
from gpu_vecenv.train.run_folder.metrics import read_metrics
from gpu_vecenv.train.run_folder.plot import plot_curves

VIDEO_FILE = "video.mp4"
CURVES_WIDTH, VIDEO_WIDTH = 900, 480


class Run:
    """A run's folder. A notebook shows its returns, its curves and, if the folder has one, its video.

    Example::

        Run("runs/tag")  # as the last line of a cell

    Args:
        folder: the run's folder.
        random_return: policy name to the mean return of an agent that acts at random, which is shown beside what was learned, as
            in ``evaluate(folder, policy_map={"tagger": "random", "runner": "random"}).mean_return``. By default it is that of
            the matches in the folder, which ``gpu-vecenv train`` plays at the end.

    Attributes:
        folder: the run's folder.
        metrics: the lines of its ``metrics.jsonl``, see ``read_metrics()``.

    Raises:
        MetricsError: the folder holds no metrics of a run, or its matches are damaged.
    """

    def __init__(self, folder: str | Path, random_return: Mapping[str, float] | None = None) -> None:
        self.folder = Path(folder)
        self.metrics = read_metrics(self.folder)
        self._random = dict(_random_returns(self.folder) if random_return is None else random_return)

    def __repr__(self) -> str:
        """Folder, steps and returns."""
        returns = "".join(f", {name} {late}" for name, _, late, *_ in self._returns())
        return f"Run({self.folder}, {self._steps():,} steps{returns})"

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows. Without matplotlib or Pillow there are no curves."""
        head = ("mean return of", "first episodes", "last 100 episodes", *(("at random",) if self._random else ()))
        parts = [f"<p>{self._steps():,} world steps in {len(self.metrics):,} iterations</p>", table_html(self._returns(), head)]
        if self.metrics:
            with contextlib.suppress(ImportError), tempfile.TemporaryDirectory() as folder:
                curves = plot_curves(self.folder, Path(folder) / "curves.png")  # drawn anew, because the run may have gone on
                parts.append(picture_html(png([pixels(curves)], width=CURVES_WIDTH), CURVES_WIDTH))
        video = self.folder / VIDEO_FILE
        if video.is_file() and video.stat().st_size <= MAX_EMBEDDED:
            parts.append(video_html(video.read_bytes(), VIDEO_WIDTH))
        return "".join(parts)

    def _steps(self) -> int:
        return int((self.metrics[-1]["steps"] or 0) if self.metrics else 0)

    def _returns(self) -> list[list[str]]:
        """Return a line for each policy: name; mean return in the first rollout with an ended episode, of late, and at random."""
        last = self.metrics[-1] if self.metrics else {}
        lines = []
        for name in [name.removeprefix("return/") for name in last if name.startswith("return/")]:
            first = next((value for line in self.metrics if (value := line.get(f"return/{name}")) is not None), None)
            values = [first, last.get(f"recent_return/{name}"), *([self._random.get(name)] if self._random else [])]
            lines.append([name, *("–" if value is None else f"{value:.2f}" for value in values)])
        return lines


def _random_returns(folder: Path) -> dict[str, float]:
    """Return the mean return of each policy's agents when all roles act at random; empty without matches."""
    matches = read_matches(folder)
    if matches is None:
        return {}
    names = {name for role in matches.learning for name in matches.roles[role].policies}
    known = {name: matches.baseline(name, *matches.learning) for name in names}
    return {name: value for name, value in known.items() if value is not None}
