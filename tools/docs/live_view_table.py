"""Writes the table of docs/design/live.md from ``benchmarks/results/live_view.json``; ``--check`` only tells staleness."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.docs.generated import short_commit, table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/live_view_table.py"
PAGE = ROOT / "docs" / "design" / "live.md"
RESULTS = ROOT / "benchmarks" / "results" / "live_view.json"
COLUMNS = ["device", "run", "time, no page", "time, a page", "trainer's thread, a page", "server, a page", "excerpts a second",
           "in flight"]  # fmt: skip


def block(results: Mapping[str, Any]) -> str:
    """Return the table, a line for each device and env, and the machines."""
    lines, machines = [], []
    for device, recorded in results["devices"].items():
        for env_id, row in recorded["rows"].items():
            page = row["a_page"]
            lines.append([
                device, f"{env_id}, {row['num_envs']:,} x {row['num_steps']} steps", _time(row["no_page"]), _time(page),
                _share(page["trainer_share"]), _share(page["server_share"]), f"{page['excerpts_a_second']:.2f}",
                f"{page['in_flight']:g}",
            ])  # fmt: skip
        facts = recorded["machine"]
        text = f"{device}: {facts.get('gpu', facts['cpu'])}, {facts['cores']} cores, load {facts['load']} of other programs"
        machines.append(f"{text}, commit {short_commit(facts['commit'])}.")
    return table(COLUMNS, lines) + "\n" + "\n".join(machines) + "\n"


def _time(way: Mapping[str, Any]) -> str:
    """Return how much more time an iteration takes than without the live view, and the interval."""
    median, low, high = (f"{way['time_ratio'][name] - 1:+.2%}" for name in ("median", "low", "high"))
    return f"{median} ({low} to {high})"


def _share(share: Mapping[str, float]) -> str:
    """Return a share of the wall clock, and half the width of its interval."""
    return f"{share['mean']:.3%} ± {share['half']:.3%}"


def main(arguments: list[str]) -> int:
    """Write the table, or only say if it is stale; returns the exit status."""
    text = with_block(PAGE.read_text(), "live_view", COMMAND, block(json.loads(RESULTS.read_text())))
    return update_page(PAGE, text, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
