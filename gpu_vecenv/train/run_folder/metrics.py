"""The lines of a run's ``metrics.jsonl``: writing one, and reading and checking all.

JSON has no numbers that are not finite. NaN, which means no value, is written as ``null``; an infinite value is written as the
text ``"Infinity"`` or ``"-Infinity"``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.errors import MetricsError

METRICS_FILE = "metrics.jsonl"

_INFINITE = {"Infinity": math.inf, "-Infinity": -math.inf}
"""Texts of infinite values, and the values."""


def metrics_line(metrics: Mapping[str, float]) -> str:
    """Return one line, without its end, that ``read_metrics()`` reads back. NaN becomes None."""
    text = json.dumps(metrics)
    if "NaN" in text or "Infinity" in text:  # a value, or a part of a name
        texts = {value: text for text, value in _INFINITE.items()}
        return json.dumps({name: None if math.isnan(x) else texts.get(x, x) for name, x in metrics.items()}, allow_nan=False)
    return text


def read_metrics(path: str | Path) -> list[dict[str, float | None]]:
    """Return the lines of a ``metrics.jsonl``, given the file or its folder; values are numbers, or None for no value.

    A last line without a newline was cut short by a crash and is left out.

    Returns:
        A dict for each line; NaN is None there, and each has a finite ``iteration`` and ``steps``.

    Raises:
        MetricsError: the file is missing or is no file of metrics.
    """
    path = Path(path)
    path = path / METRICS_FILE if path.is_dir() else path
    if path.exists() and not path.is_file():  # reading a pipe may block
        raise MetricsError(f"{path}: expected the metrics of a run, got something that is no file")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        return [_parse(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]
    except FileNotFoundError:
        raise MetricsError(f"{path}: expected the metrics of a run, got no such file") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, MetricsError):
            raise
        raise MetricsError(f"{path}: expected lines of JSON, got {error}") from error


def _parse(line: str, where: str) -> dict[str, float | None]:
    """Return one line of metrics; integers beyond the range of a float become infinite."""
    metrics = json.loads(line, parse_int=lambda digits: int(digits) if math.isfinite(float(digits)) else math.inf)
    if not isinstance(metrics, dict):
        raise MetricsError(f"{where}: expected an object of numbers, got {line[:40]}")
    for name, value in metrics.items():
        value = metrics[name] = _INFINITE.get(value, value) if isinstance(value, str) else value
        if not name.isprintable():
            raise MetricsError(f"{where}: expected names of printable text, got {abbreviated(name)}")
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise MetricsError(f"{where}: expected {name} to be a number or null, got {abbreviated(value)}")
    for name in ("iteration", "steps"):
        if metrics.get(name) is None or not math.isfinite(metrics[name]):
            raise MetricsError(f"{where}: expected a finite {name}, got {metrics.get(name)}")
    return metrics
