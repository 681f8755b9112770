"""Processes of a run on one host, forked from the test's process."""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from contextlib import contextmanager, suppress

import torch

from gpu_vecenv.train.processes.join import joined


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def variables(rank, count, port):
    """Variables that torchrun would set."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
    return {**{name: str(number) for name, number in numbers.items()}, "MASTER_ADDR": "127.0.0.1", "GPU_VECENV_NUM_THREADS": "1"}


@contextmanager
def started(count, act, folder, device="cpu"):
    """Fork processes that call ``act(processes)`` and store its result in a file; yield their ids."""
    port, children = free_port(), []
    for rank in range(count):
        child = os.fork()
        if child:
            children.append(child)
            continue
        status = 3
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.environ.update(variables(rank, count, port))
            with joined(device) as processes:
                result = act(processes)
            torch.save(result, folder / f"rank-{rank}.pt")
            status = 0
        except BaseException as error:
            (folder / f"rank-{rank}.txt").write_text(f"{type(error).__name__}: {error}")
            traceback.print_exc(file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(status)
    try:
        yield children
    finally:
        for child in children:
            with suppress(ChildProcessError):  # the test has waited for it, and its id may be another process's
                if os.waitpid(child, os.WNOHANG) == (0, 0):
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)


def exits(children):
    """Return the exit status of each process; negative for one that a signal ended."""
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def in_processes(count, act, folder, device="cpu"):
    """Return what ``act(processes)`` returned in each of some processes."""
    folder.mkdir(parents=True, exist_ok=True)
    with started(count, act, folder, device) as children:
        found = exits(children)
        errors = [path.read_text() for path in sorted(folder.glob("rank-*.txt"))]
        assert found == [0] * count, errors
    return [torch.load(folder / f"rank-{rank}.pt", weights_only=False) for rank in range(count)]
