"""Stable-Baselines3: any env of this package as its ``VecEnv``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from gpu_vecenv import EpisodeStatistics, RoleRows
from gpu_vecenv.adapters.checks import action_tensor, checked_env, has_statistics, made_by_id, row_group, row_spaces
from gpu_vecenv.errors import ArrayTypeError, MissingExtraError, ParameterError, SequenceError, ShapeError, UnknownAttributeError
from gpu_vecenv.spec.validation import Array, abbreviated, require_mapping, whole_number
from gpu_vecenv.vector.env.attributes import SHARED
from gpu_vecenv.vector.env.pickling import Copied
from gpu_vecenv.vector.inputs.random_actions import uniform_actions
from gpu_vecenv.vector.inputs.seeding import check_one_seed
from gpu_vecenv.vector.outputs.join_shared import full_mask
from gpu_vecenv.vector.wrappers.other_roles import other_policies, random_bounds

try:
    from stable_baselines3.common.monitor import Monitor, ResultsWriter
    from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices

    from gpu_vecenv.adapters.sb3_functions import EnvFunction, one_vector_env
except ImportError as error:
    raise MissingExtraError('this adapter needs Stable-Baselines3: pip install "gpu-vecenv[sb3]"') from error

Policy = Callable[..., Array]
"""From observations float32 (rows, F), and masks bool (rows, M) if the env has masks, both on the env's device, to actions
(rows,) or (rows, k); actions of another array kind than torch are copied there."""


class DeviceStep(NamedTuple):
    """Outputs of one step, tensors on the env's device; with ``copy=False`` the next step overwrites them."""

    obs: Tensor
    """float32 (num_envs, F), first observations of the new episode in rows whose episode ended."""
    reward: Tensor
    """float32 (num_envs,)."""
    terminated: Tensor
    """bool (num_envs,)."""
    truncated: Tensor
    """bool (num_envs,)."""
    final_obs: Tensor
    """float32 (num_envs, F), last observations of the old episode; valid in rows whose episode ended."""
    episode_return: Tensor
    """float32 (num_envs,), sum of the episode's rewards up to this step."""
    episode_length: Tensor
    """int32 (num_envs,), steps of the episode up to this one."""


