"""The vector env: Gymnasium's contract over kernels that step all worlds in one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gpu_vecenv.actions import ActionReader
from gpu_vecenv.autoreset import KERNEL_MODE, parse_autoreset_mode
from gpu_vecenv.backend.memory import Array, Memory, output_memory
from gpu_vecenv.backend.select import choose_device, make_backend
from gpu_vecenv.errors import ActionError, ArrayTypeError, ClosedError, ParameterError, SequenceError, ShapeError
from gpu_vecenv.layout import OUTPUTS, Layout
from gpu_vecenv.outputs import Outputs, Slot
from gpu_vecenv.rendering import WorldRenderers
from gpu_vecenv.seeding import world_identity
from gpu_vecenv.spec import EnvSpec, Params
from gpu_vecenv.state import State
from gpu_vecenv.views import View, count_worlds

VIEWS = ("worlds", "agents")
ARRAYS = ("torch", "cupy", "numpy")


class GpuVectorEnv(VectorEnv):
    """All worlds of one env on one device.

    Made by ``gymnasium.make_vec(id, num_envs=N, ...)``. In the ``"worlds"`` view an env is a world: observations
    ``(N, A, F)``, actions ``(N, A)`` or ``(N, A, k)``, reward ``(N,)`` (the mean over the A agents). In the ``"agents"``
    view an env is an agent's row, rows ordered by role, then world, then agent: observations ``(R, F)``, actions
    ``(R,)`` or ``(R, k)``, reward ``(R,)``. With one agent a world both are the same.

    Args:
        env_spec: what the env is.
        num_envs: length of the leading axis: worlds, or rows of agents.
        num_worlds: worlds, as another way to say the size; ``num_envs`` then stays at 1.
        view: ``"worlds"`` or ``"agents"``.
        device: ``"auto"`` (a GPU if one is usable), ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
        array: kind of the arrays handed out: ``"torch"``, ``"cupy"`` or ``"numpy"``.
        autoreset_mode: an ``AutoresetMode``, its value, or its name in lower case.
        copy: True to hand out arrays that are never written again, False for persistent ones, valid until the next call.
        debug: True to raise invalid actions at every step on CUDA too, at the price of a synchronisation.
        first_world: number of the first world when ``reset`` gets one seed; other values for further GPUs.
        render_mode: None or ``"rgb_array"``.
        params: parameters of the env by their spec names.

    Raises:
        ParameterError, UnknownParameterError, DeviceError, CompileError, MissingExtraError: what is wrong and what would do.
    """

    def __init__(
        self,
        env_spec: EnvSpec,
        num_envs: int = 1,
        num_worlds: int | None = None,
        view: str = "worlds",
        device: str = "auto",
        array: str = "torch",
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        copy: bool = True,
        debug: bool = False,
        first_world: int = 0,
        render_mode: str | None = None,
        **params: Any,
    ) -> None:
        _require_one_of("view", view, VIEWS)
        _require_one_of("array", array, ARRAYS)
        _require_one_of("render_mode", render_mode, (None, "rgb_array"))
        if params.get("max_episode_steps", 0) is None:
            params["max_episode_steps"] = 0
        self.env_spec = env_spec
        self.layout = Layout(env_spec, env_spec.resolve(params))
        self.num_worlds = count_worlds(num_envs, num_worlds, self.layout, view == "agents")
        self.view, self.array, self.debug, self.first_world = view, array, debug, first_world
        self.autoreset_mode = parse_autoreset_mode(autoreset_mode)
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 30, "autoreset_mode": self.autoreset_mode}
        self._view = View(self.layout, self.num_worlds, view == "agents")
        self.num_envs = self._view.num_envs
        self.device = choose_device(device)
        self._out: Memory = output_memory(array, self.device)
        self._to_host = array == "numpy" and self.device != "cpu"
        self._backend = make_backend(self.layout, self.device, array)
        self._state = State(self.layout, self.num_worlds, self._backend.memory)
        self._outputs = Outputs(self._view, self._out, self._same_step, copy and not self._to_host)
        self._actions = ActionReader(self._view.agent_action_space, self._view.lead, self.device, self._backend.memory)
        self._started = False
        self._renderers: WorldRenderers | None = None
        self._make_args()

    # ---- what it is -------------------------------------------------------------------------------------------

    @property
    def num_agents(self) -> int:
        """Agents in a world."""
        return self.layout.num_agents

    @property
    def params(self) -> Params:
        """Resolved parameters by spec name."""
        return self.layout.params

    @property
    def role_counts(self) -> dict[str, int]:
        """Agents of each role in a world, in the order in which agents are numbered."""
        return self.layout.role_counts

    @property
    def role_rows(self) -> dict[str, slice]:
        """Rows of each role in the agents view: one contiguous slice a role."""
        return self._view.role_rows

    @property
    def single_observation_space(self) -> Space:  # type: ignore[override]
        """Observation space of one env of this view."""
        return self._view.single_observation_space

    @property
    def single_action_space(self) -> Space:  # type: ignore[override]
        """Action space of one env of this view."""
        return self._view.single_action_space

    @cached_property
    def observation_space(self) -> Space:  # type: ignore[override]
        """Batched observation space, built when first asked for: a million rows of bounds take seconds."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> Space:  # type: ignore[override]
        """Batched action space, built when first asked for."""
        return batch_space(self.single_action_space, self.num_envs)

    # ---- reset and step ---------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start new episodes.

        Args:
            seed: an int for all worlds, a list with one seed a world, or None to go on with the present streams.
            options: ``reset_mask``, bool ``(num_envs,)``, resets only those envs; further names are the env's own.

        Returns:
            obs: float32, all envs; envs that were not reset keep their last observation.
            info: empty.

        Raises:
            ParameterError, ShapeError, ArrayTypeError: an option or seed that does not fit.
        """
        self._require_open()
        options = dict(options or {})
        mask = self._reset_mask(options.pop("reset_mask", None))
        bounds = self._reset_bounds(options)
        super().reset(seed=int(seed) if isinstance(seed, int | np.integer) else None)
        if mask is not None and not self._started:
            raise SequenceError("the first reset must be of all worlds; call reset() without reset_mask.")
        if seed is not None or not self._started:
            self._seed_worlds(seed, mask)
        memory = self._backend.memory
        memory.assign(self._bounds, memory.from_numpy(bounds))
        if mask is not None:
            memory.assign(self._mask, memory.from_numpy(mask.astype(np.uint8)))
        slot = self._outputs.for_reset(partial=mask is not None)
        self._set(slot, reset_mask=0 if mask is None else memory.address(self._mask))
        self._backend.launch("gv_reset", self._args, self.num_worlds)
        self._started = True
        return self._public(slot.arrays["obs"]), {}

    def step(self, actions: Any) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Advance every world by one step, in one launch.

        Args:
            actions: int32 or int64 (float32 or float64 for a Box), shaped like ``action_space``, of any array kind.

        Returns:
            obs: float32, like ``observation_space``; the first one of the new episode where one ended (same-step mode).
            reward: float32 ``(num_envs,)``.
            terminated, truncated: bool ``(num_envs,)``.
            info: ``final_obs`` like obs, valid where ``_final_obs`` bool ``(num_envs,)`` is true (same-step mode);
                with several agents ``agent_reward`` float32 and ``agent_alive`` bool, one entry an agent, of this step.

        Raises:
            ShapeError, ArrayTypeError, DeviceError: actions that do not fit; nothing was stepped.
            ActionError: an index out of range or NaN: at once on the CPU, at :meth:`check` on CUDA unless ``debug``.
            SequenceError: before the first reset, or past the end of bound slabs.
        """
        self._require_started("step()")
        if self._outputs.fresh and self._backend.capturing():
            raise SequenceError("copy=True allocates in every step, which a CUDA graph cannot; use bind() or copy=False.")
        action, action_bytes = self._actions.read(actions)
        slot = self._outputs.for_step()
        self._set(slot, action=self._actions.address(action), action_bytes=action_bytes)
        self._backend.launch("gv_step", self._args, self.num_worlds)
        if self.debug:
            self.check()
        arrays, public = slot.arrays, self._public
        info: dict[str, Any] = {}
        if self._same_step:
            info["_final_obs"] = public(arrays["finished"])
            info["final_obs"] = public(arrays["final_obs"])
        if self.num_agents > 1:
            info["agent_alive"] = public(arrays["agent_alive"])
            info["agent_reward"] = public(arrays["reward" if self._view.flat else "agent_reward"])
        return public(arrays["obs"]), public(arrays["reward"]), public(arrays["terminated"]), public(arrays["truncated"]), info

    def check(self) -> None:
        """Raise if a kernel met an invalid action since the last check. Waits for the device.

        Raises:
            ActionError: how many actions were out of range or NaN; each acted as index 0.
        """
        self._require_open()
        count = int(self._backend.memory.to_numpy(self._invalid)[0])
        if count:
            self._invalid[...] = 0
            raise ActionError(f"{count} actions were out of range or NaN since the last check; each acted as index 0.")

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the back end, after a last look at the actions; arrays handed out stay valid."""
        try:
            self.check()
        finally:
            self.closed = True  # also when check() raises
            self._backend.close()

    # ---- memory -----------------------------------------------------------------------------------------------

    def bind(self, **slabs: Array) -> None:
        """Write into the caller's slabs instead of the env's arrays: no allocation, no copy.

        ``obs`` is ``(T + 1, *obs)`` and the others, any of ``reward, terminated, truncated, finished, final_obs,
        agent_alive, agent_reward``, are ``(T, ...)``; float32 or bool, C-contiguous, on the env's device. A reset
        writes ``obs[0]``; step t (from 0) writes ``obs[t + 1]`` and ``[t]`` of the others. After T steps call
        :meth:`rewind`. Outputs not given go to persistent arrays. An env that has started needs its current
        observation in ``obs[0]``, which bind copies there.

        Raises:
            ShapeError, ArrayTypeError, DeviceError, UnknownParameterError: what was expected and what came.
        """
        self._require_open()
        if self._to_host:
            raise ArrayTypeError('bind() needs arrays on the device; array="numpy" hands out host copies.')
        self._outputs.bind(slabs, self.device)
        if self._started:
            self._backend.memory.assign(slabs["obs"][0], self.observe())

    def rewind(self) -> None:
        """Make the last observation written slot 0 of the bound slabs, and start over there."""
        self._outputs.rewind()

    def unbind(self) -> None:
        """Write into the env's own arrays again."""
        self._outputs.unbind()

    # ---- state ------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Array]:
        """Copies of every state field, leading axis worlds in both views, physical fields first."""
        self._require_started("get_state()")
        return self._state.on_host() if self._to_host else self._state.get(self._out)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Overwrite the fields given; finished worlds may be stepped again. :meth:`observe` shows what agents see now.

        Raises:
            ParameterError, ShapeError, ArrayTypeError: a field that does not fit; nothing was written.
        """
        self._require_started("set_state()")
        self._state.set(state)

    def observe(self) -> Array:
        """Observations of the present state, in a fresh array. Changes nothing."""
        self._require_started("observe()")
        obs = self._out.empty(self._outputs.shapes["obs"], "float32")
        self._args["obs"] = self._out.address(obs)
        self._backend.launch("gv_observe", self._args, self.num_worlds)
        return self._public(obs)

    # ---- seeing -----------------------------------------------------------------------------------------------

    def render(self) -> tuple[np.ndarray, ...] | None:
        """One uint8 (H, W, 3) frame an env; rows of one world share theirs. None without ``render_mode``."""
        self._require_started("render()")
        if self.render_mode is None:
            return None
        if self._renderers is None:
            self._renderers = WorldRenderers(self.env_spec, self.params, self.num_worlds)
        frames = self._renderers.frames(self._state.on_host())
        if not self._view.by_agent:
            return tuple(frames)
        return tuple(frames[w] for count in self.role_counts.values() for w in range(self.num_worlds) for _ in range(count))

    def __repr__(self) -> str:
        """Name, size, device."""
        return f"GpuVectorEnv({self.env_spec.name}, num_envs={self.num_envs}, view={self.view}, device={self.device})"

    # ---- inside -----------------------------------------------------------------------------------------------

    @property
    def _same_step(self) -> bool:
        return self.autoreset_mode is AutoresetMode.SAME_STEP

    def _make_args(self) -> None:
        memory, layout = self._backend.memory, self.layout
        self._invalid = memory.from_numpy(np.zeros(1, np.int32))
        self._mask = memory.from_numpy(np.zeros(self.num_worlds, np.uint8))
        self._bounds = memory.from_numpy(np.zeros(max(1, len(self.env_spec.reset_options)), np.float32))
        self._tables = {t.name: memory.from_numpy(t.values(self.params)) for t in self.env_spec.tables}
        values: dict[str, float] = {**layout.scalars, **self._state.addresses()}
        values.update({name: memory.address(table) for name, table in self._tables.items()})
        values.update(
            invalid_actions=memory.address(self._invalid),
            reset_bounds=memory.address(self._bounds),
            num_worlds=self.num_worlds,
            autoreset=KERNEL_MODE[self.autoreset_mode],
            agents_view=self._view.by_agent and self.num_agents > 1,
        )
        for role, (row, stride) in zip(self.role_counts, layout.role_rows(self.num_worlds, self._view.by_agent), strict=True):
            values[f"{role}_row"], values[f"{role}_stride"] = row, stride
        self._args = np.zeros((), layout.dtype)
        for name, value in values.items():
            self._args[name] = value
        first = layout.dtype.fields["obs"][1] // 8  # type: ignore[index]
        self._output_words = self._args.view((np.uint64, layout.dtype.itemsize // 8))[first : first + len(OUTPUTS)]

    def _set(self, slot: Slot, **values: int) -> None:
        self._output_words[:] = slot.words
        for name, value in values.items():
            self._args[name] = value

    def _public(self, array: Array) -> Array:
        return self._out.to_numpy(array) if self._to_host else array

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedError(f"{self.env_spec.name} was closed; make a new env.")

    def _require_started(self, call: str) -> None:
        self._require_open()
        if not self._started:
            raise SequenceError(f"call reset() before {call}.")

    def _reset_mask(self, mask: Any) -> np.ndarray | None:
        """The mask over worlds, on the host."""
        if mask is None:
            return None
        host = mask.get() if type(mask).__module__.startswith("cupy") else mask.cpu().numpy() if hasattr(mask, "cpu") else mask
        if not isinstance(host, np.ndarray) or host.dtype != np.bool_:
            raise ArrayTypeError(f"reset_mask must be a bool array, got {getattr(mask, 'dtype', type(mask).__name__)}.")
        if host.shape != (self.num_envs,):
            raise ShapeError(f"reset_mask must have shape ({self.num_envs},), got {host.shape}.")
        if not host.any():
            raise ParameterError("reset_mask must have at least one True.")
        return self._view.world_mask(host)

    def _reset_bounds(self, options: dict[str, Any]) -> np.ndarray:
        known = {option.name: option.default for option in self.env_spec.reset_options}
        for name, value in options.items():
            if name not in known:
                raise ParameterError(
                    f"{self.env_spec.name} has no reset option {name!r}; it has {', '.join(['reset_mask', *known])}."
                )
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
                raise ParameterError(f"reset option {name} must be a finite number, got {value!r}.")
            known[name] = float(value)
        if known.get("low", 0.0) > known.get("high", known.get("low", 0.0)):
            raise ParameterError(f"reset option low must not be above high, got {known['low']} and {known['high']}.")
        return np.array(list(known.values()) or [0.0], np.float32)

    def _seed_worlds(self, seed: int | Sequence[int | None] | None, mask: np.ndarray | None) -> None:
        seeds, ids = world_identity(seed, self.num_worlds, self.first_world, self.np_random)
        fields, memory = self._state.fields, self._backend.memory
        values = {"seed": seeds, "world_id": ids, "episode": np.full(self.num_worlds, -1, np.int32)}
        for name, value in values.items():
            if mask is not None:
                value = np.where(mask, value, memory.to_numpy(fields[name]))
            memory.assign(fields[name], memory.from_numpy(value))


def _require_one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")
