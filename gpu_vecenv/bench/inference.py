"""Steps with a policy: a 64-64 tanh actor-critic acts, and every step is stored."""

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
"""Steps of a rollout; a call, or a replay of the graph, makes one rollout."""

HIDDEN = 64

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


def ways(case: Case, device: str) -> dict[str, Maker]:
    """Makers of rollouts called from Python and, on CUDA, in a graph."""
    makers: dict[str, Maker] = {"eager": lambda: _eager(case, device)}
    return makers if device == "cpu" else {**makers, "graph": lambda: _graph(case, device)}


class ActorCritic(nn.Module):
    """Two networks, 64-64 tanh, over rows of observations.

    Args:
        features: number of features of an observation.
        choices: number of choices of each action entry; 1 for each entry of a Box action.
        is_box: True for a Gaussian over Box actions, False for a categorical distribution over each entry.
    """

    def __init__(self, features: int, choices: list[int], is_box: bool = False) -> None:
        super().__init__()
        self.choices = choices
        self.log_std = nn.Parameter(torch.zeros(len(choices))) if is_box else None
        self.actor, self.critic = (
            nn.Sequential(nn.Linear(features, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, out))
            for out in (sum(choices), 1)
        )

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return sampled indices or numbers (rows, entries), log-probabilities (rows,) and values (rows,)."""
        if self.log_std is not None:
            mean = self.actor(obs)
            noise = torch.randn_like(mean)
            log_probability = (-0.5 * noise * noise - self.log_std - HALF_LOG_TAU).sum(-1)
            return mean + self.log_std.exp() * noise, log_probability, self.critic(obs)[:, 0]
        actions, log_probability = [], obs.new_zeros(())
        for logits in self.actor(obs).split(self.choices, dim=-1):
            logs = logits.log_softmax(-1)
            # Gumbel-max: the argmax of logits plus Gumbel noise (-log of an exponential) is distributed as their softmax.
            index = (logs - torch.empty_like(logs).exponential_().log()).argmax(-1)
            log_probability = log_probability + logs.gather(-1, index[:, None])[:, 0]
            actions.append(index)
        return torch.stack(actions, -1), log_probability, self.critic(obs)[:, 0]


class RolloutLoop:
    """An env bound to slabs, a policy, and a call that fills the slabs. The constructor makes the call once, to warm up."""

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
        is_box = isinstance(space, gymnasium.spaces.Box)
        counts = np.ones(space.shape) if is_box else np.atleast_1d(space.nvec if hasattr(space, "nvec") else space.n)
        choices = [int(n) for n in counts]
        self.policy = ActorCritic(env.single_observation_space.shape[0], choices, is_box).to(env.device)
        self.action_shape = space.shape

        def slab(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.zeros((STEPS, rows, *shape), dtype=dtype, device=env.device)

        self.obs = torch.zeros((STEPS + 1, rows, *env.single_observation_space.shape), device=env.device)
        self.actions = slab(len(choices), dtype=torch.float32 if is_box else torch.int64)
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
        """Bytes that a step must move for the env and for the policy, without the policy's weights."""
        policy = (self.obs[0], self.actions[0], self.log_probabilities[0], self.values[0])
        return step_bytes(self.env, self.results, self.actions[0].nbytes) | {"policy": sum(array.nbytes for array in policy)}


def _eager(case: Case, device: str) -> Subject:
    loop = RolloutLoop(case, device)
    return Subject(Local(loop, device), STEPS, loop.facts | count(loop.env, loop, STEPS, device), loop.env.close)


def _graph(case: Case, device: str) -> Subject:
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        loop = RolloutLoop(case, device)
        loop()  # warm up again: cuBLAS allocates its workspace
        facts = loop.facts | count(loop.env, loop, STEPS, device)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            loop()
    graph.replay()

    def close(alive: Any = (graph, loop)) -> None:  # the graph reads the loop's tensors until it is freed
        loop.env.close()

    return Subject(Local(graph.replay, device), STEPS, facts, close)
