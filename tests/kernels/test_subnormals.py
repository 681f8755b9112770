"""CuPy compiles kernels of this package without a flush of subnormals, and other kernels as before."""

from types import SimpleNamespace

from gpu_vecenv.backend.cuda import OPTIONS
from gpu_vecenv.backend.subnormals import FLUSH_SUBNORMALS, obey_keep_subnormals


def test_the_option_of_cupy_is_left_out_for_kernels_that_keep_subnormals():
    seen = []
    compiler = SimpleNamespace(compile_using_nvrtc=lambda source, options=(), arch=None: seen.append((options, arch)))
    for _ in range(2):  # the second call changes nothing
        obey_keep_subnormals(compiler)
    compiler.compile_using_nvrtc("", (*OPTIONS, FLUSH_SUBNORMALS), arch="90")
    compiler.compile_using_nvrtc("", ("-DOTHER", FLUSH_SUBNORMALS))
    assert seen == [(OPTIONS, "90"), (("-DOTHER", FLUSH_SUBNORMALS), None)]
