"""Writes picture and tables of the comparison with WarpDrive; ``--check`` only says if the page is out of date."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.docs.generated import table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/warpdrive_table.py"
PAGE = ROOT / "docs" / "warpdrive-curves.md"
RESULTS = ROOT / "benchmarks" / "results" / "against_warpdrive.json"
RANDOM = "random"

Results = dict[str, Any]


def finished(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the seeds of a run that did not fail."""
    return [seed for seed in row["seeds"] if seed.get("points")]


def over_seeds(values: list[float], form: str) -> str:
    """Return the mean, and the range if there are several."""
    low, mean, high = (format(x, form) for x in (min(values), statistics.mean(values), max(values)))
    return mean if len(values) == 1 else f"{mean} ({low} to {high})"


def last(row: dict[str, Any], match: str, number: str) -> list[float]:
    """Return a number of a match of the last policies, by seed."""
    return [seed["points"][-1][match][number] for seed in finished(row)]


def time_table(results: Results) -> str:
    """Return start-up, training time, iterations and steps of each run."""
    header = ["run", "seconds of start-up", "seconds of training", "iterations", "million steps"]
    rows = []
    for row in results["runs"].values():
        points = [seed["points"][-1] for seed in finished(row)]
        if points:
            cells = [
                over_seeds([seed["start_up"] for seed in finished(row)], ".0f"),
                over_seeds([point["seconds"] for point in points], ".0f"),
                over_seeds([point["iterations"] for point in points], ",.0f"),
                over_seeds([point["steps"] / 1e6 for point in points], ".1f"),
            ]
            rows.append([row["label"], *cells])
    return table(header, rows)


def skill_table(results: Results) -> str:
    """Return what the last policies of each run reach against random opponents."""
    header = ["run", "taggers: steps of a runner", "taggers: caught", "runners: steps of a runner", "runners: caught"]
    rows = [
        [row["label"], *(over_seeds(last(row, match, number), ".0f") for match, number in _SKILLS)]
        for row in results["runs"].values()
        if finished(row)
    ]
    for match in results["tournament"].get("matches", []):
        if match["taggers"] == match["runners"] == RANDOM:
            rows.append(["all act at random", *(f"{match[number]:.0f}" for _, number in _SKILLS)])
    return table(header, rows)


_SKILLS = [(match, number) for match in ("taggers", "runners") for number in ("survival", "caught")]


def cross_table(results: Results) -> str:
    """Return the runners caught in matches of the last policies; empty without matches."""
    matches = results["tournament"].get("matches", [])
    names = list(dict.fromkeys(match["runners"] for match in matches))
    labels = {RANDOM: "at random", **{name: row["label"] for name, row in results["runs"].items()}}
    caught = {(match["taggers"], match["runners"]): match["caught"] for match in matches}
    rows = [[labels[taggers], *(f"{caught[taggers, runners]:.0f}" for runners in names)] for taggers in names]
    return table(["taggers \\ runners", *(labels[name] for name in names)], rows) if names else ""


def block(results: Results | None) -> str:
    """Return the content of the page's block; without results that there are none."""
    if results is None:
        return "Not measured yet."
    machines = [seed["machine"] for row in results["runs"].values() for seed in finished(row)]
    facts = machines[-1] if machines else {}
    several = any(len(finished(row)) > 1 for row in results["runs"].values())
    parts = [
        "![Steps that a runner stays in the game over seconds of training, for WarpDrive and this package]"
        "(figures/against_warpdrive.png)",
        "Times of each run:",
        time_table(results),
        "The last policies of each run against random opponents: the steps that a runner stays in the game, and the runners\n"
        "that are caught. Good taggers leave a runner fewer steps than in the last row and catch more. Good runners stay\n"
        "longer, and fewer are caught." + (" The tables give means and ranges over the seeds." if several else ""),
        skill_table(results),
    ]
    if cross := cross_table(results):
        parts += ["Runners caught, of 100, in matches of the last policies (first seed of each run):", cross]
    if facts:
        where = facts.get("gpu", facts.get("cpu", ""))
        parts.append(f"Measured on {where}, PyTorch {facts['torch']}, commit {facts['commit']}, {facts['date']}.")
    return "\n\n".join(part.strip() for part in parts)


def current_text() -> str:
    """Return the page with a block of the present results."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else None
    return with_block(PAGE.read_text(), "warpdrive", COMMAND, block(results))


def main(arguments: list[str]) -> int:
    """Update the page, or only say if it is out of date; returns the exit status."""
    return update_page(PAGE, current_text(), arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
