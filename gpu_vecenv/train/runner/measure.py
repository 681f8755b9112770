"""Means over one episode of each world, of the transitions that training counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gpu_vecenv.spec import params
from gpu_vecenv.train.errors import UnfinishedError
from gpu_vecenv.train.run_folder.intervals import mean_interval
from gpu_vecenv.train.run_folder.progress import Progress
from gpu_vecenv.train.runner.players import Players
from gpu_vecenv.train.storage.rollout import Rollout

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


@dataclass(frozen=True)
class Evaluation:
    """Means over one episode of each world, of the transitions that training counts.

    An agent counts from the first step to the one in which it leaves. An agent that is absent from an episode has none. If no
    agent of a role took part in any episode, its mean return and survival are NaN.
    """

    episodes: int
    """Number of worlds, each played for one episode."""
    mean_return: dict[str, float]
    """Role to the undiscounted return of an agent that took part."""
    mean_survival: dict[str, float]
    """Role to the steps that an agent that took part was alive."""
    mean_exits: dict[str, float]
    """Role to the agents of a world that left before the end of an episode; for Tag's runners these are the tags."""
    mean_length: float
    """Steps of an episode."""
    mean_metrics: dict[str, float] = field(default_factory=dict)
    """Metric of the env to its mean over the worlds in whose episode it was recorded; NaN without one."""
    metric_units: dict[str, str] = field(default_factory=dict)
    """Metric of the env to its unit."""
    episode_returns: dict[str, list[float]] = field(default_factory=dict)
    """Role to the mean return of its agents in each episode; NaN for an episode in which none took part."""
    return_interval: dict[str, float] = field(default_factory=dict)
    """Role to half the width of the 95 % interval of its mean return, by Student's t over the episodes, because agents of one
    episode are not independent; NaN with fewer than two episodes."""


MAX_STEPS = 10_000
"""Most steps of an episode by default, unless the env's time limit is longer."""

PIECE_STEPS, PIECE_TRANSITIONS = 16, 1 << 16
"""Most steps and most transitions of a piece of an evaluation. After each piece the host reads whether episodes still run. A
piece has at least one step."""


class Tally:
    """Sums over the first episode of each world, by row. Otherwise worlds with short episodes would count more often.

    Attributes:
        rows: rows whose first episode goes on.
        roles: rows of each role.
        worlds: number of worlds.
        steps: steps of each world that were added.
        metrics: metrics of the env.
        total, survival, length: return, steps alive and steps, float64 (R,).
        alive: bool (R,), alive after the last step.
        recorded: float32 (M, N), metrics of episodes; NaN where none was recorded.
        actions: actions of each piece on the host, one tensor (steps, n, ...) for each group; None if they are not kept.
    """

    def __init__(self, players: Players, keep_actions: bool = False):
        self.actions: list[list[Tensor]] | None = [] if keep_actions else None
        self.roles, self.worlds, self.steps = players.collector.env.role_rows, players.collector.env.num_worlds, 0
        device, self.rows = players.collector.env.device, players.collector.rollout.num_rows
        self._running, self.alive = torch.ones(2, self.rows, dtype=torch.bool, device=device)
        self.total, self.survival, self.length = torch.zeros(3, self.rows, dtype=torch.float64, device=device)
        self.metrics = players.collector.env.env_spec.metrics
        self.recorded = torch.full((len(self.metrics), self.worlds), math.nan, dtype=torch.float32, device=device)

    def add(self, piece: Rollout, valid: Tensor, steps: int) -> None:
        """Add the first steps of a piece.

        Args:
            piece: results of T steps.
            valid: bool (T, R), transitions that count.
            steps: number of steps to add, 1 to T.
        """
        ended, agent_alive = (piece.terminated | piece.truncated)[:steps], piece.agent_alive[:steps]
        first = self._running & (ended.cumsum(0, dtype=torch.int32) - ended.int() == 0)  # (steps, R), of the first episodes
        counts = first & valid[:steps]
        self.steps += steps
        for rewards in torch.where(counts, piece.reward[:steps], 0.0).double():
            self.total += rewards  # one step after the other, so that every device gives the same bits
        if self.actions is not None:
            self.actions.append([_on_host(slabs.action[:steps]) for slabs in piece.groups])
        self.survival += counts.sum(0)
        taken = first.sum(0)
        self.length += taken
        last = agent_alive.gather(0, (taken - 1).clamp(min=0).unsqueeze(0)).squeeze(0)
        self.alive = torch.where(self._running, last, self.alive)
        if self.metrics:
            self._record(piece, steps)
        self._running = self._running & ~ended.any(0)
        self.rows = int(self._running.sum())  # the one host sync of a piece

    def _record(self, piece: Rollout, steps: int) -> None:
        """Take the metrics of the first episodes that end in the first steps of a piece."""
        metrics, terminated, truncated = (x[..., :steps, :] for x in piece.metrics_of_worlds())
        ended = terminated | truncated
        last = ended.int().argmax(0)  # the first step in which an episode ended, if one did
        latest = metrics.gather(1, last.expand(len(metrics), 1, -1)).squeeze(1)
        now = self._running[piece.world_rows] & ended.any(0)
        self.recorded = torch.where(now, latest, self.recorded)


def _on_host(actions: Tensor) -> Tensor:
    """Return a copy of actions on the host, indices up to 255 as bytes."""
    small = not actions.is_floating_point() and int(actions.max()) < 256
    return (actions.to(torch.uint8) if small else actions).to("cpu", copy=True)


