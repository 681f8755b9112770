"""Rewards that policies learn from, in place of the env's own: a function of the user, and those of teams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpu_vecenv.errors import GpuVecenvError
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.storage.rollout import Rollout
from gpu_vecenv.train.storage.wrapped_env import as_wrapped
from gpu_vecenv.vector.env.reward import TEAM, RewardFunction, Shaping

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

WHY_STEPS = "a reward function or team rewards change the rewards of each step"
"""Reason why policies that could fill a rollout in one launch act step by step."""


class RolloutShaping:
    """Changes the rewards in the slabs of a rollout after each step; ``Rollout.env_reward`` keeps those before."""

    def __init__(self, shapings: Sequence[Shaping], env: GpuVectorEnv, rollout: Rollout) -> None:
        """Bind the slabs.

        Args:
            shapings: the changes, in their order.
            env: the env.
            rollout: its slabs, with ``env_reward``.
        """
        self._shapings, self._rollout = shapings, rollout
        self._rows = [rows for rows in env.role_rows.values() if rows.stop > rows.start]
        self._counts = [(rows.stop - rows.start) // env.num_worlds for rows in self._rows]
        self._keeps_reward = not as_wrapped(env)  # wrappers write the env's own rewards themselves
        self._metrics = [metric.name for metric in env.env_spec.metrics]
        self._state = {name: torch.as_tensor(x, device=env.device) for name, x in env.worlds.state.fields.items()}

    def __call__(self, t: int) -> None:
        """Change the rewards of step t, which the env has written."""
        rollout = self._rollout
        by_world, env_reward = rollout.by_world, rollout.env_reward
        assert env_reward is not None  # RunState allocates it
        if by_world is None:
            agent_reward = torch.cat(self._by_role(rollout.reward[t]), dim=1)
            flags = [slab[t, rollout.world_rows] for slab in (rollout.terminated, rollout.truncated)]
        else:
            agent_reward, flags = by_world.agent_reward[t].clone(), [by_world.terminated[t], by_world.truncated[t]]
        if self._keeps_reward:
            _spread(self._by_role(env_reward[t]), agent_reward)
        metrics: dict[str, Tensor] = {}
        if rollout.episode is not None:
            of_step = rollout.episode[:, t] if by_world is not None else rollout.episode[:, t, rollout.world_rows]
            metrics = dict(zip(self._metrics, of_step, strict=True))
        for shaping in self._shapings:
            try:
                agent_reward = shaping(agent_reward, flags[0], flags[1], metrics, self._state)
            except GpuVecenvError as error:
                raise ConfigError(str(error)) from error
        if by_world is None:
            _spread(self._by_role(rollout.reward[t]), agent_reward)
        else:
            by_world.agent_reward[t].copy_(agent_reward)

    def _by_role(self, rows: Tensor) -> list[Tensor]:
        """Return views of an array of all rows, (R,), by role, each (N, a)."""
        return [rows[of_role].view(-1, count) for of_role, count in zip(self._rows, self._counts, strict=True)]


def _spread(targets: Sequence[Tensor], agent_reward: Tensor) -> None:
    """Copy rewards (N, A) to those of each role, (N, a)."""
    for target, part in zip(targets, agent_reward.split([each.shape[1] for each in targets], dim=1), strict=True):
        target.copy_(part)


def shapings_of(reward: str, function: RewardFunction | None, env: GpuVectorEnv) -> list[Shaping]:
    """Return the changes of a run's rewards, in their order.

    Args:
        reward: ``TrainConfig.reward``.
        function: function of the user; None: none.
        env: the env.

    Raises:
        ConfigError: no function, or one of other parameters.
    """
    chosen: list[Any] = [] if function is None else [function]
    if chosen and not callable(chosen[0]):
        got = type(function).__name__
        raise ConfigError(f"reward: expected a function, got {got}; team rewards are TrainConfig(reward='team')")
    chosen += [TEAM] if reward == TEAM else []
    try:
        return [Shaping(each, env.env_spec.name, env.role_counts) for each in chosen]
    except GpuVecenvError as error:
        raise ConfigError(str(error)) from error
