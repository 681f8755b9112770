"""The vector env: Gymnasium's contract over kernels that step all worlds in one launch."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gpu_vecenv.backend.memory import output_memory
from gpu_vecenv.backend.select import choose_device, make_backend
from gpu_vecenv.errors import ActionError, ParameterError, SequenceError
from gpu_vecenv.render.worlds import WorldRenderers, warn_without_mode
from gpu_vecenv.spec.env_spec import EnvSpec, Params
from gpu_vecenv.spec.given import Array, require_mapping, require_one_of, require_steps
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.vector.actions import ActionReader
from gpu_vecenv.vector.arguments import Arguments
from gpu_vecenv.vector.autoreset import KERNEL_MODE, parse_autoreset_mode
from gpu_vecenv.vector.capturable import require_capturable
from gpu_vecenv.vector.memory_needs import require_room
from gpu_vecenv.vector.outputs import Outputs, Slot
from gpu_vecenv.vector.reset_pool import ResetPool
from gpu_vecenv.vector.resets import read_bounds, read_mask
from gpu_vecenv.vector.seeding import check_first_world, check_seed, world_identity
from gpu_vecenv.vector.state import State
from gpu_vecenv.vector.views import View, count_worlds
from gpu_vecenv.vector.world_access import WorldAccess, one_caller

VIEWS = ("worlds", "agents")
ARRAYS = ("torch", "cupy", "numpy")


class GpuVectorEnv(WorldAccess, VectorEnv):  # VectorEnv by name too: skrl tells envs by their direct bases
    """All worlds of one env on one device.

    Made by ``gymnasium.make_vec(id, num_envs=N, ...)``. In the ``"worlds"`` view an env is a world: observations
    ``(N, A, F)``, actions ``(N, A)`` or ``(N, A, k)``, reward ``(N,)`` (the mean over the A agents). In the ``"agents"``
    view an env is an agent's row, rows ordered by role, then world, then agent: observations ``(R, F)``, actions
    ``(R,)`` or ``(R, k)``, reward ``(R,)``. With one agent a world both are the same.

    A call while another thread is in one raises ConcurrentCallError.

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
        OutOfMemoryError: the env needs more memory than is free on its device.
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
        self.closed, self._closing = True, False  # closed until everything is there
        self._guard_calls()
        require_one_of("view", view, VIEWS)
        require_one_of("array", array, ARRAYS)
        require_one_of("render_mode", render_mode, (None, "rgb_array"))
        require_one_of("copy", copy, (True, False))
        require_one_of("debug", debug, (True, False))
        if params.get("max_episode_steps", 0) is None:
            params["max_episode_steps"] = 0
        self.env_spec = env_spec
        self.layout = Layout(env_spec, env_spec.resolve(params))
        self.num_worlds = count_worlds(num_envs, num_worlds, self.layout, view == "agents")
        self.first_world = check_first_world(first_world, self.num_worlds)
        self.view, self.array, self.debug = view, array, debug
        self.autoreset_mode = parse_autoreset_mode(autoreset_mode)
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 30, "autoreset_mode": self.autoreset_mode}
        self._view = View(self.layout, self.num_worlds, view == "agents")
        self.num_envs = self._view.num_envs
        self.single_observation_space = self._view.single_observation_space
        self.single_action_space = self._view.single_action_space
        self._batched: dict[str, Space] = {}
        self.device = choose_device(device)
        self._out = output_memory(array, self.device)
        self._to_host = array == "numpy" and self.device != "cpu"
        require_room(self._view, self.autoreset_mode, copy and not self._to_host, self.device, self._out)
        self._backend = make_backend(self.layout, self.device, array)
        self._state = State(self.layout, self.num_worlds, self._backend.memory)
        self._outputs = Outputs(self._view, self._out, self._same_step, copy and not self._to_host)
        space, lead = self._view.agent_action_space, self._view.lead
        memory, largest = self._backend.memory, self._backend.largest
        self._actions = ActionReader(space, lead, self.device, memory, warn=not self._to_host, largest=largest)
        self._pool = ResetPool(self.layout, self._backend.memory)
        addresses = self._state.addresses() | self._pool.addresses()
        self._args = Arguments(self._view, self._backend.memory, addresses, KERNEL_MODE[self.autoreset_mode])
        self._renderers: WorldRenderers | None = None
        self._started = False
        self.closed = False

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
    def observation_space(self) -> Space:
        """Batched observation space, built when first asked for: a million rows of bounds take seconds."""
        if "observation" not in self._batched:
            self._batched["observation"] = batch_space(self.single_observation_space, self.num_envs)
        return self._batched["observation"]

    @observation_space.setter
    def observation_space(self, space: Space) -> None:
        self._batched["observation"] = space

    @property
    def action_space(self) -> Space:
        """Batched action space, built when first asked for."""
        if "action" not in self._batched:
            self._batched["action"] = batch_space(self.single_action_space, self.num_envs)
        return self._batched["action"]

    @action_space.setter
    def action_space(self, space: Space) -> None:
        self._batched["action"] = space

    # ---- reset and step ---------------------------------------------------------------------------------------

    @one_caller
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
            ParameterError, ShapeError, ArrayTypeError: an option or seed that does not fit; nothing was reset.
            DeviceError: a ``reset_mask`` on the device "meta".
            SequenceError: a ``reset_mask`` in the first reset.
        """
        self._require_open()
        options = {} if options is None else dict(require_mapping(options, "reset options"))
        mask = read_mask(options.pop("reset_mask", None), self._view)
        bounds = read_bounds(options, self.env_spec)
        seeds = check_seed(seed, self.num_worlds)
        if mask is not None and not self._started:
            raise SequenceError("the first reset must be of all worlds; call reset() without reset_mask.")
        super().reset(seed=seeds if isinstance(seeds, int) else None)
        if seeds is not None or not self._started:
            identity = world_identity(seeds, self.num_worlds, self.first_world, self.np_random)
            self._state.start_streams(*identity, mask)
        slot = self._outputs.for_reset(partial=mask is not None)
        self._args.set_reset(mask, bounds)
        self._args.set_slot(slot)
        self._backend.launch("gv_reset", self._args.struct, self.num_worlds)
        self._started = True
        return self._public(slot.arrays[0]), {}

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
            ActionError: an index out of range or NaN: at once on the CPU, at ``check()`` on CUDA unless ``debug``.
            SequenceError: before the first reset, or past the end of bound slabs.
        """
        if self._in_call or not self._call_lock.acquire(False):  # as one_caller() does, in less than half the time
            raise self._busy()
        try:
            self._in_call = True
            return self._step(actions)
        finally:
            self._in_call = False
            self._call_lock.release()

    def _step(self, actions: Any) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        self._require_started("step()")
        require_capturable(self._backend, self._outputs.fresh, self.debug, self._to_host)
        held, address, element_bytes = self._actions.read(actions)
        slot = self._outputs.for_step()
        self._args.set_action(address, element_bytes)
        self._args.set_slot(slot)
        self._backend.launch("gv_step", self._args.struct, self.num_worlds)
        del held  # a copy made for the kernel may go once it is queued: memory is reused in the order of the stream
        if self.debug:
            self._check()
        return self._results(slot)

    @one_caller
    def rollout(
        self, actions: Any = None, num_steps: int | None = None, keep_actions: bool = True
    ) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Advance every world by T steps in one launch: the same bits as T calls of ``step()``.

        Args:
            actions: as ``step()`` takes them, with T as leading axis; or those of one step, repeated ``num_steps`` times;
                or None to draw them on the device, each choice or number of the action space being equally likely.
            num_steps: T, where the actions do not tell it.
            keep_actions: False where nobody will look at drawn actions: those of a step then overwrite those of the one before.

        Returns:
            What ``step()`` returns, with T as leading axis of every array, those of ``info`` included; the rows of
            ``final_obs`` are valid where ``_final_obs`` is true. Drawn actions are in ``info["actions"]``, if kept, int32
            (float32 for a Box) ``(T, *action_space.shape)``. They depend on the worlds' random numbers and on where each
            world stands, and disturb no other draw.

        With bound slabs, the rollout is written into their next T places, and what is not bound into persistent arrays.
        With ``copy=False`` there is one persistent set of arrays for each T.

        Raises:
            ShapeError, ArrayTypeError, DeviceError, ParameterError: actions or ``num_steps`` that do not fit, or a Box without
                bounds to draw between; nothing was stepped.
            ActionError: an index out of range or NaN: at once on the CPU, before a step, at ``check()`` on CUDA unless
                ``debug``.
            SequenceError: before the first reset, or where bound slabs have no room for T steps.
            OutOfMemoryError: the results need more memory than is free on the device.
        """
        self._require_started("rollout()")
        require_capturable(self._backend, self._outputs.fresh, self.debug, self._to_host)
        if num_steps is not None or actions is None:
            num_steps = require_steps(num_steps)
        held, address, element_bytes, draw = None, 0, 4, actions is None
        if draw:
            if not self._args.can_draw:
                raise ParameterError("the action space has no bounds to draw between; give rollout() actions.")
            lead: tuple[int, ...] = (num_steps or 0,)
        else:
            lead = self._actions.lead(actions, num_steps)
            held, address, element_bytes = self._actions.read(actions, lead)
        steps = lead[0] if lead else num_steps or 0
        kept = draw and keep_actions
        slot = self._outputs.for_rollout(steps, kept)
        stride, drawn = math.prod(self._actions.shape) * element_bytes, 0
        if not lead or draw and not kept:
            stride = 0  # the actions of all steps lie in one place
        if draw:
            drawn = self._out.address(slot.arrays[-1] if kept else self._outputs.actions_of_a_step())
        self._args.set_action(address, element_bytes)
        self._args.set_rollout(steps, stride, drawn)
        self._args.set_slot(slot)
        self._backend.launch("gv_rollout", self._args.struct, self.num_worlds)
        self._outputs.end_rollout(slot)
        del held
        if self.debug:
            self._check()
        results = self._results(slot)
        if kept:
            results[4]["actions"] = self._public(slot.arrays[-1])
        return results

    @one_caller
    def check(self) -> None:
        """Raise if a kernel met an invalid action since the last check. Waits for the device.

        Raises:
            ActionError: how many actions were out of range or NaN; each acted as index 0.
            SequenceError: while a CUDA graph is captured, where nothing can be waited for.
        """
        self._require_open()
        self._check()

    def _check(self) -> None:
        if not self._backend.may_wait():
            raise SequenceError("check() waits for the device, which a CUDA graph cannot; call it before or after the capture.")
        count = int(self._backend.memory.to_numpy(self._args.invalid)[0])
        if count:
            with self._backend.memory.here():
                self._args.invalid[...] = 0
            raise ActionError(f"{count} actions were out of range or NaN since the last check; each acted as index 0.")

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the back end, after a last look at the actions, unless a graph is being captured; arrays handed out stay valid.

        An env that nobody holds any more is closed whenever Python finds it, which may be while another one is captured.
        """
        self._closing = True
        with self._call_lock:  # a call of another thread ends first
            if self.closed:  # by that thread
                return
            try:
                if self._backend.may_wait():
                    self._check()
            finally:
                self.closed = True  # also when check() raises
                self._backend.close()

    # ---- starts -----------------------------------------------------------------------------------------------

    def draw_start_states(self, size: int, seed: int) -> dict[str, Array]:
        """The states in which ``size`` worlds of this env start under a seed, for ``set_reset_pool()``."""
        names = [field.name for field in self.env_spec.state]
        env = GpuVectorEnv(self.env_spec, num_worlds=size, device=self.device, array=self.array, **self.params)
        with contextlib.closing(env):
            env.reset(seed=seed)
            return env.get_state(*names)

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self.env_spec.name}: an env cannot be pickled or copied, as it holds memory and threads of its device; make "
            "another one and give it set_state(env.get_state())."
        )

    # ---- pictures ---------------------------------------------------------------------------------------------

    @one_caller
    def render(self) -> tuple[np.ndarray, ...] | None:
        """One uint8 (H, W, 3) frame an env; rows of one world share theirs. None with a warning without ``render_mode``.

        Raises:
            ParameterError: a state beyond what is drawn.
        """
        self._require_started("render()")
        if self.render_mode is None:
            warn_without_mode("make_vec", self.env_spec.name)
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

    def _results(self, slot: Slot) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """What a step or a rollout returns."""
        arrays: Any = slot.arrays
        if self._to_host:
            arrays = {place: self._public(arrays[place]) for place in (0, 1, 2, 3, *self._outputs.info.values())}
        info = {name: arrays[place] for name, place in self._outputs.info.items()}
        return arrays[0], arrays[1], arrays[2], arrays[3], info
