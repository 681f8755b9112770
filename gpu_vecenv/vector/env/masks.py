"""Action masks in the form that Gymnasium's spaces take to sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_vecenv.errors import ParameterError, ShapeError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.spec.validation import abbreviated, host_array, whole_number
from gpu_vecenv.vector.outputs.tree import require_roles

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


def sample_mask(env: GpuVectorEnv, action_mask: Any, index: int) -> Any:
    """Return the mask of one env of a vector env in the form that ``env.single_action_space.sample`` takes.

    Gymnasium cannot sample the batched space of several agents with a mask, because it is a Box.

    Example::

        obs, info = env.reset()
        action = env.single_action_space.sample(mask=sample_mask(env, info["action_mask"], 0))

    Args:
        env: an env with masks.
        action_mask: ``info["action_mask"]`` of one step, of any array kind.
        index: number of the world, or of the row in the agents view.

    Returns:
        Nested tuples of int8 arrays, one for each entry of the action; all choices are allowed in entries without a mask. A
        single array for a single Discrete entry; by role a dict, with None for roles without masks.

    Raises:
        ParameterError: the env has no masks, or is no env of this package without wrappers; or there is no env of this number.
        ShapeError: masks of another shape than those of a step.
    """
    if not isinstance(getattr(env, "layout", None), Layout):
        raise ParameterError(f"sample_mask() takes an env of this package without wrappers, got {type(env).__name__}.")
    groups = env.layout.groups
    if not any(group.masked for group in groups):
        raise ParameterError(f"{env.env_spec.name} has no action masks.")
    number = whole_number(index)
    if number is None or not -env.num_envs <= number < env.num_envs:
        raise ParameterError(f"index must be the number of one of {env.num_envs} envs, got {abbreviated(index)}.")
    masked = {group.role: None for group in groups if group.masked}
    masks = require_roles("action_mask", action_mask, masked) if env.layout.by_role else {"": action_mask}
    of: dict[str, Any] = dict.fromkeys(group.role for group in groups)
    for group in groups:
        if group.masked:
            shape, mask = env.worlds.outputs.results.shapes[f"{group.prefix}action_mask"], host_array(masks[group.role])
            if not isinstance(mask, np.ndarray) or mask.shape != shape:
                got = abbreviated(getattr(mask, "shape", mask))
                raise ShapeError(f"action_mask must be an array of the shape {shape}, got {got}.")
            of[group.role] = _of_group(group, mask[number])
    return of if env.layout.by_role else of[""]


def _of_group(group: Group, mask: np.ndarray) -> Any:
    """Nested tuples of one array for each entry, in the shape of an array of actions."""
    if mask.ndim > 1:
        return tuple(_of_group(group, part) for part in mask)
    masks = dict(zip(group.masked, np.split(mask.astype(np.int8), np.cumsum(group.masked_choices)[:-1]), strict=True))
    entries = [masks.get(entry, np.ones(choices, np.int8)) for entry, choices in enumerate(group.choices)]
    return entries[0] if group.action.shape == () else tuple(entries)
