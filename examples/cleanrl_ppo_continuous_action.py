"""PPO for continuous actions in one file, in the style of CleanRL: every tensor stays on the env's device.

Proximal Policy Optimization (Schulman et al. 2017, arXiv:1707.06347) with generalised advantages (Schulman et al. 2015,
arXiv:1506.02438) and a Gaussian whose deviation does not depend on the observation. The env has the wrappers of CleanRL's own
file: actions are clipped, observations and rewards are normalised and clipped. When the time limit ends an episode, the value of
the final observation replaces the rewards to come. ``python examples/cleanrl_ppo_continuous_action.py`` swings up the pendulum
and holds it. Curves: ``tensorboard --logdir runs``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import gymnasium
import torch
import tyro
from torch import nn
from torch.distributions import Independent, Normal
from torch.utils.tensorboard import SummaryWriter

import gpu_vecenv  # noqa: F401  registers the ids
from gpu_vecenv import ClipAction, ClipReward, EpisodeStatistics, NormalizeObservation, NormalizeReward, TransformObservation


@dataclass
class Args:
    """Settings of the training."""

    env_id: str = "WarpPendulum-v1"
    """an id with continuous actions"""
    num_envs: int = 64
    """number of worlds"""
    total_steps: int = 400_000
    """steps of all rows together"""
    device: str = "auto"
    """"auto", "cpu" or "cuda:0" """
    seed: int = 1
    """seed of worlds, weights and sampling"""
    run_dir: str = "runs/cleanrl_ppo_continuous_action"
    """folder of the TensorBoard curves"""

    num_steps: int = 64
    """steps of every world in a rollout"""
    num_epochs: int = 10
    """epochs, each a pass over the rollout"""
    num_minibatches: int = 8
    """minibatches of an epoch, one update each"""
    learning_rate: float = 2e-3
    """learning rate at the start; falls to 0 linearly"""
    gamma: float = 0.95
    """discount per step"""
    gae_lambda: float = 0.95
    """decay of generalised advantage estimation"""
    clip: float = 0.2
    """probability ratios are clipped to [1 - clip, 1 + clip]"""
    entropy_weight: float = 0.0
    """weight of the entropy bonus"""
    value_weight: float = 0.5
    """weight of the value loss"""
    max_grad_norm: float = 0.5
    """longer gradients are scaled down to this norm"""
    eval_episodes: int = 256
    """episodes of the greedy policy after training"""


class Agent(nn.Module):
    """A policy and a value function, two small networks."""

    def __init__(self, num_features: int, num_actions: int) -> None:
        super().__init__()
        self.actor = self.network(num_features, num_actions, 0.01)
        self.log_std = nn.Parameter(torch.zeros(num_actions))
        self.critic = self.network(num_features, 1, 1.0)

    @staticmethod
    def network(inputs: int, outputs: int, last_gain: float) -> nn.Sequential:
        """Build a network with two hidden layers and orthogonal weights."""
        layers = [nn.Linear(inputs, 64), nn.Linear(64, 64), nn.Linear(64, outputs)]
        for layer, gain in zip(layers, (2**0.5, 2**0.5, last_gain), strict=True):
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.zeros_(layer.bias)
        return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])

    def policy(self, obs: torch.Tensor) -> Independent:
        """Return the distribution of actions before they are clipped."""
        return Independent(Normal(self.actor(obs), self.log_std.exp()), 1)

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        """Return the expected discounted return."""
        return self.critic(obs).squeeze(-1)


def make_env(args: Args, num_envs: int) -> tuple[ClipReward, NormalizeObservation]:
    """Make an env with wrappers that keep every array on the device; return it and the wrapper with the statistics."""
    env = EpisodeStatistics(gymnasium.make_vec(args.env_id, num_envs=num_envs, device=args.device))
    normalized = NormalizeObservation(ClipAction(env))
    clipped = TransformObservation(normalized, lambda obs: obs.clip(-10, 10))
    return ClipReward(NormalizeReward(clipped, gamma=args.gamma), -10, 10), normalized


@torch.no_grad()
def evaluate(agent: Agent, args: Args, trained: NormalizeObservation) -> float:
    """Return the mean return of every row's first episode, with the means of the Gaussian and the statistics of the training."""
    env, normalized = make_env(args, args.eval_episodes)
    normalized.obs_rms, normalized.update_running_mean = trained.obs_rms, False
    obs, _ = env.reset(seed=args.seed + 1_000_000)
    returns = torch.zeros(env.num_envs, device=obs.device)
    running = torch.ones(env.num_envs, dtype=torch.bool, device=obs.device)
    while running.any():
        obs, _, _, _, info = env.step(agent.actor(obs))
        first = running & info["_episode"]
        returns[first] = info["episode"]["r"][first]
        running &= ~first
    env.close()
    return returns.mean().item()


