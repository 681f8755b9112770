"""Counters of the random numbers of policies, as tensors that share the memory of an env's state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpu_vecenv.train.policies.contract import Draw

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


def worlds_and_agents(env: GpuVectorEnv) -> tuple[Tensor, Tensor]:
    """Return the world and the agent of every row.

    Rows are ordered by role, then world, then agent, as in the agents view; of an env whose arrays are by role, those of its
    first role come first. ``unflatten(0, (N, a))`` of the rows of a role gives samples of worlds.

    Returns:
        world, agent: int32 (R,) each, on the env's device; agents are numbered within their world, role by role.
    """
    worlds: list[np.ndarray] = []
    agents: list[np.ndarray] = []
    before = 0
    for count in env.layout.role_counts.values():
        world, agent = np.divmod(np.arange(env.num_worlds * count), count)
        worlds.append(world)
        agents.append(before + agent)
        before += count
    columns = (torch.from_numpy(np.concatenate(column).astype(np.int32)) for column in (worlds, agents))
    world_of_row, agent_of_row = (column.to(env.device) for column in columns)
    return world_of_row, agent_of_row


def counters_of(env: GpuVectorEnv, world: Tensor, agent: Tensor) -> Draw:
    """Return the counters of rows.

    The env updates them in each step, and a captured graph reads them as they are at each replay. After an autoreset they are
    those of the new episode. Draws of one row in different steps are independent.

    Args:
        env: the env, on any device.
        world: int32 (B,) or (N, a), index of each row's world.
        agent: int32 of the same shape, number of each row's agent in its world.
    """
    fields = env.worlds.state.fields
    names = ("seed", "world_id", "episode", "t")
    seed, world_id, episode, t = (torch.as_tensor(fields[name], device=env.device) for name in names)
    return Draw(seed.view(torch.int64), world_id, episode, t, world.contiguous(), agent.contiguous())
