"""skrl: envs of this package for skrl's trainers and agents; tensors stay on the env's device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Space
from gymnasium.vector import VectorEnv
from torch import Tensor

from gpu_vecenv.adapters.checks import checked_env, require_fresh, row_actions, row_spaces
from gpu_vecenv.errors import MissingExtraError, ParameterError
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.vector.env.pickling import Copied
from gpu_vecenv.vector.outputs.tree import require_roles

try:
    from skrl import config
    from skrl.envs.wrappers.torch import MultiAgentEnvWrapper, Wrapper
except ImportError as error:
    raise MissingExtraError('this adapter needs skrl: pip install "gpu-vecenv[skrl]"') from error


class _Copied(Copied):
    """Base of an env that can be pickled: skrl's ``__getattr__`` fails in the search for this method, before ``_env`` is set."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over the attributes of the original."""
        vars(self).update(state)


class SkrlEnv(_Copied, Wrapper):
    """skrl's single-agent wrapper; each of its envs is a row, that is one agent.

    A step that ends an episode also starts the next one. The first reset uses the seed of ``skrl.utils.set_seed``; later resets
    return the current observations, as in skrl's own wrappers of vector envs. ``infos`` is the env's ``info`` with the additional
    entries that ``with_final_observations()`` reads.

    Args:
        env: an env made with ``array="torch"`` and, if worlds have several agents, ``view="agents"``, or ``RoleRows``.

    Raises:
        ParameterError: the env is of another kind; in the first step also if it was made with ``copy=False``.
        MissingExtraError: on import, when skrl is not installed.
    """

    def __init__(self, env: VectorEnv) -> None:
        inner = checked_env(env, "SkrlEnv", "agents")
        super().__init__(env)
        self._inner = inner
        self._spaces: tuple[Space, Space] = row_spaces(env)
        self._action_shape = (self._inner.num_envs, *(self._spaces[1].shape or ()))
        self._obs: Tensor | None = None
        self._info: dict[str, Any] = {}

    @property
    def observation_space(self) -> Space:
        """Observation space of one row, as the wrappers around the env leave it."""
        return self._spaces[0]

    @property
    def action_space(self) -> Space:
        """Action space of one row, as the wrappers around the env leave it."""
        return self._spaces[1]

    @property
    def num_agents(self) -> int:
        """1, because each row is one agent."""
        return 1

    def reset(self) -> tuple[Tensor, dict[str, Any]]:
        """Return the current observations, float32 (rows, F); the first call starts episodes."""
        if self._obs is None:
            self._obs, self._info = self._env.reset(seed=config.torch.key)
        return self._obs, self._info

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Make a step.

        Args:
            actions: (rows, 1) for a Discrete, otherwise (rows, k).

        Returns:
            obs: float32 (rows, F), first observations of the new episode in rows whose episode ended.
            reward: float32 (rows, 1).
            terminated, truncated: bool (rows, 1).
            infos: the env's ``info``, with ``final_observations`` (rows, F) and ``ended`` bool (rows, 1).
        """
        obs, reward, terminated, truncated, info = self._env.step(row_actions(actions, self._action_shape, self._inner.device))
        require_fresh(obs, self._obs, "skrl")
        info["final_observations"], info["final_states"] = info["final_obs"], None
        info["ended"] = info["_final_obs"].view(-1, 1)
        self._obs, self._info = obs, info
        return obs, reward.view(-1, 1), terminated.view(-1, 1), truncated.view(-1, 1), info

    def state(self) -> None:
        """Return None: there is no state in addition to the observation."""

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Return the env's frames; None without ``render_mode``."""
        return self._env.render()

    def close(self) -> None:
        """Close the env."""
        self._env.close()


