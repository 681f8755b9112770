"""Recurrences over the steps of a rollout: advantages, and sums of rewards within episodes.

The kernels are in ``kernels/returns/scan.cu``. A lane goes through the steps of a row in their order, so results have the same
bits on every device and for any number of threads. The kernels have no gradients. A CUDA graph can record a call if a call of
the same function was made before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import launches
from gpu_vecenv.backend.source import SCAN
from gpu_vecenv.errors import ArrayTypeError, DeviceError, ShapeError

TILE = 32
"""Rows of a team, ``GV_TILE`` of the kernels."""

MAX_REWARD = 10.0
"""Scaled rewards are clipped to [-MAX_REWARD, MAX_REWARD]."""

SMALL = 1 << 14
"""Below this many transitions a second CPU thread saves less time than it takes to wake it."""


@dataclass(frozen=True, eq=False)  # compared by identity, as tensors are
class Advantages:
    """Estimates of a rollout, each float32 (T, ...); 0 for transitions that are not valid."""

    numbers: Tensor
    """Float32 (3, T, ...): advantage, target and value."""

    @property
    def advantage(self) -> Tensor:
        """How much better an action was than the policy's mean."""
        return self.numbers[0]

    @property
    def target(self) -> Tensor:
        """Advantage plus value, which the value is to learn."""
        return self.numbers[1]

    @property
    def value(self) -> Tensor:
        """The value before the step."""
        return self.numbers[2]

    def __iter__(self) -> Iterator[Tensor]:
        """Iterate over the three."""
        return iter(self.numbers)


def advantages(
    reward: Tensor,
    value: Tensor,
    final_value: Tensor | None,
    masks: tuple[Tensor, ...],
    gamma: float,
    decay: float,
    reward_scale: Tensor | None = None,
) -> Advantages:
    """Return ``A_t = delta_t + decay A_{t+1}``, where a cut ends the sum; see ``gae()``.

    Args:
        reward: float32 (T, ...).
        value: float32 (T + 1, ...), value of the observation before each step, and after the last one.
        final_value: float32 (T, ...), only read where ``timed_out``; None takes 0, which is the value of a terminal state.
        masks: bool (T, ...) each. ``valid`` is False where ``delta_t`` is 0; ``cut`` is True where the value after the step is 0,
            and nothing is added to ``delta_t``; ``timed_out`` is True where the value after the step is ``final_value``.
        gamma: discount of the value after a step.
        decay: factor of the next step's advantage; if it is 0, not even NaN passes.
        reward_scale: float32 (), factor of the rewards, which are then clipped to [-MAX_REWARD, MAX_REWARD]; None leaves them.

    Raises:
        ShapeError, ArrayTypeError, DeviceError: an array does not fit.
    """
    call = _Call(reward)
    call.take("value", value, torch.float32, lead=(len(reward) + 1,))
    if final_value is not None:
        call.take("final_value", final_value, torch.float32)
    for name, mask in zip(("valid", "cut", "timed_out"), masks, strict=True):
        call.take(name, mask, torch.bool)
    call.args.gamma, call.args.decay, call.args.max_reward = gamma, decay, MAX_REWARD
    if reward_scale is not None:
        call.take_number("reward_scale", reward_scale)
    return Advantages(call.launch("gv_advantages", 3))


def discounted_returns(reward: Tensor, valid: Tensor, cut: Tensor, gamma: float, running: Tensor) -> Tensor:
    """Return ``R_t = r_t + gamma R_{t-1}``, float32 (T, ...), from 0 in each episode; if ``gamma`` is 0, not even NaN passes.

    Args:
        reward: float32 (T, ...).
        valid: bool (T, ...), False where the reward counts as 0 and the episode of the row has ended.
        cut: bool (T, ...), True where the episode of the row ends with the step.
        gamma: discount per step.
        running: float32 (...), contiguous: the return before the first step, replaced by the one after the last step.

    Raises:
        ShapeError, ArrayTypeError, DeviceError: an array does not fit.
    """
    call = _Call(reward)
    call.take("valid", valid, torch.bool)
    call.take("cut", cut, torch.bool)
    call.take("running", running, torch.float32, lead=())
    call.args.gamma = gamma
    return call.launch("gv_returns", 1)[0]


