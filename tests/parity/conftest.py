"""Builds of kernels, for comparison."""

import pytest

from gpu_vecenv.testing.builds import Builds


@pytest.fixture(scope="session")
def builds(tmp_path_factory):
    """Return builds of kernels with another compiler, instruction set or flags; each kernel is compiled once."""
    return Builds(tmp_path_factory.mktemp("builds"))
