"""Arrays that a reset, a step or a rollout writes: fresh ones, persistent ones, or slabs that the caller bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

import numpy as np
from gymnasium.spaces import Box

from gpu_vecenv.backend.memory import Memory
from gpu_vecenv.errors import OutOfMemoryError, ParameterError, SequenceError, UnknownParameterError
from gpu_vecenv.spec.given import Array
from gpu_vecenv.spec.layout import OUTPUTS
from gpu_vecenv.vector.slabs import require_slab
from gpu_vecenv.vector.views import View

CHECK_ROOM_FROM = 2**30
"""Rollouts whose new arrays have at least this many bytes check free memory first. The query takes ten microseconds."""

BOOL = ("agent_alive", "terminated", "truncated", "finished")
"""Outputs of dtype bool; the others are float32."""


@dataclass(slots=True, eq=False)
class OutputArrays:
    """Arrays that one reset, step or rollout writes.

    Attributes:
        arrays: the arrays in the order of ``Outputs.shapes``.
        previous_obs: the last observation, which kernels read. This reference keeps it alive if the caller drops it.
        actions: array for the drawn actions of a rollout that stores them; otherwise None.
        addresses: addresses of ``previous_obs`` and of the arrays.
        words: addresses in the order of ``OUTPUTS``, 0 for an output that this env does not have.
    """

    arrays: Sequence[Array]
    previous_obs: Array
    actions: Array
    addresses: tuple[int, ...]
    words: tuple[int, ...]


class Outputs:
    """Gives each reset, step and rollout the arrays to write.

    Args:
        view: shapes.
        memory: allocator of public arrays.
        same_step: True in same-step mode, in which final observations are written.
        copy: True for fresh arrays in every call, False for one persistent set.

    Attributes:
        fresh: True if every call allocates its results: ``copy`` is True and no slabs are bound.
        shapes: shapes of a step's arrays by name: ``obs``, ``reward``, ``terminated``, ``truncated``, ``finished``, and
            ``final_obs``, ``agent_alive`` and ``agent_reward`` if the env has them.
        info: index into a step's arrays for each key of ``info``.
        allocate: returns a fresh set of arrays for a step.
    """

    def __init__(self, view: View, memory: Memory, same_step: bool, copy: bool) -> None:
        self._memory = memory
        self._copy = self.fresh = copy
        obs = view.lead + view.layout.spec.observation(view.layout.params).shape
        self.shapes: dict[str, tuple[int, ...]] = {"obs": obs}
        self.shapes.update({name: (view.num_envs,) for name in ("reward", "terminated", "truncated", "finished")})
        if same_step:
            self.shapes["final_obs"] = obs
        if view.layout.num_agents > 1:
            self.shapes["agent_alive"] = view.lead
            if not view.flat:
                self.shapes["agent_reward"] = view.lead
        action = view.agent_action_space
        self._actions = view.lead + (action.shape or ()), "float32" if isinstance(action, Box) else "int32"
        self.allocate = memory.allocator([(shape, dtype_of(name)) for name, shape in self.shapes.items()])
        indices = {name: index for index, name in enumerate(self.shapes)}
        indices.setdefault("agent_reward", indices["reward"])  # one array in a flat view
        self.info = {"_final_obs": indices["finished"], "final_obs": indices["final_obs"]} if same_step else {}
        if view.layout.num_agents > 1:
            self.info |= {name: indices[name] for name in ("agent_alive", "agent_reward")}
        # _pick_words(0, address of previous_obs, *addresses of arrays) returns one address for each of OUTPUTS; 0 is null.
        words = {"previous_obs": 1, **{name: index + 2 for name, index in indices.items()}}
        self._pick_words = itemgetter(*(words.get(name.removeprefix("out_"), 0) for name in OUTPUTS))
        self._persistent: OutputArrays | None = None
        self._rollout_arrays: dict[tuple[str, int], Array] = {}
        self._last_obs: Array | None = None
        self._step_actions: Array | None = None
        self._slabs: dict[str, Array] = {}
        self._slots: list[OutputArrays] = []
        self._slot = 0

    def new_last_obs(self) -> Array:
        """Array for the observation of a state that was set or copied; it becomes the last observation.

        With ``copy=True`` the array is new, so that arrays handed out are not overwritten.
        """
        if self._slabs:
            return self._slabs["obs"][self._slot]
        if self._copy:
            self._last_obs = self._memory.empty(self.shapes["obs"], "float32")
            return self._last_obs
        return self._persistent_arrays()[0]

    def for_reset(self, partial: bool) -> OutputArrays:
        """Arrays for a reset. If ``partial``, kernels keep the last observation of worlds that are not reset."""
        if self._slabs:
            self._slot = self._slot if partial else 0
            obs = self._slabs["obs"][self._slot]
            return self._with_addresses([obs, *self._persistent_arrays()[1:]], obs)
        return self._new_arrays() if self.fresh else self._with_present_addresses(self._persist())

    def for_step(self) -> OutputArrays:
        """Arrays for the next step.

        Raises:
            SequenceError: the bound slabs are full.
        """
        if self.fresh:
            return self._new_arrays()
        if not self._slabs:
            return self._with_present_addresses(self._persist())
        if self._slot >= len(self._slots):
            raise SequenceError(
                f"the bound slabs hold {len(self._slots)} steps and are full; call rewind() before the next step."
            )
        arrays = self._slots[self._slot]
        self._slot += 1
        return self._with_present_addresses(arrays)

    def for_rollout(self, steps: int, keep_actions: bool) -> OutputArrays:
        """Arrays for a rollout of ``steps`` steps, their leading axis; with ``keep_actions`` also an array for drawn actions.

        Raises:
            SequenceError: the bound slabs have fewer slots left than steps.
            OutOfMemoryError: the new arrays do not fit into free memory.
        """
        names = [*self.shapes, "actions"] if keep_actions else self.shapes
        new = [name for name in names if name not in self._slabs and (name, steps) not in self._rollout_arrays]
        self._require_room(new, steps)
        make = self._empty if self.fresh else self._persist_rollout
        if self._slabs:
            first = self._slot
            if first + steps > len(self._slots):
                left = f"{len(self._slots) - first} of {len(self._slots)} steps"
                raise SequenceError(f"the bound slabs have room for {left} and the rollout has {steps}; call rewind() before it.")
            self._slot += steps
            bound = {name: slab[first + (name == "obs") :][:steps] for name, slab in self._slabs.items()}
            arrays = [bound[name] if name in bound else make(name, steps) for name in self.shapes]
            previous = self._slabs["obs"][first]
        else:
            arrays = [make(name, steps) for name in self.shapes]
            if self._copy:
                last, self._last_obs = self._last_obs, arrays[0][-1]
                previous = arrays[0][0] if last is None else last
            else:
                previous = self._persistent_arrays()[0]
        return self._with_addresses(arrays, previous, make("actions", steps) if keep_actions else None)

    def actions_of_a_step(self) -> Array:
        """Array for drawn actions that a rollout does not store; each step overwrites it, and no caller gets it."""
        if self._step_actions is None:
            self._step_actions = self._empty("actions", 1)
        return self._step_actions

    def end_rollout(self, results: OutputArrays) -> None:
        """After a rollout into persistent arrays, copy its last observation to the one of a step, which later calls read."""
        if not self._slabs and not self._copy:
            self._memory.assign(self._persistent_arrays()[0], results.arrays[0][-1])

    # ---- slabs ------------------------------------------------------------------------------------------------

    def bind(self, slabs: Mapping[str, Array], device: str) -> None:
        """Write into the caller's slabs from now on, starting at slot 0 with the last observation.

        Raises:
            ShapeError, ArrayTypeError, DeviceError: a slab does not fit; the message says what was expected and what came.
            UnknownParameterError: no ``obs``, or a slab for an output that the env does not have.
            ParameterError: slabs share memory, or one is read-only.
        """
        self._check_slabs(slabs, device)
        last = self._current_obs()
        if last is not None:
            self._memory.assign(slabs["obs"][0], last)
        self._slabs, self.fresh = dict(slabs), False
        own = dict(zip(self.shapes, self._persistent_arrays(), strict=True))
        obs = slabs["obs"]
        self._slots = [
            self._with_addresses(
                [slabs[name][t + (name == "obs")] if name in slabs else own[name] for name in self.shapes], obs[t])
            for t in range(len(obs) - 1)
        ]  # fmt: skip
        self._slot = 0

    @property
    def bound(self) -> Mapping[str, Array]:
        """The slabs bound, by name."""
        return self._slabs

    def new_slabs(self, steps: int) -> dict[str, Array]:
        """New slabs for every output, for ``bind()``."""
        return {name: self._empty(name, steps + (name == "obs")) for name in self.shapes}

    def move_to(self, slot: int) -> None:
        """Make ``slot`` the next slot to write. A replay of a graph fills slots without calls of ``for_step()``."""
        self._slot = slot

    def rewind(self) -> None:
        """Copy the last observation to slot 0 and continue from there.

        Raises:
            SequenceError: no slabs are bound.
        """
        if not self._slabs:
            raise SequenceError("rewind() needs bound slabs; call bind() first.")
        if self._slot:
            self._memory.assign(self._slabs["obs"][0], self._slabs["obs"][self._slot])
        self._slot = 0

    def unbind(self) -> None:
        """Write into the env's own arrays again, and leave the slabs to the caller."""
        if self._slabs:
            last = self._slabs["obs"][self._slot]
            if self._copy:
                self._last_obs = self._memory.copy(last)
            else:
                self._memory.assign(self._persistent_arrays()[0], last)
        self._slabs, self._slots, self._slot, self.fresh = {}, [], 0, self._copy

    def _check_slabs(self, slabs: Mapping[str, Array], device: str) -> None:
        unknown = [name for name in slabs if name not in self.shapes]
        if unknown or "obs" not in slabs:
            raise UnknownParameterError(
                f"bind() needs obs and may take {', '.join(n for n in self.shapes if n != 'obs')}; "
                f"got {', '.join(slabs) or 'nothing'}."
            )
        shape: tuple[int, ...] = tuple(getattr(slabs["obs"], "shape", ()))
        steps = shape[0] - 1 if shape else 0
        for name, slab in slabs.items():
            require_slab(name, slab, self._memory.kind, device, dtype_of(name), steps, self.shapes[name])
        spans = sorted((self._memory.address(slab), slab.nbytes, name) for name, slab in slabs.items())
        for (first, length, name), (second, _, other) in pairwise(spans):
            if first + length > second:
                raise ParameterError(f"bound {name} and {other} share memory; each slab needs memory of its own.")

    # ---- private ----------------------------------------------------------------------------------------------

    def _current_obs(self) -> Array | None:
        """The last observation; None if no array was made for it yet."""
        if self._slabs:
            return self._slabs["obs"][self._slot]
        if self._copy:
            return self._last_obs
        return None if self._persistent is None else self._persistent.arrays[0]

    def _require_room(self, names: list[str], steps: int) -> None:
        """Raise OutOfMemoryError if new arrays of a long rollout do not fit into memory. Short rollouts are not checked."""
        needed = sum(steps * math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in map(self._shape_and_dtype, names))
        free = self._memory.free_bytes() if needed >= CHECK_ROOM_FROM else None
        if free is not None and needed > free:
            raise OutOfMemoryError(
                f"a rollout of {steps:,} steps needs {needed / 1e6:,.1f} MB for its results, and {free / 1e6:,.1f} MB are free; "
                "take fewer steps at a time."
            )

    def _shape_and_dtype(self, name: str) -> tuple[tuple[int, ...], str]:
        """Shape and dtype of an array of one step."""
        return self._actions if name == "actions" else (self.shapes[name], dtype_of(name))

    def _empty(self, name: str, steps: int) -> Array:
        shape, dtype = self._shape_and_dtype(name)
        return self._memory.empty((steps, *shape), dtype)

    def _persist_rollout(self, name: str, steps: int) -> Array:
        """The persistent array for rollouts of this length."""
        if (name, steps) not in self._rollout_arrays:
            self._rollout_arrays[name, steps] = self._empty(name, steps)
        return self._rollout_arrays[name, steps]

    def _new_arrays(self) -> OutputArrays:
        arrays = self.allocate()
        last, self._last_obs = self._last_obs, arrays[0]
        return self._with_addresses(arrays, arrays[0] if last is None else last)

    def _persist(self) -> OutputArrays:
        """The persistent arrays of a step."""
        if self._persistent is None:
            arrays = self.allocate()
            self._persistent = self._with_addresses(arrays, arrays[0])
        return self._persistent

    def _persistent_arrays(self) -> Sequence[Array]:
        """The persistent arrays of a step. With bound slabs, they take the outputs that are not bound."""
        return self._persist().arrays

    def _with_addresses(self, arrays: Sequence[Array], previous_obs: Array, actions: Array = None) -> OutputArrays:
        addresses = tuple(map(self._memory.address, (previous_obs, *arrays)))
        return OutputArrays(arrays, previous_obs, actions, addresses, self._pick_words((0, *addresses)))

    def _with_present_addresses(self, results: OutputArrays) -> OutputArrays:
        """Look up the addresses of reused arrays again: torch's ``share_memory_()`` moves the memory of a tensor on the CPU."""
        if self._memory.moves and tuple(map(self._memory.address, (results.previous_obs, *results.arrays))) != results.addresses:
            fresh = self._with_addresses(results.arrays, results.previous_obs)
            results.addresses, results.words = fresh.addresses, fresh.words
        return results


def dtype_of(name: str) -> str:
    """Dtype of an output by its name."""
    return "bool" if name in BOOL else "float32"
