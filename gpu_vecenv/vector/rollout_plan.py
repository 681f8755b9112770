"""Plan of a rollout: its number of steps, and the source of their actions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.given import Array, require_steps
from gpu_vecenv.vector.actions import ActionReader


class RolloutPlan(NamedTuple):
    """Steps of one rollout and their actions.

    Attributes:
        num_steps: steps in the launch.
        draw: True to draw random actions on the device.
        keep: True to store the drawn actions of all steps; otherwise each step overwrites those of the step before.
        actions: given actions, kept alive until the launch; None for drawn ones.
        address: address of the given actions, 0 for drawn ones.
        element_bytes: size of one element of an action.
        stride: bytes from the actions of one step to those of the next; 0 if all steps use the same memory.
    """

    num_steps: int
    draw: bool
    keep: bool
    actions: Array
    address: int
    element_bytes: int
    stride: int


def plan_rollout(
    actions: Any, num_steps: int | None, keep_actions: bool, reader: ActionReader, can_draw: bool
) -> RolloutPlan:
    """Make a plan from the arguments of ``GpuVectorEnv.rollout()``.

    Args:
        actions: actions of T steps, actions of one step, or None to draw them.
        num_steps: T, or None to read it from the actions.
        keep_actions: True to store drawn actions.
        reader: checks and converts given actions.
        can_draw: True if the action space has the bounds that random actions need.

    Raises:
        ShapeError, ArrayTypeError, DeviceError, ActionError: actions that do not fit.
        ParameterError: ``num_steps`` that does not fit, or a Box without bounds to draw between.
    """
    steps = require_steps(num_steps) if num_steps is not None or actions is None else 0
    entries = math.prod(reader.shape)
    if actions is None:
        if not can_draw:
            raise ParameterError("the action space has no bounds to draw between; give rollout() actions.")
        return RolloutPlan(steps, True, keep_actions, None, 0, 4, 4 * entries if keep_actions else 0)
    lead = reader.lead(actions, steps)
    read, address, element_bytes = reader.read(actions, lead)
    stride = element_bytes * entries if lead else 0
    return RolloutPlan(lead[0] if lead else steps, False, False, read, address, element_bytes, stride)
