"""Actions of the roles that a trainer of one role does not train: random, or those of a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Space
from torch.utils.dlpack import from_dlpack

from gpu_vecenv.errors import ConcurrentCallError, ParameterError
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.spec.validation import Array, abbreviated, require_mapping
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.vector.inputs.random_actions import uniform_actions
from gpu_vecenv.vector.inputs.seeding import check_seed
from gpu_vecenv.vector.outputs.tree import nest

RolePolicy = Callable[..., Array]
"""From the observations of a role, and its masks if it has masks, to its actions."""


class OtherRoles:
    """Chooses the actions of all roles but one.

    Args:
        env: env whose arrays are by role.
        role: the role left out.
        others: ``"random"`` or a function for each role; roles without an entry act at random.

    Attributes:
        generator: generator of random actions.
        policies: the functions by role.

    Raises:
        ParameterError: a name that is no other role, a value that is neither, or random actions in a Box without bounds.
    """

    def __init__(self, env: GpuVectorEnv, role: str, others: Mapping[str, RolePolicy | str]) -> None:
        self._env = env
        groups = {group.role: group for group in env.layout.groups if group.role != role}
        self.policies = other_policies(others, list(groups), role)
        self.generator = torch.Generator(env.device)
        self.generator.seed()
        self._acting = False
        self._random = {name: self._random_actions(group) for name, group in groups.items() if name not in self.policies}

    def seed(self, seed: int | Sequence[int | None]) -> None:
        """Start the random actions anew. They depend on the seed of the env and on its ``first_world``."""
        checked = check_seed(seed, self._env.num_worlds)
        seeds = [one or 0 for one in checked] if isinstance(checked, list) else [checked or 0]
        entropy = np.random.SeedSequence([*seeds, self._env.first_world])
        self.generator.manual_seed(int(entropy.generate_state(1, np.uint64)[0]))

    def actions(self) -> dict[str, Array]:
        """Return actions for the last observations of the env, by role, each ``(N, A_r)`` or ``(N, A_r, k)``.

        Raises:
            ConcurrentCallError: a function that chooses actions asks for actions itself, or another thread does meanwhile.
        """
        env = self._env
        last, public, convert = env.worlds.last(), env.worlds.outputs.results.public, env._convert
        masks = public.get("action_mask", {})
        chosen = {name: draw(last[masks[name]] if name in masks else None) for name, draw in self._random.items()}
        if not self.policies:
            return chosen
        if self._acting:
            raise ConcurrentCallError(f"{env.env_spec.name}: functions of others must not step the rows that they act for.")
        seen = public["obs"], masks
        self._acting = True
        try:
            with torch.no_grad():
                for name, policy in self.policies.items():
                    chosen[name] = policy(*(nest(places[name], last, convert) for places in seen if name in places))
        finally:
            self._acting = False
        return chosen

    def _random_actions(self, group: Group) -> Callable[[Array], Array]:
        """Return a function that draws actions of a group on the env's device, from its masks or None."""
        space, shape = group.action, (self._env.num_worlds, group.count)
        bounds = random_bounds(space, group.role, self._env.device)

        def draw(mask: Array) -> Array:
            # CuPy may work on another stream than torch; DLPack orders the reads of both after the writes.
            if mask is not None and not isinstance(mask, torch.Tensor):
                mask = from_dlpack(mask)
            actions = uniform_actions(space, shape, self.generator, bounds, mask, group.masked)
            return actions if self._env.array != "cupy" else _cupy_array(actions)

        return draw


def other_policies(others: Mapping[str, RolePolicy | str], roles: Sequence[str], role: str | None) -> dict[str, RolePolicy]:
    """Return the functions among ``others``, by role.

    Args:
        others: ``"random"`` or a function for each role.
        roles: the roles that it may name.
        role: the role whose rows are those of the env.

    Raises:
        ArrayTypeError: not a mapping with names as keys.
        ParameterError: a name that is no other role, or a value that is neither.
    """
    for name, policy in require_mapping(others, "others").items():
        if name not in roles:
            wrong = f"{name!r}, whose rows are those of this env" if name == role else repr(name)
            raise ParameterError(f"others must name roles among {', '.join(roles) or 'none'}, got {wrong}.")
        if not callable(policy) and not (isinstance(policy, str) and policy == "random"):
            raise ParameterError(f"others[{name!r}] must be 'random' or a function, got {abbreviated(policy)}.")
    return {name: policy for name, policy in others.items() if callable(policy)}


def random_bounds(space: Space, role: str, device: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the bounds to draw a role's random actions between, on a device; None if the space is no Box.

    Raises:
        ParameterError: a Box without finite bounds.
    """
    if not isinstance(space, Box):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        bounded = np.isfinite(space.high - space.low).all()
    if not bounded:
        raise ParameterError(f"random actions of {role} need finite bounds, got {space}; give others a function.")
    return torch.as_tensor(space.low, device=device), torch.as_tensor(space.high, device=device)


def _cupy_array(tensor: torch.Tensor) -> Array:
    import cupy

    return cupy.from_dlpack(tensor)
