"""skrl's PPO on CartPole: trainer, agent and models are skrl's; only the line that makes the env differs.

``python examples/skrl_ppo.py``; curves: ``tensorboard --logdir runs``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import gymnasium
import torch
import tyro
from skrl.agents.torch.ppo import PPO
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn

import gpu_vecenv  # noqa: F401  registers the ids
from gpu_vecenv import EpisodeStatistics
from gpu_vecenv.adapters.skrl import SkrlEnv, with_final_observations


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
    run_dir: str = "runs/skrl_ppo"
    """folder of skrl's TensorBoard curves"""
    num_steps: int = 64
    """steps of every world in a rollout"""
    learning_rate: float = 2.5e-3
    """learning rate of policy and value"""
    eval_episodes: int = 256
    """episodes of the greedy policy after training"""


def network(inputs: int, outputs: int) -> nn.Sequential:
    """Build a network with two hidden layers."""
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


class Policy(CategoricalMixin, Model):
    """Logits of the actions."""

    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        self.net = network(self.num_observations, self.num_actions)

    def compute(self, inputs: dict[str, torch.Tensor], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return logits (rows, actions)."""
        return self.net(inputs["observations"]), {}


class Value(DeterministicMixin, Model):
    """Expected discounted return."""

    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = network(self.num_observations, 1)

    def compute(self, inputs: dict[str, torch.Tensor], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return values (rows, 1)."""
        return self.net(inputs["observations"]), {}


@torch.no_grad()
def evaluate(policy: Policy, args: Args) -> float:
    """Return the mean return of every world's first episode, with the likeliest actions."""
    env = EpisodeStatistics(gymnasium.make_vec("WarpCartPole-v1", num_envs=args.eval_episodes, device=args.device))
    obs, _ = env.reset(seed=args.seed + 1_000_000)
    returns = torch.zeros(env.num_envs, device=obs.device)
    running = torch.ones(env.num_envs, dtype=torch.bool, device=obs.device)
    while running.any():
        obs, _, _, _, info = env.step(policy.net(obs).argmax(-1))
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
    set_seed(args.seed)
    env = SkrlEnv(gymnasium.make_vec("WarpCartPole-v1", num_envs=args.num_envs, device=args.device))
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": env.device}
    policy = Policy(**spaces)
    agent = with_final_observations(PPO)(
        models={"policy": policy, "value": Value(**spaces)},
        memory=RandomMemory(memory_size=args.num_steps, num_envs=env.num_envs, device=env.device),
        cfg={
            "rollouts": args.num_steps,
            "learning_epochs": 4,
            "mini_batches": 8,
            "learning_rate": args.learning_rate,
            "entropy_loss_scale": 0.005,
            "value_loss_scale": 0.5,
            "time_limit_bootstrap": True,
            "experiment": {"directory": args.run_dir, "checkpoint_interval": 0},
        },
        **spaces,
    )
    timesteps = args.total_steps // args.num_envs
    cfg = {"timesteps": timesteps, "headless": True, "disable_progressbar": None, "close_environment_at_exit": False}
    trainer = SequentialTrainer(env=env, agents=agent, cfg=cfg)
    started = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - started
    env.close()
    return {"mean_return": evaluate(policy, args), "rows_per_second": timesteps * args.num_envs / seconds}


if __name__ == "__main__":
    print(train(tyro.cli(Args)))
