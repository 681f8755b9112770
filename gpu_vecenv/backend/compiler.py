"""Host compiler: makes a shared object of a kernel's text, with a name that is a hash of all inputs."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gpu_vecenv.backend.build_kind import RELEASE, BuildKind, build_kind
from gpu_vecenv.backend.cache import write_library
from gpu_vecenv.backend.source import Program, content_hash, kernel_source
from gpu_vecenv.errors import CompileError
from gpu_vecenv.spec.env_spec import EnvSpec

PREBUILT = Path(__file__).parent.parent / "_prebuilt"
LEVELS_OF = {"x86_64": ("x86-64-v3", "x86-64"), "aarch64": ("armv8-a",)}
"""Instruction sets of the bundled kernels by machine, in the words of GCC, the larger one first."""

LEVELS = LEVELS_OF.get(platform.machine(), LEVELS_OF["x86_64"])
"""Instruction sets of this machine's kernels, the larger one first."""

WIDE_LEVEL = "x86-64-v4"
"""Instruction set of further kernels for x86-64, of programs that multiply matrices; see ``Program.wide``."""

ZIG_LEVELS = {WIDE_LEVEL: "x86_64_v4", "x86-64-v3": "x86_64_v3", "x86-64": "x86_64", "armv8-a": "generic"}
"""The same instruction sets in the words of zig."""

SAME_BITS = ("-O3", "-std=c++17", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off",
             "-x", "c++")
"""Flags of every target. -ffp-contract=off: no contraction to fused multiply-adds, which round once; so has the GPU build."""

FLAGS = (*SAME_BITS, "-fPIC", "-shared")
"""Flags of shared objects."""


def flags(spec: EnvSpec | Program, kind: BuildKind = RELEASE) -> tuple[str, ...]:
    """Return the flags of a kernel; see ``Program.prebuilt``. ``kind`` is that of an env."""
    if isinstance(spec, Program):
        return FLAGS if spec.prebuilt else (*FLAGS, "-Og")
    return (*FLAGS, *kind.flags)


def find_compiler() -> list[str] | None:
    """Return the command of a C++ compiler: ``$CXX``, else c++, g++ or clang++ on the path, else the ziglang wheel, else None.

    Raises:
        CompileError: ``$CXX`` cannot be split into the words of a command.
    """
    command = os.environ.get("CXX", "")
    if command.strip():
        try:
            return shlex.split(command)
        except ValueError as error:
            raise CompileError(f"CXX must be the command of a C++ compiler, got {command!r}: {error}.") from error
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    try:
        import ziglang  # noqa: F401
    except ImportError:
        return None
    return [sys.executable, "-m", "ziglang", "cc"]  # "c++" would first build a C++ library, for minutes


def levels_of(spec: EnvSpec | Program, levels: tuple[str, ...] = LEVELS) -> tuple[str, ...]:
    """Return the instruction sets of a spec's kernels for a machine of some levels, the larger one first."""
    wide = isinstance(spec, Program) and spec.wide and levels == LEVELS_OF["x86_64"]
    return (WIDE_LEVEL, *levels) if wide else levels


