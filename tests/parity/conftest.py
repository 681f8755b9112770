"""Builds of kernels, for comparison."""

import hashlib

import pytest

from gpu_vecenv.backend.compiler import compile_object, cpu_level
from gpu_vecenv.backend.cpu import CpuBackend


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Return a maker of back ends for builds with another compiler, instruction set or flags; each kernel is compiled once."""
    folder = tmp_path_factory.mktemp("builds")

    def make(level=None, extra=(), compiler=None):
        def backend(layout):
            build = repr((layout.spec.name, level, extra, compiler))
            path = folder / f"{hashlib.sha256(build.encode()).hexdigest()}.so"
            if not path.exists():
                with pytest.MonkeyPatch.context() as patch:
                    if compiler:
                        patch.setenv("CXX", compiler)
                    compile_object(layout.spec, level or cpu_level(), path, extra)
            return CpuBackend(layout, path, threads=1)

        return backend

    return make
