"""Subnormal numbers on CUDA: kernels keep them, as the CPU does."""

from __future__ import annotations

from typing import Any

KEEP_SUBNORMALS = "--ftz=false"
"""Option of NVRTC."""

FLUSH_SUBNORMALS = "-ftz=true"
"""Option that CuPy appends to those of its caller; NVRTC obeys the last one."""


def obey_keep_subnormals(compiler: Any) -> None:
    """Make CuPy leave out ``FLUSH_SUBNORMALS`` if its caller asks for ``KEEP_SUBNORMALS``. Other kernels do not change.

    CuPy has no option for this. A test on a GPU fails if a version of CuPy compiles in another way.

    Args:
        compiler: the module ``cupy.cuda.compiler``.
    """
    program = compiler._NVRTCProgram
    if hasattr(program.compile, "obeys_keep_subnormals"):
        return
    compile_as_told = program.compile

    def compile_program(self: Any, options: tuple[str, ...] = (), *more: Any, **named: Any) -> Any:
        if KEEP_SUBNORMALS in options:
            options = tuple(option for option in options if option != FLUSH_SUBNORMALS)
        return compile_as_told(self, options, *more, **named)

    compile_program.obeys_keep_subnormals = True  # type: ignore[attr-defined]
    program.compile = compile_program
