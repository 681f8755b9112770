"""Copies of a vector env: pickling, and the functions of Python's module ``copy``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpu_vecenv.vector.env.one_caller import OneCaller, one_caller

if TYPE_CHECKING:
    from gpu_vecenv.render.worlds import WorldRenderers
    from gpu_vecenv.spec.env_spec import EnvSpec
    from gpu_vecenv.vector.worlds.worlds import Worlds

_SPACES = ("observation_space", "action_space", "single_observation_space", "single_action_space")
CARRIED = ("spec", "metadata", "_np_random", "_np_random_seed", *_SPACES)
"""Attributes that a copy takes over if the original has them. Spaces hold the generators of their samples."""


class Copied:
    """Base of envs, wrappers and adapters: ``copy.copy`` returns a deep copy, because two of them must not share worlds."""

    def __copy__(self) -> Any:
        """The same as a deep copy."""
        return copy.deepcopy(self)


class CopiedEnv(Copied):
    """Base of a vector env that can be pickled and copied.

    A copy is a new env, made with the same spec and keywords on the same device, with memory of its own. Its worlds have the
    state and the random keys of the original, so both give the same results for the same actions. The reset pool, the reset
    options in force, the host's generator and those of spaces are copied. Bound slabs, captured graphs and trails of pictures
    are not.
    """

    if TYPE_CHECKING:
        env_spec: EnvSpec
        worlds: Worlds
        _guard: OneCaller
        _renderers: WorldRenderers
        _started: bool

        def _require_open(self) -> None: ...

    @one_caller
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """Constructor, arguments and state, for pickle and copy.

        Raises:
            ClosedError: the env was closed.
            CopyError: the spec cannot be pickled.
            SequenceError: a CUDA graph is being captured.
        """
        self._require_open()
        self.worlds.require_wait("a copy of an env")
        state = {
            "attributes": carried(self),
            "pool": self.worlds.pool.get(None),
            "options": self.worlds.memory.to_numpy(self.worlds.arguments.reset_options),
            "started": None,
        }
        if self._started:
            # The last observation may differ from that of the state: an agent of Tag observes the step that tags it.
            last = [self.worlds.output_memory.to_numpy(array) for array in self.worlds.outputs.last_kept() or ()]
            state["started"] = self.worlds.state.on_host(), last
        return _make, (type(self), self.env_spec, self._keywords()), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over the state of the original."""
        vars(self).update(state["attributes"])
        memory = self.worlds.memory
        memory.assign(self.worlds.arguments.reset_options, memory.from_numpy(state["options"]))
        if state["pool"]:
            self.worlds.pool.set(state["pool"])
        if state["started"] is not None:
            fields, last = state["started"]
            self.worlds.set_state(fields)
            memory = self.worlds.output_memory
            for array, values in zip(self.worlds.outputs.last_kept() or (), last, strict=True):
                memory.assign(array, memory.from_numpy(values))
            self._started = True

    def _keywords(self) -> dict[str, Any]:
        """Keywords that make an env like this one, with its device in place of ``"auto"``."""
        same = ("num_worlds", "view", "device", "array", "autoreset_mode", "debug", "first_world", "render_mode")
        style = self._renderers.style
        drawn = {"render_theme": style.theme, "render_scale": style.scale}
        params: dict[str, Any] = dict(getattr(self, "params"))  # noqa: B009  (VectorEnv has no such attribute)
        return {name: getattr(self, name) for name in same} | {"copy": self.worlds.outputs.copy} | drawn | params


def carried(env: Any) -> dict[str, Any]:
    """Return the attributes of an env that its copy takes over."""
    return {name: vars(env)[name] for name in CARRIED if name in vars(env)}


def _make(kind: Callable[..., Any], env_spec: EnvSpec, keywords: dict[str, Any]) -> Any:
    return kind(env_spec, **keywords)
