"""Launches of kernels on a GPU, tested without a GPU."""

import dataclasses
import re
import sys
from contextlib import nullcontext
from math import ceil
from types import ModuleType, SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpu_vecenv.backend.blocks import blocks_of, rollout_block
from gpu_vecenv.backend.cuda import CudaBackend
from gpu_vecenv.backend.overlap import may_overlap
from gpu_vecenv.errors import ParameterError, SequenceError
from gpu_vecenv.spec.layout import Layout
from tests.kernels.test_ptx import spec_of


def test_launches_overlap_on_hopper_with_a_recent_driver_only():
    drivers = (12020, 12030, 13000)
    asked = {(major, driver) for major in (7, 8, 9, 10, 12) for driver in drivers if may_overlap((major, 0), driver)}
    assert asked == {(9, 12030), (9, 13000)}


@given(st.integers(1, 2**31 - 1), st.sampled_from([64, 128, 768, 1024]), st.integers(1, 200))
def test_rollout_blocks_spread_worlds_evenly_over_multiprocessors(worlds, most, multiprocessors):
    threads = rollout_block(worlds, most, multiprocessors)
    assert 32 <= threads <= most and threads % 32 == 0
    rounds = ceil(worlds / (most * multiprocessors))
    blocks = rounds * multiprocessors * (1 if rounds == 1 else 2)
    assert ceil(worlds / threads) <= blocks  # all worlds fit into these rounds
    assert threads == 32 or ceil(worlds / (threads - 32)) > blocks  # with smaller blocks they would not


def test_rollout_block_sizes_for_132_multiprocessors():
    sizes = {1: 32, 1_000: 32, 10_000: 96, 100_000: 768, 101_376: 768, 150_000: 288, 200_000: 384, 1_000_000: 384}
    assert {worlds: rollout_block(worlds, 768, 132) for worlds in sizes} == sizes


def test_the_environment_variable_sets_the_block_size(monkeypatch):
    monkeypatch.setenv("GPU_VECENV_BLOCK_SIZE", "64")
    for part in (0, 1):
        assert [blocks_of(agents, part) for agents in (1, 4, 105)] == [(1, 64, False), (4, 16, False), (64, 1, False)]
    monkeypatch.setenv("GPU_VECENV_BLOCK_SIZE", "768")
    with pytest.raises(ParameterError, match="must be a power of two from 32 to 1024, got '768'"):
        blocks_of(1, 0)


# ---- the back end with stand-ins for the driver, CuPy and torch's CUDA ----------------------------------------------


class StandIn:
    """Stand-in for a GPU with 132 multiprocessors; it records launches as (overlapped, kernel, blocks, threads)."""

    def __init__(self, monkeypatch, capability=(9, 0), driver=13000):
        self.launched, self.compiled, self.options, self.resident = [], [], set(), []
        self.used = None  # function from resident blocks to registers and bytes of local memory of each kernel
        self.stream, self.recording, self.cupy_recording = 0, False, False
        driver_calls = "cupy_backends.cuda.api.driver"
        names = ["cupy", "cupy.cuda", "cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.api", driver_calls]
        modules = {name: ModuleType(name) for name in names}
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)
            if "." in name:
                setattr(modules[name.rpartition(".")[0]], name.rpartition(".")[2], module)
        modules[driver_calls].launchKernel = lambda kernel, blocks, y, z, threads, *rest: self.launched.append(
            (False, kernel, blocks, threads)
        )
        cupy = modules["cupy"]
        cupy.cuda.runtime = SimpleNamespace(driverGetVersion=lambda: driver)
        cupy.cuda.compiler = SimpleNamespace(CompileException=KeyError, _NVRTCProgram=SimpleNamespace(compile=None))
        cupy.cuda.get_current_stream = lambda: SimpleNamespace(ptr=self.stream, is_capturing=lambda: self.cupy_recording)
        cupy.RawModule = self.module
        monkeypatch.setattr("gpu_vecenv.backend.cuda.overlapped_launch", self.overlapped)
        monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
        monkeypatch.setattr(torch, "zeros", lambda *_, **__: None)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(multi_processor_count=132))
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: self.recording)
        monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
        monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: self.stream, raising=False)

    def module(self, code, options):
        self.options.add(options)
        self.compiled.append(re.findall(r"^#define (GV_(?:TEAMS|LANES) \d+)$", code, re.MULTILINE))
        resident = int(re.search(r"^#define GV_RESIDENT (\d+)$", code, re.MULTILINE)[1])
        self.resident.append(resident)
        registers, local = self.used(resident) if self.used else (32, 0)

        def kernel(name):
            handle = SimpleNamespace(ptr=name if self.used is None else f"{name} in {resident}")
            return SimpleNamespace(kernel=handle, num_regs=registers, local_size_bytes=local)

        return SimpleNamespace(get_function=kernel)

    def overlapped(self, kernel, blocks, threads, stream, pointers):
        assert stream == self.stream
        self.launched.append((True, kernel, blocks, threads))


