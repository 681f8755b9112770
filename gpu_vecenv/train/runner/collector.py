"""The loop that fills a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.policies.policy import Policy
from gpu_vecenv.train.storage.rollout import Rollout
from gpu_vecenv.train.storage.slabs import GroupSlabs

if TYPE_CHECKING:
    from gpu_vecenv.vector.vector_env import GpuVectorEnv


class Collector:
    """Steps the env with the actions of policies, and keeps its state between rollouts."""

    def __init__(
        self,
        env: GpuVectorEnv,
        rollout: Rollout,
        policies: Mapping[str, Policy],
        assignment: Mapping[str, list[slice]],
        generator: torch.Generator,
    ):
        """Bind the env to the rollout; call ``reset()`` before the first ``collect()``.

        Args:
            env: vector env in the agents view, or one whose arrays are by role.
            rollout: slabs to fill.
            policies: policies by name.
            assignment: policy name to the rows it acts for.
            generator: source of sampled actions, on the env's device.
        """
        self.env = env
        self.rollout = rollout
        self.generator = generator
        self.groups: list[tuple[Group, GroupSlabs]] = list(zip(env.layout.groups, rollout.groups, strict=True))
        self.turns = [
            (policies[name], slabs, rows)
            for name, slices in assignment.items()
            for slabs, own in rollout.locate(slices)
            for rows in own
        ]
        rollout.bind(env)

    def reset(self, seed: int) -> None:
        """Start new episodes in all worlds."""
        self.env.reset(seed=seed)
        self.rollout.alive_start.fill_(True)

    @torch.no_grad()
    def collect(self, deterministic: bool = False) -> None:
        """Fill the slabs with T steps. The host does not wait for the device.

        Args:
            deterministic: take the likeliest actions instead of draws.
        """
        for t in range(self.rollout.num_steps):
            for policy, slabs, rows in self.turns:
                obs = slabs.obs.of(t, [rows])
                action, log_prob = policy.act(obs, self.generator, deterministic, slabs.masks(t, rows))
                slabs.action[t, rows] = action.to(slabs.action.dtype)
                slabs.log_prob[t, rows] = log_prob
            self.env.step(self._actions(t))
        self.rollout.spread()

    def advance(self, alive: Tensor) -> None:
        """Move to the next rollout: its slot 0 of observations and masks becomes a copy of the last ones.

        Args:
            alive: bool (R,), alive after the last step, from ``Rollout.masks()``.
        """
        self.rollout.alive_start.copy_(alive)
        self.env.rewind()

    def state_dict(self) -> dict[str, object]:
        """Return the state to save after ``advance()``."""
        return {
            "env": dict(self.env.get_state()),
            **self._kept(),
            "alive": self.rollout.alive_start.clone(),
            "generator": self.generator.get_state(),
            "generator_device": self.generator.device.type,
        }

    def load_state_dict(self, state: dict) -> None:
        """Restore what ``state_dict()`` returned, after a ``reset()``; on another kind of device the generator is unchanged."""
        self.env.set_state(state["env"])
        for group, slabs in self.groups:
            slabs.restore(state["roles"][group.role] if group.role else state)
        self.rollout.alive_start.copy_(state["alive"])
        if state["generator_device"] == self.generator.device.type:  # CPU and CUDA generators have different states
            self.generator.set_state(state["generator"].cpu())

    def _actions(self, t: int) -> Any:
        """Return the actions of a step in the form that the env takes."""
        group, slabs = self.groups[0]
        if not group.role:
            return slabs.action[t]
        return {group.role: slabs.action[t].unflatten(0, (-1, group.count)) for group, slabs in self.groups}

    def _kept(self) -> dict[str, Any]:
        """Return the last observations and masks; by role under the key ``roles``."""
        kept = {group.role: slabs.kept() for group, slabs in self.groups}
        return kept[""] if "" in kept else {"roles": kept}
