"""The peers that are installed, made ready before anything is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.machine import installed
from gpu_vecenv.bench.peers import PEERS
from gpu_vecenv.bench.peers.client import PeerProcess
from gpu_vecenv.bench.subject import Maker, Subject

Ready = tuple[str, dict[str, Any], Maker]
"""A library, its way to run a case, and what gives its subject or raises why there is none."""


BENEATH = ("jax", "jaxlib", "numba")
"""What peers run on, whose versions count as well."""


class Peers:
    """Other libraries' subjects, in a process for each library and env, so that all compile at the same time.

    Args:
        device: the device of the run.
        environment: variables for the peers' processes.
        skip: modules to leave out.
    """

    def __init__(self, device: str, environment: Mapping[str, str], skip: Iterable[str] = ()) -> None:
        self._device, self._environment = device, dict(environment)
        found = [import_module(f"gpu_vecenv.bench.peers.{name}") for name in PEERS if name not in skip]
        self.versions = {peer.NAME: installed(peer.DISTRIBUTION) for peer in found if peer.DISTRIBUTION}
        self.beneath = {name: installed(name) for name in BENEATH if installed(name)}
        self.installed = [peer for peer in found if peer.DISTRIBUTION is None or self.versions[peer.NAME]]
        self._processes: dict[tuple[str, str], PeerProcess] = {}
        self._ready: dict[str, list[Ready]] = {}

    def prepare(self, cases: Iterable[Case], meanwhile: Callable[[], object] = lambda: None) -> None:
        """Have all ways to run the cases made, and call ``meanwhile`` while the peers do that."""
        asked = [(case, peer.NAME, way, self._ask(peer.__name__, case, way))
                 for case in cases for peer in self.installed for way in peer.ways(case, self._device)]  # fmt: skip
        meanwhile()
        for case, library, way, wait in asked:
            self._ready.setdefault(case.name, []).append((library, way, _outcome(wait)))

    def ways(self, case: Case) -> list[Ready]:
        """What was prepared for a case."""
        return self._ready.get(case.name, [])

    def close(self) -> None:
        """End all processes."""
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def _ask(self, module: str, case: Case, way: dict[str, Any]) -> Maker:
        """Ask a process for a subject; the maker waits for it."""
        key = (module, case.env)
        if key not in self._processes:
            self._processes[key] = PeerProcess(module, self._device, self._environment)
        process = self._processes[key]
        try:
            number = process.ask_to_make(way)
        except Exception as error:
            return _failure(error)
        return lambda: process.made(number)


def _outcome(wait: Maker) -> Maker:
    """Wait for a subject; a maker that gives it, or raises what its making raised."""
    try:
        made: Subject = wait()
    except Exception as error:  # whatever a library raises is that library's result
        return _failure(error)
    return lambda: made


def _failure(error: Exception) -> Maker:
    def fail() -> Subject:
        raise error

    return fail
