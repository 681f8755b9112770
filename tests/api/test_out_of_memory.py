"""Errors of envs and rollouts that need more memory than is free. They name both amounts and come before any allocation."""

import gymnasium
import numpy as np
import pytest

from gpu_vecenv.backend import host_memory
from gpu_vecenv.backend.memory import NumpyMemory
from gpu_vecenv.errors import OutOfMemoryError
from tests.api.envs import make
from tests.devices import DEVICES


@pytest.mark.parametrize("device", DEVICES)
def test_too_many_worlds_raise_an_error(device):
    with pytest.raises(OutOfMemoryError, match=r"2,147,483,647 worlds need .* MB on .* MB are free: room for about .* worlds"):
        gymnasium.make_vec("WarpTag-v0", num_worlds=2**31 - 1, device=device)


def test_the_number_of_worlds_named_by_the_error_fits(monkeypatch):
    monkeypatch.setattr(NumpyMemory, "free_bytes", lambda memory: 1_000_000)
    make("cartpole", num_worlds=1_000)
    with pytest.raises(OutOfMemoryError, match=r"10,000 worlds need 1.3 MB .* 1.0 MB are free") as raised:
        make("cartpole", num_worlds=10_000)
    room = int(str(raised.value).split("room for about ")[1].split()[0].replace(",", ""))
    make("cartpole", num_worlds=room)
    with pytest.raises(OutOfMemoryError):
        make("cartpole", num_worlds=room + 100)


def test_free_memory_of_the_host_is_the_least_of_system_and_cgroup(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal:  9000 kB\nMemAvailable:    4000 kB\n")
    monkeypatch.setattr(host_memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(host_memory, "CGROUP", tmp_path)
    assert host_memory.free_host_bytes() == 4_096_000
    (tmp_path / "memory.max").write_text("max\n")
    assert host_memory.free_host_bytes() == 4_096_000
    for name, text in (("memory.max", "3000000\n"), ("memory.current", "2500000\n"), ("memory.stat", "inactive_file 70000\n")):
        (tmp_path / name).write_text(text)
    assert host_memory.free_host_bytes() == 570_000
    monkeypatch.setattr(host_memory, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr(host_memory, "CGROUP", tmp_path / "none")
    assert host_memory.free_host_bytes() is None
    assert make("cartpole").reset(seed=0)[0].dtype == np.float32


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("copy", [True, False])
def test_a_rollout_that_does_not_fit_raises_an_error_before_a_step(device, copy):
    env = make("tag", device=device, array="torch", copy=copy).unwrapped
    env.reset(seed=0)
    with pytest.raises(OutOfMemoryError, match=r"a rollout of 2,000,000,000 steps needs .* MB .* MB are free; take fewer steps"):
        env.rollout(num_steps=2_000_000_000)
    assert not env.get_state("t")["t"].any()
    env.rollout(num_steps=3)
    assert (env.get_state("t")["t"] == 3).all()
