"""Vector env: Gymnasium's contract over the worlds of one env."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gpu_vecenv.backend.memory import output_memory
from gpu_vecenv.backend.select import choose_device, make_backend
from gpu_vecenv.errors import ArrayTypeError, ClosedError, GpuVecenvError, SequenceError
from gpu_vecenv.render.notebook import table_html
from gpu_vecenv.render.style import make_style
from gpu_vecenv.render.worlds import warn_without_mode
from gpu_vecenv.spec.env_spec import EnvSpec, require_spec
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.validation import Array, ArrayT, require_mapping
from gpu_vecenv.vector.env.attributes import METHODS, Attributes
from gpu_vecenv.vector.env.changed_params import changed_layout, changed_params
from gpu_vecenv.vector.env.debug_watch import DebugWatch
from gpu_vecenv.vector.env.notebook import table_rows
from gpu_vecenv.vector.env.pickling import Copied, carried, carry_to, make_with_keywords, worlds_from_host, worlds_to_host
from gpu_vecenv.vector.env.reentrancy import ReentrancyGuard, guarded
from gpu_vecenv.vector.env.rendering import Rendering
from gpu_vecenv.vector.env.reward import RewardFunction, StepRewards
from gpu_vecenv.vector.inputs.autoreset import parse_autoreset_mode
from gpu_vecenv.vector.inputs.old_hooks import note_old_hooks
from gpu_vecenv.vector.inputs.options import check_options, refuse_keywords
from gpu_vecenv.vector.inputs.presets import check_reader, with_preset
from gpu_vecenv.vector.inputs.resets import read_mask, read_options, read_worlds
from gpu_vecenv.vector.inputs.role_actions import action_reader
from gpu_vecenv.vector.inputs.rollout_plan import plan_rollout
from gpu_vecenv.vector.inputs.seeding import check_first_world, check_seed, draw_seed, world_keys
from gpu_vecenv.vector.outputs.memory_needs import require_room
from gpu_vecenv.vector.outputs.outputs import OutputArrays
from gpu_vecenv.vector.outputs.tree import Convert, converted, nest
from gpu_vecenv.vector.outputs.views import View, count_worlds
from gpu_vecenv.vector.worlds.worlds import Worlds

StepResults: TypeAlias = tuple[ArrayT, ArrayT, ArrayT, ArrayT, dict[str, Any]]
"""obs, reward, terminated, truncated, info."""


class GpuVectorEnv(Copied, VectorEnv[ArrayT, Any, ArrayT]):
    """All worlds of one env on one device.

    Made by ``gpu_vecenv.make_vec(id, num_envs=N, ...)``. In the ``"worlds"`` view an env is a world: observations
    ``(N, A, F)``, actions ``(N, A)`` or ``(N, A, k)``, reward ``(N,)`` (the mean over the A agents). In the ``"agents"``
    view an env is an agent's row, rows ordered by role, then world, then agent: observations ``(R, F)``, actions
    ``(R,)`` or ``(R, k)``, reward ``(R,)``. With one agent in a world both views are the same. If roles have spaces of their
    own, observations, actions and masks are dicts by role, ``(N, agents of the role, ...)``, and there is no agents view.

    It can be pickled and copied. A copy is a new env, made with the same spec and keywords on the same device, with memory of its
    own. Its worlds have the state and the random keys of the original, so both give the same results for the same actions. The
    reset pool, the reset options in force, the host's generator and those of spaces are copied. Bound slabs, captured graphs and
    trails of pictures are not.

    Arguments that do not fit raise ParameterError, ShapeError, ArrayTypeError or DeviceError, with what was expected and what
    came, before anything changes. A call during a call of another thread raises ConcurrentCallError, and calls that need the
    worlds raise ClosedError after ``close()``. Calls that upload values, ``check()`` and steps that wait for the device raise
    SequenceError while a CUDA graph is captured.

    Args:
        env_spec: definition of the env.
        num_envs: length of the leading axis: worlds, or rows of agents.
        num_worlds: the size in worlds, instead of ``num_envs``.
        view: ``"worlds"`` or ``"agents"``.
        device: ``"auto"`` (a GPU if one is usable), ``"cpu"``, ``"cuda"`` or ``"cuda:N"``; ``"python"`` runs hooks written in
            Python as Python, on the CPU, for pdb and with checks.
        array: kind of the arrays handed out: ``"torch"``, ``"cupy"``, ``"numpy"`` or ``"jax"``.
        autoreset_mode: an ``AutoresetMode``, its value, or its name in lower case.
        copy: True to hand out arrays that are never written again, False for persistent ones, valid until the next call.
        debug: True to raise ActionError in the step of an invalid action on CUDA too, and for a mask without an allowed choice,
            and NonFiniteError for a reward or an observation that is not finite. Such a world, and one whose hook fails, is
            written to a file for ``gpu-vecenv replay``. Each step waits for the device.
        first_world: ``world_id`` of the first world after a ``reset`` with one seed; set it to split worlds over several GPUs.
        render_mode: None or ``"rgb_array"``.
        render_theme: colours of pictures, ``"dark"`` or ``"light"``.
        render_scale: factor on width and height of pictures, from 0.1 to 8.
        preset: ``"rllib"`` sets ``array="numpy"``, ``autoreset_mode="next_step"`` and ``copy=True``, which RLlib needs.
        reward: rewards in place of the env's own: ``"team"``, the mean of an agent's role, or a function of ``agent_reward,
            terminated, truncated, metrics, state``, tensors on the device, see ``Shaping``. ``rollout()`` then makes single
            steps.
        params: parameters of the env by their spec names.

    Attributes:
        worlds: memory and launches of the worlds. Read its arrays, and change them with the methods of the env only.
        num_agents: agents in a world.
        params: resolved parameters by spec name; ``set_params()`` changes them.
        role_counts: agents of each role in a world, in the order in which agents are numbered.
        role_rows: rows of each role in the agents view, one contiguous slice a role.

    Raises:
        UnknownParameterError: a parameter that the env does not have.
        CompileError: the kernel does not compile.
        MissingExtraError: an optional library is missing; the message names the extra that installs it.
        OutOfMemoryError: the env needs more memory than is free on its device.
    """

    closed = True  # until the env is complete, so that one whose arguments raise an error is not closed

    @with_preset
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
        render_theme: str = "dark",
        render_scale: float = 1.0,
        *,
        preset: str | None = None,  # with_preset() reads it
        reward: RewardFunction | str | None = None,
        **params: Any,
    ) -> None:
        self._guard = ReentrancyGuard(require_spec(env_spec).name)
        check_options(view=view, array=array, render_mode=render_mode, copy=copy, debug=debug)
        style = make_style(render_theme, render_scale, ("render_theme", "render_scale"))
        params = {name: 0 if name == "max_episode_steps" and value is None else value for name, value in params.items()}
        self.env_spec = env_spec
        self.layout = layout = Layout(env_spec, env_spec.resolve(params, OPTIONS))
        self.params, self.num_agents, self.role_counts = layout.params, layout.num_agents, layout.role_counts
        self.num_worlds = count_worlds(num_envs, num_worlds, layout, view == "agents")
        self.first_world = check_first_world(first_world, self.num_worlds)
        self.view, self.array, self.debug, self.render_mode = view, array, debug, render_mode
        self.autoreset_mode = mode = parse_autoreset_mode(autoreset_mode)
        check_reader(env_spec.name, array=array, autoreset_mode=mode, copy=copy)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 30, "autoreset_mode": mode}
        shapes = View(layout, self.num_worlds, view == "agents")
        self.num_envs, self.role_rows = shapes.num_envs, shapes.role_rows
        self.single_observation_space, self.single_action_space = shapes.single_observation_space, shapes.single_action_space
        self.device = "cpu" if device == "python" else choose_device(device)
        self._back_end = "python" if device == "python" else self.device  # the device that a copy names
        self._to_host = array == "numpy" and self.device != "cpu"
        self._waits = "debug=True" if debug else 'array="numpy"' if self._to_host else ""  # option that makes steps wait
        memory, copy = output_memory(array, self.device), copy and not self._to_host
        require_room(shapes, mode, copy, self.device, memory)
        note_old_hooks(env_spec)
        backend = make_backend(layout, self._back_end, array)
        self.worlds = Worlds(shapes, backend, memory, mode, copy)
        self._places = self.worlds.outputs.results
        self._convert: Convert | None = memory.to_numpy if self._to_host else getattr(memory, "hand_out", None)
        self._plain = not (self._waits or self._places.nested or self._convert)
        self._actions = action_reader(shapes, self.worlds.backend, not self._to_host, getattr(memory, "take", None))
        self._last_actions: Any = None  # actions of the last step, if they are JAX's
        self._attributes = Attributes(env_spec, self.params)
        self._made_params = self.params
        self._reward = None if reward is None else StepRewards(reward, self.worlds)
        self._rendering = Rendering(self.worlds, style)
        self._watch = DebugWatch() if debug else None
        self._started = False
        self.closed = False

    @cached_property
    def observation_space(self) -> Space:  # type: ignore[override]  # it can be assigned, which mypy does not know
        """Batched observation space, built at its first use, because the bounds of a million rows take seconds to build."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> Space:  # type: ignore[override]
        """Batched action space, built at its first use."""
        return batch_space(self.single_action_space, self.num_envs)

    # ---- steps -----------------------------------------------------------------------------------------------

    @guarded
    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[ArrayT, dict[str, Any]]:
        """Start new episodes.

        Args:
            seed: an int for all worlds, a list with one seed a world, or None to keep the present random keys.
            options: ``reset_mask``, bool ``(num_envs,)``, resets only those envs; further names are the env's own.

        Returns:
            obs: float32, all envs; envs that were not reset keep their last observation.
            info: ``action_mask`` and ``action_effects`` as in ``step()``, if the env has them.

        Raises:
            SequenceError: a ``reset_mask`` in the first reset.
        """
        self._require_open()
        options = {} if options is None else dict(require_mapping(options, "reset options"))
        mask = read_mask(options.pop("reset_mask", None), self.num_envs, self.worlds.view.world_mask)
        own_options = read_options(options, self.env_spec)
        seeds = check_seed(seed, self.num_worlds)
        if mask is not None and not self._started:
            raise SequenceError("the first reset must be of all worlds; call reset() without reset_mask.")
        self.worlds.require_wait("reset()")
        super().reset(seed=seeds if isinstance(seeds, int) else None)
        new_keys = seeds is not None or not self._started
        keys = world_keys(seeds, self.num_worlds, self.first_world, self.np_random) if new_keys else None
        arguments = keys, mask, own_options
        results = self.worlds.reset(*arguments) if self._watch is None else self._watch.reset(self, *arguments)
        self._started = True
        return tuple(nest(place, results.arrays, self._convert) for place in self._places.returned_by_reset)

    def step(self, actions: Any) -> StepResults[ArrayT]:
        """Advance every world by one step, in one launch.

        Args:
            actions: uint8, int8, int16, int32 or int64, for a Box float32 or float64; like ``action_space``, of any array kind.

        Returns:
            obs: float32, like ``observation_space``; in same-step mode, after an end, the first one of the next episode.
            reward: float32 ``(num_envs,)``.
            terminated, truncated: bool ``(num_envs,)``.
            info: ``final_obs`` like obs, valid where ``_final_obs`` bool ``(num_envs,)`` is true (same-step mode);
                with several agents ``agent_reward`` float32 and ``agent_alive`` bool, one an agent, of this step;
                if the env has them, bool, ``action_mask``, True for allowed choices, and ``action_effects``, True for groups of
                entries with an effect, both of obs, and ``final_action_mask`` and ``final_action_effects`` of final_obs;
                with metrics ``episode``, float32 ``(num_envs,)`` by name, valid where ``_episode`` is true.

        Raises:
            ActionError: an index out of range or NaN: at once on the CPU, at ``check()`` on CUDA unless ``debug``.
            NonFiniteError: with ``debug``, a reward or an observation that is not finite; ``file`` has the world.
            SequenceError: before the first reset, or past the end of bound slabs.
        """
        guard = self._guard
        if guard.in_call or not guard.lock.acquire(False):  # the code of guarded(), which costs half as much here
            raise guard.busy()
        try:
            guard.in_call = True
            self._require_started("step()")
            self.worlds.require_capturable(self._waits)
            read = self._actions.read(actions)
            results = self.worlds.step(read) if self._watch is None else self._watch.step(self, read)
            if self._reward is not None:
                self._reward.change(results.arrays)
            self._last_actions = read if self.array == "jax" else None  # kernels may read them until JaxMemory.meet()
            del read
            return self._results(results)
        finally:
            guard.in_call = False
            guard.lock.release()

    @guarded
    def rollout(self, actions: Any = None, num_steps: int | None = None, keep_actions: bool = True) -> StepResults[ArrayT]:
        """Advance every world by T steps in one launch: the same bits as T calls of ``step()``.

        Args:
            actions: actions of T steps, as for ``step()`` with T as leading axis; actions of one step, repeated in all
                ``num_steps`` steps; or None to draw them on the device, uniformly from the action space.
            num_steps: T, unless the actions give it.
            keep_actions: False to store no drawn actions.

        Returns:
            The results of ``step()``, each array with T as leading axis, those of ``info`` included; the rows of
            ``final_obs`` are valid where ``_final_obs`` is true. Drawn actions that are kept are ``info["actions"]``
            ``(T, *action_space.shape)``: float32 for a Box, else the smallest of uint8, int16 and int32 that holds the choices.
            They depend on each world's random key and step, and change no other draw.

        With bound slabs, the rollout writes their next T slots, and persistent arrays for outputs that are not bound.
        With ``copy=False`` there is one persistent set of arrays for each T.

        Raises:
            ParameterError: also for a Box without bounds to draw between.
            ActionError: an index out of range or NaN: on the CPU before any step, at ``check()`` on CUDA unless ``debug``.
            SequenceError: before the first reset, or if bound slabs have no room for T steps.
            OutOfMemoryError: the results need more memory than is free on the device.
        """
        self._require_started("rollout()")
        self.worlds.require_capturable(self._waits)
        plan = plan_rollout(actions, num_steps, keep_actions, self._actions, self.worlds.arguments.can_draw)
        hands_out = plan.keep
        if self._watch is not None and plan.draw:
            plan = plan_rollout(None, num_steps, True, self._actions, True)
        if self._reward is not None:
            results = self._reward.rollout(plan)
        else:
            results = self.worlds.rollout(plan) if self._watch is None else self._watch.rollout(self, plan)
        self._last_actions = plan.actions if self.array == "jax" else None
        returned = self._results(results)
        if hands_out:
            returned[4]["actions"] = nest(self._places.actions_by_role, results.actions, self._convert)
        return returned

    @guarded
    def check(self) -> None:
        """Raise ActionError if actions were out of range or NaN since the last check; each acted as 0. Waits for the device."""
        self._require_open()
        self.worlds.require_wait("check()")
        self.worlds.check()

    def close_extras(self, **kwargs: Any) -> None:
        """Check the last actions and stop the back end. Arrays handed out stay valid.

        Actions are not checked while a CUDA graph is captured, in which Python may close an unreferenced env: a check waits.
        """
        refuse_keywords(f"{self.env_spec.name}: close()", kwargs)
        self._guard.closing = True
        with self._guard.lock:  # waits until a call of another thread ends
            if self.closed:  # that call was close()
                return
            try:
                if self.worlds.backend.may_wait():
                    self.worlds.check()
            finally:
                self.closed = True  # also if check() raises
                self.worlds.backend.close()

    # ---- state -----------------------------------------------------------------------------------------------

    @guarded
    def get_state(self, *names: str) -> dict[str, ArrayT]:
        """Copies of the state fields named, of all by default, leading axis worlds in both views, physical fields first."""
        self._require_started("get_state()")
        state = self.worlds.state
        memory = self.worlds.output_memory
        return state.on_host(*names) if self._to_host else converted(state.get(memory, *names), self._convert)

    @guarded
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Overwrite the state fields given by name: arrays of any kind in the field's dtype, or nested lists.

        Unless ``terminated`` and ``truncated`` are given, finished worlds may be stepped again. The observation of the new state
        becomes the last one: bound and persistent arrays are overwritten with it.
        """
        self._require_started("set_state()")
        self.worlds.require_wait("set_state()")
        self.worlds.set_state(state)

    @guarded
    def set_params(self, /, **params: Any) -> None:
        """Change parameters of the env between two steps, from the next step on. The state stays as it is.

        A parameter that was given by world takes values by world or one for all; others take one value. Kernels read values by
        world from memory, also in CUDA graphs that were captured before. Other graphs must be captured again; the trainer does.
        Copies of the env have the present parameters. Bounds of ``single_observation_space`` follow.

        Args:
            **params: parameters by their spec names.

        Raises:
            UnknownParameterError: a parameter that the env does not have.
            ParameterError, ShapeError: a value out of range, or a parameter on which sizes, the action space or the length of a
                table depend, which needs another env.
            SequenceError: a CUDA graph is being captured.
        """
        self._require_open()
        self.worlds.require_wait("set_params()")
        self.worlds.set_params(changed_layout(self.layout, params, self.num_worlds))
        self.params = self.layout.params
        self._attributes = Attributes(self.env_spec, self.params)
        self._rendering = Rendering(self.worlds, self._rendering.style)
        shapes = View(self.layout, self.num_worlds, self.view == "agents")
        if shapes.single_observation_space != self.single_observation_space:
            self.single_observation_space = shapes.single_observation_space
            vars(self).pop("observation_space", None)

    @property
    def changed_params(self) -> dict[str, Any]:
        """Parameters that ``set_params()`` gave another value than the env was made with, by name."""
        return changed_params(self._made_params, self.params)

    @guarded
    def copy_worlds(self, source: Any, target: Any, diverge: bool = False) -> None:
        """Copy worlds onto others. The observation of the new state becomes the last one.

        Args:
            source: numbers of worlds (n,); they may repeat.
            target: numbers of as many worlds, all different. All sources are read before a target is written.
            diverge: False keeps the random keys of the originals, so that a copy continues as its original does if
                both get the same actions; True gives each copy a new random key.
        """
        self._require_started("copy_worlds()")
        sources, overlap = read_worlds(source, target, diverge, self.num_worlds)
        self.worlds.require_wait("copy_worlds()")
        self.worlds.copy(sources, overlap, (draw_seed(self.np_random), self.first_world) if diverge else None)

    @guarded
    def set_reset_pool(self, states: Mapping[str, Any] | None) -> None:
        """Make each reset from now on draw its start from a pool, by the world's random key; None for the env's own starts.

        The state field ``pool_entry``, int32 ``(num_worlds,)``, is the entry that a world's present episode started from.
        ``states`` are physical state fields by name, leading axis the entries: your own, those of ``draw_start_states()``, or
        recorded ones (``gpu_vecenv.join_states``). The env draws missing fields, and does not read recorded keys and marks.
        """
        self._require_open()
        self.worlds.require_wait("set_reset_pool()")
        self.worlds.pool.set(states)

    @guarded
    def get_reset_pool(self) -> dict[str, ArrayT]:
        """Copies of the reset pool's fields by name, leading axis the entries; empty without a pool."""
        self._require_open()
        pool = self.worlds.pool
        return pool.get(None) if self._to_host else converted(pool.get(self.worlds.output_memory), self._convert)

    def draw_start_states(self, size: int, seed: int) -> dict[str, ArrayT]:
        """Return the start states of ``size`` worlds under a seed, for ``set_reset_pool()``; i has parameters of world i % N."""
        params = self.layout.repeated_params(count_worlds(1, size, self.layout, by_agent=False))
        env = GpuVectorEnv(self.env_spec, num_worlds=size, device=self._back_end, array=self.array, **params)
        with contextlib.closing(env):
            env.reset(seed=seed)
            return env.get_state(*(field.name for field in self.env_spec.state))

    @guarded
    def observe(self) -> ArrayT:
        """Observations of the present state, in a fresh array. Changes nothing."""
        self._require_started("observe()")
        obs: ArrayT = nest(self._places.public["obs"], self.worlds.observe(), self._convert)
        return obs

    @guarded
    def action_mask(self) -> Any:
        """Masks of the present state like ``info["action_mask"]``, in fresh arrays; None without masks. Changes nothing."""
        return self._flags("action_mask")

    @guarded
    def action_effects(self) -> Any:
        """Flags of the present state like ``info["action_effects"]``, in fresh arrays; None without flags. Changes nothing."""
        return self._flags("action_effects")

    # ---- slabs -----------------------------------------------------------------------------------------------

    @guarded
    def bind(self, /, **slabs: Array) -> None:
        """Write results into the caller's slabs instead of the env's arrays, without allocation or copy.

        ``obs, action_mask, action_effects`` are ``(T + 1, ...)``, the others, any of ``reward, terminated, truncated, finished,
        agent_alive, agent_reward, episode`` and the three as ``final_obs, ...``, ``(T, ...)``; float32 or bool, C-contiguous, on
        the env's device; in dicts by role, and by metric for ``episode``. A reset writes ``obs[0]``; step t (from 0) writes
        ``obs[t + 1]`` and ``[t]`` of the others. After T steps call ``rewind()``. Outputs without a slab go to persistent arrays.
        ``final_obs`` and ``episode`` are undefined where no episode ended. The last observation, if any, is copied to ``obs[0]``.

        Raises:
            UnknownParameterError: a slab for an output that the env does not have.
            ParameterError: also for slabs that share memory, and for a read-only one.
        """
        self._require_open()
        if self._to_host:
            raise ArrayTypeError('bind() needs arrays on the device; array="numpy" hands out host copies.')
        if self.array == "jax":
            raise ArrayTypeError('bind() overwrites arrays, which JAX treats as immutable; use rollout(), or array="torch".')
        self.worlds.outputs.bind(slabs, self.device)

    @guarded
    def rewind(self) -> None:
        """Copy the last observation to slot 0 of the bound slabs, and continue from there."""
        self.worlds.outputs.rewind()

    @guarded
    def unbind(self) -> None:
        """Write into the env's own arrays again."""
        self.worlds.outputs.unbind()

    # ---- pictures --------------------------------------------------------------------------------------------

    @guarded
    def render(self) -> tuple[np.ndarray, ...] | None:
        """Draw one uint8 (H, W, 3) frame an env; rows of a world get the same one. Without ``render_mode``, warn and return None.

        Raises ParameterError for a state of which a shape lies too far outside the picture, and for numbers that are not finite.
        """
        self._require_started("render()")
        if self.render_mode is None:
            warn_without_mode("make_vec", self.env_spec.name)
            return None
        return self._rendering.frames()

    @guarded
    def picture(self, worlds: int = 9) -> np.ndarray:
        """Draw the first worlds in one picture with one legend; works with every render mode and without one.

        Args:
            worlds: number of worlds to draw, at most 1,000; all, if there are fewer.

        Returns:
            The picture, uint8 (H, W, 3).

        Raises:
            ParameterError: ``worlds`` is out of range, or a state cannot be drawn, as in ``render()``.
            SequenceError: the env has not been reset.
            MissingExtraError: Pillow is not installed.
        """
        self._require_started("picture()")
        return self._rendering.picture(worlds)

    # ---- attributes ------------------------------------------------------------------------------------------

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the results of a method, or the values of an attribute, one for each env.

        Args:
            name: ``"render"``, or a name that ``get_attr`` takes.
            args: none; Gymnasium's interface has them for other methods.
            kwargs: none.

        Raises:
            UnknownAttributeError: an env has no such attribute or method.
            ParameterError: arguments, which neither an attribute nor ``render`` takes.
        """
        is_method = isinstance(name, str) and name in METHODS
        values = () if is_method else self.get_attr(name)
        self._attributes.refuse_arguments(name, args, kwargs)
        if not is_method:
            return values
        results = getattr(self, name)()
        return (None,) * self.num_envs if results is None else tuple(results)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return the values of an attribute, one for each env.

        Args:
            name: ``observation_space`` and ``action_space`` of one env, a parameter of the env, or ``render_mode``, ``metadata``,
                ``spec``, ``np_random`` or ``np_random_seed``. All envs share the value. A parameter with a value for each world
                is one array, the same in each entry.

        Raises:
            UnknownAttributeError: an env has no such attribute; the message lists the names.
        """
        self._require_open()
        return (self._attributes.value(self, name),) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Refuse to change an attribute, unless each value given is the present one.

        A value of a parameter is first converted as it is when an env is made: 9.8 equals a parameter that is 9.8 in float32.

        Args:
            name: a name that ``get_attr`` takes.
            values: one value, or a list, a tuple or an array of any kind with one for each env. A parameter with a value for each
                world also takes the values of all worlds.

        Raises:
            UnknownAttributeError: an env has no such attribute.
            ShapeError: another number of values than ``num_envs``.
            ArrayTypeError, DeviceError: an array that cannot be read.
            ParameterError: another value than the present one; attributes are set when the env is made.
        """
        self._require_open()
        self._attributes.require_present(self, name, values)

    # ---- copies ----------------------------------------------------------------------------------------------

    @guarded
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """Constructor, arguments and state, for pickle and copy.

        Raises:
            ClosedError: the env was closed.
            CopyError: the spec cannot be pickled.
            SequenceError: a CUDA graph is being captured.
        """
        self._require_open()
        self.worlds.require_wait("a copy of an env")
        state = {"attributes": carried(self)} | worlds_to_host(self.worlds, self._started)
        return make_with_keywords, (type(self), self.env_spec, self._keywords()), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over the state of the original."""
        carry_to(self, state["attributes"])
        self._started = worlds_from_host(self.worlds, state)

    def _keywords(self) -> dict[str, Any]:
        """Keywords that make an env like this one, with its device in place of ``"auto"``."""
        same = ("num_worlds", "view", "array", "autoreset_mode", "debug", "first_world", "render_mode")
        style = self._rendering.style
        pictures = {"render_theme": style.theme, "render_scale": style.scale}
        rewards = {} if self._reward is None else {"reward": self._reward.shaping.reward}
        named = {name: getattr(self, name) for name in same} | {"device": self._back_end, "copy": self.worlds.outputs.copy}
        return named | pictures | rewards | dict(self.params)

    # ---- notebooks -------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """Name, size, device."""
        return f"GpuVectorEnv({self.env_spec.name}, num_envs={self.num_envs}, view={self.view}, device={self.device})"

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows, without the picture if it cannot be drawn."""
        picture = ""
        if self._started and not self.closed:
            # Such as no Pillow, no renderer, a shape too far away to draw, a graph that is captured, or a call of another thread.
            with contextlib.suppress(GpuVecenvError):
                picture = self._picture_html()
        arrays = f"{self.array}, on {self.device}"
        return table_html(table_rows(self.worlds.view, self.view, arrays, self.autoreset_mode)) + picture

    @guarded
    def _picture_html(self) -> str:
        self.worlds.require_wait("a picture")
        return self._rendering.html()

    # ---- private ---------------------------------------------------------------------------------------------

    def _results(self, results: OutputArrays) -> StepResults[ArrayT]:
        """Return the arrays of a step or a rollout as ``step()`` documents them."""
        arrays, places = results.arrays, self._places
        if self._plain:  # the general case, faster
            return arrays[0], arrays[1], arrays[2], arrays[3], {name: arrays[index] for name, index in places.info.items()}
        if self.debug:
            self.worlds.check_step(results)
        return tuple(nest(place, arrays, self._convert) for place in places.returned)

    def _flags(self, name: str) -> Any:
        """Return flags about the next actions in the present state, in fresh arrays; None if the env has none of that name."""
        self._require_started(f"{name}()")
        place = self._places.public.get(name)
        return None if place is None else nest(place, self.worlds.observe(), self._convert)

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedError(f"{self.env_spec.name} was closed; make a new env.")

    def _require_started(self, call: str) -> None:
        if self.closed or not self._started:
            self._require_open()
            raise SequenceError(f"call reset() before {call}.")


OPTIONS = tuple(name for name in inspect.signature(GpuVectorEnv).parameters if name not in ("env_spec", "params"))
"""Keywords that are the same for every env."""
