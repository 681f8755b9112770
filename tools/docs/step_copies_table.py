"""Writes the table of docs/real-world.md from ``benchmarks/results/step_copies.json``; ``--check`` only says if it is stale."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.docs.generated import table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/step_copies_table.py"
PAGE = ROOT / "docs" / "real-world.md"
RESULTS = ROOT / "benchmarks" / "results" / "step_copies.json"


def block() -> str:
    """The table, and the machines of its rows."""
    cases = json.loads(RESULTS.read_text())
    rows = [
        [name, f"{row['worlds']:,}", f"{row['step_us']:.1f}", f"{row['copy_us']:.1f}", f"{row['ratio']:.2f}"]
        for name, case in cases.items()
        for row in case["rows"]
    ]
    machines = dict.fromkeys(f"{case['machine']['gpu']}, commit {case['machine']['commit']}" for case in cases.values())
    text = table(["environment", "worlds", "step, us", "copy, us", "ratio"], rows)
    return f"{text}\nMeasured with `python benchmarks/step_copies.py` on {'; '.join(machines)}.\n"


def main(arguments: list[str]) -> int:
    """Write the table, or only say if it is stale; returns the exit status."""
    return update_page(PAGE, with_block(PAGE.read_text(), "steps", COMMAND, block()), arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