class SkrlMultiAgentEnv(_Copied, MultiAgentEnvWrapper):
    """skrl's multi-agent wrapper; each of its envs is a world, and arguments and results are dicts by agent.

    Agents are named by role and number, such as ``tagger_0`` and ``runner_0``. They stay until the world's episode ends; an agent
    that left the game gets reward 0. The state, which MAPPO's value network reads, is all agents' observations, concatenated.

    Args:
        env: an env made with ``array="torch"``, in the worlds view.

    Raises:
        ParameterError: the env is of another kind; in the first step also if it was made with ``copy=False``.
        MissingExtraError: on import, when skrl is not installed.
    """

    def __init__(self, env: VectorEnv) -> None:
        inner = checked_env(env, "SkrlMultiAgentEnv", "worlds")
        super().__init__(env)
        self._inner = inner
        if self._inner.num_agents == 1:
            raise ParameterError("SkrlMultiAgentEnv takes worlds of several agents, got one agent; use SkrlEnv.")
        self._observation_space, self._action_space = space, _ = row_spaces(env)
        self._names = [f"{role}_{i}" for role, count in self._inner.role_counts.items() for i in range(count)]
        low, high = (np.tile(np.ravel(bound), len(self._names)) for bound in (space.low, space.high))
        self._state_space = Box(low, high, dtype=np.float32)
        self._obs: Tensor | None = None
        self._info: dict[str, Any] = {}

    @property
    def agents(self) -> list[str]:
        """Names of all agents."""
        return self._names

    @property
    def possible_agents(self) -> list[str]:
        """Names of all agents."""
        return self._names

    @property
    def observation_spaces(self) -> dict[str, Space]:
        """Observation space of each agent."""
        return dict.fromkeys(self._names, self._observation_space)

    @property
    def action_spaces(self) -> dict[str, Space]:
        """Action space of each agent."""
        return dict.fromkeys(self._names, self._action_space)

    @property
    def state_spaces(self) -> dict[str, Space]:
        """State space of each agent, the same for all: float32 (agents x F,)."""
        return dict.fromkeys(self._names, self._state_space)

    def reset(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the current observations, float32 (worlds, F) for each agent; the first call starts episodes."""
        if self._obs is None:
            self._obs, self._info = self._env.reset(seed=config.torch.key)
        return self._by_agent(self._obs), self._info

    def step(self, actions: dict[str, Tensor]) -> tuple[dict[str, Tensor], ...]:
        """Make a step.

        Args:
            actions: for each agent (worlds, 1) for a Discrete, otherwise (worlds, k).

        Returns:
            obs: float32 (worlds, F) for each agent, first observations of the new episode in worlds whose episode ended.
            reward: float32 (worlds, 1) for each agent.
            terminated, truncated: bool (worlds, 1) for each agent, the same for all agents of a world.
            infos: the env's ``info``, with ``final_observations`` and ``final_states`` by agent and ``ended`` bool (worlds, 1).

        Raises:
            ParameterError: other agents than ``agents``.
        """
        rows = (self._inner.num_envs, *(self._action_space.shape or ()))
        by_name = require_roles("actions", actions, dict.fromkeys(self._names))
        joint = torch.stack([row_actions(by_name[name], rows, self._inner.device) for name in self._names], dim=1)
        obs, _, terminated, truncated, info = self._env.step(joint)
        require_fresh(obs, self._obs, "skrl")
        info["final_observations"] = self._by_agent(info["final_obs"])
        info["final_states"] = dict.fromkeys(self._names, info["final_obs"].flatten(1))
        info["ended"] = info["_final_obs"].view(-1, 1)
        self._obs, self._info = obs, info
        flags = (dict.fromkeys(self._names, flag.view(-1, 1)) for flag in (terminated, truncated))
        return self._by_agent(obs), self._by_agent(info["agent_reward"].unsqueeze(-1)), *flags, info

    def state(self) -> dict[str, Tensor | None]:
        """Return the state, float32 (worlds, agents x F), the same for all agents."""
        return dict.fromkeys(self._names, None if self._obs is None else self._obs.flatten(1))

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Return the env's frames; None without ``render_mode``."""
        return self._env.render()

    def close(self) -> None:
        """Close the env."""
        self._env.close()

    def _by_agent(self, values: Tensor) -> dict[str, Tensor]:
        """Split (worlds, agents, ...) into a view for each agent."""
        return dict(zip(self._names, values.unbind(1), strict=True))


def with_final_observations(agent_class: Any) -> Any:
    """Return a subclass of a skrl agent, such as ``PPO`` or ``MAPPO``, that learns from the last observation of an episode.

    skrl's trainers pass the env's observations to an agent. In the step that ends an episode these are the first of the next
    episode. Without the subclass, ``time_limit_bootstrap`` adds their values, and off-policy agents store them.

    Args:
        agent_class: class of an agent or multi-agent of skrl.

    Returns:
        The subclass, with the same arguments, for ``SkrlEnv`` and ``SkrlMultiAgentEnv``.

    Raises:
        ParameterError: no class.
    """
    if not isinstance(agent_class, type):
        raise ParameterError(f"agent_class must be a class of an agent of skrl, got {abbreviated(agent_class)}.")

    class WithFinalObservations(agent_class):
        def record_transition(self, *, next_observations: Any, next_states: Any, infos: Any, **transition: Any) -> None:
            next_observations = _select(infos["ended"], infos["final_observations"], next_observations)
            next_states = _select(infos["ended"], infos["final_states"], next_states)
            super().record_transition(next_observations=next_observations, next_states=next_states, infos=infos, **transition)

    return WithFinalObservations


def _select(ended: Tensor, final: Any, following: Any) -> Any:
    """Return ``final`` in rows whose episode ended and ``following`` in others; both are tensors, dicts of them, or None."""
    if isinstance(following, dict):
        return {name: _select(ended, final[name], value) for name, value in following.items()}
    return None if following is None else torch.where(ended, final, following)
