"""Kinds of builds of an env's kernels: for speed, for fast compiles, for debuggers, and for sanitizers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_vecenv.errors import ParameterError

VARIABLE = "GPU_VECENV_KERNELS"

TEAM = 7
"""Lanes of a team in the build for races. An odd number: lanes of a team of 8 often work on rows of the same cache line."""


@dataclass(frozen=True)
class BuildKind:
    """How kernels of envs are compiled. Those of programs are always made for speed."""

    name: str
    flags: tuple[str, ...] = ()
    """Flags of the host compiler, after the usual ones."""
    cuda_options: tuple[str, ...] = ()
    """Options of NVRTC, after the usual ones."""
    debug: bool = False
    """True if ``GV_PRINT`` prints and the arrays of hooks check their indices (``GV_DEBUG``)."""
    sanitizer: str = ""
    """Name of the sanitizer's library, which must be loaded before Python, such as ``asan``."""
    threads: int | None = None
    """Threads that step worlds; None for the usual number."""


RELEASE = BuildKind("release")
# Division by zero is not reported: IEEE 754 defines its result.
_MEMORY = ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
KINDS = {
    "release": RELEASE,
    "quick": BuildKind("quick", ("-O0",)),
    "debug": BuildKind("debug", ("-O0", "-g"), ("--device-debug",), debug=True),
    "asan": BuildKind("asan", ("-O1", "-g", *_MEMORY), debug=True, sanitizer="asan"),
    "tsan": BuildKind("tsan", ("-O1", "-g", "-fsanitize=thread", f"-DGV_LANES={TEAM}", "-pthread"), debug=True,
                      sanitizer="tsan", threads=1),
}  # fmt: skip
"""By the value of ``GPU_VECENV_KERNELS``."""


@contextlib.contextmanager
def built_as(kind: str) -> Iterator[None]:
    """Make ``build_kind()`` return a kind in the block, also for envs that are made there."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = kind
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


def build_kind() -> BuildKind:
    """Return the kind that ``GPU_VECENV_KERNELS`` names; ``release`` if it is not set.

    Raises:
        ParameterError: the variable names no kind.
    """
    name = os.environ.get(VARIABLE) or "release"
    if name not in KINDS:
        raise ParameterError(f"{VARIABLE} must be one of {', '.join(KINDS)}, got {name!r}.")
    return KINDS[name]
