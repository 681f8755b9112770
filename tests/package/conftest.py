"""A kernel that must be compiled, and a compiler that takes no time and counts its work."""

from pathlib import Path

import pytest

from gpu_vecenv.backend import compiler
from gpu_vecenv.envs.cartpole.spec import SPEC


@pytest.fixture(scope="session")
def compiled_once(tmp_path_factory) -> Path:
    """Return CartPole's kernel, compiled."""
    return compiler.compile_object(SPEC, compiler.cpu_level(), tmp_path_factory.mktemp("compiled") / "kernel.so")


class Compiler:
    """Copies a compiled kernel to where it is told, as ``$CXX``; answers to ``--version``; counts both."""

    def __init__(self, folder: Path, kernel: Path) -> None:
        self.log, self.command = folder / "compiler.log", folder / "c++"
        self.log.touch()
        self.says("one", kernel)

    def says(self, version: str, kernel: Path) -> None:
        """Be this version, and make this kernel."""
        ask = f'[ "$1" = --version ] && {{ echo asked >> {self.log}; echo {version}; exit; }}'
        self.command.write_text(f"#!/bin/sh\n{ask}\nfor last; do :; done\necho compiled >> {self.log}\ncp {kernel} $last\n")
        self.command.chmod(0o755)

    def count(self, what: str) -> int:
        return self.log.read_text().split().count(what)


@pytest.fixture
def stand_in(monkeypatch, tmp_path, compiled_once) -> Compiler:
    """Return the compiler of a machine without prebuilt kernels, whose cache folder is ``tmp_path / "cache"``."""
    made = Compiler(tmp_path, compiled_once)
    monkeypatch.setattr(compiler, "PREBUILT", tmp_path / "none")
    monkeypatch.setenv("GPU_VECENV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", str(made.command))
    monkeypatch.setenv("GPU_VECENV_NUM_THREADS", "1")
    compiler.version.cache_clear()
    return made
