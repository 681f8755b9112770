"""Writes the tables of docs/learn/many-worlds.md from ``benchmarks/results/auto_size.json``; ``--check`` only tells staleness."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.docs.generated import short_commit, table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/auto_size_table.py"
PAGE = ROOT / "docs" / "learn" / "many-worlds.md"
RESULTS = ROOT / "benchmarks" / "results" / "auto_size.json"
HEADER = [
    "device",
    "environment",
    "steps of the run",
    "found",
    "search",
    "steps/s",
    "fastest of the sweep",
    "share of its steps/s",
]


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Worlds, steps and minibatches in words."""
    return f"{sizes['num_envs']:,} x {sizes['num_steps']}, {sizes['num_minibatches']}"


def speed_rows(results: Mapping[str, Any]) -> list[list[str]]:
    """A line for each case of each device."""
    return [
        [
            device,
            env_id,
            f"{case['total_steps']:,}",
            sizes_text(case["found"]),
            f"{case['tried']} {'size' if case['tried'] == 1 else 'sizes'} in {case['search_s']:.0f} s",
            f"{case['found_steps_per_second']:,.0f}",
            f"{sizes_text(case['best'])}, of {case['swept']}",
            f"{case['ratio']:.2f}",
        ]
        for device, row in results["devices"].items()
        for env_id, cases in row["cases"].items()
        for case in cases
    ]


def learning_rows(results: Mapping[str, Any]) -> list[list[str]]:
    """A line for each role that learned, of each device."""
    return [
        [
            device,
            env_id,
            role,
            sizes_text(learned["sizes"]),
            *(f"{means[name]:.2f}" for name in ("random", "preset", "found", "difference_at_least")),
            f"{-means['margin']:.2f}",
        ]
        for device, row in results["devices"].items()
        for env_id, learned in row["learning"].items()
        for role, means in learned["roles"].items()
    ]


def machine(facts: Mapping[str, Any], device: str = "") -> str:
    """A machine, with the name of its device if there is one, and the commit."""
    return f"{facts.get('gpu', facts['cpu'])}{device and f' ({device})'}, commit {short_commit(facts['commit'])}"


def machines(results: Mapping[str, Any]) -> str:
    """The machine of each device, and those of returns that were measured apart from its sizes."""
    apart: dict[str, list[str]] = {}
    for device, row in results["devices"].items():
        for env_id, learned in row["learning"].items():
            if (text := machine(learned.get("machine", row["machine"]))) != machine(row["machine"]):
                apart.setdefault(text, []).append(f"{env_id} ({device})")
    named = [machine(row["machine"], device) for device, row in results["devices"].items()]
    return "; ".join([*named, *(f"returns of {' and '.join(ids)} on {text}" for text, ids in apart.items())])


def block() -> str:
    """The tables, and the machines of their rows."""
    results = json.loads(RESULTS.read_text())
    text = table(HEADER, speed_rows(results))
    text += "\n`780 x 32, 1`: 780 worlds, rollouts of 32 steps, one minibatch. "
    if learned := learning_rows(results):
        header = ["device", "environment", "role", "sizes", "random play", "preset", "found", "difference, at least", "margin"]
        text += "Mean returns on\nfresh worlds, of Tag against random opponents, after the steps of the preset, for the sizes "
        text += "found after those of the row. The\ndifference of the sizes found from the preset is the number of its column "
        text += "or more, with 95 % confidence:\n\n" + table(header, learned)
    return f"{text}\nMeasured with `python benchmarks/auto_size.py` on {machines(results)}.\n"


def main(arguments: list[str]) -> int:
    """Write the tables, or only say if they are stale; returns the exit status."""
    return update_page(PAGE, with_block(PAGE.read_text(), "sizes", COMMAND, block()), arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
