"""A kernel that must be compiled, and a stand-in for a compiler that takes no time and counts its calls."""

from pathlib import Path

import pytest

from gpu_vecenv.backend import compiler
from gpu_vecenv.envs.cartpole.spec import SPEC


@pytest.fixture(scope="session")
def compiled_once(tmp_path_factory) -> Path:
    """Return CartPole's kernel, compiled."""
    return compiler.compile_object(SPEC, compiler.cpu_level(), tmp_path_factory.mktemp("compiled") / "kernel.so")


class Compiler:
    """Stand-in for ``$CXX``: copies a compiled kernel to the output path, answers ``--version``, and counts both."""

    def __init__(self, folder: Path, kernel: Path) -> None:
        self.log, self.command = folder / "compiler.log", folder / "c++"
        self.log.touch()
        self.set_version("one", kernel)

    def set_version(self, version: str, kernel: Path) -> None:
        """Set the version that it prints and the kernel that it copies."""
        ask = f'[ "$1" = --version ] && {{ echo asked >> {self.log}; echo {version}; exit; }}'
        self.command.write_text(f"#!/bin/sh\n{ask}\nfor last; do :; done\necho compiled >> {self.log}\ncp {kernel} $last\n")
        self.command.chmod(0o755)

    def count(self, what: str) -> int:
        return self.log.read_text().split().count(what)


@pytest.fixture
def stand_in(monkeypatch, tmp_path, compiled_once) -> Compiler:
    """Return the stand-in compiler of a machine without prebuilt kernels; the cache folder is ``tmp_path / "cache"``."""
    made = Compiler(tmp_path, compiled_once)
    monkeypatch.setattr(compiler, "PREBUILT", tmp_path / "none")
    monkeypatch.setenv("GPU_VECENV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", str(made.command))
    monkeypatch.setenv("GPU_VECENV_NUM_THREADS", "1")
    compiler.version.cache_clear()
    return made
