"""``bench --quick``: few cases and short samples, and the lines of one table about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpu_vecenv.bench.cases import CARTPOLE, SIMPLE_TAG, STAY, TAG, Case, tag
from gpu_vecenv.bench.plain import amount, title
from gpu_vecenv.bench.results import identity
from gpu_vecenv.bench.run import OURS
from gpu_vecenv.bench.settings import SETTINGS, Setting

MODES = ("env", "training")
ROUNDS = 3
SECONDS = 0.02
"""Values of the options of ``bench`` that ``--quick`` fixes."""

FROM_PYTHON = "python_copy_false"
WAYS = {FROM_PYTHON: "from Python", "graph": "CUDA graph", "rollout": "rollout", "rollout_random": "rollout"}
"""Ways to step that are timed, and their names; the CPU has no graph."""

ONLY = tuple(WAYS)

GRID_TAG = "WarpGridTag-v0"

# The peers of Tag with four agents compile for tens of seconds on two cores, so the CPU does without it.
CASES: dict[str, tuple[Case, ...]] = {
    "cuda": (
        Case(CARTPOLE, 100_000, only=ONLY),
        Case(TAG, 2_000, tag(5, 100), only=ONLY),
        Case(TAG, 100_000, {**SIMPLE_TAG, **STAY}, only=ONLY),
        Case(GRID_TAG, 100_000, only=ONLY),
    ),
    "cpu": (
        Case(CARTPOLE, 10_000, only=ONLY),
        Case(TAG, 64, tag(5, 100), only=ONLY),
        Case(GRID_TAG, 1_000, only=ONLY),
    ),
}

TRAINED: dict[str, tuple[Setting, ...]] = {
    kind: tuple(
        replace(next(setting for setting in SETTINGS[kind] if setting.env == env), only=("fused",))
        for env in (CARTPOLE, TAG, GRID_TAG)
    )
    for kind in ("cuda", "cpu")
}
"""The first setting of each env, with the default way to train."""

TABLES: dict[str, Any] = {"env": CASES, "training": TRAINED}
"""Cases by mode and kind of device."""

HEADER = ("environment", "worlds", "from Python", "fastest mode", "others", "training")

LEGEND = """A world is one copy of an environment; a step moves all agents of one world.
from Python: calls of step() with copy=False, each for all worlds.
fastest mode: a rollout is many steps in one call; a CUDA graph repeats
recorded steps.
others: libraries that are installed here and have the environment, each in
its fastest mode.
training: whole iterations of PPO, with the number of worlds given there."""

Row = dict[str, Any]


def named(mode: str, case: Case) -> str:
    """Return what is measured, in words."""
    row = identity(case, mode, OURS, "", "")
    return f"{'training' if mode == 'training' else 'steps'} of {title(row)}, {case.worlds:,} worlds"


def lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return the cells below ``HEADER`` for each env, its agents and worlds. A cell may have several lines of text.

    Training is shown with the env of the same agents. It has its own number of worlds, which its cell names.
    """
    good = [row for row in rows if "env_steps_per_s" in row]
    stepped = {(title(row), row["worlds"]): row for row in rows if row["mode"] == "env"}
    return [_line(one, [row for row in good if _same(row, one)]) for one in stepped.values()]


def errors(rows: Sequence[Row]) -> list[str]:
    """Return a line for each row that failed."""
    return [f"{title(row)}, {row['library']}: {row['error']}" for row in rows if "error" in row]


def _same(row: Row, one: Row) -> bool:
    """Return True for a row of training of the same env, and for one of steps with the same worlds as well."""
    if row["mode"] == "training":
        return bool((row["env"], row["agents"]) == (one["env"], one["agents"]))
    return (title(row), row["worlds"]) == (title(one), one["worlds"])


def _line(one: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the cells of one line, from the rows that belong to it."""
    fastest: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: -row["env_steps_per_s"]):
        if row["mode"] == "env":
            fastest.setdefault(row["library"], row)
    ours = fastest.pop(OURS, None)
    cells = (
        [amount(row["env_steps_per_s"]) for row in rows if (row["library"], row["path"]) == (OURS, FROM_PYTHON)],
        [f"{amount(ours['env_steps_per_s'])}\n{WAYS[ours['path']]}"] if ours else [],
        [f"{amount(row['env_steps_per_s'])}\n{library}" for library, row in fastest.items()],
        [f"{amount(row['env_steps_per_s'])}\n{row['worlds']:,} worlds" for row in rows if row["mode"] == "training"],
    )
    return (title(one).replace(", ", "\n"), f"{one['worlds']:,}", *("\n".join(cell) or "–" for cell in cells))