def means_of(tallies: Sequence[Tally]) -> Evaluation:
    """Return the means over the episodes of all tallies; episodes that go on count as far as they were played."""
    first = tallies[0]
    total, survival, alive, length = (
        [getattr(tally, name) for tally in tallies] for name in ("total", "survival", "alive", "length")
    )

    def by_episode(arrays: Sequence[Tensor], role: str) -> Tensor:
        """Return values of a role, (episodes, agents of the role)."""
        rows = first.roles[role]
        return torch.cat([array[rows].view(first.worlds, -1) for array in arrays])

    took_part = {role: by_episode(survival, role) > 0 for role in first.roles}
    returns = {
        role: (torch.where(part, by_episode(total, role), 0.0).sum(1) / part.sum(1)).tolist() for role, part in took_part.items()
    }
    units = {metric.name: metric.unit for metric in first.metrics}
    recorded = torch.cat([tally.recorded for tally in tallies], dim=1).nanmean(1, dtype=torch.float64).tolist()

    return Evaluation(
        episodes=len(tallies) * first.worlds,
        mean_return={role: by_episode(total, role)[part].mean().item() for role, part in took_part.items()},
        mean_survival={role: by_episode(survival, role)[part].mean().item() for role, part in took_part.items()},
        mean_exits={
            role: (part & ~by_episode(alive, role)).sum().item() / len(part) for role, part in took_part.items()
        },
        mean_length=torch.cat(length).mean().item(),
        mean_metrics=dict(zip(units, recorded, strict=True)),
        metric_units=units,
        episode_returns=returns,
        return_interval={role: _half_width(values) for role, values in returns.items()},
    )


def _half_width(values: Sequence[float]) -> float:
    """Return half the width of the 95 % interval of a mean, of the values that are no NaN; NaN with fewer than two."""
    known = [value for value in values if not math.isnan(value)]
    return mean_interval(known)[1] if len(known) > 1 else math.nan


def measure(
    players: Players,
    seed: int,
    deterministic: bool,
    display: Progress | None = None,
    max_steps: int | None = None,
    seeds: int = 1,
) -> Evaluation:
    """Return the means of what ``played()`` plays."""
    return means_of(played(players, seed, deterministic, display, max_steps, seeds))


def played(
    players: Players,
    seed: int,
    deterministic: bool,
    display: Progress | None = None,
    max_steps: int | None = None,
    seeds: int = 1,
    keep_actions: bool = False,
) -> list[Tally]:
    """Play one episode of every world, as often as there are seeds, and return the sums for each seed.

    Args:
        players: env and policies.
        seed: first seed of the worlds.
        deterministic: take the likeliest actions instead of draws.
        display: progress to show.
        max_steps: see ``evaluate()``.
        seeds: number of seeds.
        keep_actions: keep the actions in the sums.

    Raises:
        UnfinishedError: an episode did not end within ``max_steps``.
    """
    tallies: list[Tally] = []
    for number in range(seeds):
        players.collector.reset((seed + number) % 2**64)
        tallies.append(Tally(players, keep_actions))
        _play(players, tallies, deterministic, display, max_steps, seeds)
    return tallies


def _play(
    players: Players,
    tallies: Sequence[Tally],
    deterministic: bool,
    display: Progress | None,
    max_steps: int | None,
    seeds: int,
) -> None:
    """Play the episodes of the last tally; see ``measure()``."""
    env, tally, before = players.collector.env, tallies[-1], len(tallies) - 1
    worlds, limit, most = env.num_worlds, step_limit(env), most_steps(env, max_steps)
    while tally.rows:
        over = worlds - tally.rows // env.num_agents
        if tally.steps >= most:
            returns = ", ".join(f"{role} {value:.6g}" for role, value in means_of(tallies).mean_return.items())
            raise UnfinishedError(f"{too_long(most)}, got {over} of {worlds} that ended; mean return so far: {returns}. {LONGER}")
        piece = players.step(deterministic)
        tally.add(piece, players.valid(), min(piece.num_steps, most - tally.steps))
        if display is not None:
            over, done = worlds - tally.rows // env.num_agents, sum(each.steps for each in tallies) * worlds
            fraction = (before + min(1.0, max(over / worlds, tally.steps / limit))) / seeds  # the time limit bounds the steps
            over, total = over + before * worlds, worlds * seeds
            display.show(fraction, f"{over:,} of {total:,} episodes  {done:,} steps  {display.rate(done):,.0f} steps/s")


LONGER = (
    "Give the env a time limit, such as max_episode_steps, or play longer episodes: "
    "gpu-vecenv eval --max-steps (max_steps of evaluate() and play())."
)
"""Advice in errors about episodes that do not end."""


def too_long(steps: int) -> str:
    """Return the beginning of the error about episodes that are longer than a number of steps."""
    return f"expected episodes that end within {steps:,} steps"


def most_steps(env: GpuVectorEnv, max_steps: int | None) -> int:
    """Return the most steps of an episode: those given, or else 10,000, or the env's time limit if it is longer."""
    limit = step_limit(env)
    return max_steps or max(MAX_STEPS, int(limit) if limit < math.inf else 0)


def piece_steps(env: GpuVectorEnv) -> int:
    """Return the steps of a piece of an evaluation: fewer if the env has many rows, because a piece stores all of them."""
    return max(1, min(PIECE_STEPS, PIECE_TRANSITIONS // (env.num_worlds * env.num_agents)))


def step_limit(env: GpuVectorEnv) -> float:
    """Return the time limit of an episode in steps, the longest of all worlds; infinity if there is none."""
    return float(params.step_limit(getattr(env, "params", {})) or math.inf)
