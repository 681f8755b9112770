"""PTX without a GPU: NVRTC compiles the text and the options of the CUDA back end."""

from __future__ import annotations

from typing import Any

from cuda.bindings import nvrtc

from gpu_vecenv.backend.blocks import blocks_of
from gpu_vecenv.backend.cuda import compile_options
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import Layout


def compile_ptx(spec: EnvSpec, arch: int, module: int = 0, **params: Any) -> str:
    """PTX of one of ``layout.MODULES`` for ``sm_<arch>``. Raises RuntimeError with the compiler's log if it does not compile."""
    layout = Layout(spec, spec.resolve(params))
    blocks = blocks_of(layout.num_agents, module, layout.requested_lanes)
    return compile_text(kernel_source(spec), arch, *compile_options(layout, module, blocks))


def compile_text(source: str, arch: int, *options: str) -> str:
    """PTX of a source text. Raises RuntimeError with the compiler's log if it does not compile."""
    options = [option.encode() for option in (*options, f"--gpu-architecture=compute_{arch}")]
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    _check(status)
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = b" " * size
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.decode()


def _check(status: Any) -> None:
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(str(status))
