"""Inputs of a network that say which agent of its world a row is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.policies.contract import Observation


def with_id_features(group: Group, num_ids: int) -> Group:
    """Return the group as its network sees it: observations are flat, and ``num_ids`` features follow an agent's own."""
    if num_ids == 0:
        return group
    return replace(group, observation=Box(-np.inf, np.inf, (group.num_features + num_ids,), np.float32))


class AgentIds(nn.Module):
    """Appends the numbers of agents as features, 1 for the agent's own number and 0 for all others. They are not stored.

    In the first layer of a network, the weights of these features are a vector for each agent, which is added.
    """

    ids: Tensor

    def __init__(self, num_ids: int):
        """Store the numbers 0 to ``num_ids - 1``."""
        super().__init__()
        self.register_buffer("ids", torch.arange(num_ids, dtype=torch.int32, device="cpu"), persistent=False)

    def forward(self, obs: Observation, agent: Tensor) -> Observation:
        """Return observations with the features.

        Args:
            obs: normalised observations, see ``Inputs``.
            agent: int32 (B,) or (B, a), see ``Inputs``.
        """
        features = obs["own"].flatten(2) if isinstance(obs, dict) else obs.flatten(1)
        with_ids = torch.cat((features, (agent.unsqueeze(-1) == self.ids).to(features.dtype)), dim=-1)
        return {**obs, "own": with_ids} if isinstance(obs, dict) else with_ids
