"""Uniform random actions, drawn on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import gymnasium
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import Tensor


def uniform_actions(
    space: gymnasium.Space,
    shape: tuple[int, ...],
    generator: torch.Generator,
    bounds: tuple[Tensor, Tensor] | None = None,
    mask: Tensor | None = None,
    masked: Sequence[int] = (),
) -> Tensor:
    """Draw uniform random actions on the generator's device.

    Args:
        space: action space: Discrete, MultiDiscrete or bounded Box, of one agent or of a whole world.
        shape: axes before those of an action.
        generator: source of randomness.
        bounds: lower and upper bounds of a Box as tensors on that device; None copies them there.
        mask: bool ``(*shape, M)`` on that device, True for choices that are allowed, of the entries ``masked`` side by side;
            None to allow all.
        masked: numbers of the entries that ``mask`` covers.

    Returns:
        ``(*shape, *space.shape)``: int32 indices, or float32 within the bounds of a Box. An entry without an allowed choice is 0.
    """
    device = generator.device
    if isinstance(space, Box):
        low, high = bounds or (torch.as_tensor(bound, device=device) for bound in (space.low, space.high))
        return low + (high - low) * torch.rand((*shape, *space.shape), generator=generator, device=device)
    if isinstance(space, Discrete):
        if mask is not None:
            return _allowed(mask, generator)
        return torch.randint(int(space.n), shape, generator=generator, dtype=torch.int32, device=device)
    nvec = cast(MultiDiscrete, space).nvec
    actions = torch.empty((*shape, *nvec.shape), dtype=torch.int32, device=device)
    entries = actions.flatten(len(shape)).unbind(-1)
    for entry, choices in zip(entries, nvec.flat, strict=True):
        entry.random_(0, int(choices), generator=generator)
    if mask is not None:
        for number, allowed in zip(masked, mask.split([int(nvec.flat[number]) for number in masked], -1), strict=True):
            entries[number].copy_(_allowed(allowed, generator))
    return actions


def _allowed(mask: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one of the choices that a mask allows, int32 ``(*shape,)``; 0 if it allows none."""
    # The largest of one number for each allowed choice. Torch's sum along such short rows takes 75 times as long on an H200.
    draws = torch.rand(mask.shape, generator=generator, device=mask.device).masked_fill_(~mask, -1.0)
    return (draws.argmax(-1) * mask.any(-1)).int()
