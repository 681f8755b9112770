"""Rows of results, and the file that holds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.timing import Summary


class Results:
    """A JSON file that is complete after every group of rows, so that a run that is stopped keeps its results.

    Args:
        path: the file; None keeps the rows without a file.
        head: entries before the rows: command, machine, floors.
    """

    def __init__(self, path: Path | None, head: dict[str, Any]) -> None:
        self._path, self._head = path, head
        self.rows: list[dict[str, Any]] = []
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self.write()

    def add(self, rows: list[dict[str, Any]], **head: Any) -> None:
        """Append rows, update the entries before them, and write the file."""
        self.rows += rows
        self._head |= head
        self.write()

    def write(self) -> None:
        """Replace the file, if there is one, atomically."""
        if self._path is None:
            return
        text = json.dumps({**self._head, "rows": self.rows}, indent=1) + "\n"
        with atomic_file(self._path) as partial:
            partial.write_text(text)


def identity(case: Case, mode: str, library: str, path: str, device: str) -> dict[str, Any]:
    """Return the entries that identify a row."""
    return {
        "mode": mode, "library": library, "path": path, "device": device, "env": case.env, "params": case.params,
        "starts": case.starts, "worlds": case.worlds, "agents": case.agents, **case.entries,
    }  # fmt: skip


def figures(
    case: Case, mode: str, steps: float, facts: dict[str, Any], seconds: Summary, floors: dict[str, float]
) -> dict[str, Any]:
    """Return the times of a row, per step of all worlds, and its floor.

    Args:
        case: env, parameters and worlds.
        mode: as in ``measure()``. A row of ``goal`` or ``startup`` has no steps a second, because its call is a whole run. A row
            of ``goal`` has the seconds of every seed, and the number of seeds that reached the goal.
        steps: steps of all worlds in a call.
        facts: further entries of the row; ``floor_bytes``, ``kernel_launches`` and ``agents`` (of a peer's world) are read.
        seconds: seconds of a call.
        floors: floors of this run.
    """
    step, agents = seconds.median / steps, facts.get("agents", case.agents)
    row: dict[str, Any] = {
        "median_s": step, "low_s": seconds.low / steps, "high_s": seconds.high / steps, "coverage": seconds.coverage,
        "host_s": seconds.host / steps, "rounds": len(seconds.hosts), "steps_per_sample": seconds.calls * steps,
    }  # fmt: skip
    if mode == "goal":
        row |= {"seconds_by_seed": list(seconds.hosts), "reached": seconds.reached}
    elif mode != "startup":
        row |= {"env_steps_per_s": case.worlds / step, "agent_steps_per_s": case.worlds * agents / step}
    if "floor_bytes" in facts:
        moving = sum(facts["floor_bytes"].values()) / floors["copy_bytes_per_s"]
        row["floor_s"] = max(moving, floors.get("graph_node_s", 0.0) * facts["kernel_launches"])
        row["times_floor"] = step / row["floor_s"]
    return row | facts
