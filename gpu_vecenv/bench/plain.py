"""Names and numbers in plain words, for tables that users read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SIZES = ((1e9, "billion"), (1e6, "million"))


def amount(value: float) -> str:
    """Return a number with three digits, such as ``545,000`` or ``39.6 million``."""
    for size, word in SIZES:
        if float(f"{value:.3g}") >= size:
            return f"{value / size:.3g} {word}"
    return f"{float(f'{value:.3g}'):,.15g}"


def times(ratio: float) -> str:
    """Return a ratio with two digits, such as ``73`` or ``4.6``."""
    return f"{float(f'{ratio:.2g}'):,.15g}"


def title(row: Mapping[str, Any]) -> str:
    """Return the env id of a result row, with the agents of a world if it has several."""
    params = row["params"]
    if "num_runners" in params:
        text = f"{row['env']}, {_counted(params['num_taggers'], 'tagger')}, {_counted(params['num_runners'], 'runner')}"
    else:
        text = str(row["env"]) + (f", {row['agents']} agents" if row["agents"] > 1 else "")
    text += ", each agent observes all others" if params.get("use_full_observation") else ""
    return text + (", all in one corner" if row["starts"] == "corner" else "")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
