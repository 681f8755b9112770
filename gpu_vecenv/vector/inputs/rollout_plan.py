"""Plan of a rollout: its number of steps, and the source of their actions."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.validation import require_one_of, require_steps
from gpu_vecenv.vector.inputs.actions import ActionReader, KernelActions
from gpu_vecenv.vector.inputs.role_actions import RoleActions


class RolloutPlan(NamedTuple):
    """Steps of one rollout and their actions.

    Attributes:
        num_steps: steps in the launch.
        draw: True to draw random actions on the device.
        keep: True to store the drawn actions of all steps; otherwise each step overwrites those of the step before.
        actions: the actions, or placeholders for drawn ones; a list by role if arrays are by role.
        strides: for each group, bytes from the actions of one step to those of the next; 0 if all steps use the same memory.
    """

    num_steps: int
    draw: bool
    keep: bool
    actions: KernelActions | list[KernelActions]
    strides: tuple[int, ...]


def plan_rollout(
    actions: Any, num_steps: int | None, keep_actions: bool, reader: ActionReader | RoleActions, can_draw: bool
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
        ParameterError: ``num_steps`` that does not fit, a Box without bounds to draw between, other roles than those of the
            env, or ``keep_actions=False`` with given actions, which are never stored.
    """
    require_one_of("keep_actions", keep_actions, (True, False))
    steps = require_steps(num_steps) if num_steps is not None or actions is None else 0
    if actions is None:
        if not can_draw:
            raise ParameterError("the action space has no bounds to draw between; give rollout() actions.")
        return RolloutPlan(steps, True, keep_actions, reader.drawn, _strides(reader, reader.drawn, keep_actions))
    if not keep_actions:
        raise ParameterError("keep_actions=False is for actions that rollout() draws; leave it out where actions are given.")
    lead = reader.lead(actions, steps)
    read = reader.read(actions, lead)
    return RolloutPlan(lead[0] if lead else steps, False, False, read, _strides(reader, read, bool(lead)))


def _strides(reader: Any, read: Any, moves: bool) -> tuple[int, ...]:
    strides: tuple[int, ...] = reader.strides(read)
    return strides if moves else (0,) * len(strides)
