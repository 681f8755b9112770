"""Functions of vectors and products on the host: errors, and equal bits by every compiler and width of vectors."""

import ctypes
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from gpu_vecenv.backend.compiler import compile_object, cpu_level, levels_of
from gpu_vecenv.backend.source import Program, arguments
from gpu_vecenv.spec.arguments import Array, arrays, numbers

PROGRAM = Program(
    "functions of vectors", Path(__file__).with_name("host_powers.cu"),
    arguments(
        Array("x", "float32", "*n"), *arrays("float32", "*n", "exp", "log", "tanh", written=True),
        *arrays("float32", "*n", "left", "right", "start"), Array("product", "float32", "*n", written=True),
        *numbers("int32", "rows", "columns", "inner"),
    ),
    wide=True,
)  # fmt: skip
LEVELS = levels_of(PROGRAM)[levels_of(PROGRAM).index(cpu_level(levels_of(PROGRAM))) :]
COMPILERS = {"g++": "g++", "clang": f"{shlex.quote(sys.executable)} -m ziglang cc"}
FEW = {("g++", LEVELS[0]), ("g++", LEVELS[-1])}
"""Builds that are not slow to compile."""

SIZES = [(1, 16, 20), (7, 48, 1), (13, 48, 20), (31, 16, 20), (17, 112, 9)]


BUILDS = [
    pytest.param((name, level), id=f"{name}-{level}", marks=[] if (name, level) in FEW else pytest.mark.slow)
    for name in COMPILERS for level in LEVELS
]  # fmt: skip


@pytest.fixture(scope="module", params=BUILDS)
def library(request, tmp_path_factory):
    """Return the functions by a compiler, for an instruction set, and whether it has fused multiply-adds."""
    compiler, level = request.param
    if compiler == "clang":
        pytest.importorskip("ziglang")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", COMPILERS[compiler])
        built = compile_object(PROGRAM, level, tmp_path_factory.mktemp("built") / "kernel.so")
    return ctypes.CDLL(str(built)), level != "x86-64"


def results(library, x):
    """Return exponential, logarithm and hyperbolic tangent of float32 numbers, a multiple of 16 of them."""
    out = [np.zeros_like(x) for _ in range(3)]
    args = PROGRAM.args.form(x.ctypes.data, *(each.ctypes.data for each in out))
    library.gv_apply_all(ctypes.byref(args), 0, len(x) // 16)
    return out


def floats(step):
    """Return every ``step``-th float of both signs but NaN."""
    bits = np.arange(0, 0x7F800001, step, dtype=np.uint32)
    bits = bits[: len(bits) // 16 * 16]
    return np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32)


def ulps(found, exact):
    """Return the largest error in distances of neighbouring floats at the exact results, of those that are finite floats."""
    near = exact.astype(np.float32)
    kept = np.isfinite(near)
    return np.max(np.abs(found[kept] - exact[kept]) / np.spacing(np.abs(near[kept])))


BITS: dict[str, list[bytes]] = {}


def test_functions_are_those_of_float64_with_equal_bits_by_all_builds(library):
    x = floats(997)
    exp, log, tanh = results(library[0], x)
    positive = (x > 0) & np.isfinite(x) & (x > 1.2e-38)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        assert ulps(exp, np.exp(wide)) <= 1.0
        assert ulps(log[positive], np.log(wide[positive])) <= 1.0
        assert ulps(tanh, np.tanh(wide)) <= 6.5
    assert np.abs(tanh).max() <= 1.0
    for name, found in (("exp", exp), ("log", log[positive]), ("tanh", tanh)):
        assert BITS.setdefault(name, found.tobytes()) == found.tobytes()


def test_a_number_that_is_none_stays_one(library):
    assert all(np.isnan(each).all() for each in results(library[0], np.full(16, np.nan, np.float32)))


@pytest.mark.parametrize("size", [(1, 1), (16, 32), (37, 18), (5, 64)])
def test_transposes_have_the_numbers_of_a_matrix(library, size):
    """Numbers between the rows of the transpose stay."""
    rows, columns = size
    matrix = np.arange(rows * columns, dtype=np.float32).reshape(size)
    transpose = np.full((columns, rows + 3), -1, np.float32)
    args = PROGRAM.args.form(left=matrix.ctypes.data, product=transpose.ctypes.data, rows=rows, columns=columns, inner=rows + 3)
    library[0].gv_turn_all(ctypes.byref(args), 0, 1)
    np.testing.assert_array_equal(transpose[:, :rows], matrix.T)
    assert (transpose[:, rows:] == -1).all()


@pytest.mark.parametrize("size", SIZES)
def test_products_are_sums_in_order(library, size):
    """With fused multiply-adds a sum has one rounding a term, in float64 here; without, two."""
    rows, columns, inner = size
    generator = np.random.default_rng(0)
    left, right, start = (generator.normal(size=s).astype(np.float32) for s in ((rows, inner), (inner, columns), (rows, columns)))
    product, expected = np.zeros_like(start), start
    names = dict(zip(("left", "right", "start", "product"), (x.ctypes.data for x in (left, right, start, product)), strict=True))
    args = PROGRAM.args.form(**names, rows=rows, columns=columns, inner=inner)
    library[0].gv_multiply_all(ctypes.byref(args), 0, 1)
    for i in range(inner):
        one, two = left[:, i : i + 1], right[i]
        fused = (one.astype(np.float64) * two + expected).astype(np.float32)
        expected = fused if library[1] else one * two + expected
    if library[1]:  # the sum in float64 is rounded itself, which changes a last bit now and then
        np.testing.assert_allclose(product, expected, rtol=3e-7, atol=1e-7)
    else:
        np.testing.assert_array_equal(product, expected)
    key = f"product {size} {library[1]}"
    assert BITS.setdefault(key, product.tobytes()) == product.tobytes()
