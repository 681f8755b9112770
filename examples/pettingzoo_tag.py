"""A game of Tag through PettingZoo's API: taggers that chase the nearest runner, compared with random taggers.

This example trains no policy. PettingZoo's API has one world, which is enough to watch, test or evaluate policies that were
trained in many worlds. ``python examples/pettingzoo_tag.py``
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tyro

from gpu_vecenv.adapters.pettingzoo import PettingZooEnv

GAME = {
    "num_taggers": 3,
    "num_runners": 10,
    "grid_length": 10.0,
    "episode_length": 100,
    "max_speed": 0.5,
    "tagging_distance": 0.03,
    "extended_observation": True,  # the observer's own heading
    "continuous_actions": True,  # (change of acceleration, turn)
}
FULL_TURN = 2 * np.pi


@dataclass
class Args:
    """Settings of the games."""

    episodes: int = 20
    """number of games"""
    device: str = "cpu"
    """the CPU is the fastest device for one world"""
    seed: int = 1
    """seed of the world and of random actions"""


def play(args: Args) -> dict[str, float]:
    """Play the games with chasing taggers, then with random taggers; runners always act at random.

    Returns:
        mean_return: mean return of a chasing tagger.
        random_return: mean return of a random tagger.
        rows_per_second: steps of agents in a second of the chasing games.
    """
    env = PettingZooEnv("WarpTag-v0", device=args.device, **GAME)
    start = time.perf_counter()
    mean_return, rows = tagger_return(env, args, chase)
    seconds = time.perf_counter() - start
    random_return, _ = tagger_return(env, args, None)
    env.close()
    return {"mean_return": mean_return, "random_return": random_return, "rows_per_second": rows / seconds}


def tagger_return(env: PettingZooEnv, args: Args, policy: Callable[[np.ndarray], np.ndarray] | None) -> tuple[float, int]:
    """Return the mean return of a tagger, and the steps of all agents together."""
    total, rows = 0.0, 0
    for i, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(args.seed + i)
    for episode in range(args.episodes):
        observations, _ = env.reset(seed=args.seed + episode)
        while env.agents:
            actions = {agent: env.action_space(agent).sample() for agent in env.agents}
            if policy is not None:
                actions |= {agent: policy(observations[agent]) for agent in env.agents if agent.startswith("tagger")}
            observations, rewards, _, _, _ = env.step(actions)
            total += sum(reward for agent, reward in rewards.items() if agent.startswith("tagger"))
            rows += len(rewards)
    return total / args.episodes / GAME["num_taggers"], rows


def chase(observation: np.ndarray) -> np.ndarray:
    """Return the action of a tagger: full speed towards the nearest runner."""
    x, y, _, _, _, is_tagger, is_alive = observation[:-7].reshape(7, -1)
    heading = observation[-2] * FULL_TURN
    nearest = np.flatnonzero((is_tagger == 0) & (is_alive == 1))[:1]  # agents are sorted by distance
    if not len(nearest):
        return np.array([1.0, 0.0], np.float32)
    turn = float(np.arctan2(y[nearest[0]], x[nearest[0]]) - heading)
    return np.array([1.0, (turn + np.pi) % FULL_TURN - np.pi], np.float32)


if __name__ == "__main__":
    print(play(tyro.cli(Args)))
