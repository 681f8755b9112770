"""Environment of a Python that runs kernels of a sanitizer's build. Python itself was built without the sanitizer."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gpu_vecenv.backend.build_kind import BuildKind
from gpu_vecenv.backend.compiler import find_compiler
from gpu_vecenv.errors import CompileError

OPTIONS = {
    "asan": {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"},  # Python frees little at its end
    "tsan": {"TSAN_OPTIONS": "exitcode=66"},
}
"""Options of each sanitizer by environment variable."""

ADDR_NO_RANDOMIZE = 0x0040000
"""Flag of ``personality()`` of Linux."""


def sanitizer_environment(kind: BuildKind, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Python loads the library of a sanitizer first.

    Args:
        kind: a kind with a sanitizer.
        environment: variables, of which the sanitizer's own options are kept and extended.

    Raises:
        CompileError: the compiler of kernels has no such library.
    """
    # The sanitizer wraps exceptions of C++, so it needs the library that defines them.
    preload = [_library(kind.sanitizer), _library("stdc++")]
    changed = {**environment, "LD_PRELOAD": " ".join([*preload, *environment.get("LD_PRELOAD", "").split()])}
    for name, options in OPTIONS[kind.sanitizer].items():
        changed[name] = ":".join(filter(None, [options, environment.get(name, "")]))
    return changed


def fix_addresses() -> None:
    """Let the program that this process becomes have the same addresses in each run, if the system allows it.

    Addresses at random places may leave no room for the tables of the thread sanitizer.
    """
    ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)


def _library(name: str) -> str:
    """Return the path of a library of the compiler.

    Raises:
        CompileError: no compiler, or it has no such library.
    """
    compiler = find_compiler()
    if compiler is None:
        raise CompileError("a sanitizer needs g++ or clang++, and no C++ compiler was found. Name one in CXX.")
    files = [f"libclang_rt.{name}-x86_64.so", f"lib{name}.so"] if "clang" in compiler[0] else [f"lib{name}.so"]
    for file in files:
        asked = [*compiler, f"-print-file-name={file}"]
        path = subprocess.run(asked, capture_output=True, text=True, errors="replace", check=False).stdout.strip()
        if Path(path).is_absolute() and Path(path).exists():
            return path
    raise CompileError(f"{' '.join(compiler)} has no library {' or '.join(files)}. Install it, or name g++ or clang++ in CXX.")
