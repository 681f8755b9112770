"""Ring of a replay buffer: the arrays of its transitions, and sums over those that can be sampled.

The kernels are ``kernels/learner/replay_add.cu``. A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import MAX_RING_LEVELS, MAX_RING_PARTS, REPLAY_ADD, RING_LEVEL, RING_PART
from gpu_vecenv.errors import ArrayTypeError, ShapeError
from gpu_vecenv.train.errors import CheckpointError
from gpu_vecenv.train.policies.contract import Observation
from gpu_vecenv.train.storage.policy_rows import PolicyRows
from gpu_vecenv.train.storage.samples import Samples

TILE, FAN = REPLAY_ADD.macros["TILE"], 64
FLAGS = ("valid", "episode_end", "timed_out", "ended")
"""Masks of samples, which become one byte of a transition."""


@dataclass(frozen=True, eq=False)  # compared by identity, as tensors are
class _Adds:
    """A call that copies samples to a ring. It copies those of later rollouts, too, whose arrays are the same objects."""

    arrays: list[Tensor]
    """Arrays that the call reads."""
    call: Call
    tiles: int
    """Teams that copy."""
    marks: int
    """Flags of agents."""


class Ring:
    """The last S steps of B samples of a policy, in S + 1 slots: that after the newest step has its next observations alone.

    Attributes:
        arrays: transitions, each (S + 1, B, ...): observations, final observations, ``action``, ``reward``, ``mask``, ``critic``,
            ``final_mask`` and ``flags``, uint8, see ``kernels/learner/replay.h``.
        priority: float32 (S + 1, B); None without priorities.
        steps: int64 (), steps that were added.
        filled: int64 (), transitions that can be sampled.
        largest: float32 (), priority of new transitions.
    """

    def __init__(self, rows: PolicyRows, slots: int, n_steps: int, with_priorities: bool, device: torch.device) -> None:
        """Allocate an empty ring.

        Args:
            rows: rows of the policy.
            slots: S.
            n_steps: steps that a transition sums, at most.
            with_priorities: transitions have priorities.
            device: device of the arrays.
        """
        self.slots, self.n_steps, self.newest = slots, n_steps, newest_steps(rows, n_steps)
        self.samples, self.agents = rows.num_samples, rows.shape[1] if len(rows.shape) > 1 else 1
        self.bootstraps, self.all_valid = rows.with_final_obs, rows.rollout.alive_next is None
        self.arrays = dict(_arrays(rows, slots + 1, device))
        self.steps, self.filled = torch.zeros(2, dtype=torch.int64, device=device).unbind()
        self.device = self.steps.device
        self.largest = torch.ones((), dtype=torch.float32, device=device)
        self.priority = None
        if with_priorities:
            self.priority = torch.zeros(slots + 1, rows.num_samples, dtype=torch.float32, device=device)
        self.nodes = [(slots + 1) * rows.num_samples]
        while self.nodes[-1] > 1 or len(self.nodes) == 1:
            self.nodes.append(-(-self.nodes[-1] // FAN))
        firsts = [0, 0, *torch.tensor(self.nodes[1:-1], dtype=torch.int64, device="cpu").cumsum(0).tolist()]
        self._levels = (RING_LEVEL.form * MAX_RING_LEVELS)(*map(RING_LEVEL.form, firsts, self.nodes))

        def tree(exists: bool) -> Tensor | None:
            return torch.zeros(sum(self.nodes[1:]), dtype=torch.float64, device=device) if exists else None

        self.masses, self.counts = tree(with_priorities), tree(not self.all_valid)
        self._adds: _Adds | None = None

    @functools.cached_property
    def struct(self) -> Any:
        """The struct ``GvRing`` of this ring. Its checks would be most of the host time of a call."""
        members = {
            "steps": self.steps, "flags": self.arrays["flags"], "reward": self.arrays["reward"], "priority": self.priority,
            "counts": self.counts, "masses": self.masses, "level": self._levels, "slots": self.slots + 1,
            "samples": self.samples, "agents": self.agents, "n_steps": self.n_steps, "newest": self.newest,
            "levels": len(self.nodes) - 1,
        }  # fmt: skip
        return Call(REPLAY_ADD, self.device, ring=members).args.ring

    def add(self, samples: Samples) -> None:
        """Copy the steps of a rollout.

        Raises:
            ShapeError, ArrayTypeError: the samples have another form.
        """
        arrays, adds = _arrays_of(samples, self.bootstraps), self._adds
        if adds is None or len(arrays) != len(adds.arrays) or not all(map(operator.is_, arrays, adds.arrays)):
            adds = self._adds_of(samples)
            are_read = all(x.data_ptr() == y.data_ptr() for x, y in zip(arrays, adds.arrays, strict=True))
            self._adds = replace(adds, arrays=arrays) if are_read else None  # else the call reads copies without gaps
        adds.call.launch("gv_replay_copy", adds.tiles, adds.tiles * TILE)
        adds.call.launch("gv_replay_mark", -(-adds.marks // TILE), adds.marks)
        adds.call.launch("gv_replay_advance", 1)
        self._add_up(samples.num_steps)

    def _adds_of(self, samples: Samples) -> _Adds:
        """Check samples, and return the call that copies them, with the arrays that it reads."""
        slabs = self._checked(samples)
        parts, tiles = (RING_PART.form * MAX_RING_PARTS)(), 0
        for part, (name, slab) in zip(parts, slabs.items(), strict=False):
            size, width = slab.element_size(), slab[0, 0].numel()
            tiles += -(-len(slab) * self.samples * width // TILE)
            part.slab, part.ring = slab.data_ptr(), self.arrays[name].data_ptr()
            part.step, part.sample, part.steps, part.width = size * slab.stride(0), size * slab.stride(1), len(slab), width
            part.bytes, part.at_ends, part.end_tile = size, name.startswith("final_"), tiles
        flags = {name: getattr(samples, name).contiguous() for name in FLAGS}
        call = Call(
            REPLAY_ADD, self.device, ring=self.struct, parts=parts, num_steps=samples.num_steps, **flags, largest=self.largest,
            bootstraps=self.bootstraps, filled=self.filled,
        )  # fmt: skip
        return _Adds([*slabs.values(), *flags.values()], call, tiles, flags["valid"].numel())

    def _add_up(self, steps: int) -> None:
        """Compute the sums anew that a rollout of some steps has changed."""
        if self.counts is None and self.masses is None:
            return
        for level, nodes in enumerate(self.nodes[1:], start=1):
            changed = (steps + self.newest + 1) * self.samples // FAN**level + 3  # two ends of the range, and that of the ring
            self._sum(level, min(nodes, changed), num_steps=steps, filled=self.filled)

    def set_priorities(self, place: Tensor, priority: Tensor) -> None:
        """Set priorities, of a place that comes twice the larger one.

        Args:
            place: int64 (b,).
            priority: float32 (b,), above 0.
        """
        assert self.priority is not None
        self.priority.view(-1).scatter_reduce_(0, place, priority, "amax", include_self=False)
        self.largest.copy_(torch.maximum(self.largest, priority.max()))
        for level in range(1, len(self.nodes)):
            self._sum(level, len(place), places=place)

    def state_dict(self) -> dict[str, Any]:
        """Return the transitions, without a copy. The sums follow from them."""
        priority = {} if self.priority is None else {"priority": self.priority}
        return {"arrays": self.arrays, "steps": self.steps, "largest": self.largest, **priority}

    def load_state_dict(self, state: dict[str, Any], where: str) -> None:
        """Restore what ``state_dict()`` returned, of a state of the same form.

        Raises:
            CheckpointError: the number of steps is below 0, or a priority is negative or not finite.
        """
        for name, values in (("steps", state["steps"]), ("largest", state["largest"]), ("priority", state.get("priority"))):
            if values is not None and not bool(((values >= 0) & (values < torch.inf)).all()):
                raise CheckpointError(f"{where}/{name}: expected finite numbers of 0 or more, got others")
        self.steps.copy_(state["steps"])
        self.largest.copy_(state["largest"])
        for name, array in self.arrays.items():
            array.copy_(state["arrays"][name])
        if self.priority is not None:
            self.priority.copy_(state["priority"])
        self._add_up_all()

    def clear(self) -> None:
        """Make the ring as a new one is."""
        for values in (self.steps, *self.arrays.values(), self.priority):
            if values is not None:
                values.zero_()
        self.largest.fill_(1)
        self._add_up_all()

    def _add_up_all(self) -> None:
        """Compute all that follows from the transitions."""
        Call(REPLAY_ADD, self.device, ring=self.struct, num_steps=0, filled=self.filled).launch("gv_replay_advance", 1)
        self._add_up(self.slots + 1)

    def _sum(self, level: int, count: int, **members: Any) -> None:
        call = Call(REPLAY_ADD, self.device, ring=self.struct, at_level=level, count=count, **members)
        call.launch("gv_replay_sum", -(-count // TILE), count * FAN)

    def _checked(self, samples: Samples) -> dict[str, Tensor]:
        """Return the slabs to copy by the names of arrays, their samples without gaps."""
        flags = {name: getattr(samples, name) for name in FLAGS}
        slabs = _slabs_of(samples, self.bootstraps)
        if slabs.keys() | {"flags"} != self.arrays.keys():
            raise ShapeError(f"Replay.add: expected samples with {sorted(self.arrays)}, got {sorted(slabs)}.")
        for name, slab in {**slabs, **flags}.items():
            array = self.arrays[name if name in slabs else "flags"]
            dtype = array.dtype if name in slabs else torch.bool
            if slab.shape[1:] != array.shape[1:]:
                shapes = f"expected {(*array.shape[1:],)} in a step, got {(*slab.shape[1:],)}"
                raise ShapeError(f"Replay.add: {name}: {shapes}.")
            if slab.dtype != dtype:
                raise ArrayTypeError(f"Replay.add: {name}: expected {dtype}, got {slab.dtype}.")
        if samples.num_steps > self.slots:
            raise ShapeError(f"Replay.add: expected up to {self.slots} steps, got {samples.num_steps}.")
        return {name: slab if slab[0, 0].is_contiguous() else slab.contiguous() for name, slab in slabs.items()}


def newest_steps(rows: PolicyRows, n_steps: int) -> int:
    """Return how many of the newest steps are not sampled: those whose rewards, next observations or next masks are not known.

    Masks after the last step of a rollout are known with the next rollout if a group has flags of effect (``GroupSlabs.mask``).
    """
    return n_steps - 1 + bool(rows.group.effects)


def _arrays_of(samples: Samples, bootstraps: bool) -> list[Tensor]:
    """Return all arrays of samples that a ring reads."""
    return [*_slabs_of(samples, bootstraps).values(), *(getattr(samples, name) for name in FLAGS)]


def _slabs_of(samples: Samples, bootstraps: bool) -> dict[str, Tensor]:
    """Return the slabs of samples that a ring keeps, by the names of its arrays."""
    slabs = {**_parts(samples.obs, ""), "action": samples.action, "reward": samples.reward}
    slabs |= {name: slab for name in ("mask", "critic") if (slab := getattr(samples, name)) is not None}
    if bootstraps and samples.final_obs is not None:
        slabs |= _parts(samples.final_obs, "final_")
        slabs |= {} if samples.final_mask is None else {"final_mask": samples.final_mask}
    return slabs


def _parts(obs: Observation | None, prefix: str) -> dict[str, Tensor]:
    """Return the arrays of observations by name, with a prefix."""
    parts = obs if isinstance(obs, dict) else {} if obs is None else {"obs": obs}
    return {prefix + name: part for name, part in parts.items()}


def _arrays(rows: PolicyRows, slots: int, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """Return empty arrays by name, each (slots, B, ...)."""
    inputs, agents, slabs = rows.inputs(rows.spans[0], 0), rows.shape[1:], rows.spans[0].slabs

    def array(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(slots, rows.num_samples, *shape, dtype=dtype, device=device)

    for name, obs in _parts(inputs.obs, "").items():
        yield name, array(obs.shape[1:])
        if rows.with_final_obs:
            yield f"final_{name}", array(obs.shape[1:])
    yield "action", array((*agents, *slabs.action.shape[2:]), slabs.action.dtype)
    yield "reward", array(agents)
    yield "flags", array(agents, torch.uint8)
    if inputs.mask is not None:
        yield "mask", array(inputs.mask.shape[1:], torch.bool)
        if rows.with_final_obs and rows.with_next_masks:
            yield "final_mask", array(inputs.mask.shape[1:], torch.bool)
    if rows.critic_sources:
        yield "critic", array((sum(rows.sources[name] for name in rows.critic_sources),))
