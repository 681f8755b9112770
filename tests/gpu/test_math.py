"""Functions of lib/math.h that have a faster form on CUDA. Both forms give the same bits, on the device and on the host."""

from pathlib import Path

import numpy as np
import pytest

from gpu_vecenv.backend.cuda import OPTIONS, import_cupy, raw_module
from gpu_vecenv.backend.source import KERNEL_FOLDER

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

SIZES = ("-DGV_LANES=1", "-DGV_TEAMS=128", "-DGV_RESIDENT=1")


@pytest.fixture(scope="module")
def launch():
    """Return a function that runs a kernel of functions.cu over rows of floats; it returns the fast and the plain results."""
    text = Path(__file__).with_name("functions.cu").read_text()
    module = raw_module(import_cupy(), text, (*OPTIONS, *SIZES, f"-I{KERNEL_FOLDER}"))

    def call(name, *inputs):
        rows = len(inputs[0])
        out, plain = (cupy.full((rows, 2), 7, cupy.float32) for _ in range(2))
        arrays = [cupy.asarray(values, cupy.float32) for values in inputs]
        module.get_function(name)((-(-rows // 128),), (128,), (np.int32(rows), *arrays, out, plain))
        return out.get(), plain.get()

    return call


def bits(array):
    return np.asarray(array, np.float32).view(np.int32)


def any_floats(count, seed):
    pattern = np.random.default_rng(seed).integers(-(2**31), 2**31, count).astype(np.int32).view(np.float32)
    return pattern[~np.isnan(pattern)]


def test_fast_quotients_by_each_mantissa_equal_divisions(launch):
    """Divides 1 and random numbers by all 2^23 float32 from 1 to 2, and divides each quotient by the same number again."""
    y = (np.arange(2**23, dtype=np.int32) + np.float32(1).view(np.int32)).view(np.float32)
    for x in (np.ones_like(y), np.random.default_rng(0).uniform(1, 2, len(y)).astype(np.float32)):
        out, plain = launch("quotients", x, y)
        np.testing.assert_array_equal(bits(out), bits(plain))
        np.testing.assert_array_equal(bits(out[:, 0]), bits(x / y))


def test_fast_quotients_of_any_floats_equal_divisions(launch):
    """Zeros, denormals and infinities are included, and quotients that overflow or underflow."""
    x, y = any_floats(4_000_000, 1), any_floats(4_000_000, 2)
    special = np.array([0.0, -0.0, 1e-45, -1e-45, 1e-38, 1e-18, 1e18, 3.4e38, np.inf, -np.inf, 1.0, -2.5], np.float32)
    table = np.stack(np.meshgrid(special, special), -1).reshape(-1, 2)
    rows = min(len(x), len(y))
    out, plain = launch("quotients", np.concatenate([x[:rows], table[:, 0]]), np.concatenate([y[:rows], table[:, 1]]))
    same = (bits(out) == bits(plain)) | (np.isnan(out) & np.isnan(plain))
    assert same.all()


def test_fast_sines_equal_plain_sines(launch):
    x = np.concatenate([np.random.default_rng(3).uniform(-1, 1, 4_000_000).astype(np.float32), any_floats(1_000_000, 4)])
    out, plain = launch("sines", x)
    same = (bits(out) == bits(plain)) | (np.isnan(out) & np.isnan(plain))
    assert same.all()