class Sb3VecEnv(Copied, VecEnv):
    """A ``VecEnv`` whose rows are agents: all agents of all worlds, or those of one role.

    Results are new NumPy arrays. A step that ends an episode also starts the next one. ``infos`` holds a dict for each row. The
    dict of a row whose episode ended has ``terminal_observation``, ``TimeLimit.truncated``, ``episode`` (as SB3's ``Monitor``
    writes it: ``r``, ``l``, ``t``) and, with several agents, ``agent_alive``; other dicts are empty. An episode ends for all rows
    of a world at once: an agent that left the game earlier keeps its row, with reward 0 and the observation that its env writes.
    If the rows have masks, ``MaskablePPO`` of sb3-contrib reads them with ``action_masks()``. Spaces are those of the wrappers
    around ``env``. Episode returns are sums of the rewards of its ``EpisodeStatistics``, or of the outermost wrapper without one.

    Args:
        env: an id, or an env made with ``array="torch"`` and, if worlds have several agents, ``view="agents"``; or ``RoleRows``,
            if roles have spaces of their own; or a function for each row that makes an env of one agent, as ``make_vec_env`` of
            SB3 passes with ``vec_env_cls=Sb3VecEnv``: all worlds are those of the first function's env, without its wrappers.
        num_envs: rows of all roles together, for an id; ``num_worlds`` in ``options`` may give the number of worlds instead.
        role: the role whose agents are the rows; None for all roles.
        others: policies of the other roles, by role, or ``"random"``; a role without an entry acts at random.
        options: further keywords of ``gymnasium.make_vec``, for an id or functions.

    Raises:
        ParameterError: the env is of another kind, a role is unknown, or a value of ``others`` is no function.
        MissingExtraError: on import, when Stable-Baselines3 is not installed.
    """

    def __init__(
        self,
        env: str | VectorEnv | Sequence[EnvFunction],
        num_envs: int = 1,
        role: str | None = None,
        others: Mapping[str, Policy | str] | None = None,
        **options: Any,
    ) -> None:
        self._log: ResultsWriter | None = None
        if isinstance(env, str):
            outermost = made_by_id(env, "Sb3VecEnv", {"view": "agents", "array": "torch"}, {"num_envs": num_envs, **options})
        elif whole_number(num_envs) != 1 or (options and isinstance(env, VectorEnv)):
            raise ParameterError(f"num_envs and keywords of make_vec need an id as env, got {type(env).__name__}.")
        elif isinstance(env, VectorEnv):
            outermost = env
        else:
            outermost, self._log = one_vector_env(env, options)
        self._inner = checked_env(outermost, "Sb3VecEnv", view="agents")
        self._vector_env = self._inner.env if isinstance(self._inner, RoleRows) else self._inner
        self.env = outermost if has_statistics(outermost) else EpisodeStatistics(outermost)
        self.device = torch.device(self._inner.device)
        roles = self._inner.role_rows
        if role is not None and (not isinstance(role, str) or role not in roles):
            raise ParameterError(f"there is no role {abbreviated(role)}; the roles are {', '.join(roles)}.")
        if role is None and others is not None and require_mapping(others, "others"):
            raise ParameterError("others act for the roles that are not trained, so role must name the trained one; got None.")
        not_trained = [name for name in roles if role not in (None, name)]
        policies = other_policies({} if others is None else others, not_trained, role)
        self._rows = slice(0, self._inner.num_envs) if role is None else roles[role]
        observation_space, action_space = row_spaces(outermost)
        self._generator = torch.Generator(self.device)
        self._generator.seed()
        self._other_roles: list[tuple[str, slice, Policy | None]] = []
        self._bounds: tuple[Tensor, Tensor] | None = None
        for name in not_trained:
            self._other_roles.append((name, roles[name], policies.get(name)))
            if name not in policies:
                self._bounds = random_bounds(action_space, name, self.device)
        self._group = row_group(self._inner)
        self._obs: Tensor | None = None
        self._mask: Tensor | None = None
        self._alive: Tensor | None = None
        self._actions: Tensor | None = None
        self._start = time.time()
        rows = self._rows.stop - self._rows.start
        super().__init__(rows, observation_space, action_space)
        self.spec = self._inner.spec
        self.metadata["render_fps"] = self._inner.metadata["render_fps"]

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Set the seed of the next reset; None draws one. Return a seed for each row, of which the first one is used.

        Raises:
            ParameterError: not an integer in [0, 2^64).
        """
        return super().seed(None if seed is None else check_one_seed(seed))

    def set_options(self, options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None) -> None:
        """Set the options of the next reset: one mapping, or equal ones for all rows.

        Raises:
            ArrayTypeError: no mapping with names as keys.
            ShapeError: another number of mappings than rows.
            ParameterError: options that differ by row.
        """
        if isinstance(options, list | tuple):
            if len(options) != self.num_envs:
                raise ShapeError(f"options must be one mapping, or {self.num_envs} for as many rows, got {len(options)}.")
            if any(row != options[0] for row in options):
                raise ParameterError("options must be the same for all rows, which are one env; got several.")
            options = options[0]
        super().set_options(None if options is None else dict(require_mapping(options, "options")))

    def reset(self) -> np.ndarray:
        """Start new episodes, with the seed of ``seed()`` and the options of ``set_options()``.

        The first row's seed is the env's seed; the random keys of worlds differ by ``world_id``.

        Returns:
            float32 (num_envs, F).

        Raises:
            ParameterError: the env does not have the options.
        """
        seed, options = self._seeds[0], self._options[0]
        self._actions = None
        self._reset_seeds()
        self._reset_options()
        if seed is not None:
            self._generator.manual_seed(seed)
        self._obs, info = self.env.reset(seed=seed, options=options)
        self._mask, self._alive = info.get("action_mask"), None
        return _host(self.last_obs)

    def step_async(self, actions: np.ndarray | Tensor) -> None:
        """Store a copy of the actions of the next step, (num_envs,) or (num_envs, k).

        Raises:
            SequenceError: the actions of a step wait already.
        """
        if self._actions is not None:
            raise SequenceError("step_async() was called twice; call step_wait() first.")
        if isinstance(actions, np.ndarray):
            actions = actions.copy()  # the caller may change them before step_wait()
        elif isinstance(actions, Tensor):
            actions = actions.clone()
        self._actions = action_tensor(actions, self.num_envs, self.device)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Make the step.

        Returns:
            obs: float32 (num_envs, F).
            reward: float32 (num_envs,).
            done: bool (num_envs,), terminated or truncated.
            infos: a dict for each row.

        Raises:
            SequenceError: no actions since the last step or reset.
        """
        actions, self._actions = self._actions, None
        if actions is None:
            raise SequenceError("call step_async() before step_wait().")
        step = self.step_on_device(actions)
        terminated, truncated = _host(step.terminated), _host(step.truncated)
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done.any():
            self._describe_finished(infos, np.flatnonzero(done), step, truncated & ~terminated)
        return _host(step.obs), _host(step.reward), done, infos

    def step_on_device(self, actions: Any) -> DeviceStep:
        """Make a step whose actions and results are tensors on the env's device."""
        if self._other_roles:
            actions = self._with_others(actions)
        self._obs, reward, terminated, truncated, info = self.env.step(actions)
        rows, episode, self._mask = self._rows, info["episode"], info.get("action_mask")
        self._alive = info["agent_alive"][rows] if "agent_alive" in info else None
        return DeviceStep(
            self._obs[rows],
            reward[rows],
            terminated[rows],
            truncated[rows],
            info["final_obs"][rows],
            episode["r"][rows],
            episode["l"][rows],
        )

    @property
    def last_obs(self) -> Tensor:
        """Current observations, float32 (num_envs, F) on the env's device."""
        return self._started_obs()[self._rows]

    @property
    def agent_alive(self) -> np.ndarray | None:
        """Bool (num_envs,), alive after the last step, before a reset; None if worlds have one agent."""
        return None if self._alive is None else _host(self._alive)

    def action_masks(self) -> np.ndarray:
        """Return the choices allowed now, bool (num_envs, sum of the choices of all entries), True where allowed.

        Raises:
            ParameterError: the rows have no masks.
            SequenceError: before the first reset.
        """
        if not self._group.masked:
            raise ParameterError(f"{self._inner.env_spec.name} has no masks for these rows.")
        if self._mask is None:
            raise SequenceError("call reset() before action_masks().")
        return _host(full_mask(self._group, self._mask[self._rows]))

    def close(self) -> None:
        """Close the env, and the log of episodes."""
        self.env.close()
        if self._log is not None:
            self._log.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return a frame for each world, uint8 (H, W, 3); without ``render_mode``, None for each row."""
        frames = self._inner.render()
        if frames is None:
            return [None] * self.num_envs
        agents = next(iter(self._inner.role_counts.values()))  # consecutive rows of the first role share a world
        return frames[: self._inner.num_worlds * agents : agents]

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of the env, or a parameter by its name, once for each row in ``indices``.

        Raises:
            UnknownAttributeError: the env has no such attribute and no such parameter.
        """
        if attr_name == "action_masks" and not self._group.masked:
            raise AttributeError("the rows have no masks.")  # tells sb3-contrib
        if attr_name in ("action_masks", "observation_space", "action_space"):
            value = getattr(self, attr_name)
        elif self._shares(attr_name) or not hasattr(self._inner, attr_name):
            value = self._vector_env.get_attr(attr_name)[0]
        else:
            value = getattr(self._inner, attr_name)
        return [value] * self._count(indices)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Refuse to change an attribute or a parameter, unless ``value`` is the present one of a parameter.

        Raises:
            UnknownAttributeError: the env has no such attribute and no such parameter.
            ParameterError: another value than the present one, or ``indices`` leaves rows out.
        """
        self._require_all(indices, "set_attr()")
        self.get_attr(attr_name)
        if not self._shares(attr_name):
            raise ParameterError(f"{attr_name} is read-only, got {abbreviated(value)}; it cannot be changed.")
        self._vector_env.set_attr(attr_name, [value] * self._vector_env.num_envs)

    def env_method(self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any) -> list[Any]:
        """Call a method of the env once; return its result once for each row. ``action_masks`` has a result for each row.

        Raises:
            ParameterError: ``indices`` leaves rows out.
            UnknownAttributeError: the env has no public method of this name.
        """
        self._require_all(indices, "env_method()")
        if method_name == "action_masks":
            return list(self.action_masks(*method_args, **method_kwargs))
        public = isinstance(method_name, str) and not method_name.startswith("_")
        method = getattr(self._inner, method_name, None) if public else None
        if not callable(method):
            raise UnknownAttributeError(f"{self._inner.env_spec.name} has no method {abbreviated(method_name)}.")
        return [method(*method_args, **method_kwargs)] * self.num_envs

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Return True for ``Monitor``, whose ``info["episode"]`` this class writes, and False for other wrappers.

        Raises:
            ArrayTypeError: ``wrapper_class`` is no class.
        """
        if not isinstance(wrapper_class, type):
            raise ArrayTypeError(f"wrapper_class must be a class, got {abbreviated(wrapper_class)}.")
        return [issubclass(Monitor, wrapper_class)] * self._count(indices)

    def _describe_finished(
        self, infos: list[dict[str, Any]], finished: np.ndarray, step: DeviceStep, timed_out: np.ndarray
    ) -> None:
        rows = torch.as_tensor(finished, device=self.device)
        final_obs = _host(step.final_obs[rows])
        returns, lengths = _host(step.episode_return[rows]).tolist(), _host(step.episode_length[rows]).tolist()
        alive = None if self._alive is None else _host(self._alive[rows]).tolist()
        seconds = round(time.time() - self._start, 6)
        for k, row in enumerate(finished.tolist()):
            info = infos[row]
            info["terminal_observation"] = final_obs[k]
            info["TimeLimit.truncated"] = bool(timed_out[row])
            info["episode"] = {"r": returns[k], "l": lengths[k], "t": seconds}
            if alive is not None:
                info["agent_alive"] = alive[k]
            if self._log is not None:
                self._log.write_row(info["episode"])

    def _with_others(self, actions: Tensor) -> Tensor:
        """Return the actions of all agents: those of the trained role, and those of the other roles' policies."""
        obs, entries = self._started_obs(), self.action_space.shape or ()
        joint = torch.empty((self._inner.num_envs, *entries), dtype=actions.dtype, device=self.device)
        joint[self._rows] = self._checked(actions, joint[self._rows], "actions")
        with torch.no_grad():
            for name, rows, policy in self._other_roles:
                masks = () if self._mask is None else (self._mask[rows],)
                chosen = policy(obs[rows], *masks) if policy else self._random_actions(obs[rows], *masks)
                where = f"the actions of others[{name!r}]"
                joint[rows] = self._checked(action_tensor(chosen, len(obs[rows]), self.device, where), joint[rows], where)
        return joint

    def _random_actions(self, obs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return uniform random actions for the rows of ``obs``, of those that the mask allows."""
        shape, masked = obs.shape[:1], self._group.masked
        return uniform_actions(self.action_space, shape, self._generator, self._bounds, mask, masked)

    def _shares(self, attr_name: str) -> bool:
        """True for names of parameters, and of attributes that the vector env gives by name."""
        return attr_name in self._vector_env.params or attr_name in SHARED

    @staticmethod
    def _checked(actions: Tensor, rows: Tensor, name: str) -> Tensor:
        """Return ``actions``, whose shape and kind of dtype must be those of ``rows``: others would be broadcast or rounded."""
        if actions.shape != rows.shape:
            raise ShapeError(f"{name} must have shape {tuple(rows.shape)}, got {tuple(actions.shape)}.")
        if actions.is_complex() or actions.is_floating_point() != rows.is_floating_point():
            raise ArrayTypeError(f"{name} must be of the kind of {rows.dtype}, got {actions.dtype}.")
        return actions

    def _started_obs(self) -> Tensor:
        """Return the current observations of all agents."""
        if self._obs is None:
            raise SequenceError("call reset() before the first step.")
        return self._obs

    def _count(self, indices: Any) -> int:
        """Return the number of rows that ``indices`` names.

        Raises:
            ParameterError: not a number of a row, or several.
        """
        if indices is None:
            return self.num_envs
        listed = [indices] if np.ndim(indices) == 0 else list(indices)
        row_numbers = [whole_number(index) for index in listed]
        if not all(number is not None and -self.num_envs <= number < self.num_envs for number in row_numbers):
            raise ParameterError(f"indices must be numbers of {self.num_envs} rows or None, got {abbreviated(indices)}.")
        return len(row_numbers)

    def _require_all(self, indices: VecEnvIndices, call: str) -> None:
        if self._count(indices) != self.num_envs:
            raise ParameterError(f"{call} affects all rows, which are one env; expected no indices, got {abbreviated(indices)}.")


def _host(tensor: Tensor) -> np.ndarray:
    """Return a NumPy copy, also of a CPU tensor, because SB3 writes into rewards and keeps observations."""
    return tensor.to("cpu", copy=True).numpy()
