"""Groups of subjects that take turns: one case in one mode, this library's ways beside its peers'."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch

from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.ready import Ready
from gpu_vecenv.bench.results import figures, identity
from gpu_vecenv.bench.subject import Maker, Subject
from gpu_vecenv.bench.timing import Timed, interleaved

OURS = "gpu_vecenv"
Row = dict[str, Any]


def measure(
    case: Case, mode: str, ways: Mapping[str, Maker], device: str, floors: dict[str, float], rounds: int, seconds: float | None,
    peers: Sequence[Ready] = (), beside: Mapping[str, Callable[[], Timed]] | None = None,
) -> list[Row]:  # fmt: skip
    """Time every way to run a case, in turns.

    Args:
        case: env, parameters and worlds.
        mode: ``env``, ``inference``, ``training`` or ``startup``.
        ways: makers of this library's subjects by path.
        device: where they run.
        floors: of this run.
        rounds: samples of each.
        seconds: length of a sample; None for one call, not warmed up.
        peers: other libraries' ways.
        beside: what takes its turn before them, by the name of what it costs the host in every row of this library.

    Returns:
        A row for each subject; one that failed has ``error`` in place of figures.
    """
    heads: dict[str, Row] = {path: identity(case, mode, OURS, path, device) for path in ways}
    makers: dict[str, Maker] = dict(ways)
    for library, way, made in peers:
        heads[f"{library} {way['path']}"] = identity(case, mode, library, way["path"], way["device"])
        makers[f"{library} {way['path']}"] = made
    subjects: dict[str, Subject] = {}
    rows: dict[str, Row] = {}
    for name, make in makers.items():
        try:
            subjects[name] = make()
        except Exception as error:  # whatever a library raises is that library's row
            rows[name] = heads[name] | {"error": f"{type(error).__name__}: {error}"}
    timed: dict[str, Timed] = {}
    for name, neighbour in (beside or {}).items():
        with suppress(MemoryError, torch.OutOfMemoryError):  # where there is no room for it, rows go without
            timed[name] = neighbour()
    timed |= {name: subject.timed for name, subject in subjects.items()}  # ours first: a phase of the host seldom ends in between
    taken = interleaved(timed, rounds, seconds)
    neighbours = {name: taken.pop(name) for name in beside or {} if name in taken}
    near = {name: value for name, value in neighbours.items() if not isinstance(value, Exception)}
    known = {name: value.host for name, value in near.items()}
    for name, result in taken.items():
        if isinstance(result, Exception):
            rows[name] = heads[name] | {"error": f"{type(result).__name__}: {result}"}
        else:
            steps, facts = subjects[name].steps, subjects[name].facts
            rows[name] = heads[name] | figures(case, mode, steps, facts, result, floors)
            if name in ways:
                rows[name] |= known
                if steps == 1 and "bare_launch_s" in near:
                    rows[name]["host_over_bare_s"] = result.host_over(near["bare_launch_s"])
    timed.clear()  # what is timed holds its env
    _close(subjects)
    return [rows[name] for name in heads]


def _close(subjects: dict[str, Subject]) -> None:
    """Let go of subjects and of the memory that torch keeps for them."""
    for subject in subjects.values():
        try:
            subject.close()
        except Exception:  # a peer that died has said so in its row
            continue
    subjects.clear()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