_NEEDED = {
    WIDE_LEVEL: {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma"},
    "x86-64-v3": {"avx2", "bmi1", "bmi2", "fma", "f16c", "movbe"},
}
"""Flags in ``/proc/cpuinfo`` of a processor that runs an instruction set; the last one of ``LEVELS`` runs everywhere."""


@functools.cache
def _cpu_flags() -> frozenset[str]:
    try:
        return frozenset(Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split())
    except (OSError, IndexError):
        return frozenset()


def cpu_level(levels: tuple[str, ...] = LEVELS) -> str:
    """Return the first of some instruction sets that this processor runs."""
    return next((level for level in levels[:-1] if _NEEDED[level] <= _cpu_flags()), levels[-1])


def object_name(spec: EnvSpec | Program, level: str, kind: BuildKind = RELEASE) -> str:
    """Return the file name of a compiled kernel, which holds a hash of its text, the instruction set and the flags.

    A kernel for a debugger also depends on the folder of its source, which the debugger shows.
    """
    source, build = kernel_source(spec, kind), flags(spec, kind)
    digest = content_hash(source, level, *build, *([source] if "-g" in build else []))
    return f"{spec.kernel.stem[:40]}-{level}-{digest}.so"  # file systems take names of up to 255 bytes


def name_by_compiler(name: str, compiler: list[str]) -> str:
    """Return ``object_name()`` with a hash of the command and the version of the compiler.

    Raises:
        CompileError: the compiler cannot be run.
    """
    made_by = "\0".join([*compiler, version(tuple(compiler))])
    return f"{Path(name).stem}-{hashlib.sha256(made_by.encode(errors='surrogateescape')).hexdigest()[:16]}.so"


@functools.cache
def version(compiler: tuple[str, ...]) -> str:
    """Return the output of a compiler for ``--version``.

    Raises:
        CompileError: the compiler cannot be run.
    """
    done = _run([*compiler, "--version"])
    return done.stdout + done.stderr


def compile_object(spec: EnvSpec | Program, level: str, target: Path, extra: tuple[str, ...] = ()) -> Path:
    """Compile a kernel for speed, for one instruction set, to a file, in one atomic write; see ``compile_to_bytes()``.

    Raises:
        CompileError: no compiler, or the kernel does not compile.
        OSError: the file cannot be written.
    """
    write_library(target, compile_to_bytes(spec, level, extra))
    return target


def compile_to_bytes(
    spec: EnvSpec | Program, level: str, extra: tuple[str, ...] = (), kind: BuildKind = RELEASE
) -> bytes:
    """Compile a kernel for one instruction set to a shared object.

    ``extra`` are further compiler flags: ``-DGV_LANES=4 -pthread`` makes a build with teams of four lanes. ``kind`` is that of
    an env.

    Raises:
        CompileError: no compiler, or the kernel does not compile; the message holds the compiler's output.
    """
    compiler = require_compiler(spec)
    zig = "ziglang" in compiler or Path(compiler[0]).name == "zig"
    march = ZIG_LEVELS[level] if zig else level
    command = [*compiler, *flags(spec, kind), f"-march={march}", *extra]
    return compile_text(spec.name, spec.kernel.name, kernel_source(spec, kind), command)


def compile_text(name: str, file_name: str, text: str, command: list[str]) -> bytes:
    """Return the file that a compiler makes of a text.

    Args:
        name: name of the kernels, for the error's text.
        file_name: name of the source file, which messages of the compiler quote.
        text: the source.
        command: the compiler with its flags, without files.

    Raises:
        CompileError: the text does not compile, or files cannot be written.
    """
    try:
        # Only this user may write this folder; others could exchange the source.
        with tempfile.TemporaryDirectory(prefix="gpu_vecenv-") as folder:
            source, target = Path(folder) / file_name, Path(folder) / "kernel"
            source.write_text(text)
            command = [*command, str(source), "-o", str(target)]
            done = _run(command)
            if done.returncode != 0:
                said = done.stderr.strip() or f"no message, status {done.returncode}. Name a C++ compiler in CXX."
                raise CompileError(f"{name}: {' '.join(command)} failed:\n{said}")
            if not target.is_file():
                raise CompileError(f"{name}: {' '.join(command)} succeeded but made no file. Name a C++ compiler in CXX.")
            return target.read_bytes()
    except OSError as error:
        raise CompileError(
            f"{name}: cannot compile in the temporary folder: {error}. Set TMPDIR to a folder with free space."
        ) from error


def try_compiler(compiler: list[str]) -> None:
    """Compile a function that returns 7, and call it in another process.

    Raises:
        CompileError: one of these fails.
    """
    text = 'extern "C" __attribute__((visibility("default"))) int gv_trial() { return 7; }\n'
    built = compile_text("a trial", "trial.cu", text, [*compiler, *FLAGS])
    with open(os.memfd_create("gpu_vecenv-trial"), "wb") as file:  # no folder, because a disk may forbid execution
        file.write(built)
        file.flush()
        call = "import ctypes, sys; sys.exit(ctypes.CDLL('/proc/self/fd/0').gv_trial())"
        command = [sys.executable, "-I", "-c", call]
        # The child gets the file as its input: without streams in this process, the number of the file may be that of one.
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, errors="replace")
    if done.returncode != 7:
        said = "".join(done.stderr.splitlines()[-1:]) or f"status {done.returncode}"
        raise CompileError(f"a trial: expected the function that {' '.join(compiler)} made to return 7, got {said}")


def require_compiler(spec: EnvSpec | Program) -> list[str]:
    """Return the command of ``find_compiler()``.

    Raises:
        CompileError: no compiler was found.
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
        # The library of a sanitizer in this process is not for the compiler.
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" or not build_kind().sanitizer}
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False, env=environment
        )
    except OSError as error:
        raise CompileError(f"could not run {command[0]!r}: {error}. Name a C++ compiler in CXX.") from error
