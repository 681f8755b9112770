"""Subnormal numbers on CUDA: kernels keep them, as the CPU does."""

from __future__ import annotations

from typing import Any

KEEP_SUBNORMALS = "--ftz=false"
"""Option of NVRTC."""

FLUSH_SUBNORMALS = "-ftz=true"
"""Option that CuPy appends to those of its caller; NVRTC obeys the last one."""


def obey_keep_subnormals(compiler: Any) -> None:
    """Make CuPy leave out ``FLUSH_SUBNORMALS`` if its caller asks for ``KEEP_SUBNORMALS``. Other kernels do not change.

    Args:
        compiler: the module ``cupy.cuda.compiler``.
    """
    compile_with_flush = compiler.compile_using_nvrtc
    if getattr(compile_with_flush, "obeys_keep_subnormals", False):
        return

    def compile_using_nvrtc(source: str, options: tuple[str, ...] = (), *more: Any, **named: Any) -> Any:
        if KEEP_SUBNORMALS in options:
            options = tuple(option for option in options if option != FLUSH_SUBNORMALS)
        return compile_with_flush(source, options, *more, **named)

    compile_using_nvrtc.obeys_keep_subnormals = True  # type: ignore[attr-defined]
    compiler.compile_using_nvrtc = compile_using_nvrtc
