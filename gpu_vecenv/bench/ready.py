"""Prepares the peers that are installed, before anything is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.machine import installed
from gpu_vecenv.bench.peers import PEERS, TRAINERS
from gpu_vecenv.bench.peers.client import PeerProcess
from gpu_vecenv.bench.settings import Setting
from gpu_vecenv.bench.subject import Maker, Subject

Ready = tuple[str, dict[str, Any], Maker]
"""Name of a library, its way to run a case, and a maker. The maker returns the subject, or raises the error of its making."""


RUNTIMES = ("jax", "jaxlib", "numba", "flax", "optax", "distrax")
"""Distributions that peers run on; their versions are recorded, too."""


class Peers:
    """Subjects of other libraries. Each library and env has a process of its own, so that they compile in parallel.

    Args:
        device: the device of the run.
        environment: environment variables for the peers' processes.
        skip: modules of peers to leave out.
    """

    def __init__(self, device: str, environment: Mapping[str, str], skip: Iterable[str] = ()) -> None:
        self._device, self._environment = device, dict(environment)
        modules = {name: import_module(f"gpu_vecenv.bench.peers.{name}") for name in (*PEERS, *TRAINERS) if name not in skip}
        self.versions = {peer.NAME: installed(peer.DISTRIBUTION) for peer in modules.values() if peer.DISTRIBUTION}
        self.runtimes = {name: installed(name) for name in RUNTIMES if installed(name)}
        there = {name: peer for name, peer in modules.items() if peer.DISTRIBUTION is None or self.versions[peer.NAME]}
        self.installed = [there[name] for name in PEERS if name in there]
        self.trainers = [there[name] for name in TRAINERS if name in there]
        self._processes: dict[tuple[str, str], PeerProcess] = {}
        self._ready: dict[str, list[Ready]] = {}

    def prepare(self, cases: Iterable[Case], meanwhile: Callable[[], object] = lambda: None) -> None:
        """Request the peers' subjects of all cases, call ``meanwhile`` while the peers make them, then wait for them.

        Peers that train run the cases that are settings, the others all others.
        """
        requests = [(case, peer.NAME, way, self._request(peer.__name__, case, way))
                 for case in cases for peer in self._peers_of(case) for way in peer.ways(case, self._device)]  # fmt: skip
        meanwhile()
        for case, library, way, wait in requests:
            self._ready.setdefault(case.name, []).append((library, way, _outcome(wait)))

    def ways(self, case: Case) -> list[Ready]:
        """Return the prepared ways to run a case."""
        return self._ready.get(case.name, [])

    def _peers_of(self, case: Case) -> list[Any]:
        return self.trainers if isinstance(case, Setting) else self.installed

    def close(self) -> None:
        """End all processes."""
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def _request(self, module: str, case: Case, way: dict[str, Any]) -> Maker:
        """Send a process the request for a subject; the returned maker waits for the reply."""
        key = (module, case.env)
        if key not in self._processes:
            self._processes[key] = PeerProcess(module, self._device, self._environment)
        process = self._processes[key]
        try:
            number = process.request_subject(way)
        except Exception as error:
            return _failure(error)
        return lambda: process.receive_subject(number)


def _outcome(wait: Maker) -> Maker:
    """Wait for a subject, and return a maker that returns it or raises the error of its making."""
    try:
        subject: Subject = wait()
    except Exception as error:  # an error of a library is recorded in its row
        return _failure(error)
    return lambda: subject


def _failure(error: Exception) -> Maker:
    def fail() -> Subject:
        raise error

    return fail
