"""Actions of policies, drawn from counters by a kernel together with their log-probabilities and the entropy.

Equal outputs of a network and equal counters give the same bits on every device, in any batch and in any order of rows. The
kernels are in ``kernels/policy``. They have no gradients; ``distributions.py`` evaluates actions with gradients. A CUDA graph can
record a call if a call of the same kind was made before.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import launches
from gpu_vecenv.backend.source import DRAW
from gpu_vecenv.errors import ArrayTypeError, DeviceError, ParameterError, ShapeError
from gpu_vecenv.spec.layout import MAX_ENTRIES
from gpu_vecenv.train.policies.contract import Draw

LANES, SCRATCH = DRAW.lanes, DRAW.scratch or 0
"""Lanes of a team on CUDA, and its floats of scratch."""

SMALL = 2048
"""Below this many entries a second CPU thread saves less time than it takes to wake it."""


class Drawn(NamedTuple):
    """Actions of rows, whose axes are those of ``Draw.world``."""

    action: Tensor
    """int32 or float32 (..., k)."""
    log_prob: Tensor
    """float32 (...), log-probability of the action, or log-density, summed over its entries."""
    entropy: Tensor
    """float32 (...), entropy of the distribution, in nats."""


def draw_choices(
    logits: Tensor,
    sizes: Sequence[int],
    draw: Draw,
    mask: Tensor | None = None,
    masked: Sequence[int] | None = None,
    deterministic: bool = False,
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> Drawn:
    """Draw one choice for each entry of an action.

    An entry whose mask allows no choice is 0, with log-probability and entropy 0. A row with NaN among its logits gets indices in
    range and a log-probability of NaN.

    Args:
        logits: float32 (..., n_1 + ... + n_k), unnormalised log-probabilities of all entries, one after the other.
        sizes: n_1 ... n_k; one size for Discrete.
        draw: counters of the rows.
        mask: bool (..., number of choices of the masked entries), True where a choice is allowed. None allows all.
        masked: numbers of the entries that the mask covers, in its order; None if it covers all.
        deterministic: take the likeliest choice, the first of several.
        out: contiguous arrays to write to and to return, of the shapes and types of ``Drawn``; None: new ones.

    Returns:
        Actions int32 (..., k).

    Raises:
        ShapeError, ArrayTypeError, DeviceError: a tensor does not fit.
        ParameterError: no sizes, more than 1,024, or a size below 1.
    """
    prepared, mask_shape = _prepared.setdefault(draw, {}), None if mask is None else mask.shape
    key = (logits.shape, tuple(sizes), None if masked is None else tuple(masked), mask_shape, deterministic)
    inputs = (logits,) if mask is None else (logits, mask)
    if key in prepared and (drawn := prepared[key].again(inputs, out)) is not None:
        return drawn
    table = _table(tuple(sizes), None if masked is None else tuple(masked), logits.device)
    call = _Call(draw, logits.device, len(sizes), torch.int32)
    call.take("outputs", "logits", logits, torch.float32, table.columns)
    if mask is not None:
        call.take("mask", "mask", mask, torch.bool, table.mask_columns)
    prepared[key] = call
    first, choices, mask_first = (row.data_ptr() for row in table.entries)
    stride = table.columns | 1 if sizes[0] % 2 == 0 else table.columns  # lanes then read different banks
    tile_rows = _tile_rows(len(sizes), 2 * len(sizes) + stride)
    staged = 2 * len(sizes) + stride <= SCRATCH
    return call.launch(
        "gv_draw_choices",
        tile_rows if staged else _tile_rows(len(sizes), 2 * len(sizes)),
        first=first, choices=choices, mask_first=mask_first, columns=table.columns, mask_columns=table.mask_columns,
        stride=stride if staged else 0, likeliest=deterministic, out=out,
    )  # fmt: skip


def draw_normal(
    mean: Tensor,
    log_std: Tensor,
    draw: Draw,
    deterministic: bool = False,
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> Drawn:
    """Draw numbers from independent normal distributions; nothing is clipped.

    Args:
        mean: float32 (..., k).
        log_std: float32 (k,), natural logarithm of the deviations, the same for every row.
        draw: counters of the rows.
        deterministic: take the mean.
        out: see ``draw_choices()``.

    Returns:
        Actions float32 (..., k).

    Raises:
        ShapeError, ArrayTypeError, DeviceError: a tensor does not fit.
    """
    prepared, key = _prepared.setdefault(draw, {}), (mean.shape, log_std.shape, deterministic)
    if key in prepared and (drawn := prepared[key].again((mean, log_std), out)) is not None:
        return drawn
    entries = mean.shape[-1] if mean.ndim else 0
    call = _Call(draw, mean.device, entries, torch.float32)
    call.take("outputs", "mean", mean, torch.float32, entries)
    call.take("log_std", "log_std", log_std, torch.float32, entries, rows=False)
    prepared[key] = call
    return call.launch("gv_draw_normals", _tile_rows(entries, 2 * entries), likeliest=deterministic, out=out)


def draw_uniform(low: Tensor, high: Tensor, draw: Draw) -> Drawn:
    """Draw numbers from uniform distributions.

    Args:
        low: float32 (k,), lower bounds.
        high: float32 (k,), upper bounds.
        draw: counters of the rows.

    Returns:
        Actions float32 (..., k), from ``low`` to ``high``.

    Raises:
        ShapeError, ArrayTypeError, DeviceError: a tensor does not fit.
    """
    call = _Call(draw, low.device, low.numel(), torch.float32)
    call.take("low", "low", low, torch.float32, low.numel(), rows=False)
    call.take("high", "high", high, torch.float32, low.numel(), rows=False)
    return call.launch("gv_draw_uniforms", _tile_rows(low.numel(), 2 * low.numel()))


class _Args(ctypes.Structure):
    """``GvArgs`` of ``kernels/policy/draw.cu``, which asserts its size."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in (
            "seed", "world_id", "episode", "t", "world", "agent", "outputs", "log_std", "low", "high", "mask", "first", "choices",
            "mask_first", "action", "log_prob", "entropy", "invalid_actions",
        )),
        *((name, ctypes.c_int32) for name in (
            "num_worlds", "num_agents", "rows", "entries", "columns", "mask_columns", "tile_rows", "stride", "likeliest",
            "unused",
        )),
    )  # fmt: skip


