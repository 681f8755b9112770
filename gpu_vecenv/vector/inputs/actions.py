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
from gpu_vecenv.spec.roles import INDEX_DTYPES, Group, smallest_dtype
from gpu_vecenv.spec.validation import Array, describe, host_array, on_device, plain_tensor
from gpu_vecenv.vector.inputs.callers import level_of_caller

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}

ENTRY_TYPES = {"uint8": 1, "int8": -1, "int16": 2, "int32": 4, "int64": 8, "float32": 4}
"""Types of entries of actions as kernels know them: the bytes of one, negative for int8, whose bytes uint8 has, too."""

KernelActions = tuple[Array, int, int]
"""A C-contiguous array on the env's device, its address, and the type of its entries, one of ``ENTRY_TYPES``."""

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
        self._dtypes = ("float32", "float64") if self._continuous else INDEX_DTYPES
        self._choices = _choices(space)
        smallest = "float32" if self._continuous else smallest_dtype(int(self._choices.max()))
        self.drawn: KernelActions = (None, 0, ENTRY_TYPES[smallest])
        self._limits = {ENTRY_TYPES[dtype]: _limit(self._choices, dtype) for dtype in INDEX_DTYPES}
        self._device = device
        self._memory = backend.memory
        self._warn = warn
        self._max_index = None if self._continuous else backend.max_index
        types = {name: ENTRY_TYPES[name] for name in self._dtypes if name in ENTRY_TYPES}
        self._host_types = {np.dtype(name): entry_type for name, entry_type in types.items()} if device == "cpu" else {}
        self._tensor: Any = None
        if device != "cpu" or "torch" in sys.modules:
            import torch

            self._tensor, self._torch_device = torch.Tensor, torch.device(device)
            self._tensor_types = {getattr(torch, name): entry_type for name, entry_type in types.items()}

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
            entry_type = self._tensor_types.get(actions.dtype)
            if entry_type and actions.device == self._torch_device and (address := _plain_address(actions, lead + self.shape)):
                if self._device == "cpu" and not self._are_indices(address, actions.numel(), entry_type):
                    self._check_host(actions.detach().numpy())
                return actions, address, entry_type
        if type(actions) is np.ndarray and actions.dtype in self._host_types and actions.shape == lead + self.shape:
            address, entry_type = actions.ctypes.data, self._host_types[actions.dtype]
            if actions.flags.c_contiguous and self._are_indices(address, actions.size, entry_type):
                return actions, address, entry_type
            return self._read_host(actions)
        return self._read_checked(actions, lead + self.shape)

    def strides(self, read: KernelActions) -> tuple[int, ...]:
        """Return the bytes of the actions of one step, as a tuple of one."""
        return (math.prod(self.shape) * abs(read[2]),)

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
        form = describe(actions)
        if tuple(actions.shape) != shape:
            raise ShapeError(f"{self._name} must have shape {shape}, got {tuple(actions.shape)}.")
        if form.dtype not in self._dtypes:
            raise ArrayTypeError(f"{self._name} must be {_listed(self._dtypes)}, got {form.dtype}.")
        if form.device not in ("cpu", self._device):
            raise DeviceError(f"{self._name} must be on {self._device}, got an array on {form.device}.")
        if form.device == "cpu":
            host = actions.numpy() if form.kind == "torch" else actions
            return self._read_host(host) if self._device == "cpu" else self._upload(host)
        if form.kind == "torch":
            actions = actions.float().contiguous() if self._continuous else actions.contiguous()
            return actions, int(actions.data_ptr()), self._tensor_types[actions.dtype]
        return self._read_cupy(actions)

    def _read_host(self, actions: np.ndarray) -> KernelActions:
        self._check_host(actions)
        actions = np.ascontiguousarray(_as_float32(actions) if self._continuous else actions)
        return actions, int(actions.ctypes.data), ENTRY_TYPES[actions.dtype.name]

    def _read_cupy(self, actions: Any) -> KernelActions:
        import cupy

        with on_device(actions.device.id):  # CuPy copies on the current device
            actions = cupy.ascontiguousarray(actions, dtype="float32" if self._continuous else None)
        return actions, int(actions.data.ptr), ENTRY_TYPES[actions.dtype.name]

    def _upload(self, actions: np.ndarray) -> KernelActions:
        if self._warn:
            self._warn = False
            warnings.warn(
                f"Host actions are uploaded to {self._device} in every step; arrays on the device avoid the copy.",
                stacklevel=level_of_caller(),
            )
        host = np.ascontiguousarray(_as_float32(actions) if self._continuous else actions)
        uploaded = self._memory.from_numpy(host)
        return uploaded, self._memory.address(uploaded), ENTRY_TYPES[host.dtype.name]

    def _are_indices(self, address: int, count: int, entry_type: int) -> bool:
        """Return True only if every action is below the smallest number of choices. False does not mean that one is invalid."""
        return self._max_index is not None and self._max_index(address, count, entry_type) < self._limits[entry_type]

    def _check_host(self, actions: np.ndarray) -> None:
        if self._continuous:
            if np.isnan(actions.min()):  # one pass: the minimum is NaN if any number is NaN
                raise ActionError(f"{self._name} must be numbers, got {int(np.isnan(actions).sum())} times NaN.")
        # One pass: as unsigned, -1 is large.
        elif actions.view(_UNSIGNED[actions.itemsize]).max() >= self._limits[ENTRY_TYPES[actions.dtype.name]]:
            bad = (actions < 0) | (actions >= self._choices)
            if bad.any():
                place = np.argwhere(bad)[0].tolist()
                last = _spell(self._choices, place[-1])
                raise ActionError(f"{self._name} must lie in 0..{last}, got {actions[bad][0]} at {place}.")


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


def _choices(space: Space) -> np.ndarray:
    """Number of choices of each entry of an action, broadcastable against an action array; 0 for a Box."""
    if isinstance(space, Discrete):
        return np.asarray(space.n)
    if isinstance(space, MultiDiscrete):
        return np.asarray(space.nvec)
    return np.asarray(0)


def _limit(choices: np.ndarray, dtype: str) -> int:
    """Smallest number that is no index in every entry, or a negative number of the dtype, if it is read as unsigned."""
    return min(int(choices.min()), int(np.iinfo(dtype).max) + 1)


def _listed(dtypes: tuple[str, ...]) -> str:
    return f"{', '.join(dtypes[:-1])} or {dtypes[-1]}"


def _spell(choices: np.ndarray, entry: int) -> str:
    """Return the last index as text: of each entry if they are few, otherwise of one."""
    if choices.ndim == 0:
        return str(choices - 1)
    if len(choices) > 3:
        return f"{choices[entry] - 1} in entry {entry}"
    return " and 0..".join(str(n - 1) for n in choices)
