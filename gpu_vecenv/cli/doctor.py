"""The command ``doctor``: checks of this machine, with a remedy for each that fails."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import tempfile
import time
import warnings
from dataclasses import dataclass
from typing import Any

from gpu_vecenv import __version__
from gpu_vecenv.backend import cache, compiler
from gpu_vecenv.backend.cpu import num_threads
from gpu_vecenv.backend.driver import Driver, DriverError, find_driver, nvidia_card
from gpu_vecenv.cli.main import TRAIN_EXTRA, missing_modules
from gpu_vecenv.errors import CompileError, GpuVecenvError, ParameterError
from gpu_vecenv.spec.env_spec import EnvSpec

MARKS = {True: "ok", False: "NO", None: "--"}
"""Marks of a check that passed, of one that failed, and of a missing part that is not needed."""

_UPDATE_DRIVER = "update the NVIDIA driver (580 or newer for CUDA 13)"
_SHOW_CAUSE = 'python -c "import torch; torch.zeros(1).cuda()" shows the cause.'


@dataclass(frozen=True)
class Check:
    """One line of the report. ``ok`` is None if a part is missing and not needed."""

    name: str
    ok: bool | None
    detail: str
    remedy: str = ""

    def __str__(self) -> str:
        """Return the line, with the remedy under it."""
        line = f"{MARKS[self.ok]:4}{self.name:17}{self.detail}"
        return f"{line}\n{'':21}-> {self.remedy}" if self.remedy else line


def doctor() -> int:
    """Check this machine, and print a remedy for each check that fails.

    Example: gpu-vecenv doctor

    Returns:
        0 if an env runs on some device, else 1.
    """
    print(f"gpu_vecenv {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}\n")
    driver, gpu = check_gpu()
    for check in (check_cpu(), gpu, check_torch(driver), *check_cupy(driver)):
        print(check)
    for check in (check_compiler(), check_prebuilt(), check_cache(), check_train_extra()):
        print(check)
    devices = ["cpu"] + (["cuda:0"] if driver and driver.devices else [])
    trials = {device: try_device(device) for device in devices}
    for trial in trials.values():
        print(trial)
    working = [device for device, trial in trials.items() if trial.ok]
    print(f"\nEnvs run on: {', '.join(working) or 'nothing'}.")
    return 0 if working else 1


def check_cpu() -> Check:
    """Check the CPU: cores and instruction set."""
    try:
        threads = num_threads()
    except ParameterError as error:
        return Check("CPU", False, str(error), "unset it, or set it to the number of threads that step worlds.")
    detail = f"{os.cpu_count()} cores, kernels use {threads} threads and {compiler.cpu_level()}"
    if platform.system() == "Linux" and platform.machine() in compiler.LEVELS_OF:
        return Check("CPU", True, detail)
    return Check("CPU", False, detail, "only Linux on x86-64 and aarch64 is supported; on Windows use WSL.")


def check_gpu() -> tuple[Driver | None, Check]:
    """Check GPU and driver."""
    try:
        driver = find_driver()
    except DriverError as error:
        if nvidia_card():
            remedy = "install the NVIDIA driver, 580 or newer; in a container, start it with access to the GPU."
            return None, Check("GPU", False, f"an NVIDIA card, but {error}", remedy)
        return None, Check("GPU", None, f"none: {error}")
    if not driver.devices:
        remedy = "check CUDA_VISIBLE_DEVICES and, in a container, its access to the GPU." if nvidia_card() else ""
        return driver, Check("GPU", False if remedy else None, "a driver, but no GPU that this process may use", remedy)
    names = ", ".join(driver.devices)
    return driver, Check("GPU", True, f"{names}; the driver supports CUDA {_version(driver.cuda)}")


def check_torch(driver: Driver | None) -> Check:
    """Check that torch can be imported and that its CUDA build fits the driver."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return Check("torch", False, f"cannot be imported: {error}", "pip install --force-reinstall torch")
    built = torch.version.cuda
    detail = f"{torch.__version__}, " + (f"built for CUDA {built}" if built else "a CPU build")
    if not driver or not driver.devices:
        return Check("torch", True, detail)
    if not built:
        return Check("torch", False, detail, "pip install --force-reinstall torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        usable = torch.cuda.is_available()
    if usable:
        return Check("torch", True, detail)
    major = int(built.partition(".")[0])
    if major > driver.cuda[0]:
        remedy = f"{_UPDATE_DRIVER}, or install torch built for CUDA {driver.cuda[0]}."
        return Check("torch", False, f"{detail}; the driver supports CUDA {_version(driver.cuda)} only", remedy)
    return Check("torch", False, f"{detail}; it cannot use the GPU", _SHOW_CAUSE)


def check_cupy(driver: Driver | None) -> list[Check]:
    """Check CuPy and NVRTC: installed once, able to use the driver, able to compile."""
    wheels = sorted(
        {d.metadata["Name"].lower(): d.version for d in importlib.metadata.distributions()
         if (d.metadata["Name"] or "").lower().startswith("cupy")}.items()
    )
    install = f'pip install "gpu-vecenv[{_cuda_extra(driver)}]"'
    detail = ", ".join(f"{name} {version}" for name, version in wheels)
    if not driver or not driver.devices:
        return [Check("CuPy", None, f"{detail or 'not installed'}; used with a GPU only")]
    if not wheels:
        return [Check("CuPy", False, "not installed", install)]
    if len(wheels) > 1:
        names = " ".join(name for name, _ in wheels)
        return [Check("CuPy", False, f"{detail}: one overwrites the other", f"pip uninstall -y {names} && {install}")]
    reinstall = f"pip uninstall -y {wheels[0][0]} && {install}"
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        return [Check("CuPy", False, f"{detail} cannot be imported: {error}", reinstall)]
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        remedy = f"{reinstall}, or {_UPDATE_DRIVER}."
        return [Check("CuPy", False, f"{detail} cannot use the driver: {error}", remedy)]
    return [Check("CuPy", True, detail), _check_nvrtc(cupy, wheels[0][0])]


def check_compiler() -> Check:
    """Check the C++ compiler, which kernels that are not prebuilt need: it compiles a function, which is called."""
    remedy = "needed for kernels of your own only: install g++ or clang++, or pip install ziglang"
    try:
        command = compiler.find_compiler()
    except CompileError as error:
        return Check("C++ compiler", False, str(error), "check CXX; " + remedy)
    if command is None:
        return Check("C++ compiler", None, "none", remedy)
    try:
        compiler.try_compiler(command)
        version = compiler.version(tuple(command)).splitlines()[:1]
    except CompileError as error:
        return Check("C++ compiler", False, f"{' '.join(command)} does not work: {error}", "check CXX; " + remedy)
    return Check("C++ compiler", True, ": ".join([" ".join(command), *version]))


def check_prebuilt() -> Check:
    """Check the kernels that were built with the package."""
    from gpu_vecenv.envs.cartpole.spec import SPEC as CARTPOLE
    from gpu_vecenv.envs.tag.spec import SPEC as TAG

    missing = [s.name for s in (TAG, CARTPOLE) if not _is_prebuilt(s)]
    if not missing:
        return Check("prebuilt kernels", True, str(compiler.PREBUILT))
    detail = f"none up to date for {', '.join(missing)}: compiled at first use instead"
    return Check("prebuilt kernels", None, detail, "install the package again to build them")


def check_cache() -> Check:
    """Check the folder of compiled kernels."""
    folder = cache.lasting_dir()
    if folder is None:
        detail = "this user has none: kernels compiled at first use are lost when their process ends"
        return Check("cache folder", False, detail, cache.REMEDY)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        executable = not os.statvfs(folder).f_flag & os.ST_NOEXEC
    except OSError as error:
        return Check("cache folder", False, f"cannot be written: {error}", cache.REMEDY)
    if not executable:
        detail = f"{folder} is on a disk that is mounted with noexec: kernels cannot be loaded from it"
        return Check("cache folder", False, detail, f"Set {cache.VARIABLE} to a folder on another disk.")
    return Check("cache folder", True, str(folder))


def check_train_extra() -> Check:
    """Check the packages that the trainer and videos need."""
    missing = missing_modules(TRAIN_EXTRA)
    if not missing:
        return Check("train extra", True, "installed")
    return Check("train extra", None, f"without {', '.join(missing)}", 'to train: pip install "gpu-vecenv[train]"')


def try_device(device: str) -> Check:
    """Check that an env can be made and stepped on a device."""
    name = f"an env on {device}"
    start = time.perf_counter()
    try:
        import torch

        from gpu_vecenv.envs.cartpole import make_vec

        env = make_vec(num_envs=64, device=device)
        env.reset(seed=0)
        for action in (0, 1):
            _, reward, *_ = env.step(torch.full((64,), action, device=device))
        total = float(reward.sum())
        env.close()
    except (GpuVecenvError, ImportError, OSError, RuntimeError) as error:
        return Check(name, False, f"{type(error).__name__}: {error}")
    if total != 64:
        return Check(name, False, f"expected rewards of 64 from a step of 64 worlds, got {total:g}")
    return Check(name, True, f"64 worlds of CartPole built and stepped in {time.perf_counter() - start:.1f} s")


def _cuda_extra(driver: Driver | None) -> str:
    """Return the extra whose CuPy fits the driver and torch's own CUDA libraries."""
    majors = [driver.cuda[0]] if driver else []
    try:
        import torch

        majors += [int(torch.version.cuda.partition(".")[0])] if torch.version.cuda else []
    except (ImportError, OSError):
        pass
    return "cuda12" if majors and min(majors) < 13 else "cuda13"


def _check_nvrtc(cupy: Any, wheel: str) -> Check:
    try:
        cupy.RawModule(code='extern "C" __global__ void nothing() {}').compile()
    except Exception as error:  # the type depends on CuPy's version and on the missing library
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Check("NVRTC", False, f"CuPy cannot compile with it: {reason}", f'pip install "{wheel}[ctk]"')
    return Check("NVRTC", True, "compiles a kernel")


def _is_prebuilt(spec: EnvSpec) -> bool:
    return (compiler.PREBUILT / compiler.object_name(spec, compiler.cpu_level())).is_file()


def _version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
