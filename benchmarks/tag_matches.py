"""Plays Tag with the snapshots of ``benchmarks/tag_training.py``: ``python benchmarks/tag_matches.py OPTIONS.json``.

All matches are played in this package's env, so that one piece of code measures the policies of both libraries. WarpDrive's
agents observe the same numbers in the same order. Actions are drawn from the policies. Every world counts with one episode.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

from tag_training import ROLES, WARPDRIVE  # noqa: E402

from gpu_vecenv.train import TrainConfig  # noqa: E402
from gpu_vecenv.train.config import resolve  # noqa: E402
from gpu_vecenv.train.policies.contract import Actor, Draw, Inputs  # noqa: E402
from gpu_vecenv.train.policies.draw import draw_choices  # noqa: E402
from gpu_vecenv.train.policies.random import RandomPolicy  # noqa: E402
from gpu_vecenv.train.runner.build import make_env  # noqa: E402
from gpu_vecenv.train.runner.measure import measure, piece_steps  # noqa: E402
from gpu_vecenv.train.runner.players import Players  # noqa: E402

RANDOM = "random"
OWN_FEATURES = 6
"""Features that ``extended_observation`` appends."""
SEED = 271_828
"""Seed of the draws of matches."""


@dataclass(frozen=True)
class Options:
    """The policies that play, and the number of episodes."""

    files: list[str]
    """Files of runs. Of one file all snapshots play, of several the last one of each."""
    worlds: int
    """Worlds, each played for one episode."""
    device: str
    """``cuda:0`` or ``cpu``."""
    out: str
    """JSON file of the results."""


class WarpDriveNetwork(nn.Module):
    """The network of WarpDrive's ``fully_connected`` model, from its weights: ReLU layers, and a linear layer for each entry."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        """Read the layers.

        Args:
            weights: the model's ``state_dict()``.
        """
        super().__init__()
        hidden = sorted({int(name.split(".")[1]) for name in weights if name.startswith("fc.")})
        entries = sorted({int(name.split(".")[1]) for name in weights if name.startswith("policy_head.")})
        self.hidden = nn.ModuleList(_linear(weights, f"fc.{number}.0") for number in hidden)
        self.entries = nn.ModuleList(_linear(weights, f"policy_head.{number}") for number in entries)
        self.choices = tuple(len(weights[f"policy_head.{number}.bias"]) for number in entries)
        self.features = weights["fc.0.0.weight"].shape[1]

    def forward(self, obs: Tensor) -> Tensor:
        """Return the logits of all entries side by side."""
        for layer in self.hidden:
            obs = layer(obs).relu()
        return torch.cat([layer(obs) for layer in self.entries], -1)


def _linear(weights: Mapping[str, Tensor], name: str) -> nn.Linear:
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer


class WarpDrivePlayer:
    """Draws actions from WarpDrive's network."""

    state_shape = None
    """Neither player keeps a state from step to step, see ``Policy``."""

    def __init__(self, weights: Mapping[str, Tensor], device: str) -> None:
        """Build the network on a device."""
        self.network = WarpDriveNetwork(weights).to(device)

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """See ``Actor.act()``."""
        assert isinstance(inputs.obs, Tensor)
        logits = self.network(inputs.obs[:, : self.network.features])
        action, log_prob, _ = draw_choices(logits, self.network.choices, draw, deterministic=deterministic, out=draw.out)
        return action, log_prob


class OurPlayer:
    """A policy of this package that observes the first features alone."""

    state_shape = None

    def __init__(self, policy: nn.Module, device: str) -> None:
        """Take the policy."""
        self.policy: Any = policy.to(device)
        self.features = self.policy.group.observation.shape[0]

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """See ``Actor.act()``."""
        assert isinstance(inputs.obs, Tensor)
        obs = inputs.obs[:, : self.features].contiguous()
        action, log_prob = self.policy.act(inputs._replace(obs=obs), draw, deterministic)
        return action, log_prob


def player(run: Mapping[str, Any], snapshot: Mapping[str, Any], role: str, device: str) -> Actor:
    """Return the actor of a role in a snapshot."""
    policy = snapshot["policies"][role]
    return WarpDrivePlayer(policy, device) if run["job"]["library"] == WARPDRIVE else OurPlayer(policy, device)


class Arena:
    """The game of a run's agents, for any players."""

    def __init__(self, game: Mapping[str, Any], worlds: int, device: str) -> None:
        """Make the env, whose observations have all features.

        Args:
            game: parameters of Tag.
            worlds: episodes of a match.
            device: ``cuda:0`` or ``cpu``.
        """
        parameters = {**game, "extended_observation": True}
        self.env = make_env(resolve(TrainConfig("WarpTag-v0", device=device, env_kwargs=parameters)), worlds)

    def close(self) -> None:
        """Close the env."""
        self.env.close()

    def play(self, taggers: Actor | None, runners: Actor | None) -> dict[str, float]:
        """Play one episode in each world; None acts at random.

        Returns:
            ``caught``: runners that were tagged; ``survival``: steps that a runner stayed in the game; ``return_tagger`` and
            ``return_runner``: returns of an agent. All are means.
        """
        (group,) = self.env.layout.groups
        actors = {role: actor or RandomPolicy(group) for role, actor in zip(ROLES, (taggers, runners), strict=True)}
        result = measure(Players(self.env, None, actors, piece_steps(self.env)), SEED, deterministic=False)
        returns = {f"return_{role}": result.mean_return[role] for role in ROLES}
        return {"caught": result.mean_exits["runner"], "survival": result.mean_survival["runner"], **returns}


def curve(run: Mapping[str, Any], worlds: int, device: str) -> list[dict[str, Any]]:
    """Play all snapshots of a run, each role against random opponents.

    Returns:
        For each snapshot its ``seconds``, ``iterations`` and ``steps``, and the results of ``taggers`` and ``runners``.
    """
    with closing(Arena(run["game"], worlds, device)) as arena:
        points = []
        for snapshot in run["snapshots"]:
            taggers, runners = (player(run, snapshot, role, device) for role in ROLES)
            when = {name: snapshot[name] for name in ("seconds", "iterations", "steps")}
            points.append({**when, "taggers": arena.play(taggers, None), "runners": arena.play(None, runners)})
        return points


def tournament(runs: Mapping[str, Mapping[str, Any]], worlds: int, device: str) -> list[dict[str, Any]]:
    """Let the last taggers of each run play against the last runners of each, and random ones against all."""
    teams: dict[str, dict[str, Actor | None]] = {RANDOM: dict.fromkeys(ROLES)}
    for name, run in runs.items():
        teams[name] = {role: player(run, run["snapshots"][-1], role, device) for role in ROLES}
    with closing(Arena(next(iter(runs.values()))["game"], worlds, device)) as arena:
        return [
            {"taggers": taggers, "runners": runners, **arena.play(teams[taggers]["tagger"], teams[runners]["runner"])}
            for taggers in teams
            for runners in teams
        ]


def main(path: str) -> None:
    """Play, and write the results."""
    options = Options(**json.loads(Path(path).read_text()))
    runs = [torch.load(file, weights_only=False) for file in options.files]
    with torch.no_grad():
        if len(runs) == 1:
            played: Any = curve(runs[0], options.worlds, options.device)
        else:
            played = tournament({run["job"]["name"]: run for run in runs}, options.worlds, options.device)
    Path(options.out).write_text(json.dumps(played))


if __name__ == "__main__":
    main(sys.argv[1])
