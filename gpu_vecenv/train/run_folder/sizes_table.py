"""The table of sizes that were tried for ``num_envs="auto"``: on the terminal, and as a file of the run's folder."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_vecenv.atomic_file import atomic_file

SIZES_FILE = "auto_sizes.json"
"""Name of the file in the folder of a run."""

HEADER = ("worlds", "steps", "minibatches", "updates", "memory, MB", "ms an iteration", "steps/s", "")


def save_sizes(table: Mapping[str, Any], folder: Path) -> None:
    """Write the table to ``auto_sizes.json`` of a folder.

    Args:
        table: ``chosen``, a row of ``rows``; ``rows``; and what else is known about the search.
        folder: the folder of a run.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_file(folder / SIZES_FILE) as partial:
        partial.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


def cells(table: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the texts of the rows, the fastest first."""
    rows = sorted(table["rows"], key=lambda row: -row["steps_per_second"])
    return [_cells(row, row["sizes"] == table["chosen"]) for row in rows]


def _cells(row: Mapping[str, Any], is_chosen: bool) -> tuple[str, ...]:
    sizes, rate = row["sizes"], row["steps_per_second"]
    speed = (f"{1e3 * row['iteration_s']:,.3g}", f"{rate:,.0f}") if rate else ("-", "-")
    counts = (f"{sizes[name]:,}" for name in ("num_envs", "num_steps", "num_minibatches"))
    return (*counts, f"{row['updates']:,}", f"{row['bytes'] / 1e6:,.1f}", *speed, "taken" if is_chosen else row["note"])


def print_sizes(table: Mapping[str, Any]) -> None:
    """Print the table, by rich if it is installed. A closed terminal or pipe prints nothing."""
    with contextlib.suppress(OSError):
        if importlib.util.find_spec("rich") is None:
            _print_plain([HEADER, *cells(table)])
        else:
            _print_by_rich(cells(table))
        print(table["text"], flush=True)


def _print_plain(lines: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        aligned = (f"{text:>{width}}" for text, width in zip(line[:-1], widths, strict=False))
        print("  ".join([*aligned, line[-1]]).rstrip())


def _print_by_rich(lines: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    for name in HEADER:
        table.add_column(name, justify="right" if name else "left", no_wrap=bool(name))
    for line in lines:
        table.add_row(*map(Text, line), style="bold" if line[-1] == "taken" else None)
    Console(file=sys.stdout).print(table)
