"""CuPy compiles kernels of this package without a flush of subnormals, and other kernels as before."""

from types import SimpleNamespace

import numpy as np
import pytest

from gpu_vecenv.backend.cuda import OPTIONS
from gpu_vecenv.backend.private import FLUSH_SUBNORMALS, raw_module


def cupy_with(**compiler):
    """CuPy's parts that a module needs; a module holds its keywords."""
    return SimpleNamespace(RawModule=lambda **keywords: keywords, cuda=SimpleNamespace(compiler=SimpleNamespace(**compiler)))


def test_the_option_of_cupy_is_left_out_for_kernels_that_keep_subnormals():
    seen = []

    class Program:
        def compile(self, options=(), log_stream=None):
            seen.append((options, log_stream))

    for _ in range(2):  # the second call changes nothing
        assert raw_module(cupy_with(_NVRTCProgram=Program), "text", OPTIONS) == {"code": "text", "options": OPTIONS}
    Program().compile((*OPTIONS, FLUSH_SUBNORMALS), log_stream="log")
    Program().compile(("-DOTHER", FLUSH_SUBNORMALS))
    assert seen == [(OPTIONS, "log"), (("-DOTHER", FLUSH_SUBNORMALS), None)]


def test_a_cupy_that_compiles_in_another_way_loads_a_file_that_is_compiled_without_a_flush():
    class Module:
        def __init__(self, path):
            self.path = path

        def compile(self):
            with open(self.path, "rb") as file:
                self.image = file.read()

        def get_function(self, name):
            return self.image, name

    asked = []
    cupy = cupy_with(compile_using_nvrtc=lambda text, options: (asked.append((text, options)) or b"image", {}))
    cupy.RawModule = Module
    module = raw_module(cupy, "text", OPTIONS)
    assert asked == []  # a text with an error raises where a kernel is asked for
    assert [module.get_function(name) for name in ("one", "two")] == [(b"image", "one"), (b"image", "two")]
    assert asked == [("text", OPTIONS)]


@pytest.mark.gpu
def test_modules_with_and_without_the_cache_keep_subnormals(monkeypatch):
    import cupy

    text = 'extern "C" __global__ void half(float* x) { *x = *x * 0.5f; }'
    modules = [raw_module(cupy, text, OPTIONS)]
    monkeypatch.setattr("gpu_vecenv.backend.private._obeys_options", lambda compiler: False)
    modules.append(raw_module(cupy, text, OPTIONS))
    halves = []
    for module in modules:
        x = cupy.asarray(np.full(1, 2e-40, np.float32))  # a copy, because CuPy's own kernels flush
        module.get_function("half")((1,), (1,), (x,))
        halves.append(float(x.get()[0]))
    assert halves[0] == halves[1] > 0
