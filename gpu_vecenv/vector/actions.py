"""Checks on actions before a launch, and their conversion to the arrays that kernels read."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space

from gpu_vecenv.backend.base import Backend
from gpu_vecenv.errors import ActionError, ArrayTypeError, DeviceError, ShapeError
from gpu_vecenv.spec.given import Array, describe, host_array, on_device, plain_tensor
from gpu_vecenv.spec.roles import Group

_UNSIGNED = {4: np.uint32, 8: np.uint64}

KernelActions = tuple[Array, int, int]
"""A C-contiguous array on the env's device, its address, and the bytes of one element."""

Take = Callable[[Any], Any]
"""From an array of a further library to a tensor or a NumPy array of the same memory; other values unchanged."""


class ActionReader:
    """Turns the caller's actions into an array on the env's device.

    Args:
        space: action space of one agent.
        lead: leading axes of an action array.
        backend: gives the device, the memory for uploads, and ``max_index``, which checks indices microseconds faster than NumPy.
        warn: True to warn at the first upload, False if the caller asked for host arrays.
        name: name of the actions in messages, such as ``actions of citizen``.
        take: turns arrays of a library that this class does not know into ones that it does.

    Attributes:
        shape: shape of the actions of one step.
        drawn: placeholder for actions that a rollout draws.
    """

    drawn: KernelActions = (None, 0, 4)

    def __init__(
        self,
        space: Space,
        lead: tuple[int, ...],
        backend: Backend,
        warn: bool = True,
        name: str = "actions",
        take: Take | None = None,
    ) -> None:
        device = backend.device
        self.shape = lead + (space.shape or ())
        self._name, self._take = name, take
        self._continuous = isinstance(space, Box)
        self._dtypes = ("float32", "float64") if self._continuous else ("int32", "int64")
        self._choices = _choices(space)
        self._fewest_choices = int(self._choices.min())
        self._device = device
        self._memory = backend.memory
        self._warn = warn
        self._max_index = None if self._continuous else backend.max_index
        self._host_dtypes = {np.dtype(name) for name in self._dtypes} if device == "cpu" else set()
        self._tensor: Any = None
        if device != "cpu" or "torch" in sys.modules:
            import torch

            self._tensor, self._torch_device = torch.Tensor, torch.device(device)
            self._element_bytes = {torch.float32: 4} if self._continuous else {torch.int32: 4, torch.int64: 8}

    def read(self, actions: Any, lead: tuple[int, ...] = ()) -> KernelActions:
        """Check actions and convert them to what kernels read.

        Args:
            actions: actions of one step, or of T steps.
            lead: ``(T,)`` for T steps, otherwise ``()``.

        Raises:
            ShapeError, ArrayTypeError, DeviceError: the actions do not fit; the message says what was expected and what came.
            ActionError: on the CPU, an index out of range or NaN.
        """
        if self._take is not None:
            actions = self._take(actions)
        if type(actions) is self._tensor:  # fast path: a trainer's tensors are read in a microsecond
            size = self._element_bytes.get(actions.dtype)
            if size and actions.device == self._torch_device and (address := _plain_address(actions, lead + self.shape)):
                if self._device == "cpu" and not self._are_indices(address, actions.numel(), size):
                    self._check_host(actions.detach().numpy())
                return actions, address, size
        if type(actions) is np.ndarray and actions.dtype in self._host_dtypes and actions.shape == lead + self.shape:
            address = actions.ctypes.data
            if actions.flags.c_contiguous and self._are_indices(address, actions.size, actions.itemsize):
                return actions, address, actions.itemsize
            return self._read_host(actions)
        return self._read_checked(actions, lead + self.shape)

    def strides(self, read: KernelActions) -> tuple[int, ...]:
        """Return the bytes of the actions of one step, as a tuple of one."""
        return (math.prod(self.shape) * read[2],)

    def lead(self, actions: Any, num_steps: int) -> tuple[int, ...]:
        """Return the leading axes of a rollout's actions: ``(T,)``, or ``()`` for actions of one step, which all steps repeat.

        Args:
            actions: actions of T steps or of one step.
            num_steps: T; 0 to read it from the shape.

        Raises:
            ShapeError: the shape does not give the number of steps.
        """
        try:
            shape = tuple(np.shape(actions) if not hasattr(actions, "shape") else actions.shape)
        except (ValueError, RuntimeError):  # lists of unequal lengths, a nested tensor
            shape = ()
        if num_steps:
            if shape and shape not in (self.shape, (num_steps, *self.shape)):
                both = f"{(num_steps, *self.shape)}, or {self.shape} for actions that all steps repeat"
                raise ShapeError(f"{self._name} of {num_steps} steps must have shape {both}, got {shape}.")
            return () if shape == self.shape else (num_steps,)
        if len(shape) != len(self.shape) + 1 or shape[0] < 1:
            spelled = ", ".join(map(str, self.shape))
            expected = f"shape (T, {spelled}), or be those of one step with num_steps=T"
            raise ShapeError(f"{self._name} must have {expected}, got {shape}.")
        return shape[:1]

    def _read_checked(self, actions: Any, shape: tuple[int, ...]) -> KernelActions:
        kind = describe(actions).kind
        if kind == "torch":
            actions = plain_tensor(actions, self._name)
        elif kind != "cupy":
            try:
                actions = np.asarray(host_array(actions, self._name))
            except ValueError as error:
                raise ShapeError(f"{self._name} must have shape {shape}, got lists of unequal lengths.") from error
        given = describe(actions)
        if tuple(actions.shape) != shape:
            raise ShapeError(f"{self._name} must have shape {shape}, got {tuple(actions.shape)}.")
        if given.dtype not in self._dtypes:
            raise ArrayTypeError(f"{self._name} must be {' or '.join(self._dtypes)}, got {given.dtype}.")
        if given.device not in ("cpu", self._device):
            raise DeviceError(f"{self._name} must be on {self._device}, got an array on {given.device}.")
        if given.device == "cpu":
            host = actions.numpy() if given.kind == "torch" else actions
            return self._read_host(host) if self._device == "cpu" else self._upload(host)
        if given.kind == "torch":
            actions = actions.float().contiguous() if self._continuous else actions.contiguous()
            return actions, int(actions.data_ptr()), actions.element_size()
        return self._read_cupy(actions)

    def _read_host(self, actions: np.ndarray) -> KernelActions:
        self._check_host(actions)
        actions = np.ascontiguousarray(_as_float32(actions) if self._continuous else actions)
        return actions, int(actions.ctypes.data), actions.itemsize

    def _read_cupy(self, actions: Any) -> KernelActions:
        import cupy

        with on_device(actions.device.id):  # CuPy copies on the current device
            actions = cupy.ascontiguousarray(actions, dtype="float32" if self._continuous else None)
        return actions, int(actions.data.ptr), actions.itemsize

    def _upload(self, actions: np.ndarray) -> KernelActions:
        if self._warn:
            self._warn = False
            warnings.warn(
                f"Host actions are uploaded to {self._device} in every step; arrays on the device avoid the copy.",
                stacklevel=_level_of_caller(),
            )
        host = np.ascontiguousarray(_as_float32(actions) if self._continuous else actions)
        uploaded = self._memory.from_numpy(host)
        return uploaded, self._memory.address(uploaded), host.itemsize

    def _are_indices(self, address: int, count: int, element_bytes: int) -> bool:
        """Return True only if every action is below the smallest number of choices. False does not mean that one is invalid."""
        return self._max_index is not None and self._max_index(address, count, element_bytes) < self._fewest_choices

    def _check_host(self, actions: np.ndarray) -> None:
        if self._continuous:
            if np.isnan(actions.min()):  # one pass: the minimum is NaN if any number is NaN
                raise ActionError(f"{self._name} must be numbers, got {int(np.isnan(actions).sum())} times NaN.")
        elif actions.view(_UNSIGNED[actions.itemsize]).max() >= self._fewest_choices:  # one pass: as unsigned, -1 is large
            bad = (actions < 0) | (actions >= self._choices)
            if bad.any():
                place = np.argwhere(bad)[0].tolist()
                raise ActionError(f"{self._name} must lie in 0..{_spell(self._choices)}, got {actions[bad][0]} at {place}.")


