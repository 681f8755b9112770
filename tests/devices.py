"""Devices that tests run on: the CPU, and with ``-m gpu`` a GPU too; and the array kind of a library that may be missing."""

from importlib.util import find_spec

import pytest

DEVICES = ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)]

JAX = pytest.param("jax", marks=pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed"))
