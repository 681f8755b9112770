"""Recurrences over the steps of a rollout: advantages, and sums of rewards within episodes.

The kernels are in ``kernels/returns/scan.cu``. A lane goes through the steps of a row in their order, so results have the same
bits on every device and for any number of threads. The kernels have no gradients. A CUDA graph can record a call if a call of
the same function was made before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import SCAN
from gpu_vecenv.errors import ShapeError

TILE = SCAN.macros["TILE"]

MAX_REWARD = 10.0
"""Scaled rewards are clipped to [-MAX_REWARD, MAX_REWARD]."""


@dataclass(frozen=True, eq=False)  # compared by identity, as tensors are
class Advantages:
    """Estimates of a rollout, each float32 (T, ...); 0 for transitions that are not valid."""

    stacked: Tensor
    """Float32 (3, T, ...): advantage, target and value."""

    @property
    def advantage(self) -> Tensor:
        """Return after the action minus the mean return of the policy in the same state."""
        return self.stacked[0]

    @property
    def target(self) -> Tensor:
        """Advantage plus value: the target of the value loss."""
        return self.stacked[1]

    @property
    def value(self) -> Tensor:
        """The value before the step."""
        return self.stacked[2]

    def __iter__(self) -> Iterator[Tensor]:
        """Iterate over the three."""
        return iter(self.stacked)


def advantages(
    reward: Tensor,
    value: Tensor,
    final_value: Tensor | None,
    masks: tuple[Tensor, ...],
    gamma: float,
    decay: float,
    reward_scale: Tensor | None = None,
) -> Advantages:
    """Return ``A_t = delta_t + decay A_{t+1}``, where the end of an episode ends the sum; see ``gae()``.

    Args:
        reward: float32 (T, ...).
        value: float32 (T + 1, ...), value of the observation before each step, and after the last one.
        final_value: float32 (T, ...), only read where ``timed_out``; None takes 0, which is the value of a terminal state.
        masks: bool (T, ...) each. ``valid`` is False where ``delta_t`` is 0; ``episode_end`` is True where the value after the
        step is 0,
            and nothing is added to ``delta_t``; ``timed_out`` is True where the value after the step is ``final_value``.
        gamma: discount of the value after a step.
        decay: factor of the next step's advantage; if it is 0, not even NaN passes.
        reward_scale: float32 (), factor of the rewards, which are then clipped to [-MAX_REWARD, MAX_REWARD]; None leaves them.

    Raises:
        ShapeError, ArrayTypeError, DeviceError: an array does not fit.
    """
    scalars = {"gamma": gamma, "decay": decay, "max_reward": MAX_REWARD}
    valid, episode_end, timed_out = masks
    arrays = {"value": value, "final_value": final_value, "valid": valid, "episode_end": episode_end, "timed_out": timed_out}
    call = _call(reward, {"value": (len(reward) + 1,)}, scalars, **arrays)
    if reward_scale is not None:
        call.set(reward_scale=reward_scale)
    return Advantages(_results(call, "gv_advantages", (3, *reward.shape)))


def discounted_returns(reward: Tensor, valid: Tensor, episode_end: Tensor, gamma: float, running: Tensor) -> Tensor:
    """Return ``R_t = r_t + gamma R_{t-1}``, float32 (T, ...), from 0 in each episode; if ``gamma`` is 0, not even NaN passes.

    Args:
        reward: float32 (T, ...).
        valid: bool (T, ...), False where the reward counts as 0 and the episode of the row has ended.
        episode_end: bool (T, ...), True where the episode of the row ends with the step.
        gamma: discount per step.
        running: float32 (...), contiguous: the return before the first step, replaced by the one after the last step.

    Raises:
        ShapeError, ArrayTypeError, DeviceError: an array does not fit.
    """
    call = _call(reward, {"running": ()}, {"gamma": gamma}, valid=valid, episode_end=episode_end, running=running)
    return _results(call, "gv_returns", (1, *reward.shape))[0]


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
    call = EpisodeSumsCall(reward, valid, ended, running)
    call.launch()
    return call.sums, call.finished


class EpisodeSumsCall:
    """A call of ``episode_sums()`` for arrays that stay where they are.

    Attributes:
        sums: first result, which each launch writes.
        finished: second result.
    """

    def __init__(self, reward: Tensor, valid: Tensor, ended: Tensor, running: Tensor) -> None:
        """Check the arrays; see ``episode_sums()``."""
        self._call = _call(reward, {"running": (3,)}, {}, valid=valid, episode_end=ended, running=running)
        self.sums = torch.empty(2, *reward.shape, dtype=torch.float32, device=reward.device)
        self.finished = torch.empty(valid.shape, dtype=torch.bool, device=valid.device)
        self._call.args.results, self._call.args.finished = self.sums.data_ptr(), self.finished.data_ptr()

    def launch(self) -> None:
        """Sum up."""
        _launch(self._call, "gv_episodes")


def _call(reward: Tensor, lead: dict[str, tuple[int, ...]], scalars: dict[str, float], **arrays: Tensor | None) -> Call:
    """Return a call over the rows of a rollout.

    Args:
        reward: float32 (T, ...).
        lead: first axes of arrays, by default (T,).
        scalars: further members.
        arrays: arrays of shape (*lead, ...).

    Raises:
        ShapeError, ArrayTypeError, DeviceError: an array does not fit.
    """
    shape = reward.shape
    if not shape or not shape[0]:
        raise ShapeError(f"returns: reward must have shape (T, ...) with at least one step, got {tuple(shape)}.")
    for name, array in arrays.items():
        if array is not None and array.shape != (expected := (*lead[name], *shape[1:]) if name in lead else shape):
            raise ShapeError(f"returns: {name} must have shape {tuple(expected)}, got {tuple(array.shape)}.")
        if array is not None and name != "running":  # which is written to
            arrays[name] = array.contiguous()
    return Call(SCAN, reward.device, steps=shape[0], columns=shape[1:].numel(), **scalars, reward=reward.contiguous(), **arrays)


def _results(call: Call, name: str, shape: tuple[int, ...]) -> Tensor:
    """Run a kernel over all rows and return its results, float32 of some shape (results, T, ...)."""
    results = torch.empty(shape, dtype=torch.float32, device=call.device)
    call.args.results = results.data_ptr()
    _launch(call, name)
    return results


def _launch(call: Call, name: str) -> None:
    columns, steps = call.args.columns, call.args.steps
    call.launch(name, -(-columns // TILE), steps * columns)
