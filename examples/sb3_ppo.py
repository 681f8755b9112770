"""Stable-Baselines3's PPO on worlds of this package.

``python examples/sb3_ppo.py`` solves CartPole. ``--gpu-rollout`` keeps rollouts on the env's device; plain PPO copies
every observation and reward to the host. Pendulum: ``--env-id WarpPendulum-v1 --num-envs 16
--n-steps 128 --num-minibatches 16 --learning-rate 2e-3 --gamma 0.9``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import tyro
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

from gpu_vecenv.adapters.sb3 import Sb3VecEnv
from gpu_vecenv.adapters.sb3_gpu import GpuPPO


@dataclass
class Args:
    """Settings of the training. Names of SB3 have SB3's meaning."""

    env_id: str = "WarpCartPole-v1"
    """an id with one agent a world"""
    num_envs: int = 64
    """number of worlds"""
    total_steps: int = 200_000
    """steps of all worlds together"""
    device: str = "auto"
    """"auto", "cpu" or "cuda:0", of env and policy"""
    seed: int = 1
    """seed of worlds, weights and sampling"""
    gpu_rollout: bool = False
    """keep rollouts on the device"""

    n_steps: int = 32
    """steps of every world in a rollout"""
    n_epochs: int = 10
    """epochs, each a pass over the rollout"""
    num_minibatches: int = 4
    """minibatches of an epoch, one update each"""
    learning_rate: float = 1e-3
    """learning rate at the start; falls to 0 linearly"""
    gamma: float = 0.98
    """discount per step"""
    gae_lambda: float = 0.9
    """decay of generalised advantage estimation"""
    eval_episodes: int = 64
    """episodes of the evaluation at the end, with the likeliest actions"""
    verbose: int = 0
    """1 prints SB3's tables"""


def train(args: Args) -> dict[str, float]:
    """Train and evaluate.

    Returns:
        ``mean_return`` of the evaluation, and ``rows_per_second``, steps of all worlds in a second of training.
    """
    env = Sb3VecEnv(args.env_id, num_envs=args.num_envs, device=args.device)
    algorithm = GpuPPO if args.gpu_rollout else PPO
    model = algorithm(
        "MlpPolicy",
        env,
        n_steps=args.n_steps,
        batch_size=args.num_envs * args.n_steps // args.num_minibatches,
        n_epochs=args.n_epochs,
        learning_rate=lambda remaining: args.learning_rate * remaining,
        gamma=args.gamma,
        gae_lambda=args.gae_lambda,
        seed=args.seed,
        device=env.device,
        verbose=args.verbose,
    )
    start = time.perf_counter()
    model.learn(args.total_steps)
    seconds = time.perf_counter() - start
    mean_return, _ = evaluate_policy(model, env, n_eval_episodes=args.eval_episodes)
    env.close()
    return {"mean_return": float(mean_return), "rows_per_second": model.num_timesteps / seconds}


if __name__ == "__main__":
    print(train(tyro.cli(Args)))
