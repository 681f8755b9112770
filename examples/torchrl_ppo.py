"""PPO on one of the single-agent environments with TorchRL's collector, advantages and loss, all on the env's device.

Proximal Policy Optimization (Schulman et al. 2017, arXiv:1707.06347) with generalised advantages (Schulman et al. 2015,
arXiv:1506.02438). ``python examples/torchrl_ppo.py`` solves CartPole.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
import tyro
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from gpu_vecenv.adapters.torchrl import TorchRLEnv


@dataclass
class Args:
    """Settings of the training."""

    env_id: str = "WarpCartPole-v1"
    """an id with one agent a world and discrete actions"""
    num_envs: int = 64
    """number of worlds"""
    total_steps: int = 400_000
    """steps of all worlds together"""
    device: str = "auto"
    """"auto", "cpu" or "cuda:0" """
    seed: int = 1
    """seed of worlds, weights and sampling"""

    num_steps: int = 64
    """steps of every world in a rollout"""
    num_epochs: int = 4
    """epochs, each a pass over the rollout"""
    num_minibatches: int = 8
    """minibatches of an epoch, one update each"""
    learning_rate: float = 2.5e-3
    """learning rate at the start; falls to 0 linearly"""
    gamma: float = 0.99
    """discount per step"""
    gae_lambda: float = 0.95
    """decay of generalised advantage estimation"""
    entropy_weight: float = 0.005
    """weight of the entropy bonus"""
    max_grad_norm: float = 0.5
    """longer gradients are scaled down to this norm"""
    eval_worlds: int = 64
    """worlds of the evaluation of the greedy policy, each played for one episode"""
    eval_steps: int = 500
    """steps of the longest episode"""


def train(args: Args) -> dict[str, float]:
    """Train, and evaluate the greedy policy.

    Returns:
        mean_return: mean return of the evaluation.
        rows_per_second: steps of all worlds in a second of training.
    """
    torch.manual_seed(args.seed)
    env = TorchRLEnv(args.env_id, args.num_envs, device=args.device)
    env.set_seed(args.seed)
    features = env.observation_spec["observation"].shape[-1]
    network = MLP(features, env.action_spec.n, num_cells=[64, 64], activation_class=nn.Tanh, device=env.device)
    actor = ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=Categorical,
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(features, 1, num_cells=[64, 64], activation_class=nn.Tanh, device=env.device))
    advantage = GAE(gamma=args.gamma, lmbda=args.gae_lambda, value_network=critic, average_gae=True)
    loss = ClipPPOLoss(actor, critic, entropy_coeff=args.entropy_weight, critic_coeff=0.5)
    optimizer = torch.optim.Adam(loss.parameters(), args.learning_rate, eps=1e-5)
    batch = args.num_envs * args.num_steps
    rollouts = max(1, args.total_steps // batch)
    collector = Collector(
        env, actor, frames_per_batch=batch, total_frames=rollouts * batch, device=env.device,
        auto_register_policy_transforms=False,
    )

    start = time.perf_counter()
    for number, data in enumerate(collector):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - number / rollouts)
        for _ in range(args.num_epochs):
            with torch.no_grad():
                advantage(data)
            rows = data.reshape(-1)
            for index in torch.randperm(batch, device=env.device).chunk(args.num_minibatches):
                losses = loss(rows[index])
                optimizer.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), args.max_grad_norm)
                optimizer.step()
    if env.device.type == "cuda":
        torch.cuda.synchronize(env.device)
    seconds = time.perf_counter() - start
    collector.shutdown()

    eval_env = TorchRLEnv(args.env_id, args.eval_worlds, device=args.device)
    eval_env.set_seed(args.seed + 1)
    result = {"mean_return": episode_return(eval_env, actor, args.eval_steps), "rows_per_second": rollouts * batch / seconds}
    eval_env.close()
    return result


def episode_return(env: EnvBase, actor: nn.Module, steps: int) -> float:
    """Return the mean return of each world's first episode, of at most ``steps`` steps."""
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        data = env.rollout(steps, actor, break_when_any_done=False)
    done = data["next", "done"].int()
    first_episode = done.cumsum(1) - done == 0
    return float((data["next", "reward"] * first_episode).sum(1).mean())


if __name__ == "__main__":
    print(train(tyro.cli(Args)))
