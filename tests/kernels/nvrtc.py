"""PTX, and registers of kernels, without a GPU: NVRTC compiles the text and the options of the CUDA back end."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from cuda.bindings import nvrtc

from gpu_vecenv.backend.cuda import compile_options, module_blocks
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import Layout


def compile_ptx(spec: EnvSpec, arch: int, module: int = 0, **params: Any) -> str:
    """PTX of one of ``layout.MODULES`` for ``sm_<arch>``. Raises RuntimeError with the compiler's log if it does not compile."""
    layout = Layout(spec, spec.resolve(params))
    return compile_text(kernel_source(spec), arch, *compile_options(layout, module, module_blocks(layout, module)))


def compile_text(source: str, arch: int, *options: str) -> str:
    """PTX of a source text. Raises RuntimeError with the compiler's log if it does not compile."""
    program, _ = _compiled(source, *options, f"--gpu-architecture=compute_{arch}")
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = bytearray(size)
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.decode()


class Used(NamedTuple):
    """Numbers of a kernel for each thread: registers, bytes of local memory, and bytes of registers stored there."""

    registers: int
    local: int
    spills: int


def kernel_reports(spec: EnvSpec, arch: int, module: int = 0, limit: int | None = None, **params: Any) -> dict[str, Used]:
    """Report of the assembler on the kernels of one of ``layout.MODULES`` for ``sm_<arch>``, by name.

    ``limit`` is the most registers of a thread, None for the usual limit, or what the spec requests.
    """
    layout = Layout(spec, spec.resolve(params))
    options = compile_options(layout, module, module_blocks(layout, module), limit)
    _, log = _compiled(kernel_source(spec), *options, f"--gpu-architecture=sm_{arch}", "--ptxas-options=-v")
    entry = r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores.*?Used (\d+) registers"
    return {name: Used(int(used), int(local), int(spills)) for name, local, spills, used in re.findall(entry, log, re.DOTALL)}


def version() -> str:
    """Version of NVRTC; another one may use other registers."""
    _, *numbers = nvrtc.nvrtcVersion()
    return ".".join(map(str, numbers))


def _compiled(source: str, *options: str) -> tuple[Any, str]:
    """Program, and the compiler's log."""
    given = [option.encode() for option in options]
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    _check(status)
    (status,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytearray(size)  # bytes of one character are shared by the interpreter: a write to them changes them everywhere
    nvrtc.nvrtcGetProgramLog(program, log)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(log.decode())
    return program, log.decode()


def _check(status: Any) -> None:
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(str(status))
