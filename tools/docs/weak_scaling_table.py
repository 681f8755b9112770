"""Writes the table of docs/several-gpus.md from ``benchmarks/results/weak_scaling.json``; ``--check`` only tells staleness."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.docs.generated import table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/weak_scaling_table.py"
PAGE = ROOT / "docs" / "several-gpus.md"
RESULTS = ROOT / "benchmarks" / "results" / "weak_scaling.json"


def block(results: Mapping[str, Any]) -> str:
    """Rates and efficiencies by env and way, a column for each number of processes, and the time of a sum."""
    row = results["devices"]["cuda"]
    counts, worlds, machine = row["counts"], row["worlds_of_a_process"], row["machine"]
    lines = []
    for name in counts["1"]["rates"]:
        env_id, way = name.split(", ")
        cells = [f"{rates[name]['steps_per_second'] / 1e6:,.2f} M ({rates[name]['efficiency']:.2f})" for rates in
                 (count["rates"] for count in counts.values())]  # fmt: skip
        lines.append([env_id, f"{worlds[env_id]:,}", way, *cells])
    columns = ["1 GPU" if count == "1" else f"{count} GPUs" for count in counts]
    text = table(["environment", "worlds of a GPU", "iterations", *columns], lines)
    sums = [
        f"{microseconds:.0f} us for {4 * int(numbers):,} bytes"
        for numbers, microseconds in counts[max(counts, key=int)]["microseconds_of_sum"].items()
    ]
    text += "\nSteps a second of all GPUs, and in brackets the efficiency: the rate divided by that of as many GPUs alone. "
    text += f"A sum over\n{max(counts, key=int)} GPUs takes {', '.join(sums)}.\n"
    return text + f"{machine['gpu']}, commit {machine['commit'][:12]}.\n"


def main(arguments: list[str]) -> int:
    """Write the table, or only say if it is stale; returns the exit status."""
    text = with_block(PAGE.read_text(), "weak_scaling", COMMAND, block(json.loads(RESULTS.read_text())))
    return update_page(PAGE, text, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
