"""Masks of a rollout's transitions, by the kernel of ``kernels/returns/masks.cu``.

A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import FLAGS, MASKS
from gpu_vecenv.errors import ArrayTypeError, ShapeError

TILE, STEPS = MASKS.macros["TILE"], MASKS.macros["STEPS"]


class TransitionMasks(NamedTuple):
    """Facts about each transition, each bool (T, ...)."""

    valid: Tensor
    """The row's agent was alive when the step began, so the update may use the transition."""
    episode_end: Tensor
    """The agent left or was absent, or its world's episode ended in this step: later transitions belong to another episode."""
    timed_out: Tensor
    """The time limit alone ended the episode, and the agent was alive: its value may be bootstrapped."""
    ended: Tensor
    """The world's episode ended in this step."""


def transition_masks(
    alive_start: Tensor,
    agent_alive: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    alive_reset: Tensor | None = None,
    out: Tensor | None = None,
) -> TransitionMasks:
    """Derive the masks of a rollout. Arrays may have any strides.

    Args:
        alive_start: bool (N, a) or (N,), alive before the first step.
        agent_alive: bool (T, N, a) or (T, N), alive after each step, before any reset.
        terminated: bool, of the same shape, the row's world reached a terminal state in this step.
        truncated: the same, the row's world hit its time limit in this step.
        alive_reset: the same, alive at the start of the next episode; only counts where this step ended one. The env's state
            tells it: after a step, the field that ``EnvSpec.alive`` names is that of the observation which the step returned.
            None: all agents take part from the start. ``agent_alive`` cannot tell an agent that is absent from an episode from
            one that leaves in its first step, so with None an absent agent has one valid transition in each episode.
        out: bool (4, T, N * a), where to write the masks; a step has no gaps. By default a new array.

    Returns:
        The masks, of the shape of ``agent_alive``, or (T, N * a) if ``out`` is given.

    Raises:
        ShapeError, ArrayTypeError: an array does not fit.
    """
    call = MasksCall(alive_start, agent_alive, terminated, truncated, alive_reset, out)
    call.launch()
    return call.masks


class MasksCall:
    """A call of ``transition_masks()`` for arrays that stay where they are.

    Attributes:
        masks: the masks, which each launch writes.
    """

    def __init__(
        self, alive_start: Tensor, agent_alive: Tensor, terminated: Tensor, truncated: Tensor, alive_reset: Tensor | None = None,
        out: Tensor | None = None,
    ) -> None:  # fmt: skip
        """Check the arrays; see ``transition_masks()``."""
        shape = agent_alive.shape
        arrays = {"agent_alive": agent_alive, "terminated": terminated, "truncated": truncated, "alive_reset": alive_reset}
        flags = {name: _flags(name, array, shape) for name, array in arrays.items() if array is not None}
        flags["alive_start"] = _flags("alive_start", alive_start.unsqueeze(0), (1, *shape[1:]))
        columns = shape[1:].numel()
        result = torch.empty(4, shape[0], columns, dtype=torch.bool, device=agent_alive.device) if out is None else out
        if result.shape != (4, shape[0], columns) or (columns > 1 and result.stride(2) != 1):
            raise ShapeError(f"out: expected shape {(4, shape[0], columns)} without gaps in a step, got {tuple(result.shape)}")
        masks = result.unbind()
        self._arrays = alive_start, *arrays.values()  # the call has addresses alone
        self._call = Call(
            MASKS, result.device, **flags, step=result.stride(1), steps=shape[0], columns=columns,
            agents=shape[2] if len(shape) > 2 else 1,
        )  # fmt: skip
        args = self._call.args
        args.valid, args.episode_end, args.timed_out, args.ended = (mask.data_ptr() for mask in masks)
        self._teams, self._work = -(-columns // TILE) * -(-shape[0] // STEPS), shape[0] * columns
        self.masks = TransitionMasks(*(masks if out is not None else (mask.view(shape) for mask in masks)))

    def launch(self) -> None:
        """Write the masks."""
        self._call.launch("gv_masks", self._teams, self._work)


def _flags(name: str, array: Tensor, shape: torch.Size | tuple[int, ...]) -> Any:
    """Return flags (T, N, a) or (T, N) as an argument."""
    if array.shape != shape or not 2 <= array.dim() <= 3:
        raise ShapeError(f"{name}: expected shape {tuple(shape)}, of two or three axes, got {tuple(array.shape)}")
    if array.dtype != torch.bool:
        raise ArrayTypeError(f"{name}: expected torch.bool, got {array.dtype}")
    return FLAGS.form(array.data_ptr(), *array.stride())
