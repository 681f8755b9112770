"""MAPPO on a small game of Tag with TorchRL: each role learns one policy for all of its agents, with a central critic.

Multi-agent PPO (Yu et al. 2022, arXiv:2103.01955). Roles are TorchRL groups. Tagged runners leave the game: their
episode ends with the tag, and the update ignores their later transitions. ``python examples/torchrl_mappo_tag.py``
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

# A tagger moves less in a step than the diameter of the disc in which it tags, so a straight course searches without gaps.
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
    """Settings of the training."""

    num_envs: int = 64
    """number of worlds"""
    total_steps: int = 1_300_000
    """steps of all agents together"""
    device: str = "auto"
    """"auto", "cpu" or "cuda:0" """
    seed: int = 1
    """seed of worlds, weights and sampling"""

    num_steps: int = 50
    """steps of every world in a rollout"""
    num_epochs: int = 4
    """epochs, each a pass over the rollout"""
    num_minibatches: int = 8
    """minibatches of an epoch, one update each"""
    learning_rate: float = 3e-3
    """learning rate of Adam"""
    gamma: float = 0.97
    """discount per step"""
    gae_lambda: float = 0.95
    """decay of generalised advantage estimation"""
    max_grad_norm: float = 0.5
    """longer gradients are scaled down to this norm"""
    eval_worlds: int = 256
    """worlds of an evaluation, each played for one episode"""


class RoleLearner:
    """Actor, critic, loss and optimizer of one role."""

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
        self.loss.loss_mask_key = (role, "mask")  # the loss ignores agents that left before the step
        self.optimizer = torch.optim.Adam(self.loss.parameters(), args.learning_rate, eps=1e-5)

    def prepare(self, data: TensorDictBase) -> None:
        """Write the ends of each agent's episodes, and advantages normalised over agents in the game, into a rollout."""
        left = ~data["next", self.role, "mask"].unsqueeze(-1)
        for name in ("done", "terminated"):
            data["next", self.role, name] = data["next", name].unsqueeze(-2) | left
        with torch.no_grad():
            self.advantage(data)
        advantage = data[self.role, "advantage"]
        real = advantage[data[self.role, "mask"]]
        data[self.role, "advantage"] = (advantage - real.mean()) / real.std().clamp_min(1e-8)

    def update(self, data: TensorDictBase) -> None:
        """Make one optimizer step."""
        losses = self.loss(data)
        self.optimizer.zero_grad()
        (losses["loss_objective"] + losses["loss_critic"]).backward()
        nn.utils.clip_grad_norm_(self.loss.parameters(), self.max_grad_norm)
        self.optimizer.step()


def train(args: Args) -> dict[str, float]:
    """Train both roles against each other, and evaluate each against random agents of the other role.

    Returns:
        mean_return: mean return of a trained tagger with random runners.
        random_return: mean return of a random tagger with random runners.
        runner_return: mean return of a trained runner with random taggers.
        random_runner_return: mean return of a random runner with random taggers.
        rows_per_second: steps of all agents in a second of training.
    """
    torch.manual_seed(args.seed)
    env = TorchRLEnv("WarpTag-v0", args.num_envs, device=args.device, **GAME)
    env.set_seed(args.seed)
    learners = [RoleLearner(env, role, args) for role in env.group_map]
    batch = args.num_envs * args.num_steps
    agents = len(env.agent_names)
    rollouts = max(1, args.total_steps // (batch * agents))
    policy = TensorDictSequential(*(learner.actor for learner in learners))
    collector = Collector(
        env, policy, frames_per_batch=batch, total_frames=rollouts * batch, device=env.device,
        auto_register_policy_transforms=False,
    )

    start = time.perf_counter()
    for data in collector:
        for learner in learners:
            learner.prepare(data)
        rows = data.reshape(-1)
        for _ in range(args.num_epochs):
            for index in torch.randperm(batch, device=env.device).chunk(args.num_minibatches):
                minibatch = rows[index]
                for learner in learners:
                    learner.update(minibatch)
    if env.device.type == "cuda":
        torch.cuda.synchronize(env.device)
    seconds = time.perf_counter() - start
    collector.shutdown()

    actors = {learner.role: learner.actor for learner in learners}
    eval_env = TorchRLEnv("WarpTag-v0", args.eval_worlds, device=args.device, **GAME)
    random = episode_returns(eval_env, {}, args.seed + 1)
    result = {
        "mean_return": episode_returns(eval_env, {"tagger": actors["tagger"]}, args.seed + 1)["tagger"],
        "random_return": random["tagger"],
        "runner_return": episode_returns(eval_env, {"runner": actors["runner"]}, args.seed + 1)["runner"],
        "random_runner_return": random["runner"],
        "rows_per_second": rollouts * batch * agents / seconds,
    }
    eval_env.close()
    return result


def episode_returns(env: EnvBase, actors: dict[str, nn.Module], seed: int) -> dict[str, float]:
    """Return the mean return of an agent of each role in each world's first episode; roles without an actor act at random."""

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
