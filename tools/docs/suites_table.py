"""Writes the tables of docs/originals.md from ``benchmarks/results/originals.json``; ``--check`` only says if it is stale."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.docs.generated import table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/suites_table.py"
PAGE = ROOT / "docs" / "originals.md"
RESULTS = ROOT / "benchmarks" / "results" / "originals.json"
SUITES = ("mpe", "foraging", "rware")

KINDS = {"obs": "observations", "before": "observations", "reward": "rewards", "terminated": "flags", "truncated": "flags",
         "done": "flags"}  # fmt: skip
"""Column of an array of single steps; arrays that are not here are of the state."""

Row = dict[str, Any]


def steps(rows: list[Row]) -> str:
    """Return the table of single steps: states, how many differ, and the largest differences of those that agree."""
    lines = []
    for row in rows:
        largest = dict.fromkeys(("observations", "rewards", "state", "flags"), 0.0)
        for name, value in row["largest"].items():
            kind = KINDS.get(name, "state")
            largest[kind] = max(largest[kind], value)
        counts = [f"{row[name]:,}" for name in ("states", "differ", "at_thresholds")]
        lines.append([row["case"], *counts, *(number(value) for value in largest.values())])
    return table(["configuration", "states", "differ", "of these at a threshold", *largest], lines)


def episodes(rows: list[Row]) -> str:
    """Return the table of whole episodes: median, 99 % and largest difference of each quantity, and lengths that differ."""
    compared = {row["case"]: row["episodes"] for row in rows}
    names = list(dict.fromkeys(name for each in compared.values() for name in each["quantiles"] if name != "length"))
    lines = []
    for case, each in compared.items():
        cells = [" / ".join(map(number, each["quantiles"][name])) if name in each["quantiles"] else "–" for name in names]
        lines.append([case, f"{each['episodes']:,}", f"{each['differ']['length']:,}", *cells])
    return table(["configuration", "episodes", "of another length", *names], lines)


def number(value: float) -> str:
    """Return a difference in two digits, 0 if there is none."""
    return f"{value:.1e}" if value else "0"


def block(suite: str, results: Row | None) -> str:
    """Return the tables of a suite; without results that there are none."""
    if results is None:
        return "Not measured yet."
    rows = [row for row in results["rows"] if row["suite"] == suite]
    packages = ", ".join(f"{name} {version}" for name, version in results["packages"].items())
    done, parts = results["parts"]
    source = f"Measured with `{results['command']}` and {packages}: {done:,} of {parts:,} parts, {len(results['errors'])} errors."
    return "\n".join([steps(rows), episodes(rows), source])


def current_text() -> str:
    """Return the page with blocks of the present results."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else None
    text = PAGE.read_text()
    for suite in SUITES:
        text = with_block(text, suite, COMMAND, block(suite, results))
    return text


def main(arguments: list[str]) -> int:
    """Update the page, or only say if it is out of date; returns the exit status."""
    return update_page(PAGE, current_text(), arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
