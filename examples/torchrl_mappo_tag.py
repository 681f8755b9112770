"""MAPPO on a small game of Tag with TorchRL: both sides learn, each with a policy its agents share and a central critic.

Multi-agent PPO (Yu et al. 2022, arXiv:2103.01955). Roles are TorchRL groups. Runners leave the game when they are tagged: for
them the episode ends there, and their rows count no more. ``python examples/torchrl_mappo_tag.py``
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
import tyro
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import MLP, MultiAgentMLP, ProbabilisticActor
from torchrl.objectives import MAPPOLoss
from torchrl.objectives.value import MultiAgentGAE

from gpu_vecenv.adapters.torchrl import TorchRLEnv

# A step is shorter than the reach of a tagger is wide: who keeps a course sweeps ground, which a random walk does not.
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
    "flatten_actions": True,
}


@dataclass
class Args:
    """How to train."""

    num_envs: int = 64
    """worlds"""
    total_steps: int = 1_300_000
    """steps of all agents together"""
    device: str = "auto"
    """"auto", "cpu" or "cuda:0" """
    seed: int = 1
    """of worlds, weights and draws"""

    num_steps: int = 50
    """steps of a rollout"""
    num_epochs: int = 4
    """passes over a rollout"""
    num_minibatches: int = 8
    """updates of a pass"""
    learning_rate: float = 3e-3
    """of Adam"""
    gamma: float = 0.97
    """discount"""
    gae_lambda: float = 0.95
    """weight of longer advantages"""
    max_grad_norm: float = 0.5
    """longer gradients are shortened to this"""
    eval_worlds: int = 256
    """episodes of each evaluation, one a world"""


class Side:
    """What one role learns with."""

    def __init__(self, env: TorchRLEnv, role: str, args: Args) -> None:
        self.role, self.max_grad_norm = role, args.max_grad_norm
        agents, features = env.observation_spec[role, "observation"].shape[-2:]
        choices = env.full_action_spec[role, "action"].n
        network = MLP(features, choices, num_cells=[64, 64], activation_class=nn.Tanh, device=env.device)
        self.actor = ProbabilisticActor(
            TensorDictModule(network, in_keys=[(role, "observation")], out_keys=[(role, "logits")]),
            in_keys={"logits": (role, "logits")},
            out_keys=[(role, "action")],
            distribution_class=Categorical,
            return_log_prob=True,
            log_prob_key=(role, "log_prob"),
        )
        network = MultiAgentMLP(
            features, 1, agents, centralized=True, share_params=True, num_cells=[64, 64], device=env.device
        )
        critic = TensorDictModule(network, in_keys=[(role, "observation")], out_keys=[(role, "value")])
        keys = {name: (role, name) for name in ("advantage", "value_target", "value", "reward", "done", "terminated")}
        self.advantage = MultiAgentGAE(gamma=args.gamma, lmbda=args.gae_lambda, value_network=critic)
        self.advantage.set_keys(**keys)
        self.loss = MAPPOLoss(self.actor, critic, entropy_coeff=0.0, critic_coeff=0.5, normalize_advantage=False)
        self.loss.set_keys(action=(role, "action"), sample_log_prob=(role, "log_prob"), **keys)
        self.loss.loss_mask_key = (role, "mask")  # who had left before the step counts for nothing
        self.optimizer = torch.optim.Adam(self.loss.parameters(), args.learning_rate, eps=1e-5)

    def prepare(self, data: TensorDictBase) -> None:
        """Write each agent's ends, and its advantages scaled over those in the game, into a rollout."""
        left = ~data["next", self.role, "mask"].unsqueeze(-1)
        for name in ("done", "terminated"):
            data["next", self.role, name] = data["next", name].unsqueeze(-2) | left
        with torch.no_grad():
            self.advantage(data)
        advantage = data[self.role, "advantage"]
        real = advantage[data[self.role, "mask"]]
        data[self.role, "advantage"] = (advantage - real.mean()) / real.std().clamp_min(1e-8)

    def update(self, data: TensorDictBase) -> None:
        """One step along the gradient."""
        losses = self.loss(data)
        self.optimizer.zero_grad()
        (losses["loss_objective"] + losses["loss_critic"]).backward()
        nn.utils.clip_grad_norm_(self.loss.parameters(), self.max_grad_norm)
        self.optimizer.step()


def train(args: Args) -> dict[str, float]:
    """Train both sides against each other, and let the taggers play against random runners.

    Returns:
        mean_return: of a trained tagger among random runners.
        random_return: of a random tagger among random runners.
        runner_return: of a trained runner among random taggers.
        random_runner_return: of a random runner among random taggers.
        rows_per_second: steps of all agents in a second of training.
    """
    torch.manual_seed(args.seed)
    env = TorchRLEnv("WarpTag-v0", args.num_envs, device=args.device, **GAME)
    env.set_seed(args.seed)
    sides = [Side(env, role, args) for role in env.group_map]
    batch = args.num_envs * args.num_steps
    agents = len(env.agent_names)
    rollouts = max(1, args.total_steps // (batch * agents))
    policy = TensorDictSequential(*(side.actor for side in sides))
    collector = Collector(
        env, policy, frames_per_batch=batch, total_frames=rollouts * batch, device=env.device,
        auto_register_policy_transforms=False,
    )

    start = time.perf_counter()
    for data in collector:
        for side in sides:
            side.prepare(data)
        rows = data.reshape(-1)
        for _ in range(args.num_epochs):
            for index in torch.randperm(batch, device=env.device).chunk(args.num_minibatches):
                minibatch = rows[index]
                for side in sides:
                    side.update(minibatch)
    if env.device.type == "cuda":
        torch.cuda.synchronize(env.device)
    seconds = time.perf_counter() - start
    collector.shutdown()

    actors = {side.role: side.actor for side in sides}
    trial = TorchRLEnv("WarpTag-v0", args.eval_worlds, device=args.device, **GAME)
    random = episode_returns(trial, {}, args.seed + 1)
    result = {
        "mean_return": episode_returns(trial, {"tagger": actors["tagger"]}, args.seed + 1)["tagger"],
        "random_return": random["tagger"],
        "runner_return": episode_returns(trial, {"runner": actors["runner"]}, args.seed + 1)["runner"],
        "random_runner_return": random["runner"],
        "rows_per_second": rollouts * batch * agents / seconds,
    }
    trial.close()
    return result


def episode_returns(env: EnvBase, actors: dict[str, nn.Module], seed: int) -> dict[str, float]:
    """Mean return of an agent of each role in the first episode of each world; roles without an actor play at random."""

    def play(data: TensorDictBase) -> TensorDictBase:
        data = env.rand_action(data)
        for actor in actors.values():
            data = actor(data)
        return data

    env.set_seed(seed)
    with torch.no_grad(), set_exploration_type(ExplorationType.RANDOM):
        data = env.rollout(GAME["episode_length"], play, break_when_any_done=False, trust_policy=True)
    done = data["next", "done"].int()
    first_episode = (done.cumsum(1) - done == 0).unsqueeze(-1)
    return {role: float((data["next", role, "reward"] * first_episode).sum(1).mean()) for role in env.group_map}


if __name__ == "__main__":
    print(train(tyro.cli(Args)))