def random_ranges(group: Group) -> dict[str, np.ndarray]:
    """Return the arrays that random actions are drawn from, by struct member.

    Returns:
        action_choices: int32 (entries,), number of choices of each entry of an action; 0 for a Box.
        action_bounds: float32 (entries, 2), lower bound of each entry of a Box, and upper bound minus lower bound; 0 for other
            spaces.
        mask_starts: int32 (entries,), index of each entry's first choice in an agent's mask, -1 for entries without a mask; only
            if the group has masks.
    """
    space, entries = group.action, group.num_entries
    bounds, choices = np.zeros((entries, 2), np.float32), np.zeros(entries, np.int32)
    if isinstance(space, Box):
        low, high = (np.broadcast_to(bound, space.shape).astype(np.float32).reshape(-1) for bound in (space.low, space.high))
        with np.errstate(over="ignore", invalid="ignore"):  # infinite bounds; no action is drawn between them
            bounds = np.stack([low, high - low], axis=1)
    else:
        choices[:] = group.choices
    ranges = {"action_choices": choices, "action_bounds": bounds}
    if group.masked:
        starts = np.full(entries, -1, np.int32)
        starts[list(group.masked)] = np.cumsum([0, *group.masked_choices[:-1]])
        ranges["mask_starts"] = starts
    return ranges


def _plain_address(actions: Any, shape: tuple[int, ...]) -> Any:
    """Address of a tensor's values; 0 if its shape is not ``shape``, if it is not contiguous, or if torch negates it lazily."""
    try:
        return actions.data_ptr() if actions.shape == shape and actions.is_contiguous() and not actions.is_neg() else 0
    except RuntimeError:  # a sparse or nested layout, or a tensor inside torch.vmap
        return 0


def _as_float32(actions: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # numbers beyond float32 become infinite; kernels clip them
        return actions.astype(np.float32, copy=False)


def _level_of_caller() -> int:
    """Return the ``stacklevel`` with which ``warnings.warn`` in the calling function shows a line outside this package."""
    level, frame = 0, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("gpu_vecenv."):
        level, frame = level + 1, frame.f_back
    return level


def _choices(space: Space) -> np.ndarray:
    """Number of choices of each entry of an action, broadcastable against an action array; 0 for a Box."""
    if isinstance(space, Discrete):
        return np.asarray(space.n)
    if isinstance(space, MultiDiscrete):
        return np.asarray(space.nvec)
    return np.asarray(0)


def _spell(choices: np.ndarray) -> str:
    return str(choices - 1) if choices.ndim == 0 else " and 0..".join(str(n - 1) for n in choices)