def backend_of(name, kind="torch", **params):
    spec = spec_of(name)
    return CudaBackend(Layout(spec, spec.resolve(params)), "cuda:0", kind)


ARGS = np.zeros(())


def test_steps_overlap_in_a_capture_only(monkeypatch):
    gpu = StandIn(monkeypatch)
    backend = backend_of("WarpCartPole-v1")
    for gpu.stream, gpu.recording in ((0, True), (7, False), (7, True)):  # the default stream cannot capture
        backend.launch("gv_step", ARGS, 1_000)
    assert gpu.launched == [(False, "gv_step", 8, 128), (False, "gv_step", 8, 128), (True, "gv_step", 8, 128)]


@pytest.mark.parametrize(("capability", "driver"), [((8, 0), 13000), ((9, 0), 12020)])
def test_steps_do_not_overlap_with_an_older_gpu_or_driver(monkeypatch, capability, driver):
    gpu = StandIn(monkeypatch, capability, driver)
    backend, gpu.stream, gpu.recording = backend_of("WarpCartPole-v1"), 7, True
    backend.launch("gv_step", ARGS, 1_000)
    assert gpu.launched == [(False, "gv_step", 8, 128)]


def test_rollouts_choose_a_block_size_unless_one_was_set(monkeypatch):
    gpu = StandIn(monkeypatch)
    backend = backend_of("WarpCartPole-v1")
    monkeypatch.setenv("GPU_VECENV_BLOCK_SIZE", "64")  # a back end reads it when it is made
    for worlds in (1_000, 100_000, 1_000_000):
        backend.launch("gv_rollout", ARGS, worlds)
    assert [launched[2:] for launched in gpu.launched] == [(32, 32), (131, 768), (2_605, 384)]
    assert gpu.compiled == [["GV_LANES 1", "GV_TEAMS 128"], ["GV_LANES 1", "GV_TEAMS 768"]]
    assert len(gpu.options) == 1  # CuPy compiles an empty text for each set of options
    asked = backend_of("WarpCartPole-v1")
    for name in ("gv_step", "gv_rollout"):
        asked.launch(name, ARGS, 1_000)
    assert [launched[2:] for launched in gpu.launched[3:]] == [(16, 64)] * 2


@pytest.mark.parametrize(("requested", "used", "tried", "launched"), [
    (None, {9: (56, 0)}, [9], 9),
    (None, {9: (56, 96), 8: (64, 64), 7: (72, 16), 6: (79, 0)}, [9, 8, 7, 6], 6),
    (None, {9: (56, 96), 8: (64, 0)}, [9, 8], 8),
    (96, {5: (96, 96)}, [5], 5),
])  # fmt: skip
def test_a_step_that_spills_is_launched_with_the_registers_chosen(requested, used, tried, launched, monkeypatch):
    gpu = StandIn(monkeypatch)
    gpu.used = used.get
    spec = dataclasses.replace(spec_of("WarpGridTag-v0"), registers=None if requested is None else lambda params: requested)
    backend = CudaBackend(Layout(spec, spec.resolve({})), "cuda:0", "torch")
    backend.launch("gv_step", ARGS, 16)
    assert gpu.resident == tried and gpu.launched == [(False, f"gv_step in {launched}", 1, 128)]


