"""Writes the results of ``gpu-vecenv reproduce`` to ``docs/reproduce.md``; ``--check`` only says if the page is out of date.

``reproduce_table.py FOLDER`` first takes the results in the folder of ``benchmarks/reproduce_all.py`` into
``benchmarks/results/reproduce.json``, in which other tasks and algorithms keep theirs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gpu_vecenv.train.run_folder.intervals import bootstrap_interval, interquartile_mean  # noqa: E402
from gpu_vecenv.train.run_folder.reproduction import RESULTS_FILE, final_returns  # noqa: E402
from tools.docs.generated import with_block  # noqa: E402

COMMAND = "python tools/docs/reproduce_table.py"
DOCUMENT = ROOT / "docs" / "reproduce.md"
RESULTS = ROOT / "benchmarks" / "results" / "reproduce.json"
ANCHOR = ROOT / "benchmarks" / "results" / "jaxmarl_anchor.json"

BESIDE = {
    ("spread", "ippo"): ("WarpSimpleSpread-v3", ("ippo",)),
    ("spread", "mappo"): ("WarpSimpleSpread-v3", ("mappo", "mappo-gru")),
    ("reference", "ippo"): ("WarpSimpleReference-v3", ("ippo",)),
    ("reference", "mappo"): ("WarpSimpleReference-v3", ("mappo", "mappo-gru")),
    ("tag", "ippo"): ("WarpSimpleTag-v3", ("ippo",)),
    ("tag", "mappo"): ("WarpSimpleTag-v3", ("mappo", "mappo-gru")),
}
"""Scenario and script of JaxMARL to the task and algorithms here that are compared with it."""


def take(folder: Path) -> None:
    """Take the results in a folder into the committed file, one task and algorithm on a line."""
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else {}
    for path in sorted(folder.glob(f"*/{RESULTS_FILE}")):
        row = json.loads(path.read_text())
        rows[f"{row['task']}: {row['algorithm']}"] = row
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(rows[name])}" for name in sorted(rows))
    RESULTS.write_text(f'{{\n "benchmark": "reproduce",\n "rows": {{\n{lines}\n }}\n}}\n')


def returns_text(values: list[float]) -> str:
    """Return the interquartile mean and its interval."""
    low, high = bootstrap_interval(np.array(values))
    return f"{interquartile_mean(values):.2f} ({low:.2f} to {high:.2f})"


def table(rows: dict[str, Any]) -> str:
    """Return the table of all results."""
    lines = ["| task | algorithm | runs x steps | return of an agent | of all agents | random play, all agents | seconds |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for row in rows.values():
        finals = final_returns(row)
        agents = "<br>".join(f"{role}: {returns_text(finals[role])}" for role in row["roles"])
        lines.append(
            f"| {row['task']} | {row['algorithm']} | {len(row['runs'])} x {row['steps']:,} | {agents} | "
            f"{returns_text(finals['sum'])} | {row['random']['sum']:.2f} | {row['seconds']:.0f} |"
        )
    return "\n".join(lines)


def beside_jaxmarl(rows: dict[str, Any], anchor: dict[str, Any]) -> str:
    """Return the table of JaxMARL's runs and those here."""
    lines = ["| scenario | trained by | runs x steps | return of an agent | seconds |", "| --- | --- | --- | --- | --- |"]
    for case, theirs in anchor.items():
        scenario, _, script = case.partition("-")
        roles = [name for name in theirs["random"] if name != "sum"]
        own = {name: [run[name] for run in theirs["runs"]] for name in roles}
        lines.append(_line(scenario, f"JaxMARL {script}", theirs["seeds"], theirs["steps"], own, theirs["seconds"]))
        task, algorithms = BESIDE[scenario, script]
        for algorithm in algorithms:
            if (row := rows.get(f"{task}: {algorithm}")) is not None:
                ours = {role: final_returns(row)[role] for role in roles}
                lines.append(_line(scenario, algorithm, len(row["runs"]), row["steps"], ours, row["seconds"]))
    return "\n".join(lines)


def _line(scenario: str, name: str, runs: int, steps: int, returns: dict[str, list[float]], seconds: float) -> str:
    agents = "<br>".join(f"{role}: {returns_text(values)}" for role, values in returns.items())
    return f"| {scenario} | {name} | {runs} x {steps:,} | {agents} | {seconds:.0f} |"


def main(arguments: list[str]) -> int:
    """Update the page, or only say if it is out of date; returns the exit status."""
    check = arguments == ["--check"]
    if not check and arguments:
        take(Path(arguments[0]))
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else {}
    anchor = json.loads(ANCHOR.read_text())["cases"] if ANCHOR.exists() else {}
    text = DOCUMENT.read_text()
    current = with_block(text, "reproduced", COMMAND, table(rows))
    current = with_block(current, "jaxmarl", COMMAND, beside_jaxmarl(rows, anchor))
    if current == text:
        return 0
    print(f"stale: {DOCUMENT}")
    if check:
        return 1
    DOCUMENT.write_text(current)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
