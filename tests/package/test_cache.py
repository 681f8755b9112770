"""The folder of compiled kernels, when it cannot be used as it is."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.backend import compiler
from gpu_vecenv.errors import CompileError


@pytest.fixture
def no_prebuilt(monkeypatch, tmp_path):
    monkeypatch.setattr(compiler, "PREBUILT", tmp_path / "none")
    monkeypatch.setenv("GPU_VECENV_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def step():
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=2, device="cpu", array="numpy")
    env.reset(seed=0)
    return env.step(np.zeros(2, np.int32))[1]


def test_a_damaged_kernel_is_compiled_again(no_prebuilt):
    from gpu_vecenv.envs.cartpole.spec import SPEC

    damaged = no_prebuilt / compiler.object_name(SPEC, compiler.cpu_level())
    no_prebuilt.mkdir()
    damaged.write_bytes(b"\x7fELF")
    assert step().tolist() == [1.0, 1.0]
    assert damaged.stat().st_size > 1000


def test_a_folder_that_cannot_be_made(no_prebuilt, monkeypatch):
    monkeypatch.setenv("GPU_VECENV_CACHE_DIR", "/proc/none")
    with pytest.raises(CompileError, match="compiled kernels cannot be kept.*GPU_VECENV_CACHE_DIR"):
        step()