def episode_sums(reward: Tensor, valid: Tensor, ended: Tensor, running: Tensor) -> tuple[Tensor, Tensor]:
    """Sum rewards and steps of episodes.

    Args:
        reward: float32 (T, ...).
        valid: bool (T, ...), the agent took part in the step; rewards of other steps count as 0.
        ended: bool (T, ...), the episode of the row's world ended in the step.
        running: float32 (3, ...), contiguous: rewards, steps, and steps that the agent took part in, of episodes that began
            before the first step; replaced by those of episodes that go on after the last one.

    Returns:
        float32 (2, T, ...), rewards and steps of the episode so far, and bool (T, ...): an episode ended in which the agent took
        part.

    Raises:
        ShapeError, ArrayTypeError, DeviceError: an array does not fit.
    """
    call = _Call(reward)
    call.take("valid", valid, torch.bool)
    call.take("cut", ended, torch.bool)
    call.take("running", running, torch.float32, lead=(3,))
    finished = torch.empty_like(valid, memory_format=torch.contiguous_format)
    call.take("finished", finished, torch.bool)
    return call.launch("gv_episodes", 2), finished


class _Args(ctypes.Structure):
    """``GvArgs`` of ``kernels/returns/scan.cu``, which asserts its size."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in (
            "reward", "value", "final_value", "valid", "cut", "timed_out", "reward_scale", "running", "results", "finished",
            "invalid_actions",
        )),
        *((name, ctypes.c_int32) for name in ("num_worlds", "num_agents", "steps", "columns")),
        *((name, ctypes.c_float) for name in ("gamma", "decay", "max_reward", "unused")),
    )  # fmt: skip


class _Call:
    """One launch: checks its arrays and keeps them until it is queued."""

    def __init__(self, reward: Tensor) -> None:
        if reward.dim() == 0 or len(reward) == 0:
            raise ShapeError(f"returns: reward must have shape (T, ...) with at least one step, got {tuple(reward.shape)}.")
        self.shape, self.device, self.args = tuple(reward.shape), reward.device, _Args()
        self._kept: list[Tensor] = []
        self.take("reward", reward, torch.float32)

    def take(self, name: str, array: Tensor, dtype: torch.dtype, lead: tuple[int, ...] | None = None) -> None:
        """Store the address of an array of shape ``(*lead, ...)``, by default ``(T, ...)``."""
        wanted = (*(self.shape[:1] if lead is None else lead), *self.shape[1:])
        if tuple(array.shape) != wanted:
            raise ShapeError(f"returns: {name} must have shape {wanted}, got {tuple(array.shape)}.")
        if array.dtype != dtype:
            raise ArrayTypeError(f"returns: {name} must be {dtype}, got {array.dtype}.")
        if array.device != self.device:
            raise DeviceError(f"returns: {name} must be on {self.device}, got {array.device}.")
        if name == "running" and not array.is_contiguous():
            raise ShapeError(f"returns: {name} must be contiguous, because it is written to; got strides {array.stride()}.")
        self._kept.append(array.contiguous())
        setattr(self.args, name, self._kept[-1].data_ptr())

    def take_number(self, name: str, number: Tensor) -> None:
        """Store the address of a number, float32 ()."""
        if number.shape or number.dtype != torch.float32 or number.device != self.device:
            got = f"{number.dtype} {tuple(number.shape)} on {number.device}"
            raise ArrayTypeError(f"returns: {name} must be torch.float32 () on {self.device}, got {got}.")
        setattr(self.args, name, number.data_ptr())

    def launch(self, name: str, results: int) -> Tensor:
        """Run a kernel over all rows and return its results, float32 (results, T, ...)."""
        made = torch.empty((results, *self.shape), dtype=torch.float32, device=self.device)
        args, columns = self.args, made[0, 0].numel()
        tiles = -(-columns // TILE)
        args.results, args.steps, args.columns = made.data_ptr(), self.shape[0], columns
        args.num_worlds, args.num_agents = tiles, 1
        if tiles:
            launches(SCAN, self.device).launch(name, args, tiles, made[0].numel() < SMALL)
        return made
