"""A run that goes on in another number of processes than before: policies and optimisers go on, and worlds begin anew."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from gpu_vecenv.train.processes.states import OTHERS
from gpu_vecenv.train.runner.run_state import RunState


def worlds_seed(seed: int, iteration: int) -> int:
    """Return a seed for worlds that begin anew after some iterations, so that they do not repeat their first episodes."""
    return int.from_bytes(hashlib.sha256(f"worlds/{seed}/{iteration}".encode()).digest()[:8], "little")


def state_for_other_count(state: Mapping[str, Any], parts: RunState) -> dict[str, Any]:
    """Return the state of a checkpoint with what belongs to worlds as it is in ``parts``, whose env was just reset.

    Args:
        state: content of a checkpoint.
        parts: the new parts of the run.
    """
    new = parts.state_dict()
    algorithms = dict(state["algorithms"])
    for name, algorithm in parts.algorithms.items():
        for path in algorithm.of_worlds:
            algorithms[name] = _with(algorithms[name], new["algorithms"][name], path.split("/"))
    of_run = {name: value for name, value in state.items() if name != OTHERS}
    return {**of_run, "algorithms": algorithms, "collector": new["collector"], "episodes": new["episodes"]}


def other_count_text(before: int, now: int, parts: RunState) -> str:
    """Return what differs from a run that goes on in as many processes as before."""
    fresh = [f"{name}: {path}" for name, algorithm in parts.algorithms.items() for path in algorithm.of_worlds]
    also = f", and these are empty: {', '.join(fresh)}" if fresh else ""
    return (
        f"moved from {before} to {now} processes; weights, optimisers and statistics go on, worlds begin new episodes, "
        f"minibatches are others unless shards is the same{also}; the rest is not bit-identical to an uninterrupted one"
    )


def _with(saved: Any, new: Any, path: list[str]) -> Any:
    """Return a dict with the value of another one at a path."""
    if not isinstance(saved, dict) or not isinstance(new, dict) or new.get(path[0]) is None:
        return saved
    rest = path[1:]
    return {**saved, path[0]: _with(saved.get(path[0]), new[path[0]], rest) if rest else new[path[0]]}
