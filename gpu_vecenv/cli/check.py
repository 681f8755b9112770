"""The command ``check``: all checks of an env, as one table."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Annotated

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gpu_vecenv.cli.key_value import Settings, help_option, parse_settings, require_within
from gpu_vecenv.testing.report import CHECKS, QUICK, TITLES, Result, results_of
from gpu_vecenv.testing.subject import Subject
from gpu_vecenv.vector.inputs.seeding import MAX_SEED

STYLES = {"ok": "green", "failed": "bold red", "not run": "dim", "": "dim"}
"""Colours of results; an empty one is that of a check that has not ended."""


def check(
    env_id: tyro.conf.Positional[Annotated[str, help_option("", "ENV_ID")]],
    quick: bool = False,
    env: Annotated[Settings, help_option("the env's defaults", "KEY=VALUE ...")] = (),
    num_worlds: int = 4,
    num_steps: int = 100,
    seed: int = 7,
) -> int:
    """Check that an env is right: its rules, its bits in every build, its memory, and its code for GPUs.

    Example: gpu-vecenv check WarpTag-v0 --quick

    A failed check names the first difference, or file and line. A check that cannot run here is listed with the reason.

    Args:
        env_id: id of the env. MODULE:ID imports the module first.
        quick: fewer steps, builds and architectures: at most 15 seconds on two cores, in place of two minutes.
        env: env parameters by name. Small worlds and short episodes show more in the same time.
        num_worlds: worlds that are stepped.
        num_steps: steps of each check; at most 40 with --quick.
        seed: seed of the worlds and of the actions.

    Returns:
        0 if no check failed, else 1.
    """
    require_within("--num-worlds", num_worlds, 1)
    require_within("--num-steps", num_steps, 10)
    require_within("--seed", seed, 0, MAX_SEED - num_worlds)
    subject = Subject(env_id, parse_settings(env, "--env"), num_worlds, num_steps, seed)
    names = [name for name in TITLES if name == "spec" or name in (QUICK if quick else CHECKS)]
    console, start, results = Console(), time.perf_counter(), dict[str, Result]()
    with Live(_table(names, results), console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live:
        for result in results_of(subject, quick):
            results[result.name] = result
            if live is not None:
                live.update(_table(names, results), refresh=True)
    if live is None:
        console.print(_table(names, results))
    failed = [one for one in results.values() if one.status == "failed"]
    for one in failed:
        print(f"failed {one.name}: {one.detail}")  # whole lines, so that editors find FILE:LINE
    counts = {status: sum(one.status == status for one in results.values()) for status in ("ok", "failed", "not run")}
    print(f"{env_id}: {counts['ok']} passed, {counts['failed']} failed, {counts['not run']} not run, "
          f"in {time.perf_counter() - start:.0f} s")  # fmt: skip
    return 1 if failed else 0


def _table(names: Sequence[str], results: Mapping[str, Result]) -> Table:
    """Return the table of all checks, with the results so far."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("check", "what must hold", "result", "s"):
        table.add_column(name, no_wrap=name != "what must hold", justify="right" if name == "s" else "left")
    for name in names:
        result = results.get(name, Result(name, "not run", "")) if "spec" in results else Result(name, "not run", "")
        status = result.status if name in results else ""
        told = f"{TITLES[name]}: {result.detail}" if result.detail and status != "failed" else TITLES[name]
        seconds = f"{result.seconds:.1f}" if name in results else ""
        table.add_row(name, Text(told), Text(status or "...", style=STYLES[status]), seconds)
    return table
