"""CuPy compiles kernels of this package without a flush of subnormals, and other kernels as before."""

from types import SimpleNamespace

from gpu_vecenv.backend.cuda import OPTIONS
from gpu_vecenv.backend.subnormals import FLUSH_SUBNORMALS, obey_keep_subnormals


def test_the_option_of_cupy_is_left_out_for_kernels_that_keep_subnormals():
    seen = []

    class Program:
        def compile(self, options=(), log_stream=None):
            seen.append((options, log_stream))

    compiler = SimpleNamespace(_NVRTCProgram=Program)
    for _ in range(2):  # the second call changes nothing
        obey_keep_subnormals(compiler)
    Program().compile((*OPTIONS, FLUSH_SUBNORMALS), log_stream="log")
    Program().compile(("-DOTHER", FLUSH_SUBNORMALS))
    assert seen == [(OPTIONS, "log"), (("-DOTHER", FLUSH_SUBNORMALS), None)]
