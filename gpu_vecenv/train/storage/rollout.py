"""A rollout: the slabs that the env and the collector fill."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpu_vecenv.train.storage.slabs import GroupSlabs, group_rows
from gpu_vecenv.train.storage.wrapped_env import as_wrapped

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


@dataclass
class WorldSlabs:
    """Results of T steps that an env whose arrays are by role writes by world."""

    agent_reward: Tensor
    """float32 (T, N, A)."""
    agent_alive: Tensor
    """bool (T, N, A)."""
    terminated: Tensor
    """bool (T, N)."""
    truncated: Tensor
    """bool (T, N)."""

    @classmethod
    def allocate(cls, num_steps: int, num_worlds: int, num_agents: int, device: torch.device) -> WorldSlabs:
        """Allocate slabs; agents are alive."""
        flags = torch.zeros(2, num_steps, num_worlds, dtype=torch.bool, device=device)
        alive = torch.ones(num_steps, num_worlds, num_agents, dtype=torch.bool, device=device)
        return cls(torch.zeros(alive.shape, dtype=torch.float32, device=device), alive, *flags)


@dataclass
class Rollout:
    """T steps of R rows, time-major; rows are ordered by role, then world, then agent."""

    groups: tuple[GroupSlabs, ...]
    """Observations, masks and actions: one group of all rows, or one a role, in the order of the rows."""
    reward: Tensor
    """float32 (T, R)."""
    terminated: Tensor
    """bool (T, R), the row's world reached a terminal state."""
    truncated: Tensor
    """bool (T, R), the row's world hit its time limit."""
    agent_alive: Tensor
    """bool (T, R), alive after the step, before a reset."""
    alive_start: Tensor
    """bool (N, A), alive before step 0."""
    alive_next: Tensor | None
    """bool (T, N, A), alive before the next step, after a reset; None if the env's agents never leave."""
    world_rows: slice
    """Rows of one agent of each world."""
    by_world: WorldSlabs | None = None
    """Arrays that the env writes instead of the five above; ``spread()`` copies it to them. None if the env writes rows."""
    env_reward: Tensor | None = None
    """float32 (T, R), rewards before wrappers, or a reward function of the run, change them; None if nothing does."""
    episode: Tensor | None = None
    """float32 (M, T, R), the M metrics of episodes, valid where an episode ended; (M, T, N) if the env's arrays are by role.
    None for an env without metrics."""
    sources: Mapping[str, int] = field(default_factory=dict)
    """Fields of the env's state, and their numbers in a world: what critics may read."""
    critic: dict[tuple[str, ...], Tensor] = field(default_factory=dict)
    """float32 (T + 1, N, C) by names of fields, whose numbers are side by side: inputs of critics before each step and after the
    last one."""

    @classmethod
    def allocate(
        cls, env: GpuVectorEnv, num_steps: int, with_final_obs: bool, with_final_mask: bool = False,
        device: torch.device | None = None, shaped: bool = False,
    ) -> Rollout:
        """Allocate slabs.

        Args:
            env: vector env in the agents view, or one whose arrays are by role.
            num_steps: T.
            with_final_obs: also keep final observations.
            with_final_mask: also keep the masks of final observations, where agents have masks.
            device: their device; None takes the env's. Slabs on the device "meta" have shapes and no memory.
            shaped: the run changes rewards, so ``env_reward`` keeps those before.
        """
        device, num_rows = device or torch.device(env.device), env.num_worlds * env.num_agents
        alive = (num_steps, env.num_worlds, env.num_agents)
        groups, metrics = group_rows(env), len(env.env_spec.metrics)
        by_role = groups[0][0].role != ""
        first = next(rows for rows in env.role_rows.values() if rows.stop > rows.start)
        layout = wrapped.inner.layout if (wrapped := as_wrapped(env)) else env.layout

        def slab(dtype: torch.dtype) -> Tensor:
            return torch.zeros(num_steps, num_rows, dtype=dtype, device=device)

        return cls(
            groups=tuple(
                GroupSlabs.allocate(group, rows.stop - rows.start, num_steps, with_final_obs, with_final_mask, device)
                for group, rows in groups
            ),
            reward=slab(torch.float32),
            terminated=slab(torch.bool),
            truncated=slab(torch.bool),
            agent_alive=torch.ones(num_steps, num_rows, dtype=torch.bool, device=device),
            alive_start=torch.ones(env.num_worlds, env.num_agents, dtype=torch.bool, device=device),
            alive_next=None if env.env_spec.alive is None else torch.ones(alive, dtype=torch.bool, device=device),
            by_world=WorldSlabs.allocate(num_steps, env.num_worlds, env.num_agents, device) if by_role else None,
            env_reward=slab(torch.float32) if as_wrapped(env) or shaped else None,
            episode=torch.zeros(metrics, num_steps, env.num_worlds if by_role else num_rows, dtype=torch.float32, device=device)
            if metrics
            else None,
            sources={each.name: math.prod(layout.state_shape(each, 1)) for each in layout.state},
            world_rows=slice(first.start, first.stop, (first.stop - first.start) // env.num_worlds),
        )

    @property
    def num_steps(self) -> int:
        """T."""
        return self.reward.shape[0]

    @property
    def num_rows(self) -> int:
        """R."""
        return self.reward.shape[1]

    def bind(self, env: GpuVectorEnv) -> None:
        """Make the env write its outputs into these slabs."""
        observed = [slabs.bound(group) for slabs, group in zip(self.groups, env.layout.groups, strict=True)]
        slabs: dict[str, Any]
        if self.by_world is None:
            written: Rollout | WorldSlabs = self
            slabs = {**observed[0], "reward": self.reward}
        else:
            written, slabs = self.by_world, {}
            for group, of_group in zip(env.layout.groups, observed, strict=True):
                for name, slab in of_group.items():
                    slabs.setdefault(name, {})[group.role] = slab
            reward = self.by_world.agent_reward
            slabs["agent_reward"] = reward if env.num_agents > 1 else reward.squeeze(-1)
        slabs |= {"terminated": written.terminated, "truncated": written.truncated}
        if env.num_agents > 1:
            # In a world of one agent no agent leaves early, so the slab stays all True.
            slabs["agent_alive"] = written.agent_alive
        if self.env_reward is not None and as_wrapped(env):
            slabs["env_reward"] = self.env_reward
        if self.episode is not None:
            slabs["episode"] = {metric.name: slab for metric, slab in zip(env.env_spec.metrics, self.episode, strict=True)}
        env.bind(**slabs)

    def add_critic(self, names: tuple[str, ...]) -> Tensor:
        """Return the slab of inputs of critics that read some of ``sources``; critics with equal inputs share it."""
        if names not in self.critic:
            features = sum(self.sources[name] for name in names)
            num_worlds, device = len(self.alive_start), self.reward.device
            self.critic[names] = torch.zeros(self.num_steps + 1, num_worlds, features, dtype=torch.float32, device=device)
        return self.critic[names]

    def spread(self) -> None:
        """Copy the results that the env wrote by world, if it did, to the rows."""
        if self.by_world is None:
            return
        by_world, row, agent = self.by_world, 0, 0
        num_worlds = by_world.terminated.shape[1]
        for group in self.groups:
            rows, count = slice(row, row + group.num_rows), group.num_rows // num_worlds
            agents = slice(agent, agent + count)
            for target, source in (
                (self.reward, by_world.agent_reward[..., agents]),
                (self.agent_alive, by_world.agent_alive[..., agents]),
                (self.terminated, by_world.terminated.unsqueeze(-1)),
                (self.truncated, by_world.truncated.unsqueeze(-1)),
            ):
                target[:, rows].unflatten(1, (num_worlds, count)).copy_(source)
            row, agent = rows.stop, agents.stop

    def metrics_of_worlds(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return views: metrics of episodes, float32 (M, T, N), and ``terminated`` and ``truncated`` of worlds, bool (T, N).

        Metrics are valid where one of the two is True. The env must have metrics.
        """
        assert self.episode is not None
        rows = self.world_rows
        metrics = self.episode if self.by_world is not None else self.episode[..., rows]
        return metrics, self.terminated[:, rows], self.truncated[:, rows]

    @property
    def alive_last(self) -> Tensor:
        """Agents that are alive after the last step, bool (N, A); ``begin()`` copies it to ``alive_start``."""
        return self.alive_start if self.alive_next is None else self.alive_next[-1]

    def begin(self) -> None:
        """Move to the next rollout: agents that are alive after the last step are alive before step 0."""
        if self.alive_next is not None:
            self.alive_start.copy_(self.alive_last)


def critic_copies(env: GpuVectorEnv, rollout: Rollout) -> list[tuple[Tensor, Tensor]]:
    """Return the parts of the slabs of critics, float32 (T + 1, N, c), with the fields of the env's state that they copy."""
    copies = []
    for names, slab in rollout.critic.items():
        parts = slab.split([rollout.sources[name] for name in names], dim=2)
        fields = [torch.as_tensor(env.worlds.state.fields[name], device=env.device) for name in names]
        copies += [(part, values.view(len(values), -1)) for part, values in zip(parts, fields, strict=True)]
    return copies


def alive_field(env: GpuVectorEnv) -> Tensor | None:
    """Return the env's own array of who is in the game, integers (N, A); None if its agents never leave."""
    name = env.env_spec.alive
    return None if name is None else torch.as_tensor(env.worlds.state.fields[name], device=env.device)
