"""Client of a peer's process, which makes and times the calls of the peer's subjects."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from itertools import count
from pathlib import Path
from typing import Any

import gpu_vecenv
from gpu_vecenv.bench.subject import Subject
from gpu_vecenv.bench.timing import Reading
from gpu_vecenv.errors import GpuVecenvError

REPLY_TIMEOUT_S = 120.0
"""Seconds after which a reply counts as failed; JAX compiles for some of them."""


class PeerError(GpuVecenvError, RuntimeError):
    """An error of a peer's library, or the end of its process."""


class PeerProcess:
    """A process that holds one library.

    Args:
        module: full name of the peer's module.
        device: the device of the run; for ``"cpu"`` JAX uses no GPU.
        environment: environment variables in addition to those of this process.
        python: the program that runs it.
    """

    def __init__(
        self, module: str, device: str, environment: dict[str, str] | None = None, python: str = sys.executable
    ) -> None:
        paths = [str(Path(gpu_vecenv.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **(environment or {})}
        variables["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # the GPU is shared
        if device == "cpu":
            variables["JAX_PLATFORMS"] = "cpu"
        self._errors = tempfile.TemporaryFile("w+")
        self._subject_numbers = count()
        self._process = subprocess.Popen(
            # -P: without it Python imports from the working directory first, whatever ``environment`` says.
            [python, "-P", "-m", "gpu_vecenv.bench.peers.worker", module],
            env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )  # fmt: skip
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._collect, daemon=True)  # reading a pipe has no time limit
        self._reader.start()

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._process.poll() is None

    def request_subject(self, way: dict[str, Any]) -> int:
        """Send the request for a subject, and return its number for ``receive_subject()`` without waiting for the reply."""
        number = next(self._subject_numbers)
        self._send({"make": way, "number": number})
        return number

    def receive_subject(self, number: int) -> Subject:
        """Wait for a subject and return it. Call it in the order of the requests, because replies have that order.

        Raises:
            PeerError: the library failed.
        """
        reply = self._receive()
        timed = RemoteTimed(self, number, reply["most_calls"])
        return Subject(timed, reply["steps"], reply["facts"], lambda: self.call({"close": number}))

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its reply.

        Raises:
            PeerError: the library failed.
        """
        self._send(request)
        return self._receive()

    def close(self) -> None:
        """End the process."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout:
            self._process.stdout.close()
        self._errors.close()

    def _collect(self) -> None:
        """Put the peer's replies into the queue, and an empty line at their end."""
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put("")

    def _send(self, request: dict[str, Any]) -> None:
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
        except OSError as error:
            raise PeerError(self._end()) from error

    def _receive(self) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=REPLY_TIMEOUT_S)
        except queue.Empty:
            self._process.kill()
            raise PeerError(f"no reply within {REPLY_TIMEOUT_S:.0f} s") from None
        if not line:
            raise PeerError(self._end())
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise PeerError(reply["error"])
        return reply

    def _end(self) -> str:
        """Describe the end of the process, with the last line that it wrote."""
        try:
            status: int | None = self._process.wait(5)
        except subprocess.TimeoutExpired:
            status = None
        self._errors.seek(0)
        return f"the process ended with status {status}: {' '.join(self._errors.read().strip().splitlines()[-1:])}"


class RemoteTimed:
    """A subject in a peer's process."""

    def __init__(self, process: PeerProcess, number: int, most_calls: int | None) -> None:
        self._process, self._number, self.most_calls = process, number, most_calls

    def read(self, calls: int) -> Reading:
        """Request ``calls`` calls from the peer's process, which also times them."""
        reply = self._process.call({"read": self._number, "calls": calls})
        return Reading(**reply)
