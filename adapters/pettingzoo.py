"""PettingZoo: one world of any env of this package as a ``ParallelEnv``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Space

from gpu_vecenv import GpuVectorEnv
from gpu_vecenv.errors import ArrayTypeError, MissingExtraError, ParameterError, SequenceError, ShapeError
from gpu_vecenv.spec.given import host_array, require_mapping

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise MissingExtraError('this adapter needs PettingZoo: pip install "gpu-vecenv[pettingzoo]"') from error


class PettingZooEnv(ParallelEnv):
    """A ``ParallelEnv`` of one world, in NumPy, for evaluation, teaching and code written for PettingZoo.

    Agents are named after their role, such as ``tagger_0`` and ``runner_3``. An agent that leaves the game, such as a tagged
    runner, is ``terminated`` in that step. Later steps leave it out of ``agents`` and of all dicts. When an episode ends, all
    agents that are left are ``terminated`` by the rules or ``truncated`` by the time limit.

    Args:
        env_id: an id of this package, or one registered with an env of your own.
        render_mode: None or ``"rgb_array"``.
        options: further keywords of ``gymnasium.make_vec``: ``device`` and the env's own.

    Attributes:
        possible_agents: all names, role by role.
        agents: names of the agents in the game; empty before the first reset and after an episode.
        state_space: space of ``state()``, a float32 vector.
        vector_env: the wrapped env of one world.

    Raises:
        ParameterError: the id makes an env of another kind.
        MissingExtraError: on import, when PettingZoo is not installed.
    """

    def __init__(self, env_id: str, render_mode: str | None = None, **options: Any) -> None:
        env = gymnasium.make_vec(
            env_id,
            num_worlds=1,
            view="agents",
            array="numpy",
            autoreset_mode="disabled",  # a finished world waits for reset()
            render_mode=render_mode,
            **options,
        ).unwrapped
        if not isinstance(env, GpuVectorEnv):
            raise ParameterError(f"PettingZooEnv takes an id of an env of this package, got {env_id!r}.")
        self.vector_env = env
        self.render_mode = render_mode
        self.metadata = {
            "name": env.env_spec.name,
            "render_modes": ["rgb_array"],
            "render_fps": env.metadata["render_fps"],
            "is_parallelizable": True,
        }
        self.possible_agents = [f"{role}_{i}" for role, count in env.role_counts.items() for i in range(count)]
        self.agents: list[str] = []
        self._row = {agent: row for row, agent in enumerate(self.possible_agents)}
        # Each agent has a space of its own, because a space holds the generator of its samples.
        self.observation_spaces = {agent: deepcopy(env.single_observation_space) for agent in self.possible_agents}
        self.action_spaces = {agent: deepcopy(env.single_action_space) for agent in self.possible_agents}
        layout = env.layout
        length = 1 + sum(math.prod(layout.state_shape(field, 1)) for field in layout.spec.state)
        self.state_space = Box(-np.inf, np.inf, (length,), np.float32)

    def observation_space(self, agent: str) -> Space:
        """Return the space of an agent's observation, the same object in each call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space:
        """Return the space of an agent's action, the same object in each call."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Start a new episode with all agents.

        Args:
            seed: seed of the world; None keeps the world's random key, or draws a seed in the first reset.
            options: the env's reset options; others are ignored, as PettingZoo requires.

        Returns:
            observations: float32 (F,) by agent.
            infos: an empty dict by agent.

        Raises:
            ParameterError: the seed or an option of the env is out of range.
        """
        known = {option.name for option in self.vector_env.env_spec.reset_options}
        obs, _ = self.vector_env.reset(seed=seed, options={k: v for k, v in (options or {}).items() if k in known})
        self.agents = list(self.possible_agents)
        return dict(zip(self.agents, obs, strict=True)), {agent: {} for agent in self.agents}

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, np.ndarray], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Make a step; every dict has an entry for each agent that was in the game before it.

        Args:
            actions: an action for each of ``agents``.

        Returns:
            observations: float32 (F,) by agent.
            rewards: floats by agent.
            terminated: True if the agent left the game, or the rules ended the episode.
            truncated: True if the time limit ended the agent's episode.
            infos: an empty dict by agent.

        Raises:
            SequenceError: no agent is in the game: before the first reset, or after an episode.
            ParameterError: ``actions`` has other agents than those in the game.
            ShapeError, ArrayTypeError, ActionError: an action does not fit its space.
        """
        acting = self.agents
        if not acting:
            raise SequenceError("no agent is in the game; call reset() before step().")
        obs, reward, terminated, truncated, info = self.vector_env.step(self._joint_action(actions))
        alive = info.get("agent_alive", np.ones(len(self.possible_agents), bool))
        ended = bool(terminated[0] | truncated[0])  # the episode of a world ends for all of its rows
        rows = {agent: self._row[agent] for agent in acting}
        self.agents = [] if ended else [agent for agent, row in rows.items() if alive[row]]
        return (
            {agent: obs[row] for agent, row in rows.items()},
            {agent: float(reward[row]) for agent, row in rows.items()},
            {agent: bool(terminated[row] | ~alive[row]) for agent, row in rows.items()},
            {agent: bool(truncated[row] & alive[row]) for agent, row in rows.items()},
            {agent: {} for agent in acting},
        )

    def state(self) -> np.ndarray:
        """Return the env's own state fields, one after the other, then the steps taken; float32."""
        fields = self.vector_env.get_state()
        names = [field.name for field in self.vector_env.env_spec.state]
        return np.concatenate([np.ravel(fields[name]).astype(np.float32) for name in [*names, "t"]])

    def render(self) -> np.ndarray | None:
        """Return a frame of the world, uint8 (H, W, 3); None without ``render_mode``."""
        frames = self.vector_env.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        """Close the wrapped env."""
        self.vector_env.close()

    def _joint_action(self, actions: Mapping[str, Any]) -> torch.Tensor:
        """Return the actions of all agents, (A,) or (A, k), on the env's device; agents that left get 0, which is ignored."""
        if require_mapping(actions, "actions").keys() != set(self.agents):
            missing = [agent for agent in self.agents if agent not in actions]
            unknown = [agent for agent in actions if agent not in self.agents]
            wrong = f"missing {missing}, unexpected {unknown}"
            raise ParameterError(f"actions must be given for all agents in the game and no others: {wrong}.")
        try:
            given = np.stack([np.asarray(host_array(actions[agent], f"the action of {agent}")) for agent in self.agents])
        except ValueError as error:
            raise ShapeError(f"actions must have one shape, {self.action_spaces[self.agents[0]].shape}: {error}.") from error
        if given.dtype.kind not in "iuf":
            raise ArrayTypeError(f"actions must be numbers, got {given.dtype}.")
        joint = np.zeros((len(self.possible_agents), *given.shape[1:]), given.dtype)
        joint[[self._row[agent] for agent in self.agents]] = given
        # Copied to the device here: the env would warn of host actions, which this API always has.
        return torch.as_tensor(joint, device=self.vector_env.device)
