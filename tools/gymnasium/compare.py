"""Compares one step of each classic env with one of Gymnasium's own, from the same million states.

Run it from a checkout: ``python tools/gymnasium/compare.py``. It takes some minutes on one core, mostly in Gymnasium. It writes
``benchmarks/results/gymnasium_differences.json`` and the tables of ``docs/gymnasium.md``. It ends with an error if rounding
cannot explain a difference. ``--tables`` only writes the tables from the JSON file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
import gpu_vecenv  # noqa: E402, F401
from gpu_vecenv.bench.machine import machine  # noqa: E402
from tools.docs.generated import table, with_block  # noqa: E402
from tools.gymnasium.cases import CASES, Case, spacing, step_gymnasium, step_ours  # noqa: E402

COMMAND = "python tools/gymnasium/compare.py"
TABLES = f"{COMMAND} --tables"
DATA = ROOT / "benchmarks" / "results" / "gymnasium_differences.json"
DOCUMENT = ROOT / "docs" / "gymnasium.md"

EDGE_SHARE = 10
"""Number of random states for each additional state at the end of an episode, and for each at a wall."""


@dataclass(frozen=True)
class Comparison:
    """One step of both envs from n states, with k fields.

    Attributes:
        case: the compared env.
        states: float32 (n, size), before the step.
        actions: int64 (n,) or float32 (n, 1).
        ours: float32 (n, k).
        theirs: float64 (n, k).
        difference: float64 (n, k), ours minus Gymnasium's rounded to float32; 0 where ``parted``.
        rounding: float64 (n, k), effect of one rounding.
        parted: bool (n, k), True if the field is discontinuous and the two values are on different sides.
        ended: bool (n,), terminations of Gymnasium's env.
        past: float64 (n,), distance of Gymnasium's state past the end of the episode, in roundings.
        flags: bool (n,), True if the terminations differ.
        walls: bool (n,), True if the wall stopped only one of the cars.
    """

    case: Case
    states: np.ndarray
    actions: np.ndarray
    ours: np.ndarray
    theirs: np.ndarray
    difference: np.ndarray
    rounding: np.ndarray
    parted: np.ndarray
    ended: np.ndarray
    past: np.ndarray
    flags: np.ndarray
    walls: np.ndarray

    def wrong(self) -> list[str]:
        """Messages about differences that rounding does not explain."""
        messages = []
        most = (np.abs(self.difference) / self.rounding).max(axis=0, initial=0)
        for name, value, limit in zip(self.case.fields, most, self.case.limits, strict=True):
            if not value <= limit:
                messages.append(f"{self.case.name}: {name} is off by {value:.2f} roundings, more than {limit}")
        gap = np.abs(self.past[self.flags]).max(initial=0)
        if not gap <= max(self.case.limits):
            messages.append(f"{self.case.name}: terminations differ {gap:.2f} roundings from where the episode ends")
        if self.walls.any():
            for positions in (self.ours[self.walls, 0], self.theirs[self.walls, 0]):
                gap = (np.abs(positions - self.case.wall) / self.rounding[self.walls, 0]).max()
                if not gap <= max(self.case.limits):
                    messages.append(f"{self.case.name}: a car was stopped {gap:.2f} roundings from the wall")
        return messages


def compare(case: Case, states: np.ndarray, actions: np.ndarray) -> Comparison:
    """Step both envs from each state; ``states`` may be empty."""
    ours, our_end = step_ours(case, states, actions)
    theirs, ended = step_gymnasium(case, states, actions)
    rounding = case.roundings(states, actions, theirs)
    flags = our_end != ended
    parted = np.zeros(ours.shape, bool)
    parted[:, case.size] = flags  # the reward is discontinuous where an episode ends
    walls = np.zeros_like(flags)
    if case.wall is not None:
        wall = np.float32(case.wall)
        there = (ours[:, 0] == wall) | (theirs[:, 0].astype(np.float32) == wall)
        walls = there & ((ours[:, 1] == 0) != (theirs[:, 1] == 0))
        parted[:, 1] = walls
    difference = np.where(parted, 0, case.differences(ours, theirs))
    past = case.past(theirs.T) / rounding[:, -1]
    return Comparison(case, states, actions, ours, theirs, difference, rounding[:, :-1], parted, ended, past, flags, walls)


def summary(random: Comparison, edges: Comparison) -> dict[str, Any]:
    """The figures of one case, ready for JSON."""
    case = random.case
    ulps = np.abs(random.difference) / spacing(random.theirs)
    roundings = np.abs(random.difference) / random.rounding
    fields = []
    for i, name in enumerate(case.fields):
        worst = int(np.abs(random.difference[:, i]).argmax())
        fields.append({
            "field": name,
            "max_difference": float(np.abs(random.difference[worst, i])),
            "at": {
                "state": random.states[worst].tolist(), "action": random.actions[worst].tolist(),
                "ours": float(random.ours[worst, i]), "gymnasium": float(random.theirs[worst, i]),
            },
            "max_ulp": float(ulps[:, i].max()),
            "ulp_99.9%": float(np.quantile(ulps[:, i], 0.999)),
            "max_roundings": float(roundings[:, i].max()),
            "roundings_99.9%": float(np.quantile(roundings[:, i], 0.999)),
            "limit_roundings": case.limits[i],
            "equal_share": float((random.difference[:, i] == 0).mean()),
        })  # fmt: skip
    both = {"random": random, "edge": edges}
    return {
        "case": case.name,
        "ours": "Warp" + case.theirs,
        "gymnasium": case.theirs,
        "gymnasium_state": case.dtype,
        "states_from": [list(case.low), list(case.high)],
        "fields": fields,
        **{
            f"{name}_states": {
                "count": len(part.states),
                "ended": int(part.ended.sum()),
                "terminations_differ": int(part.flags.sum()),
                "furthest_roundings": float(np.abs(part.past[part.flags]).max(initial=0)),
                "walls_differ": int(part.walls.sum()),
            }
            for name, part in both.items()
        },
    }


def difference_table(cases: list[dict[str, Any]]) -> str:
    """Table of differences by field."""
    rows = [
        [
            case["case"] if i == 0 else "", f"`{field['field']}`", f"{field['max_difference']:.1e}",
            f"{field['max_ulp']:,.0f} / {field['ulp_99.9%']:,.0f}",
            f"{field['max_roundings']:.1f} / {field['roundings_99.9%']:.1f}", str(field["limit_roundings"]),
            f"{field['equal_share']:.1%}",
        ]
        for case in cases
        for i, field in enumerate(case["fields"])
    ]  # fmt: skip
    header = ["env", "field", "largest difference", "ULP: max / 99.9 % quantile", "roundings: max / 99.9 % quantile"]
    header += ["limit", "same bits"]
    return table(header, rows)


def flag_table(cases: list[dict[str, Any]]) -> str:
    """Table of states whose float32 and float64 results are on different sides of a threshold."""
    rows = []
    for case in cases:
        random, edge = case["random_states"], case["edge_states"]
        furthest = max(random["furthest_roundings"], edge["furthest_roundings"])
        rows.append([
            case["case"], f"{random['count']:,}", f"{random['ended']:,}", str(random["terminations_differ"]),
            f"{edge['count']:,}", f"{edge['terminations_differ']:,}", f"{furthest:.1f}",
            f"{random['walls_differ']} / {edge['walls_differ']:,}",
        ])  # fmt: skip
    header = ["env", "random states", "episodes that end", "different flags", "states at a threshold", "different flags"]
    header += ["largest distance, roundings", "different at the wall: random / threshold"]
    return table(header, rows)


def document(text: str, data: dict[str, Any]) -> str:
    """The document ``text`` with the tables of ``data``."""
    recorded = data["machine"]
    facts = ", ".join(f"{name} {recorded[name]}" for name in ("gymnasium", "numpy", "python", "cpu", "commit", "date"))
    text = with_block(text, "differences", TABLES, f"{difference_table(data['cases'])}\n{facts}.")
    return with_block(text, "flags", TABLES, flag_table(data["cases"]))


def measure(count: int) -> dict[str, Any]:
    """All cases with ``count`` random states each.

    Raises:
        ValueError: rounding does not explain a difference.
    """
    cases, wrong = [], []
    for case in CASES.values():
        random = compare(case, *case.random(count, seed=1))
        edges = compare(case, *case.edges(count // EDGE_SHARE, seed=2))
        wrong += random.wrong() + edges.wrong()
        cases.append(summary(random, edges))
        print(difference_table(cases[-1:]), flag_table(cases[-1:]), sep="\n", flush=True)
    if wrong:
        raise ValueError("\n".join(wrong))
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    facts = machine("cpu") | {"commit": commit.stdout.strip()[:12]}
    return {"command": COMMAND, "machine": facts, "cases": cases}


def main() -> None:
    """Measure, then write data and tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=1_000_000, help="random states an env")
    parser.add_argument("--tables", action="store_true", help="only write the tables")
    options = parser.parse_args()
    if not options.tables:
        DATA.write_text(json.dumps(measure(options.states), indent=1) + "\n")
    DOCUMENT.write_text(document(DOCUMENT.read_text(), json.loads(DATA.read_text())))


if __name__ == "__main__":
    main()
