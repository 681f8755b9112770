"""Check of a network by a call with two samples."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from gpu_vecenv.backend.private import version
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.contract import Observation
from gpu_vecenv.train.policies.networks import NetworkSpec, network_input

VERSION = version()

NUM_SAMPLES = 2
"""Samples of the call. A batch of one sample would hide axes that are broadcast."""

CHANGED = "expected observations to stay as they are, got a change in place, such as x.div_(255); write x = x / 255"
NOTHING_LEARNS = "expected results with gradients for some weights, got none, and the policy is not in frozen"


def check_network(network: nn.Module, group: Group, name: str, learns: bool = False) -> None:
    """Call a network, in evaluation mode, with two samples of finite observations, and check what it returns.

    Args:
        network: the network.
        group: agents that it acts for; ``count`` is the number in a world.
        name: name of its policy, for messages.
        learns: the policy learns.

    Raises:
        ConfigError: the network raises an error, changes observations, or its outputs or values are not float32, have a wrong
            shape or are not finite, or its methods ``actor()`` and ``critic()`` return something else than ``forward()``. Its
            state holds something else than tensors. The policy learns, and no weight has a gradient.
    """
    if not isinstance(network, nn.Module):
        raise ConfigError(f"network of policy {name!r}: expected a torch.nn.Module, got {type(network).__name__}")
    _check_state(network, name)
    spec = NetworkSpec.of(group)
    obs = network_input(network, samples_of(network, group))
    before = [x.clone() for x in _tensors(obs)]
    with _evaluation_mode(network), torch.set_grad_enabled(learns):
        outputs, value = results = results_of(network, obs, spec.num_outputs, name)
        parts = {
            part: results_of(network, obs, spec.num_outputs, name, part)
            for part in ("actor", "critic") if callable(getattr(type(network), part, None))
        }  # fmt: skip
    where = _where(name, obs)
    for what, result in zip(("outputs", "value"), results, strict=True):
        _require_numbers(result, f"{where}: {what}")
    for part, whole in zip(("actor", "critic"), results, strict=True):
        if part in parts:
            _require_numbers(parts[part], f"{where}: {part}()")
            if not torch.allclose(parts[part], whole, rtol=1e-3, atol=1e-4):
                raise ConfigError(f"{where}: expected {part}() to return what forward() returns, got other numbers")
    if not all(torch.equal(x, y) for x, y in zip(_tensors(obs), before, strict=True)):
        raise ConfigError(f"{where}: {CHANGED}")
    # Continuous actions have a deviation beside the network, which learns without it.
    if learns and not group.continuous and not (outputs.requires_grad or value.requires_grad):
        raise ConfigError(f"network of policy {name!r}: {NOTHING_LEARNS}")


def results_of(network: nn.Module, obs: Observation, num_outputs: int, name: str, part: str | None = None) -> Any:
    """Call a network of the user, and check the form of its results without reading the device.

    Args:
        network: the network.
        obs: observations in the form that the network takes.
        num_outputs: see ``NetworkSpec``.
        name: name of its policy, for messages.
        part: ``actor`` or ``critic``, the method to call in place of the network, which returns one of the two results.

    Returns:
        The network's outputs and value.

    Raises:
        ConfigError: the network raises an error or changes the observations, or a result has another form.
    """
    before = _versions(obs)
    try:
        results = network(obs) if part is None else getattr(network, part)(obs)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise ConfigError(f"{_where(name, obs)}: expected (outputs, value), got {type(error).__name__}: {error}") from error
    if _versions(obs) != before:
        raise ConfigError(f"{_where(name, obs)}: {CHANGED}")
    rows = (obs.shape[0],) if isinstance(obs, Tensor) else tuple(obs["own"].shape[:2])
    if part is None:
        if not (isinstance(results, tuple) and len(results) == 2):
            raise ConfigError(f"{_where(name, obs)}: expected a tuple (outputs, value), got {_form(results)}")
        outputs, value = results
    else:
        outputs = value = results
    if part != "critic" and not (isinstance(outputs, Tensor) and outputs.shape == (*rows, num_outputs)):
        _refuse(outputs, (*rows, num_outputs), f"{_where(name, obs)}: {'outputs' if part is None else 'actor()'}")
    if part != "actor" and not (isinstance(value, Tensor) and value.shape == rows):
        _refuse(value, rows, f"{_where(name, obs)}: {'value' if part is None else 'critic()'}")
    return results


def _versions(obs: Observation) -> int:
    """Return the number of changes in place of an observation so far."""
    try:
        return sum(VERSION(x) for x in _tensors(obs))
    except RuntimeError:  # torch does not count those of tensors that were made in inference mode
        return 0


def _refuse(result: object, shape: tuple[int, ...], where: str) -> NoReturn:
    raise ConfigError(f"{where}: expected float32 {shape}, got {_form(result)}")


def _where(name: str, obs: Observation) -> str:
    return f"network of policy {name!r}, called with {_form(obs)}"


def _tensors(obs: Observation) -> list[Tensor]:
    return [obs] if isinstance(obs, Tensor) else list(obs.values())


def _check_state(network: nn.Module, name: str) -> None:
    """Raise ConfigError unless the state of a network consists of tensors, which a checkpoint can hold."""
    for key, value in network.state_dict().items():
        if not isinstance(value, Tensor):
            what = f"{_form(value)} as {key!r}, as get_extra_state() may return it"
            raise ConfigError(f"network of policy {name!r}: expected tensors in state_dict(), got {what}")


def _require_numbers(result: Tensor, where: str) -> None:
    if result.dtype != torch.float32:
        _refuse(result, tuple(result.shape), where)
    if result.is_meta or not bool(torch.isfinite(result).all()):
        got = "numbers on the device meta" if result.is_meta else "NaN or infinity"
        raise ConfigError(f"{where}: expected finite numbers, got {got}")


def samples_of(network: nn.Module, group: Group) -> Observation:
    """Return two observations within the bounds of the space, on the device of the network."""
    options: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}
    generator = torch.Generator("cpu").manual_seed(0)
    weight = next(itertools.chain(network.parameters(), network.buffers()), torch.empty(0, **options))

    def samples(space: Box, *lead: int, flat: bool) -> Tensor:
        bounds = (np.broadcast_to(bound, space.shape).astype(np.float32) for bound in (space.low, space.high))
        low, high = (torch.tensor(bound, **options) for bound in bounds)
        numbers = torch.randn(*lead, *space.shape, generator=generator, **options).clamp(low, high).to(weight.device)
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
