"""Kernels as WebAssembly, for pages and Node: compiled by the ziglang wheel and kept in the cache of kernels."""

from __future__ import annotations

import contextlib
import sys
from importlib.util import find_spec

from gpu_vecenv.backend import cache
from gpu_vecenv.backend.compiler import SAME_BITS, compile_text, version
from gpu_vecenv.backend.source import Program, content_hash, kernel_source
from gpu_vecenv.errors import CompileError, MissingExtraError
from gpu_vecenv.spec.env_spec import EnvSpec

FLAGS = (*SAME_BITS, "-Os", "-target", "wasm32-freestanding", "-nostdlib", "-msimd128", "-Wno-pass-failed")
"""No library and no imports. Relaxed SIMD stays off, because its results depend on the processor. Modules are small, because a
page loads them: at -O3 that of RICE-N has 62 KB, and 40 KB at -Os."""

STACK = 1 << 20
"""Bytes of the stack, which holds the scratch of a team."""

LINK = ("-Wl,--no-entry", "-rdynamic", "-Wl,--export=__heap_base", "-Wl,--strip-all", f"-Wl,-z,stack-size={STACK}")
"""Every kernel and the end of the module's own memory are exported."""


def wasm_module(spec: EnvSpec | Program) -> bytes:
    """Return the kernels of an env or of a program as a module of WebAssembly, compiled once and cached.

    Its exports are ``memory``, ``__heap_base``, from which on memory is free, and the kernels. A kernel takes the address of the
    argument struct and the first and the last world, exclusively, as on the CPU.

    Raises:
        MissingExtraError: the ziglang wheel is missing.
        CompileError: the kernels do not compile, or they cannot be stored.
    """
    compiler = _compiler()
    faster = () if isinstance(spec, EnvSpec) else ("-O3",)  # sums of layers take a quarter of the time
    flags = (*FLAGS, *faster, *LINK)
    text, command = kernel_source(spec), [*compiler, *flags]
    digest = content_hash(text, *flags, version(tuple(compiler)))
    path = cache.cache_dir() / f"{spec.kernel.stem[:40]}-wasm32-{digest}.wasm"
    with contextlib.suppress(OSError):
        return cache.read(path)
    module = compile_text(spec.name, spec.kernel.name, text, command)
    try:
        cache.store(path, module)
    except OSError as error:
        raise CompileError(f"{spec.name}: compiled kernels cannot be stored in {path.parent}: {error}. {cache.REMEDY}") from error
    return module


def require_compiler() -> None:
    """Raise MissingExtraError if the compiler is missing."""
    if find_spec("ziglang") is None:
        raise MissingExtraError('kernels as WebAssembly need the extra "web": pip install "gpu_vecenv[web]".')


def _compiler() -> list[str]:
    require_compiler()
    return [sys.executable, "-m", "ziglang", "cc"]
