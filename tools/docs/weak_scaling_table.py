"""Writes the table of docs/several-gpus.md from ``benchmarks/results/weak_scaling.json``; ``--check`` only tells staleness."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.docs.generated import short_commit, table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/weak_scaling_table.py"
PAGE = ROOT / "docs" / "several-gpus.md"
RESULTS = ROOT / "benchmarks" / "results" / "weak_scaling.json"


PUBLISHED = (
    "Isaac Lab on L40: Cartpole 260 k frames/s on one GPU and 950 k on four (3.65 times), G1 62 k and 250 k (4.0 times); "
    "mjlab on two RTX 5090: 125 k and 245 k steps/s (1.96 times)."
)
"""Weak scaling that other projects state, with other envs and on other GPUs."""


def block(results: Mapping[str, Any]) -> str:
    """Rates by env and way, a column for each number of processes, and the time of a sum."""
    row = results["devices"]["cuda"]
    counts, machine = row["counts"], row["machine"]
    lines = []
    for name in dict.fromkeys(name for count in counts.values() for name in count["rates"]):
        env_id, rest = name.split(", ", 1)
        size, way, scaling = rest.rsplit(", ", 2)
        found = [count["rates"].get(name) for count in counts.values()]
        cells = ["" if rate is None else f"{rate['steps_per_second'] / 1e6:,.2f} M ({rate['times']:.2f})" for rate in found]
        of = "a GPU" if scaling == "weak" else "all GPUs"
        lines.append([env_id, f"{size.replace(' x ', ' of ' + of + ' x ')}", way, *cells])
    columns = ["1 GPU" if count == "1" else f"{count} GPUs" for count in counts]
    text = table(["environment", "worlds x steps", "iterations", *columns], lines)
    text += "\nSteps a second of all GPUs, and in brackets how many times the rate of one GPU that is.\n"
    text += _sums(counts) + f"{machine['gpu']}, commit {short_commit(machine['commit'])}.\n"
    return text + "\n" + textwrap.fill("Published by others: " + PUBLISHED, 128) + "\n"


def _sums(counts: Mapping[str, Any]) -> str:
    """Return a table of the times of a sum, a column for each kind and place."""
    rows = {(count, each["numbers"]): [] for count, result in counts.items() for each in result["sums"]}
    ways = list(dict.fromkeys((each["by"], each["place"]) for result in counts.values() for each in result["sums"]))
    for (count, numbers), cells in rows.items():
        found = {(x["by"], x["place"]): x["microseconds"] for x in counts[count]["sums"] if x["numbers"] == numbers}
        cells += [f"{found[way]:.0f}" if way in found else "" for way in ways]
    columns = [f"{'NCCL' if by == 'nccl' else by}, {place}" for by, place in ways]
    lines = [[count, f"{4 * numbers:,}", *cells] for (count, numbers), cells in rows.items()]
    head = "\nMicroseconds of a sum, inside the graph of an iteration and between graphs:\n\n"
    return head + table(["GPUs", "bytes", *columns], lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the table, or only say if it is stale; returns the exit status."""
    text = with_block(PAGE.read_text(), "weak_scaling", COMMAND, block(json.loads(RESULTS.read_text())))
    return update_page(PAGE, text, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
