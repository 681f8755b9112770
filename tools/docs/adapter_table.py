"""Writes the table of ``docs/adapters/index.md`` from recorded results; ``--check`` only lists the page if it is out of date.

``pytest tests/adapters --record-support benchmarks/results/adapter_support.json`` records features and limits.
``benchmarks/adapters.py`` records rows a second.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.docs.generated import table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/adapter_table.py"
DOCUMENT = ROOT / "docs" / "adapters" / "index.md"
SUPPORT = ROOT / "benchmarks" / "results" / "adapter_support.json"
SPEED = ROOT / "benchmarks" / "results" / "adapter_speed.json"

PAGES = {
    "Stable-Baselines3": "sb3.md",
    "sb3-contrib": "sb3-contrib.md",
    "SBX": "sbx.md",
    "CleanRL-style": "cleanrl.md",
    "LeanRL": "leanrl.md",
    "TorchRL": "torchrl.md",
    "BenchMARL": "benchmarl.md",
    "PettingZoo": "pettingzoo.md",
    "skrl": "skrl.md",
    "rl_games": "rl_games.md",
    "rsl_rl": "rsl_rl.md",
    "Lightning": "lightning.md",
    "JAX": "jax.md",
    "CuPy": "arrays.md",
    "SuperSuit": "supersuit.md",
    "RLlib": "rllib.md",
    "rl_zoo3": "by_id.md",
    "Tianshou": "tianshou.md",
    "AgileRL": "agilerl.md",
}
"""Page of each library, in the order of the table."""

FILES = ("CleanRL-style", "LeanRL")
"""Libraries without a version: single files, tested with a version of torch."""

HEADER = ["library", "works", "does not work, and why", "rows/s, NumPy path", "rows/s, device path", "version tested"]
NOTHING = "–"


def lines(texts: list[str]) -> str:
    """Text of a cell with several lines."""
    return "<br>".join(text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for text in texts) or NOTHING


def figure(row: dict[str, Any]) -> str:
    """Rows a second to three digits, or the reason why there are none."""
    if "error" in row:
        return f"failed: {row['error']}"
    return "not installed" if "missing" in row else f"{float(format(row['rows_per_second'], '.3g')):,.0f}"


def rows_of(speed: dict[str, Any], library: str, path: str) -> dict[str, dict[str, Any]]:
    """Recorded row of a library's path by device."""
    by_device = {device: [r for r in run["rows"] if (r["library"], r["path"]) == (library, path)]
             for device, run in speed["devices"].items()}  # fmt: skip
    return {device: rows[0] for device, rows in by_device.items() if rows}


def versions(support: dict[str, Any], speed: dict[str, Any], library: str) -> list[str]:
    """Every version of a library that was tested or measured."""
    measured = [row for path in ("numpy", "device") for row in rows_of(speed, library, path).values()]
    tested = {row["version"] for row in measured if "version" in row}
    tested |= {support[library]["version"]} if library in support else set()
    return [f"torch {version}" if library in FILES else version for version in sorted(tested)]


def library_row(support: dict[str, Any], speed: dict[str, Any], library: str) -> list[str]:
    """A library's line of the table."""
    said = support.get(library, {"works": [], "limit": []})
    speeds = [[f"{device}: {figure(row)}" for device, row in rows_of(speed, library, path).items()]
              for path in ("numpy", "device")]  # fmt: skip
    cells = [said["works"], said["limit"], *speeds, versions(support, speed, library)]
    return [f"[{library}]({PAGES[library]})", *map(lines, cells)]


def measured_on(speed: dict[str, Any], device: str) -> str:
    """Machine and settings of a device's figures, and the gain of ``GpuPPO``."""
    machine, rows = speed["devices"][device]["machine"], speed["devices"][device]["rows"]
    worlds = max((row["num_envs"] for row in rows if "num_envs" in row), default=0)
    where = f"{machine['gpu']}, host CPU {machine['cpu']}" if "gpu" in machine else machine["cpu"]
    text = (f"- **{device}**: {where}, PyTorch {machine['torch']} with {machine['torch_threads']} thread(s) on the CPU, "
            f"Python {machine['python']}; {worlds:,} worlds; commit {machine['commit']}, {machine['date']}.")  # fmt: skip
    on_host, on_device = (rows_of(speed, "Stable-Baselines3", path).get(device, {}) for path in ("numpy", "device"))
    if "rows_per_second" in on_host and "rows_per_second" in on_device:
        gain = on_device["rows_per_second"] / on_host["rows_per_second"]
        text += f" With the same settings, `GpuPPO` has {gain:.1f} times the rows a second of SB3's `PPO`."
    return text


def document(text: str, support: dict[str, Any], speed: dict[str, Any]) -> str:
    """The page ``text`` with the table of recorded results."""
    rows = [library_row(support, speed, library) for library in PAGES]
    facts = "\n".join(measured_on(speed, device) for device in speed["devices"])
    return with_block(text, "adapters", COMMAND, f"{table(HEADER, rows)}\nRows a second were measured on:\n\n{facts}")


def current_text() -> str:
    """The page with the table of the present results."""
    return document(DOCUMENT.read_text(), json.loads(SUPPORT.read_text()), json.loads(SPEED.read_text()))


def main(arguments: list[str]) -> int:
    """Update the page, or only say that it is out of date; returns the exit status."""
    return update_page(DOCUMENT, current_text(), arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
