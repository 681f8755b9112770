"""Settings for every test: few threads, as tests may run side by side on small machines; the first GPU is the current one."""

import os

import pytest

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of a GPU that tests share


@pytest.fixture(autouse=True)
def first_gpu_is_current(request):
    """Where there are several, a test finds the first one current, whatever a test or a library before it has done."""
    if request.node.get_closest_marker("gpu"):
        import torch

        torch.cuda.set_device(0)
