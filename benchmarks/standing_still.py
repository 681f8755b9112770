"""How unsolved episodes of foraging end with likeliest actions: ``python benchmarks/standing_still.py runs/foraging``.

Plays one episode in each of some worlds with the run's policy, as ``gpu-vecenv eval --deterministic`` does, and prints the share
of episodes that do not end by themselves, of these the share in which no player moves at the end, and what the players of these
try. Beside it are the probabilities of likeliest actions, and how often a step of draws changes such a state.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpu_vecenv.train import Run  # noqa: E402

LOAD = 5
WAYS = torch.tensor([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1], [0, 0]])
"""Rows and columns that an action moves a player."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    run: tyro.conf.Positional[Path]
    """Folder of a run of foraging with two players and a policy without a memory."""
    episodes: int = 2_048
    """Number of worlds, each played for one episode."""
    draws: int = 200
    """Draws from which probabilities are estimated."""
    seed: int = 5
    """Seed of the worlds."""


def tries(place: Tensor, others: Tensor, action: int, other_action: int, food: Tensor) -> str:
    """Return what a player tries.

    Args:
        place: (2,) row and column of the player.
        others: (2,) those of the other player.
        action: action of the player.
        other_action: that of the other player.
        food: (rows, cols) levels.
    """
    to, other_to = place + WAYS[action], others + WAYS[other_action]
    if action == LOAD:
        near = [place + way for way in WAYS[1:LOAD]]
        return "loads" if any(_on(food, cell) and food[tuple(cell)] > 0 for cell in near) else "loads where no food is"
    if action == 0:
        return "does nothing"
    if not _on(food, to):
        return "pushes against the wall"
    if food[tuple(to)] > 0:
        return "pushes against the food"
    if torch.equal(to, others):
        return "pushes against the other"
    return "wants the cell that the other wants" if torch.equal(to, other_to) else "goes"


def _on(board: Tensor, cell: Tensor) -> bool:
    return bool((cell >= 0).all() and (cell < torch.tensor(board.shape)).all())


def shares(policy: Any, obs: Tensor, draws: int) -> Tensor:
    """Return the shares of actions among draws, (..., actions), of observations (..., features)."""
    counts = torch.zeros(*obs.shape[:-1], len(WAYS))
    for _ in range(draws):
        counts.scatter_add_(-1, policy.act(obs)[0].long()[..., None], torch.ones(*obs.shape[:-1], 1))
    return counts / draws


def changed(env: Any, state: dict[str, Tensor], action: Tensor) -> Tensor:
    """Return for each world if actions in a state move a player or load food, (worlds,)."""
    env.reset()
    env.set_state(state)
    env.step(action)
    after = env.get_state()
    return torch.stack([(after[name] != state[name]).flatten(1).any(1) for name in ("player_pos", "food")]).any(0)


def main(options: Options) -> None:
    """Play, and print the shares."""
    run = Run(options.run)
    policy = run.policy("agent", device="cpu")
    env = run.make_env(num_worlds=options.episodes, view="worlds", device="cpu", autoreset_mode="disabled")
    obs, _ = env.reset(seed=options.seed)
    first, unsolved, places = obs.clone(), torch.ones(options.episodes, dtype=torch.bool), []
    over = torch.zeros(options.episodes, dtype=torch.bool)
    while not bool((over & unsolved).any()):
        last_obs, state = obs.clone(), {name: value.clone() for name, value in env.get_state().items()}
        places = [*places[-1:], state["player_pos"]]
        action = policy.act(obs, deterministic=True)[0]
        obs, _, solved, over, _ = env.step(action)
        unsolved &= ~solved
        if bool((solved | over).any()) and not bool((over & unsolved).any()):
            obs, _ = env.reset(options={"reset_mask": solved | over})
    still = unsolved & (places[0] == places[1]).flatten(1).all(1)
    print(f"{unsolved.float().mean():.3f} of {options.episodes} episodes do not end by themselves.")
    print(f"In {still.sum() / unsolved.sum():.3f} of these no player moves in the last step. These players try:")
    kinds: Counter[tuple[str, ...]] = Counter()
    for world in still.nonzero()[:, 0].tolist():
        place, acts, food = state["player_pos"][world].long(), action[world].tolist(), state["food"][world]
        kinds[tuple(sorted(tries(place[i], place[1 - i], acts[i], acts[1 - i], food) for i in (0, 1)))] += 1
    for (one, other), times in kinds.most_common():
        print(f"  {times / still.sum():.3f}  one {one}, one {other}")
    likeliest = [shares(policy, rows, options.draws).amax(-1).mean() for rows in (last_obs[still], first)]
    print(f"probability of the likeliest action: {likeliest[0]:.2f}, in first steps {likeliest[1]:.2f}")
    by_draws = torch.stack([changed(env, state, policy.act(last_obs)[0])[still].float().mean() for _ in range(20)]).mean()
    print(f"a step of draws changes {by_draws:.2f} of these states")


if __name__ == "__main__":
    main(tyro.cli(Options))
