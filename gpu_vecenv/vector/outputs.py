"""Arrays a step writes: fresh ones, persistent ones, or slots of slabs the caller bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

import numpy as np
from gymnasium.spaces import Box

from gpu_vecenv.backend.memory import Memory
from gpu_vecenv.errors import (
    ArrayTypeError,
    DeviceError,
    OutOfMemoryError,
    ParameterError,
    SequenceError,
    ShapeError,
    UnknownParameterError,
)
from gpu_vecenv.spec.given import Array, library, plain_tensor
from gpu_vecenv.spec.layout import OUTPUTS
from gpu_vecenv.vector.views import View

CHECK_ROOM_FROM = 2**30
"""Rollouts of at least this many bytes check free memory first; the query takes about ten microseconds."""

BOOL = ("agent_alive", "terminated", "truncated", "finished")


@dataclass(slots=True, eq=False)
class Slot:
    """Where one step or rollout writes: the arrays, and their addresses in the order of ``OUTPUTS``.

    The arrays are in the order of ``Outputs.shapes``, drawn actions that are kept behind them. ``previous_obs`` is read by the
    kernel; it is held here, as the caller may have dropped it already.
    """

    arrays: Sequence[Array]
    previous_obs: Array
    addresses: tuple[int, ...]
    words: tuple[int, ...]


class Outputs:
    """Gives each reset, step and rollout the arrays to write.

    Args:
        view: shapes.
        memory: allocator of public arrays.
        same_step: whether final observations are written.
        copy: True for fresh arrays in every call, False for one persistent set.

    Attributes:
        fresh: whether every call allocates: without slabs, if results are copies.
        shapes: of a step's arrays by name: ``obs``, ``reward``, ``terminated``, ``truncated``, and what this env has beside.
        info: places, among those arrays, of what ``info`` holds.
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
        self._allocate = memory.allocator([(shape, _dtype(name)) for name, shape in self.shapes.items()])
        places = {name: place for place, name in enumerate(self.shapes)}
        places.setdefault("agent_reward", places["reward"])  # in a flat view it is that
        self.info = {"_final_obs": places["finished"], "final_obs": places["final_obs"]} if same_step else {}
        if view.layout.num_agents > 1:
            self.info |= {name: places[name] for name in ("agent_alive", "agent_reward")}
        # OUTPUTS has an order of its own: its words are picked from 0, the address of previous_obs, and those of the arrays.
        words = {"previous_obs": 1, **{name: place + 2 for name, place in places.items()}}
        self._by_word = itemgetter(*(words.get(name.removeprefix("out_"), 0) for name in OUTPUTS))
        self._persistent: Slot | None = None
        self._long: dict[tuple[str, int], Array] = {}
        self._last_obs: Array | None = None
        self._step_actions: Array | None = None
        self._slabs: dict[str, Array] = {}
        self._slots: list[Slot] = []
        self._at = 0

    def new_last_obs(self) -> Array:
        """Where the observation of a state that was set goes: in place of the last one; one handed out stays as it is."""
        if self._slabs:
            return self._slabs["obs"][self._at]
        if self._copy:
            self._last_obs = self._memory.empty(self.shapes["obs"], "float32")
            return self._last_obs
        return self._own()[0]

    def for_reset(self, partial: bool) -> Slot:
        """Where a reset writes. A partial one goes where the last observation is, or into a fresh copy of it."""
        if self._slabs:
            self._at = self._at if partial else 0
            slab = self._slabs["obs"]
            return self._slot([slab[self._at], *self._own()[1:]], slab[self._at])
        return self._new_slot() if self.fresh else self._where_it_is(self._persist())

    def for_step(self) -> Slot:
        """Where the next step writes.

        Raises:
            SequenceError: the bound slabs are full.
        """
        if self.fresh:
            return self._new_slot()
        if not self._slabs:
            return self._where_it_is(self._persist())
        if self._at >= len(self._slots):
            raise SequenceError(
                f"the bound slabs hold {len(self._slots)} steps and are full; call rewind() before the next step."
            )
        slot = self._slots[self._at]
        self._at += 1
        return self._where_it_is(slot)

    def for_rollout(self, steps: int, keep_actions: bool) -> Slot:
        """Where the next ``steps`` steps write: every array with these as leading axis; drawn ``actions``, too, if to be kept.

        Raises:
            SequenceError: the bound slabs have no room for them.
            OutOfMemoryError: the device has no room for them.
        """
        at, names = self._at, [*self.shapes, *(["actions"] if keep_actions else [])]
        self._require_room([name for name in names if name not in self._slabs and (name, steps) not in self._long], steps)
        if self._slabs:
            if at + steps > len(self._slots):
                left = f"{len(self._slots) - at} of {len(self._slots)} steps"
                raise SequenceError(f"the bound slabs have room for {left} and the rollout has {steps}; call rewind() before it.")
            self._at += steps
            bound = {name: slab[at + (name == "obs") :][:steps] for name, slab in self._slabs.items()}
            return self._slot(
                [bound[name] if name in bound else self._long_array(name, steps) for name in names], self._slabs["obs"][at]
            )
        if not self._copy:
            return self._slot([self._long_array(name, steps) for name in names], self._own()[0])
        arrays = [self._empty(name, steps) for name in names]
        last, self._last_obs = self._last_obs, arrays[0][-1]
        return self._slot(arrays, arrays[0][0] if last is None else last)

    def actions_of_a_step(self) -> Array:
        """Where a rollout puts the actions it draws for a step, if it keeps none; nobody else gets to see it."""
        if self._step_actions is None:
            self._step_actions = self._empty("actions", 1)
        return self._step_actions

    def end_rollout(self, slot: Slot) -> None:
        """After its launch: without copies, the last observation goes where that of a step is, as later calls look there."""
        if not self._slabs and not self._copy:
            self._memory.assign(self._own()[0], slot.arrays[0][-1])

    def _require_room(self, names: list[str], steps: int) -> None:
        """Check that a long rollout fits into memory. Short ones are not checked."""
        needed = sum(steps * math.prod(self._kind(name)[0]) * np.dtype(self._kind(name)[1]).itemsize for name in names)
        free = self._memory.free_bytes() if needed >= CHECK_ROOM_FROM else None
        if free is not None and needed > free:
            raise OutOfMemoryError(
                f"a rollout of {steps:,} steps needs {needed / 1e6:,.1f} MB for its results, and {free / 1e6:,.1f} MB are free; "
                "take fewer steps at a time."
            )

    def _kind(self, name: str) -> tuple[tuple[int, ...], str]:
        """Shape in a step and dtype of an array."""
        return self._actions if name == "actions" else (self.shapes[name], _dtype(name))

    def _empty(self, name: str, steps: int) -> Array:
        shape, dtype = self._kind(name)
        return self._memory.empty((steps, *shape), dtype)

    def _long_array(self, name: str, steps: int) -> Array:
        """The persistent array of rollouts of one length."""
        if (name, steps) not in self._long:
            self._long[name, steps] = self._empty(name, steps)
        return self._long[name, steps]

    def _new_slot(self) -> Slot:
        """Arrays that nobody holds yet."""
        arrays = self._allocate()
        last, self._last_obs = self._last_obs, arrays[0]
        return self._slot(arrays, arrays[0] if last is None else last)

    def _persist(self) -> Slot:
        """The persistent arrays."""
        if self._persistent is None:
            arrays = self._allocate()
            self._persistent = self._slot(arrays, arrays[0])
        return self._persistent

    def _own(self) -> Sequence[Array]:
        """Persistent arrays, for outputs that were not bound."""
        return self._persist().arrays

    def _slot(self, arrays: Sequence[Array], previous_obs: Array) -> Slot:
        addresses = tuple(map(self._memory.address, (previous_obs, *arrays)))
        return Slot(arrays, previous_obs, addresses, self._by_word((0, *addresses)))

    def _where_it_is(self, slot: Slot) -> Slot:
        """A slot that is used again, with its present addresses: ``share_memory_()`` moves a tensor on the CPU."""
        if self._memory.moves and tuple(map(self._memory.address, (slot.previous_obs, *slot.arrays))) != slot.addresses:
            fresh = self._slot(slot.arrays, slot.previous_obs)
            slot.addresses, slot.words = fresh.addresses, fresh.words
        return slot

    # ---- bound slabs ------------------------------------------------------------------------------------------

    def bind(self, slabs: Mapping[str, Array], device: str) -> None:
        """Write into the caller's slabs from now on: ``obs`` ``(T + 1, ...)``, everything else ``(T, ...)``.

        Raises:
            UnknownParameterError: a slab that is no output of this env, or no ``obs``.
            ShapeError, ArrayTypeError, DeviceError: what was expected and what came.
            ParameterError: two slabs share memory, or one is read-only.
        """
        self._check_slabs(slabs, device)
        last = self._current_obs()
        if last is not None:
            self._memory.assign(slabs["obs"][0], last)
        self._slabs, self.fresh = dict(slabs), False
        own, obs = dict(zip(self.shapes, self._own(), strict=True)), slabs["obs"]
        self._slots = [
            self._slot([slabs[name][t + (name == "obs")] if name in slabs else own[name] for name in self.shapes], obs[t])
            for t in range(len(obs) - 1)
        ]
        self._at = 0

    @property
    def bound(self) -> Mapping[str, Array]:
        """The slabs bound, by name."""
        return self._slabs

    def new_slabs(self, steps: int) -> dict[str, Array]:
        """Slabs of every output, to bind."""
        return {name: self._empty(name, steps + (name == "obs")) for name in self.shapes}

    def move_to(self, step: int) -> None:
        """Let the bound slabs stand after ``step`` steps, as they do once a graph was replayed."""
        self._at = step

    def _check_slabs(self, slabs: Mapping[str, Array], device: str) -> None:
        unknown = [name for name in slabs if name not in self.shapes]
        if unknown or "obs" not in slabs:
            raise UnknownParameterError(
                f"bind() needs obs and may take {', '.join(n for n in self.shapes if n != 'obs')}; "
                f"got {', '.join(slabs) or 'nothing'}."
            )
        shape: tuple[int, ...] = tuple(getattr(slabs["obs"], "shape", ()))
        for name, slab in slabs.items():
            self._check_slab(name, slab, shape[0] - 1 if shape else 0, device)
        spans = sorted((self._memory.address(slab), slab.nbytes, name) for name, slab in slabs.items())
        for (first, length, name), (second, _, other) in pairwise(spans):
            if first + length > second:
                raise ParameterError(f"bound {name} and {other} share memory; each slab needs memory of its own.")

    def _check_slab(self, name: str, slab: Array, steps: int, device: str) -> None:
        module = library(slab)
        if module != self._memory.kind or not hasattr(slab, "nbytes"):
            raise ArrayTypeError(f"bound {name} must be a {self._memory.kind} array, got {type(slab).__name__}.")
        where = f"cuda:{slab.device.id}" if module == "cupy" else str(slab.device)
        if module != "numpy" and where != device:
            raise DeviceError(f"bound {name} must be on {device}, got {where}.")
        shape = (steps + (name == "obs"), *self.shapes[name])
        if steps < 1 or tuple(slab.shape) != shape:
            expected = ("T + 1" if name == "obs" else "T", *self.shapes[name])
            raise ShapeError(f"bound {name} must have shape ({', '.join(map(str, expected))}), got {tuple(slab.shape)}.")
        dtype = _dtype(name)
        if str(slab.dtype).removeprefix("torch.") != dtype:
            raise ArrayTypeError(f"bound {name} must be {dtype}, got {slab.dtype}.")
        if module == "torch":
            plain_tensor(slab, f"bound {name}")  # raises for sparse and meta tensors
            if slab.requires_grad or slab.is_inference():
                raise ArrayTypeError(f"bound {name} must be writable in place, got a tensor of autograd or of inference mode.")
            if slab.is_neg():
                raise ArrayTypeError(f"bound {name} must hold its values, got a tensor that torch negates when it is read.")
        contiguous = slab.is_contiguous() if module == "torch" else slab.flags.c_contiguous
        if not contiguous:
            raise ShapeError(f"bound {name} must be C-contiguous.")
        if module == "numpy" and not slab.flags.writeable:
            raise ParameterError(f"bound {name} is read-only.")

    def rewind(self) -> None:
        """Copy the last observation written to slot 0 and go on from there."""
        if not self._slabs:
            raise SequenceError("rewind() belongs to bound slabs; call bind() first.")
        if self._at:
            self._memory.assign(self._slabs["obs"][0], self._slabs["obs"][self._at])
        self._at = 0

    def unbind(self) -> None:
        """Back to the env's own arrays; the slabs are the caller's alone again."""
        if self._slabs:
            last = self._slabs["obs"][self._at]
            if self._copy:
                self._last_obs = self._memory.copy(last)
            else:
                self._memory.assign(self._own()[0], last)
        self._slabs, self._slots, self._at, self.fresh = {}, [], 0, self._copy

    def _current_obs(self) -> Array | None:
        """The last observation written; None when there is none."""
        if self._slabs:
            return self._slabs["obs"][self._at]
        if self._copy:
            return self._last_obs
        return None if self._persistent is None else self._persistent.arrays[0]


def _dtype(name: str) -> str:
    """Of an output."""
    return "bool" if name in BOOL else "float32"
