"""Builds of kernels for the CPU with other compilers and flags; each must give the same bits."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from gpu_vecenv.backend.compiler import compile_object, cpu_level
from gpu_vecenv.backend.cpu import CpuBackend
from gpu_vecenv.backend.source import content_hash, kernel_source
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.subject import MakeBackend


class Builds:
    """Back ends of builds with other flags. Each kernel is compiled once.

    Args:
        folder: where shared objects are kept; by default a temporary folder that lives as long as this object.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._temporary = None if folder else tempfile.TemporaryDirectory(prefix="gpu_vecenv-builds-")
        self._folder = folder or Path(self._temporary.name if self._temporary else "")

    def backend(self, *flags: str, level: str | None = None, compiler: str | None = None, threads: int = 1) -> MakeBackend:
        """Return a maker of back ends.

        Args:
            flags: further flags of the compiler.
            level: instruction set, one of ``backend.compiler.LEVELS``; that of this processor by default.
            compiler: command of the compiler; the usual one by default.
            threads: CPU threads that share the worlds.
        """
        level = level or cpu_level()

        def make(layout: Layout) -> CpuBackend:
            text = content_hash(kernel_source(layout.spec), level, *flags, compiler or "")
            path = self._folder / f"{hashlib.sha256(f'{layout.spec.name} {text}'.encode()).hexdigest()[:32]}.so"
            if not path.exists():
                with compiled_by(compiler):
                    compile_object(layout.spec, level, path, flags)
            return CpuBackend(layout, path, threads=threads)

        return make

    def team(self, lanes: int, *flags: str) -> MakeBackend:
        """Return a maker of back ends whose teams have lanes, each a thread of the system."""
        return self.backend(f"-DGV_LANES={lanes}", "-pthread", *flags)


@contextmanager
def compiled_by(command: str | None) -> Iterator[None]:
    """Compile with another compiler inside the block."""
    before = os.environ.get("CXX")
    if command:
        os.environ["CXX"] = command
    try:
        yield
    finally:
        if command:
            os.environ.pop("CXX")
            if before is not None:
                os.environ["CXX"] = before


@functools.cache
def clang() -> str | None:
    """Return the command of a Clang: that of the path, else that of the ziglang wheel; None if there is none."""
    if shutil.which("clang++"):
        return "clang++"
    return f"{sys.executable} -m ziglang cc" if find_spec("ziglang") else None
