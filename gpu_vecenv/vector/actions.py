"""Checks on actions before anything is launched, and their conversion to what kernels read."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space

from gpu_vecenv.backend.base import Largest
from gpu_vecenv.backend.memory import Memory
from gpu_vecenv.errors import ActionError, ArrayTypeError, DeviceError, ShapeError
from gpu_vecenv.spec.given import Array, host_array, library, on_device, plain_tensor

_UNSIGNED = {4: np.uint32, 8: np.uint64}


class ActionReader:
    """Turns the caller's actions into an array on the env's device.

    Args:
        space: action space of one agent.
        lead: leading axes of an action array, ``(N,)``, ``(R,)`` or ``(N, A)``.
        device: the env's device.
        memory: where state lives, for uploads of host arrays.
        warn: True to warn of the first upload, False where the caller asked for host arrays.
        largest: on the CPU, the back end's function of this name: a check that takes microseconds less than NumPy's.
    """

    def __init__(
        self, space: Space, lead: tuple[int, ...], device: str, memory: Memory, warn: bool = True,
        largest: Largest | None = None,
    ) -> None:  # fmt: skip
        self.shape = lead + (space.shape or ())
        self._continuous = isinstance(space, Box)
        self._dtypes = ("float32", "float64") if self._continuous else ("int32", "int64")
        self._choices = _choices(space)
        self._fewest = int(self._choices.min())
        self._device = device
        self._memory = memory
        self._warn = warn
        self._largest = None if self._continuous else largest
        self._host_dtypes = {np.dtype(name) for name in self._dtypes} if device == "cpu" else set()
        self._tensor: Any = None
        if device != "cpu" or "torch" in sys.modules:
            import torch

            self._tensor, self._where = torch.Tensor, torch.device(device)
            self._element_bytes = {torch.float32: 4} if self._continuous else {torch.int32: 4, torch.int64: 8}

    def read(self, actions: Any, lead: tuple[int, ...] = ()) -> tuple[Array, int, int]:
        """The actions as kernels read them.

        Args:
            actions: of one step, or of as many as ``lead`` says.
            lead: further leading axes, ``(T,)`` or none.

        Returns:
            The actions as a C-contiguous array on the env's device, its address, and the bytes of one element.

        Raises:
            ShapeError, ArrayTypeError, DeviceError: what was expected and what came.
            ActionError: on the CPU, an index out of range or NaN.
        """
        if type(actions) is self._tensor:  # what a trainer gives, in a microsecond; a step on the CPU may take fifty
            size = self._element_bytes.get(actions.dtype)
            if size and actions.device == self._where and (address := _plain_address(actions, lead + self.shape)):
                if self._device == "cpu" and not self._are_indices(address, actions.numel(), size):
                    self._check_host(actions.detach().numpy())
                return actions, address, size
        if type(actions) is np.ndarray and actions.dtype in self._host_dtypes and actions.shape == lead + self.shape:
            address = actions.ctypes.data
            if actions.flags.c_contiguous and self._are_indices(address, actions.size, actions.itemsize):
                return actions, address, actions.itemsize
            array, size = self._read_host(actions)
        else:
            array, size = self._read_checked(actions, lead + self.shape)
        return array, _address(array), size

    def lead(self, actions: Any, num_steps: int | None) -> tuple[int, ...]:
        """Which axes the actions of a rollout have before those of one step: ``(T,)``, or none where they are constant.

        Raises:
            ShapeError: it cannot be told how many steps are meant.
        """
        try:
            shape = tuple(np.shape(actions) if not hasattr(actions, "shape") else actions.shape)
        except (ValueError, RuntimeError):  # a list that is no array, a nested tensor
            shape = ()
        if num_steps is not None:
            return () if shape == self.shape else (num_steps,)
        if len(shape) != len(self.shape) + 1 or shape[0] < 1:
            spelled = ", ".join(map(str, self.shape))
            raise ShapeError(f"actions must have shape (T, {spelled}), or be those of one step with num_steps=T, got {shape}.")
        return shape[:1]

    def _read_checked(self, actions: Any, shape: tuple[int, ...]) -> tuple[Array, int]:
        module = library(actions)
        if module == "torch":
            actions = plain_tensor(actions, "actions")
        elif module != "cupy":
            module = "numpy"
            try:
                actions = np.asarray(host_array(actions, "actions"))
            except ValueError as error:
                raise ShapeError(f"actions must have shape {shape}, got a list that is no array.") from error
        dtype = str(actions.dtype).removeprefix("torch.")
        if tuple(actions.shape) != shape:
            raise ShapeError(f"actions must have shape {shape}, got {tuple(actions.shape)}.")
        if dtype not in self._dtypes:
            raise ArrayTypeError(f"actions must be {' or '.join(self._dtypes)}, got {dtype}.")
        self._check_device(actions, module)
        if self._device == "cpu":
            return self._read_host(actions.numpy() if module == "torch" else actions)
        return self._read_cuda(actions, module)

    def _check_device(self, actions: Array, module: str) -> None:
        where = "cpu"
        if module == "torch":
            where = str(actions.device)
        elif module == "cupy":
            where = f"cuda:{actions.device.id}"
        if where not in ("cpu", self._device):
            raise DeviceError(f"actions must be on {self._device}, got an array on {where}.")

    def _read_host(self, actions: np.ndarray) -> tuple[np.ndarray, int]:
        self._check_host(actions)
        actions = np.ascontiguousarray(_as_float32(actions) if self._continuous else actions)
        return actions, actions.itemsize

    def _are_indices(self, address: int, count: int, element_bytes: int) -> bool:
        """Whether all are certainly valid; the answer no is not certain."""
        return self._largest is not None and self._largest(address, count, element_bytes) < self._fewest

    def _check_host(self, actions: np.ndarray) -> None:
        if self._continuous:
            if np.isnan(actions.min()):  # one pass: the least of numbers of which one is NaN is NaN
                raise ActionError(f"actions must not be NaN; {int(np.isnan(actions).sum())} are.")
        elif actions.view(_UNSIGNED[actions.itemsize]).max() >= self._fewest:  # one pass: a negative index is a large one
            bad = (actions < 0) | (actions >= self._choices)
            if bad.any():
                raise ActionError(
                    f"actions must lie in 0..{_spell(self._choices)}, got {actions[bad][0]} at {np.argwhere(bad)[0].tolist()}."
                )

    def _read_cuda(self, actions: Array, module: str) -> tuple[Array, int]:
        if module == "torch" and actions.is_cuda:
            actions = actions.contiguous()
            return (actions.float(), 4) if self._continuous else (actions, actions.element_size())
        if module == "cupy":
            import cupy

            with on_device(actions.device.id):  # where a copy is made
                actions = cupy.ascontiguousarray(actions, dtype="float32" if self._continuous else None)
            return actions, actions.itemsize
        if self._warn:
            self._warn = False
            warnings.warn(
                f"Host actions are uploaded to {self._device} in every step; arrays on the device avoid the copy.",
                stacklevel=6,
            )
        host = actions.numpy() if module == "torch" else actions
        device = self._memory.from_numpy(np.ascontiguousarray(_as_float32(host) if self._continuous else host))
        return device, 4 if self._continuous else host.itemsize


def random_ranges(space: Space) -> tuple[np.ndarray, np.ndarray]:
    """What random actions are drawn from.

    Returns:
        choices: int32 (heads,), of each entry of an action; 0 in a box.
        bounds: float32 (heads, 2), of a box: the lower bound, and how far the upper one is from it.
    """
    heads = int(np.prod(space.shape or ()))
    if isinstance(space, Box):
        low, high = (np.broadcast_to(bound, space.shape).astype(np.float32).reshape(-1) for bound in (space.low, space.high))
        with np.errstate(over="ignore", invalid="ignore"):  # without bounds there is no distance, and nothing is drawn
            return np.zeros(heads, np.int32), np.stack([low, high - low], axis=1)
    choices = np.broadcast_to(_choices(space), space.shape or ()).astype(np.int32).reshape(-1)
    return choices, np.zeros((heads, 2), np.float32)


def _plain_address(actions: Any, shape: tuple[int, ...]) -> Any:
    """Address of a tensor's values; 0 for another shape, or if they do not lie there one after the other, as they are."""
    try:
        return actions.data_ptr() if actions.shape == shape and actions.is_contiguous() and not actions.is_neg() else 0
    except RuntimeError:  # a sparse or nested layout, or a tensor inside torch.vmap
        return 0


def _address(actions: Array) -> int:
    if isinstance(actions, np.ndarray):
        return int(actions.ctypes.data)
    return int(actions.data.ptr if type(actions).__module__.startswith("cupy") else actions.data_ptr())


def _as_float32(actions: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is clipped
        return actions.astype(np.float32, copy=False)


def _choices(space: Space) -> np.ndarray:
    """Number of choices of each head, broadcastable against an action array."""
    if isinstance(space, Discrete):
        return np.asarray(space.n)
    if isinstance(space, MultiDiscrete):
        return np.asarray(space.nvec)
    return np.asarray(0)


def _spell(choices: np.ndarray) -> str:
    return str(choices - 1) if choices.ndim == 0 else " and 0..".join(str(n - 1) for n in choices)
