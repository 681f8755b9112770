"""Groups, observations and counters for the tests of policies."""

import numpy as np
import torch
from gymnasium import spaces

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train import NetworkConfig
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import Draw, Inputs

ACTIONS = [
    spaces.Discrete(4),
    spaces.MultiDiscrete([3, 5]),
    spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([-1.0, 4.0], np.float32)),
]
SMALL = NetworkConfig((8, 8))
AGENTS, SHARED, OWN = 3, 2, 4
"""Agents of a world, and features of both parts; their sum is the 6 features of rows without a shared part."""


def group(action=ACTIONS[0], shared=False, masked=(), shape=(6,), dtype=np.float32):
    """Return a group with six features; with ``shared``, two of them are the shared part of worlds of three agents."""
    if shared:
        box = spaces.Box(-np.inf, np.inf, (OWN,), np.float32)
        return Group("", "", AGENTS, box, action, masked, spaces.Box(-np.inf, np.inf, (SHARED,), np.float32))
    low, high = (0, 255) if dtype == np.uint8 else (-np.inf, np.inf)
    return Group("", "", 1, spaces.Box(low, high, shape, dtype), action, masked)


def policy_of(action, shared=False, masked=(), normalize=False, network=SMALL, seed=0, name="agent", module=None):
    """Return a policy for such a group."""
    return make_policy(name, group(action, shared, masked), seed, network, normalize, module)


def observations(num, shared=False):
    """Return inputs of rows, or of worlds."""
    generator = torch.Generator().manual_seed(0)
    if shared:
        own = torch.randn(num, AGENTS, OWN, generator=generator)
        return Inputs({"shared": torch.randn(num, SHARED, generator=generator), "own": own})
    return Inputs(torch.randn(num, 6, generator=generator))


def draws(num, shared=False, rows=None, agent=0, seed=0, world_id=0, episode=0, t=0):
    """Return the counters of a world's first agent, or of all its agents, for each of ``num`` worlds; or of some rows.

    The other arguments are added to a counter.
    """
    number = torch.arange(num, dtype=torch.int32)
    world, agents = number, torch.full_like(number, agent)
    if shared:
        agents = torch.arange(AGENTS, dtype=torch.int32).expand(num, -1) + agent
        world = number.unsqueeze(-1).expand(-1, AGENTS)
    if rows is not None:
        world, agents = world[rows], agents[rows]
    zeros = torch.zeros_like(number)
    return Draw(torch.full((num,), 5 + seed), number + num * world_id, zeros + episode, zeros + t, world, agents)
