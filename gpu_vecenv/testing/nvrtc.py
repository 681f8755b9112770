"""PTX, and registers of kernels, without a GPU: NVRTC compiles the text and the options of the CUDA back end."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from gpu_vecenv.backend.build_kind import build_kind
from gpu_vecenv.backend.cuda import compile_options, module_blocks
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.errors import NotRunError

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
"""Architectures of GPUs that kernels are compiled for."""

EXACT_IN_DOUBLE = r"(?:ld[a-z0-9.]*|mov|selp|cvt\.rn\.f32)\.f64"
"""Instructions with a double that compute nothing."""


def bindings() -> Any:
    """Return the module of NVRTC.

    Raises:
        NotRunError: it is not installed.
    """
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # the library is loaded by the first call
    except (ImportError, RuntimeError) as error:
        raise NotRunError(f'NVRTC is missing ({error}): pip install "gpu-vecenv[check]"') from error
    return nvrtc


def inexact_instructions(ptx: str, doubles: bool = False) -> list[str]:
    """Return instructions whose result may differ from the CPU's, and those in double precision if ``doubles`` is false.

    Instructions of ``gv_quotient``, marked in the text, are left out: together they give the bits of a division. So are loads and
    copies of a double, such as a parameter, and its conversion to a float, which the CPU rounds alike.
    """
    ptx = re.sub(r"(?:fma\.rn|rcp\.approx\.ftz)\.f32 [^;\n]*;  // in a quotient", "", ptx)
    banned = [r"fma\.rn", r"mad\.rn", r"[a-z0-9.]+\.approx\S*", r"[a-z0-9.]+\.ftz\S*"]
    banned += [] if doubles else [rf"(?!{EXACT_IN_DOUBLE}\b)[a-z0-9.]+\.f64"]
    return re.findall(rf"(?<![\w.])(?:{'|'.join(banned)})\b", ptx)


def has_trap(ptx: str) -> bool:
    """Return True if the compiler ends a kernel somewhere, which it does where a C++ text has no defined behaviour."""
    return re.search(r"\btrap;", ptx) is not None


def compile_ptx(spec: EnvSpec, arch: int, module: int = 0, **params: Any) -> str:
    """PTX of one of ``layout.MODULES`` for ``sm_<arch>``. Raises RuntimeError with the compiler's log if it does not compile."""
    layout = Layout(spec, spec.resolve(params))
    return compile_text(kernel_source(spec, build_kind()), arch, *compile_options(layout, module, module_blocks(layout, module)))


def compile_text(source: str, arch: int, *options: str) -> str:
    """PTX of a source text. Raises RuntimeError with the compiler's log if it does not compile."""
    program, _ = _compiled(source, *options, f"--gpu-architecture=compute_{arch}")
    nvrtc = bindings()
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
    _, log = _compiled(kernel_source(spec, build_kind()), *options, f"--gpu-architecture=sm_{arch}", "--ptxas-options=-v")
    entry = r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores.*?Used (\d+) registers"
    return {name: Used(int(used), int(local), int(spills)) for name, local, spills, used in re.findall(entry, log, re.DOTALL)}


def version() -> str:
    """Version of NVRTC; another one may use other registers."""
    _, *parts = bindings().nvrtcVersion()
    return ".".join(map(str, parts))


def _compiled(source: str, *options: str) -> tuple[Any, str]:
    """Program, and the compiler's log."""
    nvrtc = bindings()
    # Without the last option NVRTC 13.0 takes lambdas with parameters of type auto for functions of the host.
    encoded = [option.encode() for option in (*options, "-default-device")]
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    _check(status)
    (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytearray(size)  # bytes of one character are shared by the interpreter: a write to them changes them everywhere
    nvrtc.nvrtcGetProgramLog(program, log)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(log.decode())
    return program, log.decode()


def _check(status: Any) -> None:
    if status != bindings().nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(str(status))
