"""The doctor: every state of a machine that it reports, with stand-ins for drivers and libraries."""

import importlib.metadata
import os
import types

import pytest

import gpu_vecenv.cli.doctor as doctor
from gpu_vecenv.backend import compiler
from gpu_vecenv.backend.driver import Driver, DriverError

CUDA13 = Driver((13, 0), ("Some GPU",))
CUDA12 = Driver((12, 4), ("Some GPU",))


class FakeRuntimeError(RuntimeError):
    """Stand-in for cupy.cuda.runtime.CUDARuntimeError."""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a function that makes the given CuPy wheels, and no others, look installed."""

    def install(**wheels: str) -> None:
        for name, version in wheels.items():
            info = tmp_path / f"{name}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Name: {name.replace('_', '-')}\nVersion: {version}\n")
        found = [importlib.metadata.Distribution.at(path) for path in tmp_path.glob("*.dist-info")]
        monkeypatch.setattr(importlib.metadata, "distributions", lambda: found)

    return install


@pytest.fixture
def cupy(monkeypatch):
    """Install a stand-in for CuPy; return the errors that its driver and its NVRTC raise, None for none."""

    def answer(error: Exception | None, value: object) -> object:
        if error:
            raise error
        return value

    state = types.SimpleNamespace(driver=None, nvrtc=None)
    runtime = types.SimpleNamespace(CUDARuntimeError=FakeRuntimeError, getDeviceCount=lambda: answer(state.driver, 1))
    module = types.ModuleType("cupy")
    module.cuda = types.SimpleNamespace(runtime=runtime)
    module.RawModule = lambda code: types.SimpleNamespace(compile=lambda: answer(state.nvrtc, None))
    monkeypatch.setitem(__import__("sys").modules, "cupy", module)
    return state


def test_cupy_is_not_required_without_a_gpu(installed):
    installed()
    (check,) = doctor.check_cupy(None)
    assert check.ok is None and not check.remedy


@pytest.mark.parametrize(("driver", "extra"), [(CUDA13, "cuda13"), (CUDA12, "cuda12")])
def test_a_missing_cupy_is_reported_with_its_extra(installed, monkeypatch, driver, extra):
    monkeypatch.setattr("torch.version.cuda", None)  # a build for CUDA 12 would decide, too
    installed()
    (check,) = doctor.check_cupy(driver)
    assert check.ok is False and check.detail == "not installed"
    assert check.remedy == f'pip install "gpu-vecenv[{extra}]"'


def test_two_cupy_wheels_are_reported(installed, monkeypatch):
    monkeypatch.setattr("torch.version.cuda", None)
    installed(cupy_cuda12x="14.2.0", cupy_cuda13x="14.2.0")
    (check,) = doctor.check_cupy(CUDA13)
    assert check.ok is False
    assert check.remedy == 'pip uninstall -y cupy-cuda12x cupy-cuda13x && pip install "gpu-vecenv[cuda13]"'


def test_a_driver_too_old_for_cupy_is_reported(installed, cupy):
    installed(cupy_cuda13x="14.2.0")
    cupy.driver = FakeRuntimeError("cudaErrorInsufficientDriver")
    (check,) = doctor.check_cupy(CUDA12)
    assert check.ok is False and "cudaErrorInsufficientDriver" in check.detail
    assert '"gpu-vecenv[cuda12]"' in check.remedy and "driver" in check.remedy


def test_a_missing_nvrtc_is_reported(installed, cupy):
    installed(cupy_cuda13x="14.2.0")
    cupy.nvrtc = RuntimeError("libnvrtc.so.13 was not found\nsearched everywhere")
    good, check = doctor.check_cupy(CUDA13)
    assert good.ok is True
    assert check.ok is False and check.detail == "CuPy cannot compile with it: libnvrtc.so.13 was not found"
    assert check.remedy == 'pip install "cupy-cuda13x[ctk]"'


def test_cupy_and_nvrtc_work(installed, cupy):
    installed(cupy_cuda13x="14.2.0")
    assert [check.ok for check in doctor.check_cupy(CUDA13)] == [True, True]


def test_a_card_without_a_driver_is_reported(monkeypatch):
    def missing() -> Driver:
        raise DriverError("the driver's library libcuda.so.1 was not found")

    monkeypatch.setattr(doctor, "find_driver", missing)
    monkeypatch.setattr(doctor, "nvidia_card", lambda: True)
    driver, check = doctor.check_gpu()
    assert driver is None and check.ok is False and "install the NVIDIA driver" in check.remedy
    monkeypatch.setattr(doctor, "nvidia_card", lambda: False)
    assert doctor.check_gpu()[1].ok is None


@pytest.mark.parametrize(
    ("built", "usable", "driver", "ok", "remedy"),
    [
        (None, False, None, True, ""),
        (None, False, CUDA13, False, "pip install --force-reinstall torch"),
        ("13.0", True, CUDA13, True, ""),
        ("13.0", False, CUDA12, False, "update the NVIDIA driver"),
        ("12.8", False, CUDA13, False, "shows the cause"),
    ],
)
def test_a_torch_that_does_not_fit_the_driver_is_reported(monkeypatch, built, usable, driver, ok, remedy):
    import torch

    monkeypatch.setattr(torch.version, "cuda", built)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: usable)
    check = doctor.check_torch(driver)
    assert check.ok is ok and remedy in check.remedy


def test_an_env_runs_on_this_machine(capsys):
    assert doctor.doctor() == 0
    out = capsys.readouterr().out
    assert "ok  an env on cpu" in out and "\nEnvs run on: cpu" in out


def test_without_kernel_and_compiler_no_env_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(compiler, "PREBUILT", tmp_path / "none")
    monkeypatch.setenv("GPU_VECENV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    monkeypatch.setattr(doctor, "check_gpu", lambda: (None, doctor.Check("GPU", None, "none")))
    assert doctor.doctor() == 1
    out = capsys.readouterr().out
    assert "NO  C++ compiler" in out and "NO  an env on cpu" in out and "Envs run on: nothing." in out


def test_a_user_without_a_cache_folder_is_reported(monkeypatch):
    monkeypatch.setattr(doctor.cache, "lasting_dir", lambda: None)
    check = doctor.check_cache()
    assert check.ok is False and "lost when their process ends" in check.detail
    assert check.remedy == "Set GPU_VECENV_CACHE_DIR to a folder of your own that can be written."


@pytest.mark.parametrize("command", ["'g++", "false", "true", __file__, "/tmp"])
def test_commands_that_are_no_compiler_are_reported(monkeypatch, command):
    monkeypatch.setenv("CXX", command)
    check = doctor.check_compiler()
    assert check.ok is False and command in check.detail and "check CXX" in check.remedy


@pytest.mark.parametrize(
    ("text", "said"),
    [("int other() { return 7; }", "undefined symbol: gv_trial"), ("int gv_trial() { return 8; }", "got status 8")],
)
def test_a_compiler_that_makes_something_else_is_reported(monkeypatch, tmp_path, text, said):
    wrong = tmp_path / "c++"
    wrong.write_text(f"#!/bin/sh\nfor last; do :; done; echo '{text}' | cc -shared -fPIC -x c - -o \"$last\"\n")
    wrong.chmod(0o755)
    monkeypatch.setenv("CXX", str(wrong))
    check = doctor.check_compiler()
    assert check.ok is False and said in check.detail


def test_a_compiler_without_version_output_is_accepted(monkeypatch, tmp_path):
    quiet = tmp_path / "c++"
    quiet.write_text('#!/bin/sh\n[ "$1" = --version ] || c++ "$@"\n')
    quiet.chmod(0o755)
    monkeypatch.setenv("CXX", str(quiet))
    assert doctor.check_compiler() == doctor.Check("C++ compiler", True, str(quiet))


def test_a_cache_from_which_nothing_can_be_loaded_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("GPU_VECENV_CACHE_DIR", str(tmp_path))
    assert doctor.check_cache() == doctor.Check("cache folder", True, str(tmp_path))
    monkeypatch.setattr(doctor.os, "statvfs", lambda folder: types.SimpleNamespace(f_flag=os.ST_NOEXEC))
    check = doctor.check_cache()
    assert check.ok is False and "noexec" in check.detail and "GPU_VECENV_CACHE_DIR" in check.remedy


def test_an_invalid_thread_count_fails_the_cpu_check(monkeypatch):
    monkeypatch.setenv("GPU_VECENV_NUM_THREADS", "two")
    check = doctor.check_cpu()
    assert check.ok is False and "GPU_VECENV_NUM_THREADS" in check.detail and "unset it" in check.remedy


@pytest.mark.parametrize(("system", "machine", "ok"), [
    ("Linux", "x86_64", True), ("Linux", "aarch64", True), ("Linux", "riscv64", False), ("Darwin", "arm64", False),
])  # fmt: skip
def test_a_machine_without_bundled_kernels_fails_the_cpu_check(monkeypatch, system, machine, ok):
    monkeypatch.setattr(doctor.platform, "system", lambda: system)
    monkeypatch.setattr(doctor.platform, "machine", lambda: machine)
    check = doctor.check_cpu()
    assert check.ok is ok and ("only Linux on x86-64 and aarch64" in check.remedy) is not ok
