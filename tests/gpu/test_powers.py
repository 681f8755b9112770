"""Functions of lib/powers.h and lib/powers_in_double.h have the same bits on the device and on the host, NaN included."""

from pathlib import Path

import numpy as np
import pytest

from gpu_vecenv.backend.cuda import OPTIONS, import_cupy, raw_module
from gpu_vecenv.backend.source import KERNEL_FOLDER
from tests.gpu.test_math import SIZES, bits
from tests.kernels.functions import Functions

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    return Functions(tmp_path_factory.mktemp("functions"))


@pytest.fixture(scope="module")
def device():
    """Return a function that runs a kernel of powers.cu over one or two arrays."""
    text = Path(__file__).with_name("powers.cu").read_text()
    module = raw_module(import_cupy(), text, (*OPTIONS, *SIZES, f"-I{KERNEL_FOLDER}"))

    def call(name, *inputs):
        rows = len(inputs[0])
        arrays = [cupy.asarray(inputs[0]), cupy.asarray(inputs[-1]), cupy.full(rows, 7, inputs[0].dtype)]
        module.get_function(f"{name}_of")((-(-rows // 128),), (128,), (np.int32(rows), *arrays))
        return arrays[-1].get()

    return call


def every(stride, start=0):
    """The float32 of every ``stride``-th bit pattern; infinities and NaN are among them."""
    return np.arange(start, 2**32, stride, dtype=np.int64).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("name", ["exp", "log", "log2", "softplus", "tanh"])
def test_functions_of_one_argument_equal_the_hosts(host, device, name):
    x = np.concatenate([every(97), np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], np.float32)])
    np.testing.assert_array_equal(bits(device(name, x)), bits(host(name, x)))


def test_powers_equal_the_hosts(host, device):
    """Any floats, where most results are limits, and powers of every size."""
    generator = np.random.default_rng(0)
    special = np.array([0.0, -0.0, 1e-45, -1e-45, 1.0, -1.0, 2.5, -2.0, -3.0, 2.0**24, np.inf, -np.inf, np.nan], np.float32)
    table = np.stack(np.meshgrid(special, special), -1).reshape(-1, 2).T
    sizes = np.exp(generator.uniform(-85, 85, 8_000_000)).astype(np.float32)
    for x, y in (
        (every(997), generator.permutation(every(997, 5))[: len(every(997))]),
        (sizes, (generator.uniform(-110, 95, len(sizes)) / np.log(sizes)).astype(np.float32)),
        (-sizes, generator.integers(-9, 10, len(sizes)).astype(np.float32)),
        table,
    ):
        rows = min(len(x), len(y))
        x, y = np.ascontiguousarray(x[:rows]), np.ascontiguousarray(y[:rows])
        np.testing.assert_array_equal(bits(device("pow", x, y)), bits(host("pow", x, y)))


def test_functions_of_doubles_equal_the_hosts(host, device):
    """Any bits, NaN, infinities and subnormal numbers among them; powers of every size."""
    generator = np.random.default_rng(1)
    special = np.array([0.0, 1.0, 2.5, 3.0, 2.0**53, 5e-324, 2.0**-1022, np.inf, np.nan])
    special = np.concatenate([special, -special])
    table = np.stack(np.meshgrid(special, special), -1).reshape(-1, 2).T.copy()
    every = generator.integers(0, 2**64, (2, 2_000_000), dtype=np.uint64).view(np.float64)
    sizes = np.exp(generator.uniform(-700, 700, 2_000_000))
    for x, y in (every, table, (sizes, generator.uniform(-750, 715, len(sizes)) / np.log(sizes))):
        for name, *inputs in (("exp", x), ("exp", y), ("log", x), ("log", np.abs(x)), ("pow", x, y)):
            results = device(f"{name}_in_double", *inputs), host(f"{name}_in_double", *inputs, dtype=np.float64)
            np.testing.assert_array_equal(*(one.view(np.uint64) for one in results), err_msg=name)
