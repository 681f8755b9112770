"""Stable-Baselines3's PPO on a small game of Tag: one role learns, the other plays at random.

An env of SB3 has one agent, so each tagger of each world is an env of SB3, and all share one policy.
``python examples/sb3_tag.py`` trains the taggers, ``--role runner`` the runners; ``--gpu-rollout`` keeps rollouts on the env's
device.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import tyro
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

from gpu_vecenv.adapters.sb3 import Sb3VecEnv
from gpu_vecenv.adapters.sb3_gpu import GpuPPO

GAME = {
    "num_taggers": 3,
    "num_runners": 10,
    "grid_length": 10.0,
    "episode_length": 100,
    "max_speed": 0.5,
    "tagging_distance": 0.03,
    "num_acceleration_levels": 2,
    "num_turn_levels": 2,
    "num_other_agents_observed": 12,
}
"""Parameters of WarpTag-v0: a game in which random taggers have low returns."""


@dataclass
class Args:
    """Settings of the training. Names of SB3 have SB3's meaning."""

    role: str = "tagger"
    """role that learns: "tagger" or "runner"; the other acts at random"""
    num_envs: int = 64
    """number of worlds"""
    total_steps: int = 600_000
    """steps of all agents of the role together"""
    device: str = "auto"
    """"auto", "cpu" or "cuda:0", of env and policy"""
    seed: int = 1
    """seed of worlds, weights and sampling"""
    gpu_rollout: bool = False
    """keep rollouts on the device"""

    n_steps: int = 50
    """steps of every world in a rollout"""
    n_epochs: int = 4
    """epochs, each a pass over the rollout"""
    num_minibatches: int = 8
    """minibatches of an epoch, one update each"""
    learning_rate: float = 5e-3
    """learning rate at the start; falls to 0 linearly"""
    gamma: float = 0.97
    """discount per step"""
    verbose: int = 0
    """1 prints SB3's tables"""


class RandomPlay:
    """Random actions with the ``predict()`` of a model, for SB3's ``evaluate_policy()``."""

    def __init__(self, env: Sb3VecEnv) -> None:
        self.env = env

    def predict(self, observation: np.ndarray, *_: Any, **__: Any) -> tuple[np.ndarray, None]:
        """Return a random action for each row."""
        return np.array([self.env.action_space.sample() for _ in observation]), None


def train(args: Args) -> dict[str, float]:
    """Train and evaluate.

    Returns:
        ``mean_return`` of an agent of the role over one episode in each world, ``random_return`` of an agent of the role that
        acts at random, and ``rows_per_second``, steps of agents of the role in a second of training.
    """
    env = Sb3VecEnv("WarpTag-v0", num_worlds=args.num_envs, role=args.role, device=args.device, **GAME)
    algorithm = GpuPPO if args.gpu_rollout else PPO
    model = algorithm(
        "MlpPolicy",
        env,
        n_steps=args.n_steps,
        batch_size=env.num_envs * args.n_steps // args.num_minibatches,
        n_epochs=args.n_epochs,
        learning_rate=lambda remaining: args.learning_rate * remaining,
        gamma=args.gamma,
        seed=args.seed,
        device=env.device,
        verbose=args.verbose,
    )
    start = time.perf_counter()
    model.learn(args.total_steps)
    seconds = time.perf_counter() - start
    env.seed(args.seed)
    mean_return, _ = evaluate_policy(model, env, n_eval_episodes=env.num_envs, deterministic=False)
    env.seed(args.seed)
    random_return, _ = evaluate_policy(RandomPlay(env), env, n_eval_episodes=env.num_envs)
    env.close()
    return {
        "mean_return": float(mean_return),
        "random_return": float(random_return),
        "rows_per_second": model.num_timesteps / seconds,
    }


if __name__ == "__main__":
    print(train(tyro.cli(Args)))
