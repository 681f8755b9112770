"""All checks of an env, each in a process of its own, and their results as a table."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any, Literal

from gpu_vecenv.errors import GpuVecenvError, UnknownIdError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.testing.contract import check_autoreset, check_reset, check_values
from gpu_vecenv.testing.errors import CheckError, NotRunError
from gpu_vecenv.testing.golden import check_golden
from gpu_vecenv.testing.gpu_code import check_ptx, check_registers
from gpu_vecenv.testing.lint import check_lint
from gpu_vecenv.testing.python_hooks import check_python_hooks
from gpu_vecenv.testing.reference import check_reference
from gpu_vecenv.testing.same_bits import (
    check_compilers,
    check_debug,
    check_gpu,
    check_rollouts,
    check_team,
    check_teams,
    check_threads,
    check_unoptimised,
    check_wasm,
    check_worlds,
)
from gpu_vecenv.testing.sanitize import check_bounds, check_races
from gpu_vecenv.testing.subject import Subject

Check = Callable[[Subject], str]
"""From an env to words on what was checked. Raises CheckError, or NotRunError with the reason."""

QUICK: dict[str, Check] = {
    "races": check_races,
    "bounds": check_bounds,
    "ptx": partial(check_ptx, architectures=(80,), modules=1),
    "teams": partial(check_team, lanes=7),
    "lint": check_lint,
    "python": check_python_hooks,
    "reference": lambda subject: check_reference(replace(subject, num_worlds=2, num_steps=min(20, subject.num_steps))),
    "rollouts": check_rollouts,
    "autoreset": check_autoreset,
    "reset": check_reset,
    "values": check_values,
    "worlds": check_worlds,
    "threads": check_threads,
    "golden": check_golden,
    "gpu": check_gpu,
}
"""Checks of ``quick=True`` by name, those that compile first."""

CHECKS: dict[str, Check] = {
    **QUICK,
    "ptx": check_ptx,
    "reference": check_reference,
    "teams": check_teams,
    "unoptimised": check_unoptimised,
    "debug": check_debug,
    "compilers": check_compilers,
    "wasm": check_wasm,
    "registers": check_registers,
}
"""All checks by name."""

TITLES = {
    "spec": "the spec is valid, and the kernel compiles",
    "lint": "rules for kernels, by the text of the hooks",
    "python": 'checks of device="python", for hooks in Python',
    "reference": "each step is that of the reference in NumPy",
    "rollouts": "rollouts give the bits of single steps",
    "autoreset": "all modes of autoreset give the same episodes",
    "reset": "env_reset writes all of the state",
    "values": "spaces, finite numbers, bounds of the state",
    "worlds": "a world does not depend on other worlds",
    "threads": "CPU threads give the same bits",
    "teams": "teams of lanes give the same bits",
    "unoptimised": "a build without optimisation gives the same bits",
    "debug": "a build for debuggers gives the same bits, and finds no wrong index",
    "compilers": "Clang gives the same bits",
    "wasm": "WebAssembly in Node gives the same bits",
    "races": "no race between lanes (ThreadSanitizer)",
    "bounds": "no access outside an array, nothing undefined",
    "ptx": "compiles for GPUs, to exact instructions",
    "registers": "registers and spills on a GPU, for sm_90",
    "gpu": "a GPU gives the bits of the CPU",
    "golden": "the golden recording is repeated",
}
"""Subject of each row of the table."""

SECONDS = 240
"""Time after which a check that steps worlds is ended."""

UNLIMITED = ("ptx", "registers")
"""Checks that only compile: they end, however slow the machine is."""


@dataclass(frozen=True)
class Result:
    """Result of a check: its name, ``"ok"``, ``"failed"`` or ``"not run"``, words on it, and its time."""

    name: str
    status: Literal["ok", "failed", "not run"]
    detail: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Report:
    """Results of all checks of an env."""

    env: str
    results: tuple[Result, ...]

    @property
    def failed(self) -> tuple[Result, ...]:
        """Results of the checks that failed."""
        return tuple(result for result in self.results if result.status == "failed")

    def __str__(self) -> str:
        """Return one line for each check."""
        return "\n".join(f"{one.status:8}{one.name:13}{one.detail}" for one in self.results)


def check_env(env: str | EnvSpec, quick: bool = False, **params: Any) -> Report:
    """Check an env in all ways that this machine allows, as ``gpu-vecenv check`` does.

    Args:
        env: id, such as ``"module:Env-v0"``, or spec.
        quick: fewer steps and builds: at most 15 seconds on two cores, in place of two minutes.
        params: parameters of the env by name. Small worlds and short episodes show more in the same time.

    Returns:
        The results.

    Raises:
        CheckError: a check failed; the message has one line for each.
        gymnasium.error.Error: no env has this id, or its module cannot be imported.
    """
    report = Report(str(getattr(env, "name", env)), tuple(results_of(Subject(env, params), quick)))
    if report.failed:
        raise CheckError("\n".join([f"{report.env}:", *(f"  {one.name}: {one.detail}" for one in report.failed)]))
    return report


def results_of(subject: Subject, quick: bool = False) -> Iterator[Result]:
    """Run all checks, as many at a time as there are cores, and yield the results in the order of their ends.

    The first result is that of making the env. If it failed, no other check runs.
    """
    start = time.perf_counter()
    try:
        env = subject.make()
    except UnknownIdError:
        raise
    except GpuVecenvError as error:
        yield Result("spec", "failed", str(error), time.perf_counter() - start)
        return
    env.close()
    yield Result("spec", "ok", f"agents of a world: {env.num_agents}", time.perf_counter() - start)
    checks = QUICK if quick else CHECKS
    yield from _in_processes(checks, subject.quick() if quick else subject)


def _in_processes(checks: Mapping[str, Check], subject: Subject) -> Iterator[Result]:
    """Run checks in forked processes: one that a kernel ends by a signal, or stops for ever, is a result like others."""
    context = multiprocessing.get_context("fork")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    waiting, running = list(checks.items()), dict[Connection, tuple[str, Any, float]]()
    try:
        while waiting or running:
            while waiting and len(running) < max(2, cores):
                name, check = waiting.pop(0)
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_send_result, args=(sender, check, subject), daemon=True)
                process.start()
                sender.close()
                running[receiver] = name, process, time.perf_counter()
            for ready in wait(list(running), timeout=1.0):
                assert isinstance(ready, Connection)
                name, process, start = running.pop(ready)
                yield _result(name, ready, process, time.perf_counter() - start)
            for receiver, (name, process, start) in list(running.items()):
                if time.perf_counter() - start > SECONDS and name not in UNLIMITED:
                    del running[receiver]
                    process.kill()
                    detail = f"it did not end in {SECONDS} s: some lanes may wait at a barrier that others do not reach."
                    yield Result(name, "failed", detail, time.perf_counter() - start)
    finally:
        for _, process, _ in running.values():
            process.kill()


def _send_result(sender: Connection, check: Check, subject: Subject) -> None:
    """Run a check in a process of its own, of which no memory is written to disk if a kernel crashes it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what hooks print would stand between rows of the table
    try:
        sent: tuple[str, str] = ("ok", check(subject))
    except NotRunError as error:
        sent = ("not run", str(error))
    except GpuVecenvError as error:
        sent = ("failed", str(error))
    except Exception:  # such as an error of a user's reference
        sent = ("failed", traceback.format_exc(limit=-3).strip())
    sender.send(sent)


def _result(name: str, receiver: Connection, process: Any, seconds: float) -> Result:
    """Read the result of a process that ended or sent it."""
    try:
        status, detail = receiver.recv()
    except EOFError:
        process.join()
        cause = signal.Signals(-process.exitcode).name if process.exitcode < 0 else f"status {process.exitcode}"
        status, detail = (
            "failed",
            f"the process ended by {cause}; the check `bounds` shows the line of an access outside an array, or of a division "
            "of integers by 0.",
        )
    process.join(timeout=5)
    return Result(name, status, detail, seconds)
