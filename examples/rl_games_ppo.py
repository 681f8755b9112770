"""rl_games' PPO on CartPole: one of its configurations, with an id of this package as ``env_name``.

``python examples/rl_games_ppo.py``; curves: ``tensorboard --logdir runs``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import gymnasium
import torch
import tyro
from rl_games.common.algo_observer import DefaultAlgoObserver
from rl_games.torch_runner import Runner

import gpu_vecenv  # noqa: F401  registers the ids
from gpu_vecenv import EpisodeStatistics
from gpu_vecenv.adapters.rl_games import register
from gpu_vecenv.backend.select import choose_device


@dataclass
class Args:
    """Settings of the training."""

    num_envs: int = 64
    """number of worlds"""
    total_steps: int = 400_000
    """steps of all worlds together"""
    device: str = "auto"
    """"auto", "cpu" or "cuda:0" """
    seed: int = 1
    """seed of worlds, weights and sampling"""
    run_dir: str = "runs/rl_games_ppo"
    """folder of rl_games' TensorBoard curves and checkpoints"""
    num_steps: int = 64
    """steps of every world in a rollout"""
    learning_rate: float = 1e-3
    """learning rate of policy and value"""
    eval_episodes: int = 256
    """episodes of the greedy policy after training"""


def configuration(args: Args) -> dict[str, Any]:
    """Return the configuration, which rl_games usually reads from a YAML file."""
    device = choose_device(args.device)
    network = {
        "name": "actor_critic",
        "separate": True,
        "space": {"discrete": {}},
        "mlp": {"units": [64, 64], "activation": "tanh", "initializer": {"name": "default"}, "regularizer": {"name": "None"}},
    }
    config = {
        "name": "cartpole",
        "env_name": "WarpCartPole-v1",
        "env_config": {"device": device},
        "device": device,
        "num_actors": args.num_envs,
        "horizon_length": args.num_steps,
        "minibatch_size": args.num_envs * args.num_steps // 8,
        "mini_epochs": 4,
        "max_epochs": max(1, args.total_steps // (args.num_envs * args.num_steps)),
        "learning_rate": args.learning_rate,
        "lr_schedule": "linear",
        "gamma": 0.99,
        "tau": 0.95,
        "e_clip": 0.2,
        "clip_value": False,
        "entropy_coef": 0.005,
        "critic_coef": 1.0,
        "grad_norm": 0.5,
        "truncate_grads": True,
        "normalize_advantage": True,
        "normalize_input": False,
        "normalize_value": True,
        "reward_shaper": {"scale_value": 1.0},
        "kl_threshold": 0.008,
        "train_dir": args.run_dir,
        "torch_compile": False,
    }
    names = {"algo": {"name": "a2c_discrete"}, "model": {"name": "discrete_a2c"}, "network": network}
    return {"params": {"seed": args.seed, "torch_threads": 0, "config": config, **names}}


@torch.no_grad()
def evaluate(agent: Any, args: Args) -> float:
    """Return the mean return of every world's first episode, with the likeliest actions."""
    env = EpisodeStatistics(gymnasium.make_vec("WarpCartPole-v1", num_envs=args.eval_episodes, device=args.device))
    obs, _ = env.reset(seed=args.seed + 1_000_000)
    returns = torch.zeros(env.num_envs, device=obs.device)
    running = torch.ones(env.num_envs, dtype=torch.bool, device=obs.device)
    while running.any():
        logits = agent.get_action_values({"obs": obs})["logits"]
        obs, _, _, _, info = env.step(logits.argmax(-1))
        first = running & info["_episode"]
        returns[first] = info["episode"]["r"][first]
        running &= ~first
    env.close()
    return returns.mean().item()


def train(args: Args) -> dict[str, float]:
    """Train from scratch.

    Returns:
        ``mean_return`` of the greedy policy, and ``rows_per_second``, steps of worlds in a second of training.
    """
    register("WarpCartPole-v1")
    observer = DefaultAlgoObserver()
    runner = Runner(observer)
    runner.load(configuration(args))
    started = time.perf_counter()
    runner.run({"train": True, "play": False})
    seconds = time.perf_counter() - started
    agent = observer.algo
    agent.vec_env.close()
    return {"mean_return": evaluate(agent, args), "rows_per_second": agent.frame / seconds}


if __name__ == "__main__":
    print(train(tyro.cli(Args)))
