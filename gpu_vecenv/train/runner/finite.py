"""Search of weights and statistics for numbers that are not finite, by one kernel, ``kernels/learner/finite.cu``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import FINITE, SEARCHED
from gpu_vecenv.errors import ArrayTypeError

CHUNK = 4096
"""Numbers of a team."""

EXPONENTS = {
    torch.float64: 0x7FF << 52,
    torch.float32: 0xFF << 23,
    torch.bfloat16: 0xFF << 7,
    torch.float16: 0x1F << 10,
    torch.float8_e5m2: 0x1F << 2,
    torch.float8_e4m3fn: 0x7F,  # it has no infinities, and one NaN
}
"""Bits that are all 1 in an infinity and in NaN, and only there."""


class FiniteSearch:
    """Searches states for numbers that are not finite. Addresses of the states must not change."""

    def __init__(self, states: Sequence[Sequence[Tensor]], device: torch.device) -> None:
        """List the memory of the states.

        Args:
            states: floats of any strides, by state. Those on other devices are left out, because no kernel changes them.
            device: where the search runs.

        Raises:
            ArrayTypeError: floats have a dtype that is not in ``EXPONENTS``.
        """
        rows = [row for number, state in enumerate(states) for x in state if x.device == device for row in _chunks(x, number)]
        table = bytearray((SEARCHED.form * len(rows))(*rows)) or bytearray(1)
        chunks = torch.frombuffer(table, dtype=torch.uint8).to(device)
        self._states, self._num_chunks = states, len(rows)  # the states keep their memory
        self._call = Call(FINITE, device, chunks=chunks)

    def __call__(self, flags: Tensor) -> None:
        """Set the flags of the states that hold such a number to 1, and leave the others.

        Args:
            flags: float32 (states,), contiguous.
        """
        self._call.set(flags=flags)
        self._call.launch("gv_search", self._num_chunks)  # by one CPU thread, as several may write a flag


def _chunks(array: Tensor, state: int) -> Iterator[tuple[int, ...]]:
    """Return the members of ``SEARCHED`` for the numbers of an array."""
    if array.dtype not in EXPONENTS:
        raise ArrayTypeError(f"weights and statistics: expected one of {list(EXPONENTS)}, got {array.dtype}")
    by_stride = array.permute(sorted(range(array.dim()), key=array.stride, reverse=True))
    if not by_stride.is_contiguous():  # there are gaps, whose numbers are another tensor's
        for part in array.unbind(0):
            yield from _chunks(part, state)
        return
    size = array.element_size()
    for first in range(0, array.numel(), CHUNK):
        count = min(CHUNK, array.numel() - first)
        yield array.data_ptr() + first * size, EXPONENTS[array.dtype], count, size, state