class _Call:
    """One launch: checks its tensors and keeps them until it is queued."""

    def __init__(self, draw: Draw, device: torch.device, entries: int, dtype: torch.dtype) -> None:
        if not 1 <= entries <= MAX_ENTRIES:
            raise ParameterError(f"draws: an action has 1 to {MAX_ENTRIES} entries, got {entries}.")
        self.device, self.entries, self.dtype = device, entries, dtype
        self.rows = tuple(draw.world.shape)
        self.args, self._kept = _Args(), [draw.world]
        self._inputs: list[tuple[str, torch.dtype]] = []
        self._out: tuple[Tensor, Tensor, Tensor] | None = None
        worlds = draw.seed.numel()
        self.take("seed", "draw.seed", draw.seed, torch.int64, worlds, rows=False)
        for name in ("world_id", "episode", "t"):
            self.take(name, f"draw.{name}", getattr(draw, name), torch.int32, worlds, rows=False)
        for name in ("world", "agent"):
            self.take(name, f"draw.{name}", getattr(draw, name), torch.int32, None)
        self._inputs.clear()  # of the members that differ between calls

    def take(self, member: str, name: str, value: Tensor, dtype: torch.dtype, last: int | None, rows: bool = True) -> None:
        """Store the address of a tensor of shape ``(*rows, last)``, ``rows`` if ``last`` is None, or ``(last,)``."""
        shape = (*(self.rows if rows else ()), *(() if last is None else (last,)))
        if tuple(value.shape) != shape:
            raise ShapeError(f"draws: {name} must have shape {shape}, got {tuple(value.shape)}.")
        if value.dtype != dtype:
            raise ArrayTypeError(f"draws: {name} must be {dtype}, got {value.dtype}.")
        if value.device != self.device:
            raise DeviceError(f"draws: {name} must be on {self.device}, got {value.device}.")
        value = value.contiguous()
        self._kept.append(value)
        self._inputs.append((member, dtype))
        setattr(self.args, member, value.data_ptr())

    def launch(self, name: str, tile_rows: int, out: tuple[Tensor, Tensor, Tensor] | None = None, **members: int) -> Drawn:
        """Run a kernel over all rows, a tile for each team."""
        self.count, args = self._kept[0].numel(), self.args
        tiles = -(-self.count // tile_rows)
        args.num_worlds, args.num_agents, args.rows, args.entries, args.tile_rows = tiles, 1, self.count, self.entries, tile_rows
        for member, value in members.items():
            setattr(args, member, value)
        small = self.count * self.entries < SMALL
        self._queue = functools.partial(launches(DRAW, self.device).launch, name, args, tiles, small)
        drawn = self._run(out)
        del self._kept[_COUNTERS:]  # those of one call; a queued kernel reads them before their memory is used again
        return drawn

    def again(self, inputs: Sequence[Tensor], out: tuple[Tensor, Tensor, Tensor] | None) -> Drawn | None:
        """Run the kernel of the last launch on other inputs of the same shapes; None if they need a conversion."""
        for (_, dtype), tensor in zip(self._inputs, inputs, strict=True):
            if not (tensor.dtype == dtype and tensor.device == self.device and tensor.is_contiguous()):
                return None
        for (member, _), tensor in zip(self._inputs, inputs, strict=True):
            setattr(self.args, member, tensor.data_ptr())
        return self._run(out)

    def _run(self, out: tuple[Tensor, Tensor, Tensor] | None) -> Drawn:
        """Queue the kernel with arrays for its results, by default fresh ones."""
        if out is None:
            numbers = torch.empty((2, *self.rows), dtype=torch.float32, device=self.device)
            drawn = Drawn(torch.empty((*self.rows, self.entries), dtype=self.dtype, device=self.device), numbers[0], numbers[1])
        elif out is self._out:
            drawn = self._drawn
        else:
            drawn = self._checked(out)
        if self.count:
            args = self.args
            args.action, args.log_prob, args.entropy = drawn[0].data_ptr(), drawn[1].data_ptr(), drawn[2].data_ptr()
            self._queue()
        return drawn

    def _checked(self, out: tuple[Tensor, Tensor, Tensor]) -> Drawn:
        """Check arrays for the results."""
        drawn = Drawn(*out)
        wanted = ((*self.rows, self.entries), self.dtype), (self.rows, torch.float32), (self.rows, torch.float32)
        for name, array, (shape, dtype) in zip(Drawn._fields, drawn, wanted, strict=True):
            form = (tuple(array.shape), array.dtype, array.device, array.is_contiguous())
            if form != (shape, dtype, self.device, True):
                raise ShapeError(f"draws: out.{name} must be contiguous {dtype} {shape} on {self.device}, got {form}.")
        self._out, self._drawn = out, drawn
        return drawn


_COUNTERS = 7
"""Tensors of counters that a call keeps."""

_prepared: weakref.WeakKeyDictionary[Draw, dict[Any, _Call]] = weakref.WeakKeyDictionary()
"""Calls by counters and shapes. Their checks and arguments are most of the host time of a draw."""


class _Table(NamedTuple):
    """Places of the entries of an action: first column, number of choices, and first column of the mask, -1 without one."""

    entries: Tensor
    """int32 (3, k)."""
    columns: int
    mask_columns: int


@functools.cache
def _table(sizes: tuple[int, ...], masked: tuple[int, ...] | None, device: torch.device) -> _Table:
    if not 1 <= len(sizes) <= MAX_ENTRIES or min(sizes) < 1:
        raise ParameterError(f"draws: expected 1 to {MAX_ENTRIES} sizes of at least 1, got {list(sizes)[:16]}.")
    covered = range(len(sizes)) if masked is None else masked
    if not set(covered) <= set(range(len(sizes))) or len(set(covered)) < len(covered):
        raise ParameterError(f"draws: masked must hold different numbers below {len(sizes)}, got {list(covered)}.")
    first = [sum(sizes[:entry]) for entry in range(len(sizes))]
    mask_first, mask_columns = [-1] * len(sizes), 0
    for entry in covered:
        mask_first[entry] = mask_columns
        mask_columns += sizes[entry]
    with torch.inference_mode(False):
        entries = torch.tensor([first, sizes, mask_first], dtype=torch.int32, device="cpu").to(device)
    return _Table(entries, sum(sizes), mask_columns)


def _tile_rows(entries: int, floats: int) -> int:
    """Rows of a tile: at most four entries a lane, scratch for ``floats`` a row, and few lanes without an entry."""
    rows = max(1, min(4 * LANES // entries, SCRATCH // floats))
    return rows if rows * entries <= LANES else rows - rows * entries % LANES // entries
