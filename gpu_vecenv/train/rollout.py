"""Slabs of a rollout, and the loop that fills them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from gymnasium import spaces
from torch import Tensor

from gpu_vecenv.train.gae import TransitionMasks, transition_masks
from gpu_vecenv.train.policy import Policy

if TYPE_CHECKING:
    from gpu_vecenv.vector.vector_env import GpuVectorEnv


@dataclass
class Rollout:
    """T steps of R rows, time-major. The env writes obs, reward, flags and final_obs, the collector the rest."""

    obs: Tensor
    """float32 (T + 1, R, F); slot t holds the observations before step t."""
    action: Tensor
    """int32 or float32 (T, R) or (T, R, k)."""
    log_prob: Tensor
    """float32 (T, R), of the actions when they were taken."""
    reward: Tensor
    """float32 (T, R)."""
    terminated: Tensor
    """bool (T, R), the row's world reached a terminal state."""
    truncated: Tensor
    """bool (T, R), the row's world hit its time limit."""
    agent_alive: Tensor
    """bool (T, R), alive after the step, before a reset."""
    final_obs: Tensor | None
    """float32 (T, R, F), valid where an episode ended; None if time limits are not bootstrapped."""
    alive_start: Tensor
    """bool (R,), alive before step 0."""

    @classmethod
    def allocate(cls, env: GpuVectorEnv, num_steps: int, with_final_obs: bool) -> Rollout:
        """Allocate slabs on the env's device.

        Args:
            env: vector env in the agents view.
            num_steps: T.
            with_final_obs: also keep final observations.
        """
        rows, (features,) = env.num_envs, env.single_observation_space.shape or ()
        space, device = env.single_action_space, torch.device(env.device)
        action_type = torch.float32 if isinstance(space, spaces.Box) else torch.int32

        def slab(steps: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(steps, rows, *shape, dtype=dtype, device=device)

        return cls(
            obs=slab(num_steps + 1, features),
            action=slab(num_steps, *(space.shape or ()), dtype=action_type),
            log_prob=slab(num_steps),
            reward=slab(num_steps),
            terminated=slab(num_steps, dtype=torch.bool),
            truncated=slab(num_steps, dtype=torch.bool),
            agent_alive=torch.ones(num_steps, rows, dtype=torch.bool, device=device),
            final_obs=slab(num_steps, features) if with_final_obs else None,
            alive_start=torch.ones(rows, dtype=torch.bool, device=device),
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
        slabs = {name: getattr(self, name) for name in ("obs", "reward", "terminated", "truncated")}
        if self.final_obs is not None:
            slabs["final_obs"] = self.final_obs
        if env.num_agents > 1:
            # In a world of one agent no agent leaves early, so the slab stays all True.
            slabs["agent_alive"] = self.agent_alive
        env.bind(**slabs)

    def masks(self) -> tuple[TransitionMasks, Tensor]:
        """Return the transition masks (T, R), and bool (R,), alive when the next rollout begins."""
        return transition_masks(self.alive_start, self.agent_alive, self.terminated, self.truncated)


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
            env: vector env in the agents view.
            rollout: slabs to fill.
            policies: policies by name.
            assignment: policy name to the rows it acts for.
            generator: source of sampled actions, on the env's device.
        """
        self.env = env
        self.rollout = rollout
        self.policies = policies
        self.assignment = assignment
        self.generator = generator
        rollout.bind(env)

    def reset(self, seed: int) -> None:
        """Start new episodes in all worlds."""
        self.env.reset(seed=seed)
        self.rollout.alive_start.fill_(True)

    @torch.no_grad()
    def collect(self) -> None:
        """Fill the slabs with T steps. The host does not wait for the device."""
        rollout = self.rollout
        for t in range(rollout.num_steps):
            for name, slices in self.assignment.items():
                for rows in slices:
                    action, log_prob = self.policies[name].act(rollout.obs[t, rows], self.generator)
                    rollout.action[t, rows] = action.to(rollout.action.dtype)
                    rollout.log_prob[t, rows] = log_prob
            self.env.step(rollout.action[t])

    def advance(self, alive: Tensor) -> None:
        """Move to the next rollout: its slot 0 of ``obs`` becomes a copy of the last observations.

        Args:
            alive: bool (R,), alive after the last step, from ``Rollout.masks()``.
        """
        self.rollout.alive_start.copy_(alive)
        self.env.rewind()

    def state_dict(self) -> dict[str, object]:
        """Return the state to save after ``advance()``."""
        return {
            "env": dict(self.env.get_state()),
            "obs": self.rollout.obs[0].clone(),
            "alive": self.rollout.alive_start.clone(),
            "generator": self.generator.get_state(),
            "generator_device": self.generator.device.type,
        }

    def load_state_dict(self, state: dict) -> None:
        """Restore what ``state_dict()`` returned, after a ``reset()``; on another kind of device the generator is unchanged."""
        self.env.set_state(state["env"])
        self.rollout.obs[0].copy_(state["obs"])
        self.rollout.alive_start.copy_(state["alive"])
        if state["generator_device"] == self.generator.device.type:  # CPU and CUDA generators have different states
            self.generator.set_state(state["generator"].cpu())
