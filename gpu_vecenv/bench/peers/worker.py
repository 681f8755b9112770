"""A peer's own process: ``python -m gpu_vecenv.bench.peers.worker MODULE``. Each request and each reply is a line of JSON.

``{"make": WAY, "number": NUMBER}`` makes a subject; ``{"read": NUMBER, "calls": N}`` times calls of it;
``{"close": NUMBER}`` closes it. The reply to a request that raised is ``{"error": TEXT}``.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import json
import os
import sys
from types import ModuleType
from typing import Any

from gpu_vecenv.bench.subject import Subject

Subjects = dict[int, Subject]


def answer(peer: ModuleType, subjects: Subjects, request: dict[str, Any]) -> dict[str, Any]:
    """Serve a request, and return the reply."""
    if "make" in request:
        number = request["number"]
        subjects[number] = subject = peer.make(**request["make"])
        return {"steps": subject.steps, "facts": subject.facts, "most_calls": subject.timed.most_calls}
    if "read" in request:
        reading = subjects[request["read"]].timed.read(request["calls"])
        return dataclasses.asdict(reading)
    subjects.pop(request["close"]).close()
    gc.collect()
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        sys.modules["torch"].cuda.empty_cache()
    return {}


def main(module: str) -> None:
    """Serve requests until the input ends. Output of libraries goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer = importlib.import_module(module)
    subjects: Subjects = {}
    for line in sys.stdin:
        try:
            reply = answer(peer, subjects, json.loads(line))
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
