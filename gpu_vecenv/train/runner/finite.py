"""Search of weights and statistics for numbers that are not finite, by one kernel, ``kernels/learner/finite.cu``."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import launches
from gpu_vecenv.backend.source import FINITE
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
        self._states, self._args = states, _Args(num_agents=1)  # the states keep their memory
        chunks = [row for number, state in enumerate(states) for x in state if x.device == device for row in _chunks(x, number)]
        self._chunks = torch.tensor(chunks, dtype=torch.int64, device="cpu").view(-1, 4).to(device)
        self._args.chunks, self._args.num_worlds = self._chunks.data_ptr(), len(chunks)

    def __call__(self, flags: Tensor) -> None:
        """Set the flags of the states that hold such a number to 1, and leave the others.

        Args:
            flags: float32 (states,), contiguous.
        """
        self._args.flags = flags.data_ptr()
        if len(self._chunks):  # one CPU thread, as several may write a flag
            launches(FINITE, flags.device).launch("gv_search", self._args, len(self._chunks), True)


def _chunks(array: Tensor, state: int) -> Iterator[tuple[int, int, int, int]]:
    """Return rows of ``GvChunk`` for the numbers of an array."""
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
        yield array.data_ptr() + first * size, EXPONENTS[array.dtype], count | size << 32, state


class _Args(ctypes.Structure):
    """``GvArgs`` of ``kernels/learner/finite.cu``, which asserts its size."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("chunks", "flags", "invalid_actions")),
        *((name, ctypes.c_int32) for name in ("num_worlds", "num_agents")),
    )
