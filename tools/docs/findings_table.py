"""Writes the tables of docs/findings.md from the results of ``benchmarks/findings_*.py``; ``--check`` only says if it is stale.

A row of results is shown if it exists, so the page never holds a number without a measurement.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from gpu_vecenv.train.run_folder.intervals import mean_interval  # noqa: E402
from tools.docs.generated import table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/findings_table.py"
PAGE = ROOT / "docs" / "findings.md"
RESULTS = ROOT / "benchmarks" / "results"
NAMES = ("catalysis", "covid", "rice")

SAME_RETURN = 1e-4
"""Two returns of catalysis are the same if they differ by less; float32 sums of a path err by about 1e-5."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A number of a table."""

    name: str
    """Its name in the results."""
    title: str
    """Head of the column, with the unit."""
    form: str
    """Format of the mean."""


COVID = (
    Column("governor", "governor's return", ".1f"),
    Column("planner", "planner's return", ".1f"),
    Column("health", "health index", ".1f"),
    Column("economy", "economic index", ".1f"),
    Column("deaths", "deaths, thousands", ",.0f"),
    Column("unemployed", "unemployed, %", ".1f"),
    Column("stringency", "stringency", ".1f"),
    Column("subsidies", "subsidies, 10^12 USD", ".2f"),
)
RICE = (
    Column("temperature_rise", "temperature rise, K", ".3f"),
    Column("gross_output", "gross output, 10^12 USD", ",.0f"),
    Column("climate_index", "climate index", ".3f"),
    Column("economic_index", "economic index", ".3f"),
    Column("region", "return of a region", ".2f"),
)


def values(row: Row, name: str) -> list[float]:
    """Return a number of all runs of a row; empty if the row does not have it."""
    return [run["measured"][name] for run in row["runs"] if name in run["measured"]]


def mean(samples: Sequence[float], form: str) -> str:
    """Return a mean with its 95 % interval, which one number has not; a dash without numbers."""
    if not samples:
        return "–"
    middle, half = mean_interval(samples)
    text = format(middle, form)
    if not float(text.replace(",", "")):
        text = format(0.0, form)  # not -0
    return text if math.isnan(half) else f"{text} ± {half:{form}}"


def of_case(rows: Iterable[Row], case: str) -> dict[str, Row]:
    """Return the rows of a case by their ways to play."""
    return {row["play"]: row for row in rows if row["case"] == case}


def cases(rows: Iterable[Row]) -> list[str]:
    """Return the cases in their order."""
    return list(dict.fromkeys(row["case"] for row in rows))


