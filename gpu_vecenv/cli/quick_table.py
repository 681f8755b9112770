"""The table of ``bench --quick``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpu_vecenv.bench.quick import HEADER, LEGEND, errors, lines


def print_table(console: Console, rows: Sequence[dict[str, Any]], where: str) -> None:
    """Print a line for each env of the rows, a legend, and the errors of rows that failed.

    Args:
        console: console to print on.
        rows: rows of ``gpu_vecenv.bench.run.measure()``.
        where: the processor that was measured.
    """
    table = Table(box=SIMPLE_HEAD, show_edge=False, leading=1, padding=(0, 1, 0, 0), pad_edge=False)
    for name in HEADER:
        table.add_column(name, no_wrap=True)
    for cells in lines(rows):
        table.add_row(*map(Text, cells))
    console.print(Text(f"\nSteps a second on {where}\n", style="bold"))
    console.print(table, soft_wrap=False)
    console.print(f"\n{LEGEND}", soft_wrap=False)
    for error in errors(rows):
        console.print(Text(f"failed: {error}"))
