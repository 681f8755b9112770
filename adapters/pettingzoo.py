"""PettingZoo: one world of any env of this package as a ``ParallelEnv``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Space

from gpu_vecenv.adapters.checks import made_by_id, without_wrappers
from gpu_vecenv.errors import ArrayTypeError, MissingExtraError, ParameterError, SequenceError, ShapeError
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.spec.validation import abbreviated, host_array, require_mapping
from gpu_vecenv.vector.env.masks import sample_mask
from gpu_vecenv.vector.env.pickling import Copied
from gpu_vecenv.vector.outputs.join_shared import joined_space, whole_obs

try:
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils import parallel_to_aec, wrappers
except ImportError as error:
    raise MissingExtraError('this adapter needs PettingZoo: pip install "gpu-vecenv[pettingzoo]"') from error


class PettingZooEnv(Copied, ParallelEnv):
    """A ``ParallelEnv`` of one world, in NumPy, for evaluation, teaching and code written for PettingZoo.

    Agents are named after their role, such as ``tagger_0`` and ``runner_3``. An agent that leaves the game, such as a tagged
    runner, is ``terminated`` in that step. Later steps leave it out of ``agents`` and of all dicts. When an episode ends, all
    agents that are left are ``terminated`` by the rules or ``truncated`` by the time limit.

    Each agent has the spaces of its role. A part of observations that a role shares is in front of an agent's own part. Agents of
    a role with masks get ``infos[agent]["action_mask"]`` with each observation: an int8 array, 1 for allowed choices, for a
    ``Discrete`` action; a tuple of one such array for each entry for a ``MultiDiscrete`` one. ``sample`` of the agent's action
    space takes both. Flags of entries without effect are not part of the dicts; the env ignores such entries.

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
        ParameterError: the id makes an env of another kind or with wrappers, or an option is one that this class sets, such as
            ``array``.
        MissingExtraError: on import, when PettingZoo is not installed.
    """

    def __init__(self, env_id: str, render_mode: str | None = None, **options: Any) -> None:
        fixed = {"num_envs": 1, "num_worlds": 1, "view": "worlds", "array": "numpy", "copy": True}
        fixed["autoreset_mode"] = "disabled"  # a finished world waits for reset()
        outermost = made_by_id(env_id, "PettingZooEnv", fixed, {"render_mode": render_mode, **options})
        env = without_wrappers(outermost, env_id, "PettingZooEnv", "wrappers of PettingZoo or SuperSuit")
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
        layout, names = env.layout, iter(self.possible_agents)
        self._by_role = env.layout.by_role
        self._members = [(group, [next(names) for _ in range(group.count)]) for group in layout.groups]
        # Each agent has a space of its own, because a space holds the generator of its samples.
        group_of = {agent: group for group, members in self._members for agent in members}
        self.observation_spaces = {agent: deepcopy(joined_space(group)) for agent, group in group_of.items()}
        self.action_spaces = {agent: deepcopy(group.action) for agent, group in group_of.items()}
        length = 1 + sum(math.prod(layout.state_shape(field, 1)) for field in layout.spec.state)
        self.state_space = Box(-np.inf, np.inf, (length,), np.float32)

    def observation_space(self, agent: str) -> Space:
        """Return the space of an agent's observation, the same object in each call.

        Raises:
            ParameterError: there is no such agent.
        """
        return self.observation_spaces[self._known(agent)]

    def action_space(self, agent: str) -> Space:
        """Return the space of an agent's action, the same object in each call.

        Raises:
            ParameterError: there is no such agent.
        """
        return self.action_spaces[self._known(agent)]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Start a new episode with all agents.

        Args:
            seed: seed of the world; None keeps the world's random key, or draws a seed in the first reset.
            options: the env's reset options; others are ignored, as PettingZoo requires.

        Returns:
            observations: float32 (F,) by agent.
            infos: by agent, ``action_mask`` if its role has masks.

        Raises:
            ParameterError: the seed or an option of the env is out of range.
            ArrayTypeError: ``options`` is no mapping.
        """
        options = {} if options is None else require_mapping(options, "options")
        known = {option.name for option in self.vector_env.env_spec.reset_options}
        obs, info = self.vector_env.reset(seed=seed, options={k: v for k, v in options.items() if k in known})
        self.agents = list(self.possible_agents)
        return self._observations(obs), self._infos(info)

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, np.ndarray], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Make a step; every dict has an entry for each agent that was in the game before it.

        After an episode, a step without actions changes nothing and returns empty dicts, because SuperSuit makes such steps.

        Args:
            actions: an action for each of ``agents``.

        Returns:
            observations: float32 (F,) by agent.
            rewards: floats by agent.
            terminated: True if the agent left the game, or the rules ended the episode.
            truncated: True if the time limit ended the agent's episode.
            infos: by agent, ``action_mask`` if its role has masks.

        Raises:
            SequenceError: before the first reset, or actions are given although no agent is in the game.
            ClosedError: after ``close()``.
            ParameterError: ``actions`` has other agents than those in the game.
            ShapeError, ArrayTypeError, ActionError: an action does not fit its space.
        """
        self.vector_env._require_started("step()")
        acting = self.agents
        if not acting:
            if actions:
                raise SequenceError("no agent is in the game; call reset() before step().")
            return {}, {}, {}, {}, {}
        obs, reward, terminated, truncated, info = self.vector_env.step(self._joint_action(actions))
        reward = (info["agent_reward"] if "agent_reward" in info else reward).reshape(-1)
        alive = info.get("agent_alive", np.ones(len(self.possible_agents), bool)).reshape(-1)
        terminates, truncates = bool(terminated[0]), bool(truncated[0])  # an episode ends for the whole world
        rows = {agent: self._row[agent] for agent in acting}
        observations, infos = self._observations(obs), self._infos(info)
        self.agents = [] if terminates or truncates else [agent for agent, row in rows.items() if alive[row]]
        return (
            observations,
            {agent: float(reward[row]) for agent, row in rows.items()},
            {agent: terminates or not alive[row] for agent, row in rows.items()},
            {agent: truncates and bool(alive[row]) for agent, row in rows.items()},
            infos,
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

    def _known(self, agent: str) -> str:
        """Return the name of an agent.

        Raises:
            ParameterError: there is no such agent.
        """
        if not isinstance(agent, str) or agent not in self._row:
            raise ParameterError(f"there is no agent {abbreviated(agent)}; the agents are {abbreviated(self.possible_agents)}.")
        return agent

    def _observations(self, obs: Any) -> dict[str, np.ndarray]:
        """Return the observation of each agent in the game."""
        rows: list[np.ndarray] = []
        for group, members in self._members:
            part = obs[group.role] if group.role else obs
            part = whole_obs(part) if group.shared is not None else part
            rows.extend(part.reshape(group.count, *self.observation_spaces[members[0]].shape))
        return {agent: rows[self._row[agent]] for agent in self.agents}

    def _infos(self, info: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return ``action_mask`` of each agent in the game whose role has masks."""
        infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        if "action_mask" in info:
            masks = sample_mask(self.vector_env, info["action_mask"], 0)
            if not self._by_role:
                masks = {"": masks if len(self.possible_agents) > 1 else (masks,)}
            for group, members in self._members:
                if group.masked:
                    by_agent = dict(zip(members, masks[group.role], strict=True))
                    for agent in infos.keys() & by_agent.keys():
                        infos[agent]["action_mask"] = by_agent[agent]
        return infos

    def _joint_action(self, actions: Mapping[str, Any]) -> Any:
        """Return the actions of all agents as ``vector_env.step`` takes them, on the env's device."""
        if require_mapping(actions, "actions").keys() != set(self.agents):
            missing = [agent for agent in self.agents if agent not in actions]
            unknown = [agent for agent in actions if agent not in self.agents]
            wrong = f"missing {missing}, unexpected {unknown}"
            raise ParameterError(f"actions must be given for all agents in the game and no others: {wrong}.")
        joint = {group.role: self._group_action(actions, group, members) for group, members in self._members}
        if self._by_role:
            return {role: values.unsqueeze(0) for role, values in joint.items()}
        return joint[""].unsqueeze(0) if len(self.possible_agents) > 1 else joint[""]

    def _group_action(self, actions: Mapping[str, Any], group: Group, members: list[str]) -> torch.Tensor:
        """Return the actions of one group, (agents of the group(, k)), with 0, which is ignored, for agents that left."""
        acting = [i for i, agent in enumerate(members) if agent in actions]
        if not acting:
            dtype = torch.float32 if group.continuous else torch.int64
            return torch.zeros(group.count, *(group.action.shape or ()), dtype=dtype, device=self.vector_env.device)
        try:
            stacked = np.stack([np.asarray(host_array(actions[members[i]], f"the action of {members[i]}")) for i in acting])
        except ValueError as error:
            raise ShapeError(f"actions must have one shape, {group.action.shape}: {error}.") from error
        if stacked.dtype.kind not in "iuf":
            raise ArrayTypeError(f"actions must be numbers, got {stacked.dtype}.")
        joint = np.zeros((group.count, *stacked.shape[1:]), stacked.dtype)
        joint[acting] = stacked
        # Copied to the device here: the env would warn of host actions, which this API always has.
        return torch.as_tensor(joint, device=self.vector_env.device)


def parallel_env(env_id: str = "WarpTag-v0", **options: Any) -> PettingZooEnv:
    """Make a ``ParallelEnv``, by PettingZoo's convention for modules of an env; arguments are those of ``PettingZooEnv``."""
    return PettingZooEnv(env_id, **options)


def raw_env(env_id: str = "WarpTag-v0", **options: Any) -> AECEnv:
    """Make an ``AECEnv`` by PettingZoo's own conversion, in which agents act one after another within a step."""
    return parallel_to_aec(PettingZooEnv(env_id, **options))


def env(env_id: str = "WarpTag-v0", **options: Any) -> AECEnv:
    """Make ``raw_env`` with PettingZoo's wrapper that raises an error for calls in a wrong order."""
    return wrappers.OrderEnforcingWrapper(raw_env(env_id, **options))
