"""Asks for rollouts as a live page in a browser does, and draws nothing: ``python benchmarks/live_page.py ADDRESS``.

It shows four worlds at 20 steps a second, as a new page does, follows an agent and asks for curves, all by one connection.
``live_view.py`` starts it in a process that imports no more than this file does.
"""

from __future__ import annotations

import json
import sys
import time
from http.client import HTTPConnection
from urllib.parse import urlsplit

STEPS_PER_S = 20


def ask(address: str) -> None:
    """Ask for rollouts and for points of curves, until the process is killed."""
    parts = urlsplit(address)
    connection = HTTPConnection(parts.netloc)

    def answer_to(path: str) -> bytes:
        try:
            connection.request("GET", parts.path + path)
            return connection.getresponse().read()
        except ConnectionError:  # the server closes a connection that was silent for some seconds
            connection.close()
            return answer_to(path)

    known = 0  # the first answer has the plan and the pool
    while True:
        excerpt = answer_to(f"rollout?worlds=0,1,2,3&agent=0.0&plan={known}&pool={known}")
        if not excerpt:
            continue
        rollouts, known = json.loads(excerpt[4 : 4 + int.from_bytes(excerpt[:4], "little")])["rollouts"], 1
        answer_to(f"metrics?after={rollouts[0]['iteration']}")
        time.sleep(sum(rollout["steps"] for rollout in rollouts) / STEPS_PER_S)


if __name__ == "__main__":
    ask(sys.argv[1])
