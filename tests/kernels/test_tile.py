"""Products of tiles against NumPy, on the host and on lanes, which emulate the instructions of a warp."""

import ctypes
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from gpu_vecenv.backend.compiler import FLAGS, find_compiler
from gpu_vecenv.backend.programs import program_options
from gpu_vecenv.backend.source import Program, arguments, kernel_source
from gpu_vecenv.spec.arguments import Array
from gpu_vecenv.testing.nvrtc import compile_text
from tests.marks import slow_but

FORMS = {"a": "*rows, *k", "w": "*n, *k", "v": "*n, *m", "c": "*n"}
RESULTS = {"first": "*rows, *n", "second": "*rows, *m", "columns": "*k, *n", "totals": "*k", "held": "*rows, 3"}
ARGS = arguments(
    *(Array(name, "float32", form) for name, form in FORMS.items()),
    *(Array(name, "float32", form, written=True) for name, form in RESULTS.items()),
)
TILE = Program("products of tiles", Path(__file__).with_name("tile.cu"), ARGS, scratch=None)


@dataclass(frozen=True)
class Shape:
    """Sizes of the tiles, see ``tile.cu``."""

    rows: int
    k: int
    n: int
    m: int

    def constants(self):
        return [f"-DGV_{name}={size}" for name, size in (("ROWS", self.rows), ("K", self.k), ("N", self.n), ("M", self.m))]


SHAPES = [Shape(64, 64, 64, 16), Shape(64, 16, 48, 8), Shape(64, 48, 128, 24), Shape(64, 112, 32, 40)]


def run(shape, arrays, folder, *flags):
    """Run the kernel on one thread, or on lanes, and return its results by name."""
    built = folder / f"tile{len(flags)}.so"
    command = [*find_compiler(), *FLAGS, *flags, *shape.constants(), "-Wall", "-Wextra", "-march=x86-64"]
    command += ["-DGV_SCRATCH=65536", "-", "-o", str(built)]
    subprocess.run(command, input=kernel_source(TILE), text=True, check=True)
    sizes = {"first": (shape.rows, shape.n), "second": (shape.rows, shape.m), "columns": (shape.k, shape.n), "totals": (shape.k,)}
    sizes["held"] = (shape.rows, 3)
    found = {name: np.full(size, np.nan, np.float32) for name, size in sizes.items()}
    given = arrays | found
    args = ARGS.form(**{name: array.ctypes.data for name, array in given.items()}, teams=1)
    ctypes.CDLL(str(built)).gv_products(ctypes.byref(args), 0, 1)
    return found


def half(x):
    return x.astype(np.float16).astype(np.float64)


def assert_product(found, left, right, rounded=0.0):
    """Compare a product with sums in float: the error is that of the sum of absolute values, and of rounding a result."""
    error = 1e-6 * (np.abs(left) @ np.abs(right) + rounded)
    assert (np.abs(found - left @ right) <= error).all()


@pytest.mark.parametrize("flags", [(), ("-DGV_LANES=64", "-pthread")], ids=["host", "lanes"])
@pytest.mark.parametrize("shape", slow_but(SHAPES[:2], SHAPES), ids=str)
def test_products_are_those_of_numbers_of_16_bits(shape, flags, tmp_path):
    chance = np.random.default_rng(0)
    arrays = {
        "a": chance.normal(size=(shape.rows, shape.k)),
        "w": chance.normal(size=(shape.n, shape.k)),
        "v": chance.normal(size=(shape.n, shape.m)),
        "c": chance.normal(size=shape.n),
    }
    arrays["a"][1, 3], arrays["a"][2, 5] = 3e-7, 2.0**-14 * 0.9999
    arrays["c"][7] = 1e6  # too large for 16 bits
    arrays = {name: x.astype(np.float32) for name, x in arrays.items()}
    found = run(shape, arrays, tmp_path, *flags)

    a, kept = half(arrays["a"]), half(np.clip(found["first"], -65504, 65504))
    assert_product(found["first"] - arrays["c"], a, half(arrays["w"]).T, rounded=np.abs(found["first"]))
    assert_product(found["second"], kept, half(arrays["v"]))
    assert_product(found["columns"], a.T, kept)
    assert_product(found["totals"], a.T, np.ones(shape.rows))
    np.testing.assert_array_equal(found["held"], arrays["a"][::-1, :3])


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_compile_for_cuda_without_local_memory(shape, arch):
    constants = [*shape.constants()]
    options = [option for option in program_options(TILE) if "LANES" not in option]
    ptx = compile_text(kernel_source(TILE), arch, *options, "-DGV_LANES=128", *constants)
    assert re.search(r"\.entry gv_products", ptx)
    assert "mma.sync.aligned.m16n8k16" in ptx and "ldmatrix" in ptx
    assert ".local" not in ptx