def train(args: Args) -> dict[str, float]:
    """Train from scratch.

    Returns:
        ``mean_return`` of the greedy policy, and ``rows_per_second``, steps of rows in a second of training.
    """
    torch.manual_seed(args.seed)
    env, normalized = make_env(args, args.num_envs)
    device = torch.device(env.unwrapped.device)
    rows, features = env.num_envs, env.single_observation_space.shape[0]
    agent = Agent(features, env.single_action_space.shape[0]).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    writer = SummaryWriter(args.run_dir)

    shape = (args.num_steps, rows)
    obs, final_obs = (torch.zeros(*shape, features, device=device) for _ in range(2))
    actions = torch.zeros(*shape, *env.single_action_space.shape, device=device)
    log_probs, rewards, values, advantages = (torch.zeros(shape, device=device) for _ in range(4))
    terminated, truncated = (torch.zeros(shape, dtype=torch.bool, device=device) for _ in range(2))

    next_obs, _ = env.reset(seed=args.seed)
    num_iterations = max(1, args.total_steps // (args.num_steps * rows))
    started = time.perf_counter()
    for iteration in range(num_iterations):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - iteration / num_iterations)
        episodes = torch.zeros(3, device=device)  # of episodes that end in this rollout: number, sum of returns, sum of lengths
        with torch.no_grad():
            for t in range(args.num_steps):
                obs[t], policy, values[t] = next_obs, agent.policy(next_obs), agent.value(next_obs)
                actions[t] = policy.sample()
                log_probs[t] = policy.log_prob(actions[t])
                next_obs, rewards[t], terminated[t], truncated[t], info = env.step(actions[t])
                final_obs[t] = info["final_obs"]
                ended = info["_episode"]
                episodes += torch.stack([ended.sum(), (info["episode"]["r"] * ended).sum(), (info["episode"]["l"] * ended).sum()])

            # If the time limit alone ended an episode, the value of the final observation replaces the rewards to come.
            timed_out = truncated & ~terminated
            rewards[timed_out] += args.gamma * agent.value(final_obs[timed_out])
            continues = (~(terminated | truncated)).float()
            next_value, advantage = agent.value(next_obs), torch.zeros(rows, device=device)
            for t in reversed(range(args.num_steps)):
                error = rewards[t] + args.gamma * continues[t] * next_value - values[t]
                advantage = error + args.gamma * args.gae_lambda * continues[t] * advantage
                advantages[t], next_value = advantage, values[t]

        targets = advantages + values
        batch = {"obs": obs, "action": actions, "log_prob": log_probs, "advantage": advantages, "target": targets}
        batch = {name: tensor.flatten(0, 1) for name, tensor in batch.items()}
        for _ in range(args.num_epochs):
            for chosen in torch.randperm(args.num_steps * rows, device=device).chunk(args.num_minibatches):
                minibatch = {name: tensor[chosen] for name, tensor in batch.items()}
                policy = agent.policy(minibatch["obs"])
                raw = minibatch["advantage"]
                advantage = (raw - raw.mean()) / (raw.std() + 1e-8)
                ratio = (policy.log_prob(minibatch["action"]) - minibatch["log_prob"]).exp()
                clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
                policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
                value_loss = 0.5 * (agent.value(minibatch["obs"]) - minibatch["target"]).square().mean()
                entropy = policy.entropy().mean()
                loss = policy_loss + args.value_weight * value_loss - args.entropy_weight * entropy
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()

        step = (iteration + 1) * args.num_steps * rows
        count, total_return, total_length = episodes.tolist()
        if count:
            writer.add_scalar("charts/episodic_return", total_return / count, step)
            writer.add_scalar("charts/episodic_length", total_length / count, step)
        writer.add_scalar("charts/rows_per_second", step / (time.perf_counter() - started), step)
        writer.add_scalar("charts/learning_rate", optimizer.param_groups[0]["lr"], step)
        for name, tensor in (("policy_loss", policy_loss), ("value_loss", value_loss), ("entropy", entropy)):
            writer.add_scalar(f"losses/{name}", tensor.item(), step)

    seconds = time.perf_counter() - started
    env.close()
    writer.close()
    rows_per_second = num_iterations * args.num_steps * rows / seconds
    return {"mean_return": evaluate(agent, args, normalized), "rows_per_second": rows_per_second}


if __name__ == "__main__":
    print(train(tyro.cli(Args)))
