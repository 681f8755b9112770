"""Measures one case in one mode: this library's ways and its peers', in the same rounds."""

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
    peers: Sequence[Ready] = (), host_probes: Mapping[str, Callable[[], Timed]] | None = None,
) -> list[Row]:  # fmt: skip
    """Time every way to run a case, interleaved.

    Args:
        case: env, parameters and worlds.
        mode: ``env``, ``inference``, ``training``, ``goal`` or ``startup``.
        ways: makers of this library's subjects by path.
        device: device of this library's subjects.
        floors: floors of this run.
        rounds: samples of each way.
        seconds: length of a sample; None for one call without warm-up.
        peers: other libraries' ways.
        host_probes: makers of calls that are timed first in every round. Every row of this library has each probe's host time
            under the probe's name.

    Returns:
        A row for each subject; if a subject failed, its row has ``error`` instead of times.
    """
    heads: dict[str, Row] = {path: identity(case, mode, OURS, path, device) for path in ways}
    makers: dict[str, Maker] = dict(ways)
    for library, way, make in peers:
        heads[f"{library} {way['path']}"] = identity(case, mode, library, way["path"], way["device"])
        makers[f"{library} {way['path']}"] = make
    subjects: dict[str, Subject] = {}
    rows: dict[str, Row] = {}
    for name, make in makers.items():
        try:
            subjects[name] = make()
        except Exception as error:  # an error of a library is recorded in its row
            rows[name] = heads[name] | {"error": f"{type(error).__name__}: {error}"}
    timed: dict[str, Timed] = {}
    for name, make_probe in (host_probes or {}).items():
        with suppress(MemoryError, torch.OutOfMemoryError):  # without memory for the probe, rows lack its entry
            timed[name] = make_probe()
    timed |= {name: subject.timed for name, subject in subjects.items()}  # this library first, right after the probes
    results = interleaved(timed, rounds, seconds)
    popped = {name: results.pop(name) for name in host_probes or {} if name in results}
    probes = {name: value for name, value in popped.items() if not isinstance(value, Exception)}
    probe_seconds = {name: value.host for name, value in probes.items()}
    for name, result in results.items():
        if isinstance(result, Exception):
            rows[name] = heads[name] | {"error": f"{type(result).__name__}: {result}"}
        else:
            steps, facts = subjects[name].steps, subjects[name].facts
            rows[name] = heads[name] | figures(case, mode, steps, facts, result, floors)
            if name in ways:
                rows[name] |= probe_seconds
                if steps == 1 and "bare_launch_s" in probes:
                    rows[name]["host_over_bare_s"] = result.host_over(probes["bare_launch_s"])
    timed.clear()  # releases the envs
    _close(subjects)
    return [rows[name] for name in heads]


def _close(subjects: dict[str, Subject]) -> None:
    """Close subjects, and release the memory that torch caches for them."""
    for subject in subjects.values():
        try:
            subject.close()
        except Exception:  # the row of a peer that ended has its error already
            continue
    subjects.clear()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
