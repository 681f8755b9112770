"""Host compiler: a kernel's text to a shared object, named by what it is made from."""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gpu_vecenv.backend.cache import write_library
from gpu_vecenv.backend.source import content_hash, kernel_source
from gpu_vecenv.errors import CompileError
from gpu_vecenv.spec.env_spec import EnvSpec

PREBUILT = Path(__file__).parent.parent / "_prebuilt"
LEVELS = ("x86-64-v3", "x86-64")
"""Instruction sets the bundled kernels are built for, the better first."""

FLAGS = ("-O3", "-std=c++17", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math",
         "-ffp-contract=off", "-x", "c++")
"""No contraction: a fused multiply-add rounds once where the GPU build, told the same, rounds twice."""


def find_compiler() -> list[str] | None:
    """Command of a C++ compiler: ``$CXX``, else c++, g++, clang++ on the path, else the ziglang wheel; None if there is none.

    Raises:
        CompileError: ``$CXX`` is no command.
    """
    given = os.environ.get("CXX", "")
    if given.strip():
        try:
            return shlex.split(given)
        except ValueError as error:
            raise CompileError(f"CXX must be the command of a C++ compiler, got {given!r}: {error}.") from error
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    try:
        import ziglang  # noqa: F401
    except ImportError:
        return None
    return [sys.executable, "-m", "ziglang", "cc"]  # its c++ would first build a C++ library, for minutes


@functools.cache
def cpu_level() -> str:
    """The best of LEVELS that this processor runs."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split())
    except (OSError, IndexError):
        return LEVELS[-1]
    return LEVELS[0] if {"avx2", "bmi1", "bmi2", "fma", "f16c", "movbe"} <= flags else LEVELS[-1]


def object_name(spec: EnvSpec, level: str) -> str:
    """File name of a compiled kernel, which changes with everything it is made from."""
    digest = content_hash(kernel_source(spec), level, *FLAGS)
    return f"{spec.kernel.stem}-{level}-{digest}.so"


def name_by_compiler(name: str, compiler: list[str]) -> str:
    """File name of a kernel that a compiler made: the ``object_name()``, with the command and the version of the compiler.

    Raises:
        CompileError: the compiler cannot be run.
    """
    made_by = "\0".join([*compiler, version(tuple(compiler))])
    return f"{Path(name).stem}-{hashlib.sha256(made_by.encode(errors='surrogateescape')).hexdigest()[:16]}.so"


@functools.cache
def version(compiler: tuple[str, ...]) -> str:
    """The version output of a compiler.

    Raises:
        CompileError: it cannot be run.
    """
    done = _run([*compiler, "--version"])
    return done.stdout + done.stderr


def compile_object(spec: EnvSpec, level: str, target: Path, extra: tuple[str, ...] = ()) -> Path:
    """Compile a kernel for one instruction set to a file, which appears whole or not at all; see ``compile_to_bytes()``.

    Raises:
        CompileError: no compiler, or the kernel does not compile.
        OSError: the file cannot be written.
    """
    write_library(target, compile_to_bytes(spec, level, extra))
    return target


def compile_to_bytes(spec: EnvSpec, level: str, extra: tuple[str, ...] = ()) -> bytes:
    """The shared object of a kernel for one instruction set.

    ``extra`` are further compiler flags: ``-DGV_LANES=4 -fsanitize=thread`` makes the build that looks for races.

    Raises:
        CompileError: no compiler, or the kernel does not compile; the message holds the compiler's output.
    """
    compiler = require_compiler(spec)
    # zig spells the psABI levels with underscores
    zig = "ziglang" in compiler or Path(compiler[0]).name == "zig"
    march = level.replace("-", "_") if zig else level
    text = kernel_source(spec)
    try:
        # Not where others may write, as they could then exchange the source.
        with tempfile.TemporaryDirectory(prefix="gpu_vecenv-") as folder:
            source, built = Path(folder) / spec.kernel.name, Path(folder) / "kernel.so"
            source.write_text(text)
            command = [*compiler, *FLAGS, f"-march={march}", *extra, str(source), "-o", str(built)]
            done = _run(command)
            if done.returncode != 0:
                said = done.stderr.strip() or f"nothing but the status {done.returncode}. Name a C++ compiler in CXX."
                raise CompileError(f"{spec.name}: {' '.join(command)} failed:\n{said}")
            if not built.is_file():
                raise CompileError(
                    f"{spec.name}: {' '.join(command)} succeeded but made no file. Name a C++ compiler in CXX."
                )
            return built.read_bytes()
    except OSError as error:
        raise CompileError(
            f"{spec.name}: cannot compile in the temporary folder: {error}. Set TMPDIR to a folder with free space."
        ) from error


def require_compiler(spec: EnvSpec) -> list[str]:
    """The command of ``find_compiler()``.

    Raises:
        CompileError: there is none.
    """
    compiler = find_compiler()
    if compiler is None:
        raise CompileError(
            f"{spec.name} has no prebuilt CPU kernel for this source, and no C++ compiler was found. "
            "Install g++ or clang++ (or `pip install ziglang`), or name one in the environment variable CXX."
        )
    return compiler


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise CompileError(f"could not run {command[0]!r}: {error}. Name a C++ compiler in CXX.") from error
