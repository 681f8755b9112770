"""A test env that only a policy with a state can play, a counter for it, and critics that read the env's state."""

from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, GpuVectorEnv, Param, Role
from gpu_vecenv.train import register_network

SPEC = EnvSpec(
    name="Beat-v0",
    kernel=Path(__file__).with_name("beat.cu"),
    roles=(Role("left", "num_left"), Role("right", 1)),
    params=(
        Param("num_left", 2, "int32", "agents on the left", low=1, high=100),
        Param("absent", 0.2, "float32", "share of agents that are absent from an episode", low=0, high=1),
        Param("leave", 0.05, "float32", "share of agents that leave in a step", low=0, high=1),
        Param("back", 0.0, "float32", "share of agents out of the game that come back in a step", low=0, high=1),
        Param("end", 0.1, "float32", "share of worlds that end in a step", low=0, high=1),
        Param("show", 0, "int32", "1 for observations of the level", low=0, high=1),
        TIME_LIMIT,
    ),
    state=(
        Field("score", "int32", ("num_agents",), "rewards of the episode"),
        Field("level", "float32", ("num_agents",), "a number for critics"),
        Field("present", "uint8", ("num_agents",), "in the game", low=0, high=1),
    ),
    observation=lambda params: Box(-np.inf, np.inf, (2,), np.float32),
    action=lambda params: Discrete(5),
    sizes=("num_left",),
    alive="present",
    rewards={"beat": "1 for the right action"},
)

make_vec = partial(GpuVectorEnv, SPEC)
gymnasium.register("Beat-v0", vector_entry_point="beat:make_vec")

class Counter(nn.Module):
    """Counts in its state, and chooses the counter modulo 5. Its state also has the last count and a 7."""

    state_shape = (3,)

    def __init__(self, num_outputs):
        super().__init__()
        self.gain, self.slope = nn.Parameter(torch.tensor(30.0)), nn.Parameter(torch.tensor(0.5))
        self.register_buffer("numbers", torch.arange(num_outputs, dtype=torch.float32), persistent=False)

    def forward(self, obs, state):
        count = state[..., 0]
        outputs = self.gain * ((count % len(self.numbers)).unsqueeze(-1) == self.numbers)  # one_hot() reads the device
        new = torch.stack((count + 1.0, count, torch.full_like(count, 7.0)), dim=-1)
        return outputs, self.slope * count + 0.0 * obs.flatten(1).sum(-1), new


register_network("counter", lambda spec: Counter(spec.num_outputs))


class Overseer(nn.Module):
    """An actor of observations, and a critic of inputs once a world, whose values differ by the agents' first features."""

    critic_sources = ("level", "t")

    def __init__(self, spec):
        super().__init__()
        torch.manual_seed(0)
        self.acts = nn.Linear(spec.observation.shape[0], spec.num_outputs)
        self.worth = nn.Linear(sum(spec.sources[name] for name in self.critic_sources), 1)
        self.seen = []

    def actor(self, obs):
        return self.acts(obs)

    def critic(self, obs, inputs):
        self.seen.append(tuple(inputs.shape))
        agents = len(obs) // len(inputs)
        return self.worth(inputs).expand(-1, agents).flatten() + obs[:, 0]


register_network("beat.overseer", Overseer)


class OneEyed(nn.Module):
    """Its critic reads the level of the first agent, in observations that show it or in the env's state."""

    def __init__(self, sources):
        super().__init__()
        torch.manual_seed(0)
        self.acts, self.worth = nn.Linear(2, 5), nn.Linear(1, 1)
        if sources:
            self.critic_sources = sources

    def actor(self, obs):
        return self.acts(obs[:, 1:].expand(-1, 2))

    def critic(self, obs, inputs=None):
        return self.worth((obs if inputs is None else inputs)[:, :1]).flatten()

    def forward(self, obs):
        return self.actor(obs), self.critic(obs)
