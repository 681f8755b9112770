"""Rows of one role as a vector env; the other roles act at random or by functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from gpu_vecenv.backend.memory import public_memory
from gpu_vecenv.errors import ParameterError, ShapeError
from gpu_vecenv.spec.params import Params
from gpu_vecenv.spec.validation import ArrayT, abbreviated, describe, host_array, plain_tensor, require_mapping
from gpu_vecenv.vector.env.pickling import Copied, carried, carry_to
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv, StepResults
from gpu_vecenv.vector.inputs.resets import read_mask
from gpu_vecenv.vector.outputs.join_shared import full_mask, joined_space, whole_obs
from gpu_vecenv.vector.outputs.views import one_flag_a_world
from gpu_vecenv.vector.wrappers.other_roles import OtherRoles, RolePolicy


class RoleRows(Copied, VectorEnv[ArrayT, Any, ArrayT]):
    """Agents of one role, each an env, for trainers with one kind of row. The wrapped env's arrays are by role.

    Rows are ordered by world and then by agent: observations ``(R, F)``, actions ``(R,)`` or ``(R, k)``, reward ``(R,)`` with
    R = worlds x agents of the role. Observations are a view of ``obs[role]``; if the role has a shared part, they are a new array
    with that part in front of each row (``whole_obs``).

    Episodes end for a whole world, so flags and ``info["episode"]`` are those of the row's world. The modes of the wrapped env
    apply. Attributes that both classes have mean what they mean in ``GpuVectorEnv``, for the rows of this role alone.

    Args:
        env: an env of this package whose arrays are by role, without wrappers; wrappers go around the RoleRows.
        role: the role whose agents are the rows.
        others: ``"random"`` or a function for each other role; a role without an entry acts at random. A function takes the last
            ``obs[name]`` of its role, and the masks if the role has masks, and returns actions ``(N, A_name)`` or
            ``(N, A_name, k)``. Random actions are uniform over those that the masks allow, drawn on the env's device.

    Attributes:
        env: the wrapped env.
        role: the role.
        group: number and spaces of its agents, and the entries with masks.

    Raises:
        ParameterError: the env is of another kind, or there is no such role.
    """

    def __init__(self, env: VectorEnv[Any, Any, ArrayT], role: str, others: Mapping[str, RolePolicy | str] | None = None) -> None:
        if not isinstance(env, GpuVectorEnv):
            raise ParameterError(f"RoleRows takes an env of this package without wrappers, got {type(env).__name__}.")
        name, counts = env.env_spec.name, env.role_counts
        if not env.layout.by_role:
            raise ParameterError(f'{name}: all roles have the same spaces, so RoleRows is not needed; use view="agents".')
        if not isinstance(role, str) or role not in counts:
            raise ParameterError(f"{name} has no role {abbreviated(role)}; the roles are {', '.join(counts)}.")
        self.env, self.role = env, role
        self.group = next(group for group in env.layout.groups if group.role == role)
        self._other_roles = OtherRoles(env, role, {} if others is None else others)
        self.view, self.array, self.device = "agents", env.array, env.device
        self.env_spec, self.spec = env.env_spec, env.spec
        self.autoreset_mode, self.render_mode, self.metadata = env.autoreset_mode, env.render_mode, dict(env.metadata)
        self.num_worlds, self.num_agents = env.num_worlds, counts[role]
        self.num_envs = self.num_worlds * self.num_agents
        self.role_counts, self.role_rows = {role: self.num_agents}, {role: slice(0, self.num_envs)}
        self.single_observation_space, self.single_action_space = joined_space(self.group), self.group.action
        before = sum(list(counts.values())[: list(counts).index(role)])
        self._agents = slice(before, before + self.num_agents)
        self._memory = public_memory(self.array, self.device)
        self._worlds = np.repeat(np.arange(self.num_worlds), self.num_agents)
        self._world_of_row = self._memory.from_numpy(self._worlds)

    @property
    def params(self) -> Params:
        """Resolved parameters of the env."""
        return self.env.params

    @cached_property
    def observation_space(self) -> Space:  # type: ignore[override]  # it can be assigned, which mypy does not know
        """Batched observation space, built at its first use."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> Space:  # type: ignore[override]
        """Batched action space, built at its first use."""
        return batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[ArrayT, dict[str, Any]]:
        """Start new episodes, as ``GpuVectorEnv.reset``.

        Args:
            seed: an int for all worlds, a list with one seed a world, or None. A seed also starts random actions anew.
            options: ``reset_mask``, bool ``(num_envs,)``, resets those rows, which must be all rows of a world or none; further
                names are the env's own.

        Returns:
            obs: float32 ``(R, F)``.
            info: ``action_mask`` bool ``(R, M)`` if the role has masks.
        """
        reset_options = {} if options is None else dict(require_mapping(options, "reset options"))
        mask = read_mask(reset_options.pop("reset_mask", None), self.num_envs, self._world_mask)
        obs, info = self.env.reset(seed=seed, options=reset_options if mask is None else {**reset_options, "reset_mask": mask})
        if seed is not None:
            self._other_roles.seed(seed)
        with self._memory.here():
            return self._rows(obs), self._info(info)

    def step(self, actions: Any) -> StepResults[ArrayT]:
        """Advance every world by one step, with actions of the other roles for the last observations.

        Args:
            actions: actions of the role, shaped like ``action_space``, as ``GpuVectorEnv.step`` takes them.

        Returns:
            obs: float32 ``(R, F)``.
            reward: float32 ``(R,)``, the agents' own rewards.
            terminated, truncated: bool ``(R,)``.
            info: as of ``GpuVectorEnv``, by row: ``final_obs``, ``_final_obs``, ``agent_reward``, ``agent_alive``, ``episode``,
                ``_episode``, and if the role has masks ``action_mask`` and ``final_action_mask`` bool ``(R, M)``.
        """
        role_actions = self._by_world(actions)
        self.env._require_started("step()")
        obs, reward, terminated, truncated, info = self.env.step({self.role: role_actions, **self._other_roles.actions()})
        with self._memory.here():
            rows = self._info(info)
            own_reward = rows.get("agent_reward")  # absent in worlds of one agent
            return (
                self._rows(obs),
                reward if own_reward is None else own_reward,
                self._repeated(terminated),
                self._repeated(truncated),
                rows,
            )

    def action_masks(self) -> ArrayT:
        """Return the masks of the last observations for all entries of an action, as MaskablePPO of sb3-contrib expects them.

        Returns:
            bool ``(R, sum of the choices of all entries)``; True for all choices of entries without a mask.

        Raises:
            ParameterError: the role has no masks.
            SequenceError: before the first reset.
        """
        if not self.group.masked:
            raise ParameterError(f"{self.env_spec.name}: {self.role} has no masked entries.")
        self.env._require_started("action_masks()")
        place = self.env.worlds.outputs.results.public["action_mask"][self.role]
        with self._memory.here():
            masks: ArrayT = self._flat(full_mask(self.group, self._public(self.env.worlds.last()[place])))
            return masks

    def observe(self) -> ArrayT:
        """Return the observations of the present state, float32 ``(R, F)``."""
        with self._memory.here():
            obs: ArrayT = self._rows(self.env.observe())
            return obs

    def get_state(self, *names: str) -> dict[str, ArrayT]:
        """Copies of the state fields named, of all by default, leading axis worlds."""
        return self.env.get_state(*names)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Overwrite the state fields given; see ``GpuVectorEnv.set_state``."""
        self.env.set_state(state)

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Draw one uint8 (H, W, 3) frame a row; rows of a world get the same one. None without ``render_mode``."""
        frames = self.env.render()
        return None if frames is None else tuple(frames[world] for world in self._worlds)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the wrapped env."""
        self.env.close(**kwargs)

    # ---- private ----------------------------------------------------------------------------------------------

    def _by_world(self, actions: Any) -> Any:
        """Return actions by row as (N, A_r) or (N, A_r, k), without a copy if they are contiguous."""
        if describe(actions).kind == "torch":
            actions = plain_tensor(actions, "actions")
        elif not hasattr(actions, "reshape"):
            try:
                actions = np.asarray(host_array(actions, "actions"))
            except ValueError as error:
                raise ShapeError(f"actions must have {self.num_envs} rows, got lists of unequal lengths.") from error
        entries = self.single_action_space.shape or ()
        if tuple(actions.shape) != (self.num_envs, *entries):
            raise ShapeError(f"actions must have shape {(self.num_envs, *entries)}, got {tuple(actions.shape)}.")
        return actions.reshape((self.num_worlds, self.num_agents, *entries))

    def _info(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """Return an info of the wrapped env by row."""
        rows: dict[str, Any] = {}
        for name, value in info.items():
            if name in ("agent_alive", "agent_reward"):
                rows[name] = self._flat(value[:, self._agents])
            elif name == "final_obs":
                rows[name] = self._rows(value)
            elif name == "episode":
                rows[name] = {metric: self._repeated(values) for metric, values in value.items()}
            elif not isinstance(value, dict):
                rows[name] = self._repeated(value)
            elif self.role in value:  # masks, only of roles that have them
                rows[name] = self._flat(value[self.role])
        return rows

    def _rows(self, obs: Mapping[str, Any]) -> Any:
        """Return the role's observations, (R, F)."""
        role_obs = obs[self.role]
        return self._flat(role_obs if self.group.shared is None else whole_obs(role_obs))

    def _flat(self, by_world: Any) -> Any:
        """Return an array (N, A_r, ...) as (R, ...): a view if the array is contiguous."""
        return by_world.reshape((self.num_envs, *by_world.shape[2:]))

    def _repeated(self, by_world: Any) -> Any:
        """Return an array (N,) as (R,): the array itself if a world has one agent of the role."""
        return by_world if self.num_agents == 1 else by_world[self._world_of_row]

    def _public(self, array: Any) -> Any:
        """Return an array of the device in the array kind of the env."""
        convert = self.env._convert
        return array if convert is None else convert(array)

    def _world_mask(self, mask: np.ndarray) -> np.ndarray:
        """Return a mask over rows as a mask over worlds."""
        return one_flag_a_world(mask.reshape(self.num_worlds, -1))

    def __reduce__(self) -> tuple[type[RoleRows], tuple[Any, ...], dict[str, Any]]:
        """For pickle and copy: the wrapped env and the policies of the other roles, then the state of random actions."""
        state = {"attributes": carried(self), "generator": self._other_roles.generator.get_state()}
        return RoleRows, (self.env, self.role, self._other_roles.policies), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over the state of the original."""
        carry_to(self, state["attributes"])
        self._other_roles.generator.set_state(state["generator"])

    def __repr__(self) -> str:
        """Name, role, size, device."""
        return f"RoleRows({self.env_spec.name}, role={self.role}, num_envs={self.num_envs}, device={self.device})"
