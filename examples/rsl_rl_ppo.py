"""rsl_rl's PPO on the pendulum: runner and configuration are rsl_rl's; only the line that makes the env differs.

``python examples/rsl_rl_ppo.py``; curves: ``tensorboard --logdir runs``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import gymnasium
import torch
import tyro
from gymnasium.wrappers.vector import TransformReward
from rsl_rl.runners import OnPolicyRunner

import gpu_vecenv  # noqa: F401  registers the ids
from gpu_vecenv.adapters.rsl_rl import RslRlEnv


@dataclass
class Args:
    """Settings of the training."""

    num_envs: int = 64
    """number of worlds"""
    total_steps: int = 250_000
    """steps of all worlds together"""
    device: str = "auto"
    """"auto", "cpu" or "cuda:0" """
    seed: int = 1
    """seed of worlds, weights and sampling"""
    run_dir: str = "runs/rsl_rl_ppo"
    """folder of rsl_rl's TensorBoard curves and checkpoints"""
    num_steps: int = 64
    """steps of every world in a rollout"""
    reward_scale: float = 0.1
    """factor of rewards in training, so that values are of the order of 1"""
    eval_episodes: int = 256
    """episodes without noise after training"""


def configuration(args: Args) -> dict[str, Any]:
    """Return the runner's configuration."""
    network = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "tanh"}
    return {
        "num_steps_per_env": args.num_steps,
        "save_interval": 1_000_000,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**network, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
        "critic": dict(network),
        "algorithm": {
            "class_name": "PPO",
            "gamma": 0.95,
            "lam": 0.95,
            "learning_rate": 2e-3,
            "schedule": "adaptive",
            "desired_kl": 0.02,
            "num_learning_epochs": 10,
            "num_mini_batches": 8,
            "entropy_coef": 0.0,
        },
    }


@torch.inference_mode()
def evaluate(runner: OnPolicyRunner, args: Args) -> float:
    """Return the mean return of every world's first episode, without noise."""
    inner = gymnasium.make_vec("WarpPendulum-v1", num_envs=args.eval_episodes, device=args.device)
    env = RslRlEnv(inner, seed=args.seed + 1_000_000)
    policy, obs = runner.get_inference_policy(env.device), env.get_observations()
    returns = torch.zeros(env.num_envs, device=env.device)
    for _ in range(env.max_episode_length):  # only the time limit ends an episode
        obs, rewards, _, _ = env.step(policy(obs))
        returns += rewards
    env.close()
    return returns.mean().item()


def train(args: Args) -> dict[str, float]:
    """Train from scratch.

    Returns:
        ``mean_return`` without noise, and ``rows_per_second``, steps of worlds in a second of training.
    """
    torch.manual_seed(args.seed)
    inner = gymnasium.make_vec("WarpPendulum-v1", num_envs=args.num_envs, device=args.device)
    env = RslRlEnv(TransformReward(inner, lambda reward: args.reward_scale * reward), seed=args.seed)
    runner = OnPolicyRunner(env, configuration(args), log_dir=args.run_dir, device=env.device)
    iterations = max(1, args.total_steps // (args.num_envs * args.num_steps))
    started = time.perf_counter()
    runner.learn(iterations, init_at_random_ep_len=True)
    seconds = time.perf_counter() - started
    env.close()
    return {"mean_return": evaluate(runner, args), "rows_per_second": iterations * args.num_steps * args.num_envs / seconds}


if __name__ == "__main__":
    print(train(tyro.cli(Args)))
