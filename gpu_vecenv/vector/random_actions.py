"""Uniform random actions, drawn on a device."""

from __future__ import annotations

from typing import cast

import gymnasium
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import Tensor


def uniform_actions(
    space: gymnasium.Space, shape: tuple[int, ...], generator: torch.Generator, bounds: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Draw uniform random actions on the generator's device.

    Args:
        space: action space: Discrete, MultiDiscrete or bounded Box, of one agent or of a whole world.
        shape: axes before those of an action.
        generator: source of randomness.
        bounds: lower and upper bounds of a Box as tensors on that device; None copies them there.

    Returns:
        ``(*shape, *space.shape)``: int32 indices, or float32 within the bounds of a Box.
    """
    device = generator.device
    if isinstance(space, Box):
        low, high = bounds or (torch.as_tensor(bound, device=device) for bound in (space.low, space.high))
        return low + (high - low) * torch.rand((*shape, *space.shape), generator=generator, device=device)
    if isinstance(space, Discrete):
        return torch.randint(int(space.n), shape, generator=generator, dtype=torch.int32, device=device)
    nvec = cast(MultiDiscrete, space).nvec
    actions = torch.empty((*shape, *nvec.shape), dtype=torch.int32, device=device)
    for entry, choices in zip(actions.flatten(len(shape)).unbind(-1), nvec.flat, strict=True):
        entry.random_(0, int(choices), generator=generator)
    return actions
