"""Actions of policies, drawn from counters by a kernel together with their log-probabilities and the entropy.

Equal outputs of a network and equal counters give the same bits on every device, in any batch and in any order of rows. The
kernels are in ``kernels/policy``. They have no gradients; ``distributions.py`` evaluates actions with gradients. A CUDA graph can
record a call if a call of the same kind was made before.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import DRAW
from gpu_vecenv.errors import ParameterError, ShapeError
from gpu_vecenv.spec.layout import MAX_ENTRIES
from gpu_vecenv.train.policies.contract import Draw

LANES, SCRATCH = DRAW.lanes, DRAW.scratch or 0
"""Lanes of a team on CUDA, and its floats of scratch."""


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
    call = prepared[key] = _choices(draw, logits, sizes, mask, masked)
    columns = call.args.columns
    stride = columns | 1 if sizes[0] % 2 == 0 else columns  # lanes then read different banks
    tile_rows = _tile_rows(len(sizes), 2 * len(sizes) + stride)
    staged = 2 * len(sizes) + stride <= SCRATCH
    call.set(stride=stride if staged else 0, likeliest=deterministic)
    return call.draw("gv_draw_choices", tile_rows if staged else _tile_rows(len(sizes), 2 * len(sizes)), out)


def draw_greedy(
    values: Tensor,
    sizes: Sequence[int],
    draw: Draw,
    mask: Tensor | None = None,
    masked: Sequence[int] | None = None,
    epsilon: Tensor | None = None,
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> Drawn:
    """Take the choice with the largest value for each entry of an action, or with some probability a uniform one.

    An entry whose mask allows no choice is 0, with log-probability and entropy 0. NaN is never larger than another value.

    Args:
        values: float32 (..., n_1 + ... + n_k), values of the choices of all entries, one after the other.
        sizes: n_1 ... n_k; one size for Discrete.
        draw: counters of the rows.
        mask: see ``draw_choices()``.
        masked: see ``draw_choices()``.
        epsilon: float32 (), probability in [0, 1] that an entry is one of its allowed choices at random, each with the same
            probability, the greedy one included; read on the device. None: never.
        out: see ``draw_choices()``.

    Returns:
        Actions int32 (..., k).

    Raises:
        ShapeError, ArrayTypeError, DeviceError: a tensor does not fit.
        ParameterError: no sizes, more than 1,024, or a size below 1.
    """
    prepared, mask_shape = _prepared.setdefault(draw, {}), None if mask is None else mask.shape
    key = ("greedy", values.shape, tuple(sizes), None if masked is None else tuple(masked), mask_shape, epsilon is None)
    inputs = tuple(x for x in (values, mask, epsilon) if x is not None)
    if key in prepared and (drawn := prepared[key].again(inputs, out)) is not None:
        return drawn
    call = prepared[key] = _choices(draw, values, sizes, mask, masked)
    if epsilon is not None:
        call.take("epsilon", epsilon.view(1), 1, rows=False)
    return call.draw("gv_draw_greedy", _tile_rows(len(sizes), 2 * len(sizes)), out)


def _choices(
    draw: Draw, logits: Tensor, sizes: Sequence[int], mask: Tensor | None, masked: Sequence[int] | None
) -> _Call:
    """Return a call over the choices of rows; see ``draw_choices()``."""
    table = _table(tuple(sizes), None if masked is None else tuple(masked), logits.device)
    first, choices, mask_first = table.entries
    call = _Call(draw, logits.device, len(sizes), torch.int32)
    call.set(columns=table.columns, mask_columns=table.mask_columns, first=first, choices=choices, mask_first=mask_first)
    call.take("logits", logits, table.columns)
    if mask is not None:
        call.take("mask", mask, table.mask_columns)
    return call


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
    call.set(likeliest=deterministic)
    call.take("mean", mean, entries)
    call.take("log_std", log_std, entries, rows=False)
    prepared[key] = call
    return call.draw("gv_draw_normals", _tile_rows(entries, 2 * entries), out)


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
    call.take("low", low, low.numel(), rows=False)
    call.take("high", high, low.numel(), rows=False)
    return call.draw("gv_draw_uniforms", _tile_rows(low.numel(), 2 * low.numel()))


class _Call(Call):
    """One launch, and later ones with other inputs of the same shapes."""

    def __init__(self, draw: Draw, device: torch.device, entries: int, dtype: torch.dtype) -> None:
        if not 1 <= entries <= MAX_ENTRIES:
            raise ParameterError(f"draws: an action has 1 to {MAX_ENTRIES} entries, got {entries}.")
        super().__init__(DRAW, device, rows=draw.world.numel(), entries=entries)
        self.count, self.entries, self.dtype = draw.world.numel(), entries, dtype
        self.rows = tuple(draw.world.shape)
        self._inputs: list[tuple[str, torch.dtype]] = []
        self._out: tuple[Tensor, Tensor, Tensor] | None = None
        worlds, counters = (draw.seed.numel(),), {}
        for name in ("seed", "world_id", "episode", "t", "world", "agent"):
            counters[name] = _shaped(f"draw.{name}", getattr(draw, name), self.rows if name in ("world", "agent") else worlds)
        self.set(draw=counters)

    def take(self, name: str, value: Tensor, last: int, rows: bool = True) -> None:
        """Set an input, of shape ``(*rows, last)`` or ``(last,)``."""
        self.set(**{name: _shaped(name, value, (*self.rows, last) if rows else (last,))})
        self._inputs.append((name, value.dtype))

    def draw(self, name: str, tile_rows: int, out: tuple[Tensor, Tensor, Tensor] | None = None) -> Drawn:
        """Run a kernel over all rows, a tile for each team."""
        self.args.tile_rows, tiles = tile_rows, -(-self.count // tile_rows)
        self._queue = functools.partial(self.launch, name, tiles, self.count * self.entries)
        drawn = self._run(out)
        for member, _ in self._inputs:  # of one call; a queued kernel reads them before their memory is used again
            del self._members[member]
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
            log_prob, entropy = torch.empty((2, *self.rows), dtype=torch.float32, device=self.device)
            drawn = Drawn(torch.empty((*self.rows, self.entries), dtype=self.dtype, device=self.device), log_prob, entropy)
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
        expected = ((*self.rows, self.entries), self.dtype), (self.rows, torch.float32), (self.rows, torch.float32)
        for name, array, (shape, dtype) in zip(Drawn._fields, drawn, expected, strict=True):
            form = (tuple(array.shape), array.dtype, array.device, array.is_contiguous())
            if form != (shape, dtype, self.device, True):
                raise ShapeError(f"draws: out.{name} must be contiguous {dtype} {shape} on {self.device}, got {form}.")
        self._out, self._drawn = out, drawn
        return drawn


def _shaped(name: str, value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return an input without gaps.

    Raises:
        ShapeError: it has another shape.
    """
    if tuple(value.shape) != shape:
        raise ShapeError(f"draws: {name} must have shape {shape}, got {tuple(value.shape)}.")
    return value.contiguous()


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
