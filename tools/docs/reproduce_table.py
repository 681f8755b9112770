"""Writes the results of ``gpu-vecenv reproduce`` to ``docs/reproduce.md``; ``--check`` only says if the page is out of date.

``reproduce_table.py FOLDER`` first takes the results in the folder of ``benchmarks/reproduce_all.py`` into
``benchmarks/results/reproduce.json``, in which other tasks and algorithms keep theirs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gpu_vecenv.train.run_folder.intervals import bootstrap_interval, interquartile_mean  # noqa: E402
from gpu_vecenv.train.run_folder.reproduction import RESULTS_FILE, SUM, final_returns  # noqa: E402
from tools.docs.generated import table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/reproduce_table.py"
PAGE = ROOT / "docs" / "reproduce.md"
RESULTS = ROOT / "benchmarks" / "results" / "reproduce.json"
ANCHOR = ROOT / "benchmarks" / "results" / "jaxmarl_anchor.json"
PUBLISHED = ROOT / "benchmarks" / "results" / "published.json"
NOT_MEASURED = "Not measured yet."

SAME_TASK = {"spread": "WarpSimpleSpread-v3", "reference": "WarpSimpleReference-v3", "tag": "WarpSimpleTag-v3"}
"""Task by JaxMARL's scenario."""

COMPARED = {"ippo": ("ippo",), "mappo": ("mappo", "mappo-gru")}
"""Algorithms here that stand beside a script of JaxMARL, whose MAPPO is recurrent."""


def take(folder: Path) -> None:
    """Take the results in a folder into the committed file, one task and algorithm on a line.

    Raises:
        SystemExit: the folder holds no results.
    """
    paths = sorted(folder.glob(f"*/{RESULTS_FILE}"))
    if not paths:
        raise SystemExit(f"expected a folder with folders of results, got {folder}")
    rows = rows_of(RESULTS, "rows")
    for path in paths:
        row = json.loads(path.read_text())
        rows[f"{row['task']}: {row['algorithm']}"] = row
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(rows[name])}" for name in sorted(rows))
    RESULTS.write_text(f'{{\n "benchmark": "reproduce",\n "rows": {{\n{lines}\n }}\n}}\n')


def rows_of(path: Path, key: str) -> dict[str, Any]:
    """Return the rows of a file of results by name; none without a file."""
    return json.loads(path.read_text())[key] if path.exists() else {}


def with_interval(returns: Sequence[float]) -> str:
    """Return the interquartile mean of the returns of runs, with its interval."""
    low, high = bootstrap_interval(np.array(returns))
    return f"{interquartile_mean(returns):.2f} ({low:.2f} to {high:.2f})"


def by_role(returns: Mapping[str, Sequence[float]], roles: Iterable[str]) -> str:
    """Return the cell with a line for each role."""
    return "<br>".join(f"{role}: {with_interval(returns[role])}" for role in roles)


def all_results(rows: dict[str, Any]) -> str:
    """Return the table of all results."""
    header = ["task", "algorithm", "runs x steps", "return of an agent", "of all agents", "random play, all agents", "seconds"]
    lines = []
    for row in rows.values():
        returns, size = final_returns(row), f"{len(row['runs'])} x {row['steps']:,}"
        place = ", CPU" if row["device"] == "cpu" else ""
        together = [with_interval(returns[SUM]), f"{row['random'][SUM]:.2f}", f"{row['seconds']:.0f}{place}"]
        lines.append([row["task"], row["algorithm"], size, by_role(returns, row["roles"]), *together])
    return table(header, lines) if lines else NOT_MEASURED


def beside_jaxmarl(rows: dict[str, Any], anchor: dict[str, Any]) -> str:
    """Return the table of JaxMARL's runs and those of this package on the same scenarios."""
    lines = []
    for case, result in anchor.items():
        scenario, _, script = case.partition("-")
        roles = [name for name in result["random"] if name != SUM]
        returns = {role: [run[role] for run in result["runs"]] for role in roles}
        size = f"{result['seeds']} x {result['steps']:,}"
        lines.append([scenario, f"JaxMARL {script}", size, by_role(returns, roles), f"{result['seconds']:.0f}"])
        for algorithm in COMPARED[script]:
            row = rows.get(f"{SAME_TASK[scenario]}: {algorithm}")
            if row is not None:
                size = f"{len(row['runs'])} x {row['steps']:,}"
                lines.append([scenario, algorithm, size, by_role(final_returns(row), roles), f"{row['seconds']:.0f}"])
    header = ["scenario", "trained by", "runs x steps", "return of an agent", "seconds"]
    return table(header, lines) if lines else NOT_MEASURED


def beside_published(rows: dict[str, Any], published: dict[str, Any]) -> str:
    """Return the table of published runs and those of this package on the same tasks, returns of all agents.

    Args:
        rows: results of this package by task and algorithm.
        published: content of ``published.json``. ``at_equal_steps`` of a row is the return after the steps that a run of the task
            has here.
    """
    lines = []
    for task in dict.fromkeys(row["task"] for row in published["rows"]):
        for row in (row for row in published["rows"] if row["task"] == task):
            source = published["sources"][row["source"]]
            end = f"{row['at_the_end']} after {row['steps']:,}"
            link = f"[{source['name']}]({source['url']})"
            lines.append([task, row["trained_by"], row["env"], str(row["at_equal_steps"]), end, link])
        for row in (row for row in rows.values() if row["task"] == task):
            end = f"{with_interval(final_returns(row)[SUM])} after {row['steps']:,}"
            lines.append([task, row["algorithm"], "this package", "the same", end, "[above](#results)"])
    header = ["task", "trained by", "env", "at equal steps", "at the end", "source"]
    return table(header, lines)


def main(arguments: list[str]) -> int:
    """Update the page, or only say if it is out of date; returns the exit status."""
    if arguments and arguments[0] != "--check":
        take(Path(arguments[0]))
        arguments = arguments[1:]
    rows, anchor = rows_of(RESULTS, "rows"), rows_of(ANCHOR, "cases")
    text = with_block(PAGE.read_text(), "reproduced", COMMAND, all_results(rows))
    text = with_block(text, "jaxmarl", COMMAND, beside_jaxmarl(rows, anchor))
    text = with_block(text, "published", COMMAND, beside_published(rows, json.loads(PUBLISHED.read_text())))
    return update_page(PAGE, text, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