def test_worlds_of_several_agents_have_blocks_of_one_size(monkeypatch):
    gpu = StandIn(monkeypatch)
    for params in ({}, {"num_taggers": 3, "num_runners": 1}):
        backend = backend_of("WarpTag-v0", **params)
        for name in ("gv_step", "gv_rollout"):
            backend.launch(name, ARGS, 1_000)
    assert [launched[2:] for launched in gpu.launched] == [(1_000, 128)] * 2 + [(32, 128)] * 2


def test_nothing_is_compiled_in_a_capture(monkeypatch):
    gpu = StandIn(monkeypatch)
    backend, gpu.stream, gpu.recording = backend_of("WarpCartPole-v1"), 7, True
    with pytest.raises(SequenceError, match="compiled with the first one"):
        backend.launch("gv_rollout", ARGS, 10)
    gpu.recording = False
    backend.launch("gv_rollout", ARGS, 10)
    gpu.recording = True
    backend.launch("gv_rollout", ARGS, 10)
    assert [launched[0] for launched in gpu.launched] == [False, True]


@pytest.mark.parametrize("kind", ["torch", "cupy"])
def test_waiting_is_not_allowed_while_torch_or_cupy_captures(monkeypatch, kind):
    gpu = StandIn(monkeypatch)
    backend, gpu.stream = backend_of("WarpCartPole-v1", kind), 7
    told = {}
    for gpu.recording, gpu.cupy_recording in ((False, False), (True, False), (False, True)):
        told[gpu.recording, gpu.cupy_recording] = backend.capturing(), backend.may_wait()
    own, other = ((True, False), (False, True)) if kind == "torch" else ((False, True), (True, False))
    assert told == {(False, False): (False, True), own: (True, False), other: (False, False)}


def refusal(worlds, waits=""):
    """Return the option for which a step cannot be captured, or None."""
    try:
        worlds.require_capturable(waits)
    except SequenceError as error:
        return next(option for option in ("copy=True", "debug=True", 'array="numpy"') if option in str(error))
    return None


def test_steps_that_allocate_or_wait_are_not_captured(monkeypatch):
    """Arrays are allocated by the library whose stream launches. A capture by any library forbids a wait."""
    envs = [gymnasium.make_vec("WarpCartPole-v1", device="cpu", copy=copy).unwrapped for copy in (True, False)]
    fresh, persistent = (env.worlds for env in envs)
    gpu = StandIn(monkeypatch)
    fresh.backend = persistent.backend = backend_of("WarpCartPole-v1")
    gpu.stream, refused = 7, {}
    waits = ["debug=True", 'array="numpy"']
    for gpu.recording, gpu.cupy_recording in ((False, False), (True, False), (False, True)):
        refused[gpu.recording, gpu.cupy_recording] = [refusal(fresh), *(refusal(persistent, option) for option in waits)]
        assert refusal(persistent) is None
    assert refused == {(False, False): [None] * 3, (True, False): ["copy=True", *waits], (False, True): [None, *waits]}


def test_torchs_captures_are_checked_before_cupys(monkeypatch):
    """CuPy's check queries the default stream, which is an error of the driver while a blocking stream is captured."""
    gpu = StandIn(monkeypatch)
    backend, gpu.stream, gpu.recording = backend_of("WarpCartPole-v1"), 7, True
    monkeypatch.setattr(sys.modules["cupy"].cuda, "get_current_stream", None)
    assert not backend.may_wait()


def test_a_capture_on_another_device_is_found(monkeypatch):
    """The current device captures stream 7; the env's device has the default stream. A wait there would break the capture."""
    gpu = StandIn(monkeypatch)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 1)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 7 * index)
    backend, gpu.recording = backend_of("WarpCartPole-v1"), True
    assert backend.capturing()
