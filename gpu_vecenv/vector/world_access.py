"""The worlds behind a vector env: their state, copies of them, where they start, what is seen of them."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from gymnasium.vector import VectorEnv

from gpu_vecenv.backend.base import Backend
from gpu_vecenv.backend.memory import Memory
from gpu_vecenv.errors import ArrayTypeError, ClosedError, ConcurrentCallError, SequenceError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.given import Array
from gpu_vecenv.vector.arguments import Arguments
from gpu_vecenv.vector.outputs import Outputs
from gpu_vecenv.vector.reset_pool import ResetPool
from gpu_vecenv.vector.resets import read_worlds
from gpu_vecenv.vector.seeding import draw_seed
from gpu_vecenv.vector.state import State

E = TypeVar("E")
P = ParamSpec("P")
R = TypeVar("R")


def one_caller(method: Callable[Concatenate[E, P], R]) -> Callable[Concatenate[E, P], R]:
    """A method of an env that refuses to run while another such method does, in another thread or around a signal handler.

    A call writes the argument struct and launches a kernel with it, which two calls at once would mix up.
    """

    @functools.wraps(method)
    def call(env: E, /, *args: P.args, **kwargs: P.kwargs) -> R:
        worlds = cast("WorldAccess", env)
        if worlds._in_call or not worlds._call_lock.acquire(False):
            raise worlds._busy()
        try:
            worlds._in_call = True  # within the block, as Ctrl-C may come before it
            return method(env, *args, **kwargs)
        finally:
            worlds._in_call = False
            worlds._call_lock.release()

    return call


_envs: weakref.WeakSet[WorldAccess] = weakref.WeakSet()


def _forget_calls() -> None:
    """In a forked child: the threads whose calls were under way are not there."""
    for env in list(_envs):
        env._guard_calls()


os.register_at_fork(after_in_child=_forget_calls)


class WorldAccess(VectorEnv):
    """Methods of ``GpuVectorEnv`` that Gymnasium does not define: read worlds, change them, and choose where results go."""

    env_spec: EnvSpec
    num_worlds: int
    first_world: int
    device: str
    _backend: Backend
    _state: State
    _outputs: Outputs
    _pool: ResetPool
    _args: Arguments
    _out: Memory
    _to_host: bool
    _started: bool
    _closing: bool
    _in_call: bool
    _call_lock: threading.RLock  # which lets a signal handler close the env in whose call it came

    @one_caller
    def get_state(self, *names: str) -> dict[str, Array]:
        """Copies of the state fields named, of all by default, leading axis worlds in both views, physical fields first."""
        self._require_started("get_state()")
        return self._state.on_host(*names) if self._to_host else self._state.get(self._out, *names)

    @one_caller
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Overwrite the fields given. Finished worlds may be stepped again, unless ``terminated``, ``truncated`` are given.

        The observation of the new state becomes the last one: bound and persistent arrays are overwritten with it.

        Args:
            state: fields by name: arrays of any kind in the field's dtype, or nested lists.

        Raises:
            ParameterError, ShapeError, ArrayTypeError: a field that does not fit; nothing was written.
            DeviceError: a tensor on the device "meta"; nothing was written.
        """
        self._require_started("set_state()")
        self._state.set(state)
        if "pool_entry" in state:
            self._pool.forget_entries()
        self._observe(self._outputs.new_last_obs())

    @one_caller
    def copy_worlds(self, source: Any, target: Any, diverge: bool = False) -> None:
        """Make the worlds ``target`` copies of the worlds ``source``; what agents see there becomes the last observation.

        Args:
            source: numbers of worlds (n,), of which some may be the same.
            target: numbers of as many worlds, all different; read before any is written.
            diverge: False keeps the random numbers of the originals, so that a copy given the same actions goes on as its
                original does; True gives the copies random numbers of their own.

        Raises:
            ParameterError, ShapeError, ArrayTypeError: numbers that do not fit; nothing was written.
            DeviceError: a tensor on the device "meta"; nothing was written.
        """
        self._require_started("copy_worlds()")
        sources, overlap = read_worlds(source, target, self.num_worlds)
        fields = self._state.copies() if overlap else list(self._state.fields.values())
        fork = (draw_seed(self.np_random), self.first_world) if diverge else (0, -1)
        self._state.part_streams()
        self._args.set_copy(sources, fields, fork)
        self._observe(self._outputs.new_last_obs(), "gv_copy")

    @one_caller
    def set_reset_pool(self, states: Mapping[str, Any] | None) -> None:
        """Let each reset from now on draw its start from a pool, by the world's random numbers; None for the env's own starts.

        The state field ``pool_entry``, int32 ``(num_worlds,)``, tells which entry a world's present episode started from.

        Args:
            states: physical state fields by name, leading axis the entries: given ones, those of
                ``draw_start_states()``, or recorded ones (``gpu_vecenv.join_states``). The env draws fields that are not
                there. Streams of random numbers and marks, which recorded states hold too, are not read.

        Raises:
            ParameterError, ShapeError, ArrayTypeError: states that do not fit; the pool stays as it is.
            DeviceError: a tensor on the device "meta"; the pool stays as it is.
        """
        self._require_open()
        self._pool.set(states)

    @one_caller
    def observe(self) -> Array:
        """Observations of the present state, in a fresh array. Changes nothing."""
        self._require_started("observe()")
        obs = self._out.empty(self._outputs.shapes["obs"], "float32")
        self._observe(obs)
        return self._public(obs)

    @one_caller
    def bind(self, /, **slabs: Array) -> None:
        """Write into the caller's slabs instead of the env's arrays: no allocation, no copy.

        ``obs`` is ``(T + 1, *obs)`` and the others, any of ``reward, terminated, truncated, finished, final_obs,
        agent_alive, agent_reward``, are ``(T, ...)``; float32 or bool, C-contiguous, on the env's device. A reset
        writes ``obs[0]``; step t (from 0) writes ``obs[t + 1]`` and ``[t]`` of the others. After T steps call
        ``rewind()``. Outputs not given go to persistent arrays. Rows of ``final_obs`` are undefined where no episode
        ended. If the env has started, its last observation is copied to ``obs[0]``.

        Raises:
            ShapeError, ArrayTypeError, DeviceError, UnknownParameterError: what was expected and what came.
            ParameterError: two slabs share memory, or one is read-only.
        """
        self._require_open()
        if self._to_host:
            raise ArrayTypeError('bind() needs arrays on the device; array="numpy" hands out host copies.')
        self._outputs.bind(slabs, self.device)

    @one_caller
    def rewind(self) -> None:
        """Make the last observation written slot 0 of the bound slabs, and start over there."""
        self._outputs.rewind()

    @one_caller
    def unbind(self) -> None:
        """Write into the env's own arrays again."""
        self._outputs.unbind()

    # ---- inside -----------------------------------------------------------------------------------------------

    @one_caller
    def _replay(self, graph: Any, steps: int) -> None:
        """Run the steps of a CUDA graph that writes the bound slabs."""
        self._outputs.rewind()
        graph.replay()
        self._outputs.move_to(steps)

    def _observe(self, obs: Array, kernel: str = "gv_observe") -> None:
        self._args.set(obs=self._out.address(obs))
        self._backend.launch(kernel, self._args.struct, self.num_worlds)

    def _public(self, array: Array) -> Array:
        return self._out.to_numpy(array) if self._to_host else array

    def _guard_calls(self) -> None:
        """Start with no call under way."""
        self._in_call, self._call_lock = False, threading.RLock()
        _envs.add(self)

    def _busy(self) -> Exception:
        """The error of a call in the middle of another one."""
        name = self.env_spec.name
        if self._closing:
            return ClosedError(f"{name} is being closed by another thread; make a new env.")
        return ConcurrentCallError(
            f"{name}: this env is in the middle of a call, of another thread or around a signal handler; make one env per "
            "thread, or put a lock around its calls."
        )

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedError(f"{self.env_spec.name} was closed; make a new env.")

    def _require_started(self, call: str) -> None:
        if self.closed or not self._started:
            self._require_open()
            raise SequenceError(f"call reset() before {call}.")
