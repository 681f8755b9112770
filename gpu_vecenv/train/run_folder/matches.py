"""The file with a run's matches: mean results of trained roles and of roles that act at random, in the same worlds."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.train.errors import MetricsError

MATCHES_FILE = "against_random.json"

_MAY_BE_NAN = ("mean_return", "mean_metrics")
"""Fields of a match whose numbers may be NaN."""


@dataclass(frozen=True)
class RoleFacts:
    """A role in the matches of a run."""

    count: int
    """Agents in a world."""
    policies: list[str]
    """Names of the policies that act for the role in training."""
    leaving: str
    """The word for leaving early, such as "caught"; empty if returns judge the role. See ``Role.leaving``."""


@dataclass(frozen=True)
class Match:
    """Means of episodes in which some roles acted at random, and the others as in training."""

    random: list[str]
    """Roles that acted at random in place of a policy that learns."""
    mean_return: dict[str, float]
    """Role to the undiscounted return of an agent; NaN, in the file null, if no agent of the role took part."""
    mean_exits: dict[str, float]
    """Role to the agents of a world that left before the end."""
    mean_metrics: dict[str, float] = field(default_factory=dict)
    """Metric of the env to its mean; NaN, in the file null, if it was never recorded. Files of older versions have none."""
    scripted: dict[str, str] = field(default_factory=dict)
    """Role to the scripted policy that acted in place of one that learns. Files of older versions have none."""

    def has(self, random: Collection[str]) -> bool:
        """True if these roles acted at random, and all others as in training."""
        return set(self.random) == set(random) and not self.scripted


@dataclass(frozen=True)
class Matches:
    """Matches of the roles that learn. Each has the same worlds, with the same starts."""

    worlds: int
    """Number of worlds, each played for one episode."""
    steps: int
    """Steps of the run whose policies played, summed over worlds."""
    learning: list[str]
    """Roles that learn, in the order of the env."""
    roles: dict[str, RoleFacts]
    """All roles, in the order of the env."""
    matches: list[Match]
    def match(self, *random: str) -> Match:
        """Return the match in which these roles acted at random."""
        return next(match for match in self.matches if match.has(random))

    def scripted(self, role: str) -> list[tuple[str, Match]]:
        """Return the scripted policies of a role by name, each with its match against the others as in training."""
        return [(match.scripted[role], match) for match in self.matches if role in match.scripted]

    def metric(self, name: str, *random: str) -> float | None:
        """Return the mean of a metric in a match; None without such a match, or if it was never recorded."""
        mean = next((match.mean_metrics.get(name) for match in self.matches if match.has(random)), None)
        return None if mean is None or math.isnan(mean) else mean

    def baseline(self, policy: str, *random: str) -> float | None:
        """Return the mean return of the agents of a policy in a match; None if there are none, or without such a match."""
        counts = {name: role.count for name, role in self.roles.items() if policy in role.policies}
        played = next((match.mean_return for match in self.matches if match.has(random)), None)
        if not counts or played is None:
            return None
        mean = sum(count * played[name] for name, count in counts.items()) / sum(counts.values())
        return None if math.isnan(mean) else mean


def save_matches(matches: Matches, run: Path) -> Path:
    """Write the file into a run's folder, and return its path.

    Raises:
        OSError: the file cannot be written; an earlier file is unchanged.
    """
    path, content = run / MATCHES_FILE, dataclasses.asdict(matches)
    for match in content["matches"]:
        for means in _MAY_BE_NAN:
            match[means] = {name: None if math.isnan(x) else x for name, x in match[means].items()}
    with atomic_file(path) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    return path


def read_matches(run: Path) -> Matches | None:
    """Return the matches in a run's folder; None if there is no such file.

    Raises:
        MetricsError: the file holds something else.
    """
    path = run / MATCHES_FILE
    if not path.exists():
        return None
    if not path.is_file():  # reading a pipe may block
        raise MetricsError(f"{path}: expected the matches of a run, got something that is no file")
    try:
        content: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
        roles = {name: RoleFacts(**role) for name, role in content["roles"].items()}
        played = [
            Match(**{**match, **{means: _means(match.get(means, {})) for means in _MAY_BE_NAN}}) for match in content["matches"]
        ]
        matches = Matches(**{**content, "roles": roles, "matches": played})
        for policy in {name for role in [*matches.learning, *roles] for name in roles[role].policies}:
            for match in matches.matches:
                matches.baseline(policy, *match.random)  # raises an error unless the returns are numbers
        return matches
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise MetricsError(f"{path}: expected the matches of a run, got {type(error).__name__}: {error}") from error


def _means(stored: Mapping[str, float | None]) -> dict[str, float]:
    return {name: math.nan if x is None else 0.0 + x for name, x in stored.items()}
