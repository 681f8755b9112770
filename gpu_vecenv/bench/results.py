"""Rows and the file they are written to, as they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.timing import Summary


class Results:
    """A JSON file that is whole after every group of rows, so that a run that is cut short keeps what it has.

    Args:
        path: the file.
        head: what stands before the rows: command, machine, floors.
    """

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self._path, self._head = path, head
        self.rows: list[dict[str, Any]] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self.write()

    def add(self, rows: list[dict[str, Any]], **head: Any) -> None:
        """Append rows, update what stands before them, and write."""
        self.rows += rows
        self._head |= head
        self.write()

    def write(self) -> None:
        """Replace the file in one go."""
        text = json.dumps({**self._head, "rows": self.rows}, indent=1) + "\n"
        with atomic_file(self._path) as partial:
            partial.write_text(text)


def identity(case: Case, mode: str, library: str, path: str, device: str) -> dict[str, Any]:
    """What a row is of."""
    return {
        "mode": mode, "library": library, "path": path, "device": device, "env": case.env, "params": case.params,
        "starts": case.starts, "worlds": case.worlds, "agents": case.agents,
    }  # fmt: skip


def figures(
    case: Case, mode: str, steps: int, facts: dict[str, Any], taken: Summary, floors: dict[str, float]
) -> dict[str, Any]:
    """A row's times, per step of all worlds, beside its floors.

    Args:
        case: what was run.
        mode: of what; the start of a process has no speed.
        steps: env steps in a call.
        facts: what is known beside time; ``floor_bytes``, ``kernel_launches`` and ``agents`` (of a peer's world) are used.
        taken: seconds of a call.
        floors: of this run.
    """
    step, agents = taken.median / steps, facts.get("agents", case.agents)
    row: dict[str, Any] = {
        "median_s": step, "low_s": taken.low / steps, "high_s": taken.high / steps, "coverage": taken.coverage,
        "host_s": taken.host / steps, "rounds": len(taken.hosts), "steps_per_sample": taken.calls * steps,
    }  # fmt: skip
    if mode != "startup":
        row |= {"env_steps_per_s": case.worlds / step, "agent_steps_per_s": case.worlds * agents / step}
    if "floor_bytes" in facts:
        moving = sum(facts["floor_bytes"].values()) / floors["copy_bytes_per_s"]
        row["floor_s"] = max(moving, floors.get("graph_node_s", 0.0) * facts["kernel_launches"])
        row["times_floor"] = step / row["floor_s"]
    return row | facts
