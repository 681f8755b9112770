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
from gpu_vecenv.train.policies.contract import Observation, apply, wide
from gpu_vecenv.train.policies.networks import (
    NetworkSpec,
    WorldSpec,
    critic_sources_of,
    has_method,
    network_input,
    state_shape_of,
)

VERSION = version()

NUM_SAMPLES = 2
"""Samples of the call. A batch of one sample would hide axes that are broadcast."""

CHANGED = "expected observations to stay as they are, got a change in place, such as x.div_(255); write x = x / 255"
NOTHING_LEARNS = "expected results with gradients for some weights, got none, and the policy is not in frozen"


def check_network(
    network: nn.Module, group: Group, name: str, learns: bool = False, world: WorldSpec = WorldSpec()  # noqa: B008
) -> None:
    """Call a network, in evaluation mode, with two samples of finite observations, and check what it returns.

    Args:
        network: the network.
        group: agents that it acts for; ``count`` is the number in a world.
        name: name of its policy, for messages.
        learns: the policy learns.
        world: what the network may know of a world.

    Raises:
        ConfigError: the network raises an error, changes its inputs, or its results are not float32, have a wrong shape or are
            not finite, or its methods ``actor()`` and ``critic()`` return something else than ``forward()``. Its ``state_dict()``
            holds something else than tensors. It declares a state or sources that it cannot have. The policy learns, and no
            weight has a gradient.
    """
    if not isinstance(network, nn.Module):
        raise ConfigError(f"network of policy {name!r}: expected a torch.nn.Module, got {type(network).__name__}")
    _check_state(network, name)
    spec, shape, sources = NetworkSpec.of(group), state_shape_of(network), critic_sources_of(network, world.sources)
    obs = network_input(network, samples_of(network, group, world.policy_agents if sources else 0))
    options: dict[str, Any] = {"dtype": torch.float32, "device": _device(network)}
    state = () if shape is None else (torch.zeros(*_rows_of(obs), *shape, **options),)
    critic = (torch.ones(NUM_SAMPLES, sum(world.sources[x] for x in sources), **options),) if sources else ()
    before = [x.clone() for x in _tensors(obs)]
    with _evaluation_mode(network), torch.set_grad_enabled(learns):
        forward_results = () if sources else results_of(network, (obs, *state), spec.num_outputs, name, None, shape)
        parts = {
            part: results_of(network, (obs, *(critic if part == "critic" else ()), *state), spec.num_outputs, name, part, shape)
            for part in ("actor", "critic") if has_method(network, part)
        }  # fmt: skip
        if state and has_method(network, "sequence"):
            _check_sequence(network, obs, critic, state[0], spec.num_outputs, name)
        if state and "actor" in parts:
            parts["actor"], parts["state of actor"] = parts["actor"]
    where = _where(name, obs)
    for what, result in zip(("outputs", "value", "state"), forward_results, strict=False):
        _require_numbers(result, f"{where}: {what}")
    for part, result in parts.items():
        _require_numbers(result, f"{where}: {part}()")
    for part, result in zip(("actor", "critic", "state of actor"), forward_results, strict=False):
        if part in parts and not torch.allclose(parts[part], result, rtol=1e-3, atol=1e-4):
            raise ConfigError(f"{where}: expected {part}() to return what forward() returns, got other numbers")
    if not all(torch.equal(x, y) for x, y in zip(_tensors(obs), before, strict=True)):
        raise ConfigError(f"{where}: {CHANGED}")
    outputs, value = forward_results[:2] or (parts["actor"], parts["critic"])
    # Continuous actions have a deviation beside the network, which learns without it.
    if learns and not group.continuous and not (outputs.requires_grad or value.requires_grad):
        raise ConfigError(f"network of policy {name!r}: {NOTHING_LEARNS}")


def _check_sequence(
    network: nn.Module, obs: Observation, critic: tuple[Tensor, ...], state: Tensor, num_outputs: int, name: str
) -> None:
    """Raise ConfigError unless ``sequence()`` returns what a loop over two steps does; some states begin anew between them."""
    shape, rows = tuple(state.shape[len(_rows_of(obs)) :]), _rows_of(obs)
    pair = apply(obs, lambda x: torch.stack((x, x.flip(0))))
    ends = torch.zeros(2, *rows, dtype=torch.bool, device=state.device)
    ends[0, 0] = True
    expected, now = [], state
    for t, end in enumerate(ends):
        step = apply(pair, lambda x, t=t: x[t])  # type: ignore[misc]
        if critic:
            outputs, after = results_of(network, (step, now), num_outputs, name, "actor", shape)
            results = (outputs, results_of(network, (step, *critic, now), num_outputs, name, "critic", shape), after)
        else:
            results = results_of(network, (step, now), num_outputs, name, None, shape)
        expected.append(results)
        now = torch.where(wide(end, results[2]), 0.0, results[2])
    arguments = (pair, *(torch.stack((x, x)) for x in critic), state, ends)
    results = results_of(network, arguments, num_outputs, name, "sequence", shape)
    for what, of_steps, result in zip(("outputs", "value", "states"), zip(*expected, strict=True), results, strict=True):
        _require_numbers(result, f"{_where(name, pair)}: {what} of sequence()")
        if not torch.allclose(torch.stack(of_steps), result, rtol=1e-3, atol=1e-4):
            raise ConfigError(f"{_where(name, pair)}: expected {what} of sequence() as of a loop over steps, got other numbers")


