"""Steps with a policy in the loop: a 64-64 tanh actor-critic acts, and every step is stored."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.counting import count, peak_memory
from gpu_vecenv.bench.env_only import make_env
from gpu_vecenv.bench.floors import step_bytes
from gpu_vecenv.bench.subject import Maker, Subject
from gpu_vecenv.bench.timing import Local

STEPS = 32
"""Steps of a rollout, which a call fills, and which a graph holds."""

HIDDEN = 64

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


def ways(case: Case, device: str) -> dict[str, Maker]:
    """The rollout called from Python and, on CUDA, as a graph."""
    made: dict[str, Maker] = {"eager": lambda: _eager(case, device)}
    return made if device == "cpu" else {**made, "graph": lambda: _graph(case, device)}


class ActorCritic(nn.Module):
    """Two networks, 64-64 tanh, over rows of observations.

    Args:
        features: of an observation.
        levels: choices of each part of an action, a categorical head each; of a box ``numbers`` ones, a Gaussian head.
        numbers: whether the action is of a box.
    """

    def __init__(self, features: int, levels: list[int], numbers: bool = False) -> None:
        super().__init__()
        self.levels = levels
        self.log_std = nn.Parameter(torch.zeros(len(levels))) if numbers else None
        self.actor, self.critic = (
            nn.Sequential(nn.Linear(features, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, out))
            for out in (sum(levels), 1)
        )

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Sampled indices or numbers (rows, heads), log-probabilities (rows,) and values (rows,)."""
        if self.log_std is not None:
            mean = self.actor(obs)
            noise = torch.randn_like(mean)
            log_probability = (-0.5 * noise * noise - self.log_std - HALF_LOG_TAU).sum(-1)
            return mean + self.log_std.exp() * noise, log_probability, self.critic(obs)[:, 0]
        actions, log_probability = [], obs.new_zeros(())
        for logits in self.actor(obs).split(self.levels, dim=-1):
            logs = logits.log_softmax(-1)
            # The largest of the logits plus Gumbel noise, -log of an exponential, is a draw from their softmax.
            index = (logs - torch.empty_like(logs).exponential_().log()).argmax(-1)
            log_probability = log_probability + logs.gather(-1, index[:, None])[:, 0]
            actions.append(index)
        return torch.stack(actions, -1), log_probability, self.critic(obs)[:, 0]


class RolloutLoop:
    """An env bound to slabs, a policy, and the call that fills the slabs, made once to warm up; and what is known of it."""

    def __init__(self, case: Case, device: str) -> None:
        with peak_memory(device) as peak:
            self._make(case, device)
            self()
        self.facts |= {**peak, "floor_bytes": self._floor()}

    def _make(self, case: Case, device: str) -> None:
        torch.manual_seed(0)
        self.env, self.facts = make_env(case, device, copy=False, view="agents")
        env, rows = self.env, self.env.num_envs
        space = env.single_action_space
        numbers = isinstance(space, gymnasium.spaces.Box)
        choices = np.ones(space.shape) if numbers else np.atleast_1d(space.nvec if hasattr(space, "nvec") else space.n)
        levels = [int(n) for n in choices]
        self.policy = ActorCritic(env.single_observation_space.shape[0], levels, numbers).to(env.device)
        self.action_shape = space.shape

        def slab(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.zeros((STEPS, rows, *shape), dtype=dtype, device=env.device)

        self.obs = torch.zeros((STEPS + 1, rows, *env.single_observation_space.shape), device=env.device)
        self.actions = slab(len(levels), dtype=torch.float32 if numbers else torch.int64)
        self.log_probabilities, self.values = slab(), slab()
        flags = {name: slab(dtype=torch.bool) for name in ("terminated", "truncated")}
        env.bind(obs=self.obs, reward=slab(), **flags)

    @torch.no_grad()
    def __call__(self) -> None:
        """Fill the slabs once."""
        self.env.rewind()
        for t in range(STEPS):
            action, self.log_probabilities[t], self.values[t] = self.policy(self.obs[t])
            self.actions[t] = action
            self.results = self.env.step(self.actions[t].view(-1, *self.action_shape))

    def _floor(self) -> dict[str, float]:
        """Bytes of a step: the env's, and what a policy must read and write, its own weights aside."""
        policy = (self.obs[0], self.actions[0], self.log_probabilities[0], self.values[0])
        return step_bytes(self.env, self.results, self.actions[0].nbytes) | {"policy": sum(array.nbytes for array in policy)}


def _eager(case: Case, device: str) -> Subject:
    loop = RolloutLoop(case, device)
    return Subject(Local(loop, device), STEPS, loop.facts | count(loop.env, loop, STEPS, device), loop.env.close)


def _graph(case: Case, device: str) -> Subject:
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        loop = RolloutLoop(case, device)
        loop()  # once more: cuBLAS makes its workspace
        facts = loop.facts | count(loop.env, loop, STEPS, device)
        side.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            loop()
    graph.replay()

    def close(kept: Any = (graph, loop)) -> None:  # what the graph reads must outlive it
        loop.env.close()

    return Subject(Local(graph.replay, device), STEPS, facts, close)
