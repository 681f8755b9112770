"""The kernels of an update on lanes, which emulate warps, and for CUDA: the same results, and compilation for GPUs."""

import ctypes
import re

import pytest
import torch
from gymnasium import spaces
from reference import case
from test_fused_gradient import BOX, kernel_gradient

from gpu_vecenv.backend.compiler import LEVELS, compile_object
from gpu_vecenv.backend.programs import program_options
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.train.fused import kernels
from gpu_vecenv.train.fused.program import Sizes, update_program
from tests.kernels.nvrtc import compile_text


class Lanes:
    """Launches of a build on lanes."""

    def __init__(self, program, folder):
        flags = (f"-DGV_LANES={program.lanes}", "-pthread")
        self.library = ctypes.CDLL(str(compile_object(program, LEVELS[-1], folder / "lanes.so", flags)))

    def launch(self, name, args, teams, small, shared_bytes=0):
        """Run a kernel on lanes."""
        getattr(self.library, name)(ctypes.byref(args), ctypes.c_int32(0), ctypes.c_int32(teams))


CASES = {
    "discrete": ({"action": spaces.Discrete(2), "rows": 70}, 32),
    "masked, elu, odd sizes": (
        {
            "action": spaces.MultiDiscrete([5, 9]),
            "features": 11,
            "hidden": (24, 40),
            "activation": "elu",
            "masked": (1,),
            "rows": 40,
        },
        32,
    ),
    "numbers, three layers, 128 lanes": ({"action": BOX, "features": 3, "hidden": (16, 48, 32), "rows": 70}, 64),
}


@pytest.mark.parametrize("name", [next(iter(CASES)), *(pytest.param(name, marks=pytest.mark.slow) for name in [*CASES][1:])])
def test_lanes_compute_the_gradient_of_the_host(name, tmp_path, monkeypatch):
    given, rows = CASES[name]
    host, host_terms = kernel_gradient(case(**given), rows=rows)
    monkeypatch.setattr(kernels, "launches", lambda program, device: Lanes(program, tmp_path))
    found, terms = kernel_gradient(case(**given), rows=rows)
    torch.testing.assert_close(terms, host_terms, rtol=1e-5, atol=1e-6)
    for parameter, gradient in host.items():
        assert float((found[parameter] - gradient).norm()) <= 1e-4 * float(gradient.norm()), parameter


SIZES = [
    Sizes(4, (64, 64), "tanh", 2, (2,)),
    Sizes(71, (64, 64), "tanh", 42, (21, 21), (0, 21)),
    Sizes(3, (128, 48, 33), "elu", 1, None),
]


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_kernels_compile_for_cuda_without_local_memory(sizes, arch):
    program = update_program(sizes)
    ptx = compile_text(kernel_source(program), arch, *program_options(program))
    assert sorted(re.findall(r"\.entry (\w+)", ptx)) == ["gv_adam", "gv_gradient", "gv_reduce"]
    assert ".local" not in ptx and "mma.sync" in ptx