def results_of(
    network: nn.Module,
    inputs: tuple[Any, ...],
    num_outputs: int,
    name: str,
    part: str | None = None,
    state_shape: tuple[int, ...] | None = None,
) -> Any:
    """Call a network of the user, and check the form of its results without reading the device.

    Args:
        network: the network.
        inputs: observations in the form that the network takes, and what else it takes; see ``NetworkSpec``.
        num_outputs: see ``NetworkSpec``.
        name: name of its policy, for messages.
        part: ``actor`` or ``critic``, the method to call in place of the network, which returns one of the two results, or
            ``sequence``, which returns all results of several steps.
        state_shape: see ``NetworkSpec``.

    Returns:
        The network's outputs and value, or the one that ``part`` returns, and the state if it has one and ``part`` is not
        ``critic``.

    Raises:
        ConfigError: the network raises an error or changes its inputs, or a result has another form.
    """
    obs, before = inputs[0], _versions(inputs)
    try:
        results = network(*inputs) if part is None else getattr(network, part)(*inputs)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        expected = _expected(part, state_shape)
        raise ConfigError(f"{_where(name, obs)}: expected {expected}, got {type(error).__name__}: {error}") from error
    if _versions(inputs) != before:
        raise ConfigError(f"{_where(name, obs)}: {CHANGED}")
    rows, returns_both = _rows_of(obs, part), part in (None, "sequence")
    outputs = value = results
    with_state = part != "critic" and state_shape is not None
    if returns_both or with_state:
        if not (isinstance(results, tuple) and len(results) == returns_both + 1 + with_state):
            raise ConfigError(f"{_where(name, obs)}: expected a tuple {_expected(part, state_shape)}, got {_form(results)}")
        outputs, value = results[:2]
    if with_state and not (isinstance(results[-1], Tensor) and results[-1].shape == (*rows, *(state_shape or ()))):
        _refuse(results[-1], (*rows, *(state_shape or ())), f"{_where(name, obs)}: state")
    if part != "critic" and not (isinstance(outputs, Tensor) and outputs.shape == (*rows, num_outputs)):
        _refuse(outputs, (*rows, num_outputs), f"{_where(name, obs)}: {'outputs' if returns_both else 'actor()'}")
    if part != "actor" and not (isinstance(value, Tensor) and value.shape == rows):
        _refuse(value, rows, f"{_where(name, obs)}: {'value' if returns_both else 'critic()'}")
    return results


def _expected(part: str | None, state_shape: tuple[int, ...] | None) -> str:
    """Return the names of the results of a network, or of its method ``part``."""
    results = {"actor": "outputs", "critic": "value"}.get(part or "", "outputs, value")
    results += ", state" if part != "critic" and state_shape is not None else ""
    return f"({results})" if "," in results else results


def _rows_of(obs: Observation, part: str | None = None) -> tuple[int, ...]:
    """Return the axes of the rows of observations in the form that a network takes, (B,) or (B, a); of sequences L before."""
    axes = 2 if part == "sequence" else 1
    return tuple(obs.shape[:axes] if isinstance(obs, Tensor) else obs["own"].shape[: axes + 1])


def _versions(inputs: tuple[Any, ...]) -> int:
    """Return the number of changes in place of the inputs of a network so far."""
    try:
        return sum(VERSION(x) for each in inputs for x in _tensors(each))
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


def _device(network: nn.Module) -> torch.device:
    """Return the device of a network; the CPU for one without weights."""
    return next((x.device for x in itertools.chain(network.parameters(), network.buffers())), torch.device("cpu"))


def samples_of(network: nn.Module, group: Group, agents: int = 0) -> Observation:
    """Return two observations within the bounds of the space, on the device of the network.

    Args:
        network: the network.
        group: agents that it acts for.
        agents: agents of a world, to observe two worlds; 0: two rows, or worlds of ``group`` if there is a shared part.
    """
    options: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}
    generator = torch.Generator("cpu").manual_seed(0)
    device = _device(network)

    def samples(space: Box, *lead: int, flat: bool) -> Tensor:
        bounds = (np.broadcast_to(bound, space.shape).astype(np.float32) for bound in (space.low, space.high))
        low, high = (torch.tensor(bound, **options) for bound in bounds)
        sample = torch.randn(*lead, *space.shape, generator=generator, **options).clamp(low, high).to(device)
        return sample.flatten(len(lead)) if flat else sample

    if group.shared is None and agents:
        return {"own": samples(group.observation, NUM_SAMPLES, agents, flat=False)}
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
