"""Settings of every test: one thread, because tests may run in parallel on small machines; the first GPU is current."""

import gc
import os

import gymnasium
import pytest
from gymnasium.wrappers import common

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("GPU_VECENV_KERNELS", "quick")  # most time of the compiler goes into speed
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of a GPU that tests share


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Make tests for ``.ci/run`` slow, before tests are chosen by their marks."""
    for item in items:
        if item.get_closest_marker("in_ci"):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the garbage collector from objects of modules and tests: it would visit almost a million again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def first_gpu_is_current(request):
    """Make the first GPU current, even if an earlier test or a library changed it."""
    if request.node.get_closest_marker("gpu"):
        import torch

        torch.cuda.set_device(0)


@pytest.fixture(autouse=True)
def time_limit_is_gymnasiums(monkeypatch):
    """Take back what an import of rl_zoo3 does to later tests: its ``TimeLimit`` truncates no episode that also terminates."""
    for module in (gymnasium.wrappers, common):
        monkeypatch.setattr(module, "TimeLimit", module.TimeLimit)
