"""Copies of arrays of a run on the host, which the device writes in the order of its work, so that the host does not wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpu_vecenv.train.storage.rollout import Rollout
from gpu_vecenv.train.storage.slabs import group_rows

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


@dataclass(frozen=True)
class HostCopy:
    """Copies of tensors, one after the other in one block of memory. They are valid when the device has done its work so far."""

    block: Tensor
    """uint8 (bytes,) on the host, pinned if the device is a GPU."""
    forms: Mapping[str, tuple[torch.dtype, torch.Size]]
    """Type and shape of each tensor."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        counts = [dtype.itemsize * shape.numel() for dtype, shape in self.forms.values()]
        parts = zip(self.forms.items(), self.block.split(counts), strict=True)
        return {name: part.clone().view(dtype).reshape(shape) for (name, (dtype, shape)), part in parts}

    def tobytes(self) -> bytes:
        """Return the bytes of all tensors."""
        return self.block.numpy().tobytes()


def copy_to_host(tensors: Mapping[str, Tensor]) -> HostCopy:
    """Queue copies of tensors of one device on the current stream."""
    block = torch.cat([as_bytes(tensor).reshape(-1) for tensor in tensors.values()])
    if block.is_cuda:
        on_host = torch.empty(block.shape, dtype=torch.uint8, device="cpu", pin_memory=True)
        block = on_host.copy_(block, non_blocking=True)
    return HostCopy(block, {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()})


def as_bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of the entries of a tensor's first axis, uint8 (n, bytes of an entry), as a view if it is contiguous."""
    rows = tensor.detach().reshape(1, 1) if tensor.dim() == 0 else tensor.detach()
    rows = rows.unsqueeze(1) if rows.dim() == 1 else rows.flatten(1)
    return rows.contiguous().view(torch.uint8)


class WorldCopies:
    """Copies what a page needs to make the rollouts of some worlds again: state before and after, and actions.

    Args:
        env: env of the run.
        rollout: its rollout.
        worlds: numbers of the worlds.
    """

    def __init__(self, env: GpuVectorEnv, rollout: Rollout, worlds: Sequence[int]) -> None:
        device, state, pool = torch.device(env.device), env.worlds.state, env.worlds.pool

        def on_device(indices: Sequence[int]) -> Tensor:
            host = torch.tensor(indices, dtype=torch.int64, device="cpu", pin_memory=device.type == "cuda")
            return host.to(device, non_blocking=True)

        def tensor(array: Any) -> Tensor:
            return torch.as_tensor(array, device=device)

        self._worlds = on_device(worlds)
        self._fields = {name: as_bytes(tensor(array)) for name, array in state.fields.items()}
        self._common_arrays = {
            "reset_bounds": tensor(env.worlds.arguments.reset_options),
            "may_be_finished": tensor(state.may_be_finished),
            "pool_size": tensor(pool.size),
        }
        self._actions = []
        for slabs, (group, rows) in zip(rollout.groups, group_rows(env), strict=True):
            roles = [group.role] if group.role else list(env.role_rows)
            indices = [number for role in roles for number in _rows(env.role_rows[role], rows.start, env.num_worlds, worlds)]
            self._actions.append((slabs.action, on_device(indices)))

    def before(self) -> HostCopy:
        """Queue copies of state fields in their order, then of the arrays of all worlds, on which a rollout depends, too."""
        return copy_to_host(self._state() | self._common_arrays)

    def after(self) -> tuple[HostCopy, HostCopy]:
        """Queue copies of the actions of the rollout, of each group (T, rows of the worlds[, k]), and of the state after it."""
        actions = {str(number): slab.index_select(1, rows) for number, (slab, rows) in enumerate(self._actions)}
        return copy_to_host(actions), copy_to_host(self._state())

    def _state(self) -> dict[str, Tensor]:
        return {name: field.index_select(0, self._worlds) for name, field in self._fields.items()}


def _rows(of_role: slice, first: int, num_worlds: int, worlds: Sequence[int]) -> list[int]:
    """Return the rows of some worlds among those of a role, counted from row ``first`` on, by world and then by agent."""
    count = (of_role.stop - of_role.start) // num_worlds
    return [of_role.start - first + world * count + agent for world in worlds for agent in range(count)]
