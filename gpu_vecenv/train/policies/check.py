"""Check of a network by a call with two samples."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.contract import Observation
from gpu_vecenv.train.policies.networks import NetworkSpec, network_input, takes_parts

NUM_SAMPLES = 2
"""Samples of the call. A batch of one sample would hide axes that are broadcast."""


@torch.no_grad()
def check_network(network: nn.Module, group: Group, name: str) -> None:
    """Call a network, in evaluation mode, with two samples of finite observations, and check what it returns.

    Args:
        network: the network.
        group: agents that it acts for; ``count`` is the number in a world.
        name: name of its policy, for messages.

    Raises:
        ConfigError: the network raises an error, or its outputs or values are not float32, have a wrong shape or are not finite,
            or its methods ``actor()`` and ``critic()`` return something else than ``forward()``.
    """
    if not isinstance(network, nn.Module):
        raise ConfigError(f"network of policy {name!r}: expected a torch.nn.Module, got {type(network).__name__}")
    spec = NetworkSpec.of(group)
    obs = network_input(network, samples_of(network, group))
    if group.shared is None:
        rows: tuple[int, ...] = (NUM_SAMPLES,)
    else:
        rows = (NUM_SAMPLES, group.count) if takes_parts(network) else (NUM_SAMPLES * group.count,)
    shapes = {"outputs": (*rows, spec.num_outputs), "value": rows}
    where = f"network of policy {name!r}, called with {_form(obs)}"
    with _evaluation_mode(network):
        try:
            results = network(obs)
            parts = {
                part: getattr(network, part)(obs) for part in ("actor", "critic") if callable(getattr(type(network), part, None))
            }
        except Exception as error:
            raise ConfigError(f"{where}: expected (outputs, value), got {type(error).__name__}: {error}") from error
    if not (isinstance(results, tuple) and len(results) == 2):
        raise ConfigError(f"{where}: expected a tuple (outputs, value), got {_form(results)}")
    for (what, shape), result in zip(shapes.items(), results, strict=True):
        _require(result, shape, f"{where}: {what}")
    for part, whole, shape in zip(("actor", "critic"), results, shapes.values(), strict=True):
        if part in parts:
            _require(parts[part], shape, f"{where}: {part}()")
            if not torch.allclose(parts[part], whole, rtol=1e-3, atol=1e-4):
                raise ConfigError(f"{where}: expected {part}() to return what forward() returns, got other numbers")


def _require(result: object, shape: tuple[int, ...], where: str) -> None:
    if not isinstance(result, Tensor) or result.dtype != torch.float32 or tuple(result.shape) != shape:
        raise ConfigError(f"{where}: expected float32 {shape}, got {_form(result)}")
    if not bool(torch.isfinite(result).all()):
        raise ConfigError(f"{where}: expected finite numbers, got NaN or infinity")


def samples_of(network: nn.Module, group: Group) -> Observation:
    """Return two observations within the bounds of the space, on the device of the network."""
    generator = torch.Generator().manual_seed(0)
    weight = next(itertools.chain(network.parameters(), network.buffers()), torch.empty(0))

    def samples(space: Box, *lead: int, flat: bool) -> Tensor:
        low, high = (torch.tensor(np.broadcast_to(bound, space.shape).astype(np.float32)) for bound in (space.low, space.high))
        numbers = torch.randn(*lead, *space.shape, generator=generator).clamp(low, high).to(weight.device)
        return numbers.flatten(len(lead)) if flat else numbers

    if group.shared is None:
        return samples(group.observation, NUM_SAMPLES, flat=False)
    return {
        "shared": samples(group.shared, NUM_SAMPLES, flat=True),
        "own": samples(group.observation, NUM_SAMPLES, group.count, flat=True),
    }


@contextmanager
def _evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Set evaluation mode, so that the call changes no statistics and drops no units; restore every module's mode afterwards."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _form(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_form(part)}" for key, part in value.items()) + "}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