def plays(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """Return a table for each case: the ways to play, and each trained one minus random play."""
    parts = []
    for case in cases(rows):
        by_play, lines = of_case(rows, case), []
        for play, row in by_play.items():
            lines.append([play, *(mean(values(row, column.name), column.form) for column in columns)])
            if play.startswith(("trained", "two phases")) and "random" in by_play:
                lines.append([f"*{play}, minus random*", *(minus(row, by_play["random"], column) for column in columns)])
        parts += [f"**{case.capitalize()}**", table(["play", *(column.title for column in columns)], lines)]
    return "\n\n".join(part.strip() for part in parts)


def minus(row: Row, random: Row, column: Column) -> str:
    """Return the difference of two rows, seed by seed."""
    seeds = {run["seed"]: run["measured"].get(column.name) for run in random["runs"]}
    differences = [run["measured"][column.name] - seeds[run["seed"]] for run in row["runs"] if run["seed"] in seeds]
    return mean(differences, f"+{column.form}").replace("± +", "± ")


def published(rows: Sequence[Row], names: Sequence[Column]) -> str:
    """Return a table of what the authors publish or have recorded beside what the same play gives here."""
    lines = []
    for row in rows:
        if "published" in row:
            line = [row["case"], row["play"]]
            for column in names:
                line += [f"{row['published'][column.name]:{column.form}}", mean(values(row, column.name), column.form)]
            lines.append(line)
    header = ["case", "play", *(cell for column in names for cell in (f"authors: {column.title}", "here"))]
    return table(header, lines) if lines else ""


def policies(rows: Sequence[Row]) -> str:
    """Return a line for each simple policy that was the best of its grid."""
    lines = []
    for row in rows:
        if "policy" in row:
            stringency, days, subsidy = (row["policy"][name] for name in ("stringency", "days", "subsidy"))
            what = f"stringency {stringency} on the first {days} days, then 1, with subsidies of level {subsidy}"
            lines.append(f"- {row['case']}, {row['play']}, of {row['of']}: {what}")
    return "\n".join(lines)


def pathways(rows: Sequence[Row]) -> str:
    """Return the table of catalysis: a line for each configuration."""
    trained = list(dict.fromkeys(row["play"] for row in rows if row["play"].startswith("trained")))
    header = ["configuration", "random play", "best return", "its barrier, eV"]
    for play in trained:
        header += [f"{play}: return", "seeds with the best return", "barrier, eV", "s a seed"]
    lines = []
    for case in cases(rows):
        by_play = of_case(rows, case)
        exact = by_play.get("exact")
        line = [f"`{case}`"]
        for play, number, form in (("random", "agent", ".1f"), ("exact", "agent", ".4f"), ("exact", "barrier", ".4f")):
            line.append(mean(values(by_play[play], number), form) if play in by_play else "–")
        for play in trained:
            line += reached(by_play[play], exact) if play in by_play and exact else ["–"] * 4
        lines.append(line)
    return table(header, lines)


def reached(row: Row, exact: Row) -> list[str]:
    """Return the cells of trained play of a configuration: return, seeds with the best one, barrier, seconds of a training."""
    returns, (best,) = values(row, "agent"), values(exact, "agent")
    hits, seconds = sum(abs(number - best) < SAME_RETURN for number in returns), row["seconds"] / len(returns)
    return [mean(returns, ".4f"), f"{hits} of {len(returns)}", mean(values(row, "barrier"), ".4f"), f"{seconds:.1f}"]


def sources(rows: Sequence[Row]) -> str:
    """Return the commands and machines of the rows."""
    lines: dict[str, None] = {}
    for row in rows:
        facts = row["machine"]
        where = facts.get("gpu", facts["cpu"])
        versions = f"Python {facts['python']}, PyTorch {facts['torch']}, commit {facts['commit']}, {facts['date']}"
        lines[f"Measured with `{row['command']}` on {where}, {versions}."] = None
    return "\n".join(lines)


def block(name: str, rows: Sequence[Row]) -> str:
    """Return the content of an env's block; without results that there are none."""
    if not rows:
        return "Not measured yet."
    if name == "catalysis":
        parts = [pathways(rows)]
    elif name == "covid":
        parts = [published(rows, [Column("planner", "welfare", ".7g")]), plays(rows, COVID), policies(rows)]
    else:
        digits = [replace(column, form=".7g") for column in RICE[:2]]
        parts = [published(rows, digits), plays(rows, RICE), authors(rows)]
    return "\n\n".join(part.strip() for part in (*parts, sources(rows)) if part)


def authors(rows: Sequence[Row]) -> str:
    """Return means of agents that the authors of RICE-N trained, for the cases that were trained here."""
    lines = {row["case"]: row["authors"] for row in rows if "authors" in row}
    cells = [[case, f"{means['temperature_rise']:.3f}", f"{means['gross_output']:,.0f}"] for case, means in lines.items()]
    return table(["trained by the authors", "temperature rise, K", "gross output, 10^12 USD"], cells) if cells else ""


def rows_of(name: str) -> list[Row]:
    """Return the rows of an env's results; none without a file."""
    path = RESULTS / f"findings_{name}.json"
    return list(json.loads(path.read_text())["rows"].values()) if path.exists() else []


def current_text() -> str:
    """Return the page with blocks of the present results."""
    text = PAGE.read_text()
    for name in NAMES:
        text = with_block(text, name, COMMAND, block(name, rows_of(name)))
    return text


def main(arguments: list[str]) -> int:
    """Update the page, or only say if it is out of date; returns the exit status."""
    return update_page(PAGE, current_text(), arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
