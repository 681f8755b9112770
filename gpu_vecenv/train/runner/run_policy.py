"""A policy of a run in the hands of a caller: observations of any array kind in, actions of the same kind out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Space
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from gpu_vecenv.errors import ArrayTypeError, ShapeError
from gpu_vecenv.spec.validation import describe, host_array, plain_tensor
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.contract import Draw, Inputs, Observation
from gpu_vecenv.train.runner.saved_policy import SavedPolicy
from gpu_vecenv.vector.inputs.seeding import check_one_seed

KINDS = ("torch", "numpy", "cupy", "jax")
"""Kinds of arrays that ``act()`` takes."""


class RunPolicy:
    """Chooses actions by a policy of a run, with its normalisation of observations and its scale of actions inside.

    Args:
        saved: the policy.
        seed: seed of its draws. Equal seeds and equal calls give equal actions.

    Attributes:
        name: name of the policy in its run.
        roles: roles that it acts for.
        observation_space: space of an agent's observation; of its own part if roles have a shared part.
        action_space: space of an agent's action.
        device: device of the weights.
        state_shape: shape of an agent's state; None for a policy without one.
        module: the network with its normalisation and distribution, a ``Policy``.
    """

    def __init__(self, saved: SavedPolicy, seed: int = 0) -> None:
        self.module, self.name, self._rows = saved.policy, saved.name, saved.rows
        self.module.eval()
        group = saved.rows.group
        self.roles = saved.rows.roles
        self.observation_space: Space = group.observation
        self.action_space: Space = group.action
        self.state_shape = self.module.state_shape
        self.device = torch.device(saved.config.device)
        self._seed = check_one_seed(seed)
        self._steps = 0
        self._first_agents = {span.members.role: span.first_agent + span.members.lo for span in saved.rows.spans}
        self._agents = sum(span.agents for span in saved.rows.spans)

    def __repr__(self) -> str:
        """Name, roles and spaces."""
        roles = ", ".join(self.roles)
        spaces = f"observations {self.observation_space.shape}, actions {self.action_space}"
        return f"RunPolicy({self.name!r}, roles={roles}, {spaces}, device={self.device})"

    @torch.no_grad()
    def act(
        self, obs: Any, mask: Any = None, state: Any = None, deterministic: bool = False, agent: Any = None
    ) -> tuple[Any, Any]:
        """Choose an action for every observation.

        All axes before those of an observation are free: ``(F,)``, rows ``(B, F)``, or a role in the worlds view ``(N, a, F)``.
        Arrays may be tensors, or arrays of NumPy, CuPy or JAX, on any device.

        Args:
            obs: observations as the env returns them, float32; for a role with a shared part ``{"shared": (N, S), "own":
                (N, a, P)}``.
            mask: bool, the axes of ``obs`` and then choices, True for those that are allowed; None allows all.
            state: for a policy with a state what the last call returned, with zeros in the rows whose episode began anew; None
                before the first step.
            deterministic: take the likeliest actions instead of draws.
            agent: integers, number of each row's agent in its world, for a policy that reads it (``agent_ids``). By default
                observations of all its agents are in order, world by world.

        Returns:
            actions: of the kind of ``obs`` and on its device, with its free axes: int32, or float32 in the env's units, which the
                env clips to its bounds.
            state: for a policy with a state float32 (axes, *state_shape), else None.

        Raises:
            ArrayTypeError, ShapeError: an array of another kind or form.
            ConfigError: a mask or a state that the policy does not have, or no ``agent`` where it is needed.
        """
        kind, place = self._kind(obs)
        observed, free = self._observed(obs)
        count = math.prod(free)
        rows = tuple(observed["own"].shape[:2]) if isinstance(observed, dict) else (count,)
        masks = self._mask(mask, rows, count)
        states = self._state(state, rows, count)
        draw = self._draw(rows, agent)
        with torch.inference_mode(False):
            action, _, *after = self.module.act(Inputs(observed, masks, state=states), draw, deterministic)
        self._steps = (self._steps + 1) % 2**31
        inner = tuple(self.action_space.shape or ())
        given_back = _as_kind(action.reshape(*free, *inner), kind, place)
        return given_back, _as_kind(after[0].reshape(*free, *after[0].shape[len(rows) :]), kind, place) if after else None

    def _kind(self, obs: Any) -> tuple[str, Any]:
        """Return the kind of arrays that come, and their device."""
        first = next(iter(obs.values()), None) if isinstance(obs, Mapping) else obs
        kind = describe(first).kind
        kind = "numpy" if kind == "builtins" and isinstance(first, list | tuple | float | int) else kind
        if kind not in KINDS:
            raise ArrayTypeError(f"obs must be an array of {', '.join(KINDS)}, got {type(first).__name__}.")
        return kind, getattr(first, "device", None)

    def _tensor(self, array: Any, name: str, dtype: torch.dtype) -> Tensor:
        """Return an array as a tensor on the policy's device."""
        tensor: Tensor
        if describe(array).kind == "torch":
            tensor = plain_tensor(array, name)
        elif describe(array).kind == "cupy" and self.device.type == "cuda":
            tensor = from_dlpack(array)
        else:
            tensor = torch.from_numpy(np.array(host_array(array, name)))
        return tensor.to(self.device, dtype)

    def _observed(self, obs: Any) -> tuple[Observation, tuple[int, ...]]:
        """Return observations as a policy takes them, and their free axes."""
        group, inner = self._rows.group, self.observation_space.shape or ()
        if group.shared is not None:
            if not isinstance(obs, Mapping) or {*obs} != {"shared", "own"}:
                raise ArrayTypeError(f"obs of {self.name!r} must be a dict of shared and own, got {type(obs).__name__}.")
            shared, own_part = (self._tensor(obs[name], f"obs[{name!r}]", torch.float32) for name in ("shared", "own"))
            _require_shape(shared, (-1, *(group.shared.shape or ())), "obs['shared']")
            _require_shape(own_part, (len(shared), -1, *inner), "obs['own']")
            return {"shared": shared.flatten(1), "own": own_part.flatten(2)}, tuple(own_part.shape[:2])
        if isinstance(obs, Mapping):
            raise ArrayTypeError(f"obs of {self.name!r} must be an array, got a dict of {', '.join(map(str, obs))}.")
        tensor = self._tensor(obs, "obs", torch.float32)
        axes = tensor.dim() - len(inner)
        if axes < 0 or tuple(tensor.shape[axes:]) != tuple(inner):
            raise ShapeError(f"obs of {self.name!r} must end with {tuple(inner)}, got {tuple(tensor.shape)}.")
        return tensor.reshape(-1, *inner) if math.prod(inner) else tensor, tuple(tensor.shape[:axes])

    def _mask(self, mask: Any, rows: tuple[int, ...], count: int) -> Tensor | None:
        """Return the mask as a policy takes it."""
        if mask is None:
            return None
        group = self._rows.group
        if not group.masked:
            raise ConfigError(f"mask: expected None, as actions of {self.name!r} have no mask")
        tensor, choices = self._tensor(mask, "mask", torch.bool), group.num_choices
        if tensor.numel() != count * choices or tensor.shape[-1] != choices:
            expected = f"{choices} choices for each of {count} rows"
            raise ShapeError(f"mask of {self.name!r} must have {expected}, got {tuple(tensor.shape)}.")
        masks = dict(zip(group.masked, tensor.reshape(*rows, choices).split(group.masked_choices, dim=-1), strict=True))
        # An entry that has flags of effect and no mask allows all.
        parts = [
            masks[entry] if entry in masks else torch.ones(*rows, size, dtype=torch.bool, device=self.device)
            for entry, size in zip(group.limited, group.limited_choices, strict=True)
        ]
        return torch.cat(parts, dim=-1).contiguous()

    def _state(self, state: Any, rows: tuple[int, ...], count: int) -> Tensor | None:
        """Return the state as a policy takes it: zeros at the start."""
        if self.state_shape is None:
            if state is not None:
                raise ConfigError(f"state: expected None, as the policy {self.name!r} has no state")
            return None
        if state is None:
            return torch.zeros(*rows, *self.state_shape, dtype=torch.float32, device=self.device)
        tensor = self._tensor(state, "state", torch.float32)
        if tensor.numel() != count * math.prod(self.state_shape):
            raise ShapeError(f"state must have {self.state_shape} for each of {count} rows, got {tuple(tensor.shape)}.")
        return tensor.reshape(*rows, *self.state_shape)

    def _draw(self, rows: tuple[int, ...], agent: Any) -> Draw:
        """Return the counters of the next draws: one world each, numbered from 0."""
        count = math.prod(rows)
        agents = self._agent_numbers(count, agent)
        bits = int(np.uint64(self._seed).astype(np.int64))
        worlds = torch.arange(count, dtype=torch.int32, device=self.device)
        return Draw(
            seed=torch.full((count,), bits, dtype=torch.int64, device=self.device),
            world_id=worlds,
            episode=torch.zeros_like(worlds),
            t=torch.full_like(worlds, self._steps),
            world=worlds.view(rows),
            agent=agents.to(torch.int32).view(rows).contiguous(),
        )

    def _agent_numbers(self, count: int, agent: Any) -> Tensor:
        """Return the number of each row's agent in its world; zeros if the policy does not read it."""
        reads = getattr(self.module, "ids", None) is not None
        if agent is not None:
            agents = self._tensor(agent, "agent", torch.int64)
            if agents.numel() != count:
                raise ShapeError(f"agent must have a number for each of {count} rows, got {tuple(agents.shape)}.")
            return agents
        if not reads:
            return torch.zeros(count, dtype=torch.int64, device=self.device)
        if len(self._first_agents) > 1 or count % self._agents:
            raise ConfigError(f"agent: expected the number of each row's agent, as the policy {self.name!r} reads it, got None")
        first = next(iter(self._first_agents.values()))
        return first + torch.arange(count, dtype=torch.int64, device=self.device) % self._agents


def _require_shape(tensor: Tensor, shape: tuple[int, ...], name: str) -> None:
    """Raise ShapeError unless a tensor has a shape, in which -1 stands for any length."""
    if tensor.dim() != len(shape) or any(want not in (-1, got) for want, got in zip(shape, tensor.shape, strict=True)):
        expected = ", ".join("any" if want == -1 else str(want) for want in shape)
        raise ShapeError(f"{name} must have the shape ({expected}), got {tuple(tensor.shape)}.")


def _as_kind(tensor: Tensor, kind: str, place: Any) -> Any:
    """Return a tensor as an array of a kind, on a device of that kind."""
    if kind == "torch":
        return tensor.to(place)
    if kind == "numpy":
        return tensor.cpu().numpy()
    if kind == "cupy":
        import cupy

        return cupy.from_dlpack(tensor.to(f"cuda:{place.id}").contiguous())
    import jax

    return jax.device_put(tensor.cpu().numpy(), place)
