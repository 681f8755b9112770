"""Host compiler: a kernel's text to a shared object, cached by content."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import platformdirs

from gpu_vecenv.backend.source import content_hash, kernel_source
from gpu_vecenv.errors import CompileError
from gpu_vecenv.spec import EnvSpec

PREBUILT = Path(__file__).parent.parent / "_prebuilt"
LEVELS = ("x86-64-v3", "x86-64")
"""Instruction sets the bundled kernels are built for, the better first."""

FLAGS = ("-O3", "-std=c++17", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math",
         "-ffp-contract=off", "-x", "c++")
"""No contraction: a fused multiply-add rounds once where the GPU build, told the same, rounds twice."""


def cache_dir() -> Path:
    """Folder of compiled kernels; ``GPU_VECENV_CACHE_DIR`` moves it."""
    given = os.environ.get("GPU_VECENV_CACHE_DIR")
    return Path(given) if given else Path(platformdirs.user_cache_dir("gpu_vecenv"))


def find_compiler() -> list[str] | None:
    """Command of a C++ compiler: ``$CXX``, else c++, g++, clang++ on the path, else the ziglang wheel; None if there is none."""
    if os.environ.get("CXX"):
        return shlex.split(os.environ["CXX"])
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


def shared_object(spec: EnvSpec) -> Path:
    """Path of the compiled kernel: prebuilt with the package, or compiled at first use and kept in the cache.

    Raises:
        CompileError: no compiler, or the kernel does not compile; the message holds the compiler's output.
    """
    name = object_name(spec, cpu_level())
    for folder in (PREBUILT, cache_dir()):
        if (folder / name).is_file():
            return folder / name
    return compile_object(spec, cpu_level(), cache_dir() / name)


def compile_object(spec: EnvSpec, level: str, target: Path, extra: tuple[str, ...] = ()) -> Path:
    """Compile a kernel for one instruction set. The target appears whole or not at all.

    ``extra`` are further compiler flags: ``-DGV_LANES=4 -fsanitize=thread`` makes the build that looks for races.
    """
    compiler = find_compiler()
    if compiler is None:
        raise CompileError(
            f"{spec.name} has no prebuilt CPU kernel for this source, and no C++ compiler was found. "
            "Install g++ or clang++ (or `pip install ziglang`), or name one in the environment variable CXX."
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(target.parent, os.W_OK):
            raise PermissionError(f"{target.parent} is not writable")
    except OSError as error:
        raise CompileError(
            f"{spec.name}: compiled kernels cannot be kept: {error}. Name a folder in GPU_VECENV_CACHE_DIR."
        ) from error
    # zig spells the psABI levels with underscores
    zig = "ziglang" in compiler or Path(compiler[0]).name == "zig"
    march = level.replace("-", "_") if zig else level
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        source = Path(folder) / spec.kernel.name
        source.write_text(kernel_source(spec))
        built = Path(folder) / target.name
        command = [*compiler, *FLAGS, f"-march={march}", *extra, str(source), "-o", str(built)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise CompileError(f"{spec.name}: could not run {compiler[0]!r}: {error}.") from error
        if done.returncode != 0:
            raise CompileError(f"{spec.name}: {' '.join(command)} failed:\n{done.stderr.strip()}")
        os.replace(built, target)
    return target
