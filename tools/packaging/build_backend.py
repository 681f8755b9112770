"""Build back end of this repository: setuptools, with the bundled CPU kernels compiled first.

A wheel contains shared objects but no Python extension, so its tag is ``py3-none-<platform>`` and it works for every Python
version. An editable install has those for the processor of this machine, in the checkout's ``gpu_vecenv/_prebuilt``.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401  (hooks without changes)
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

Settings = dict[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Requirements of setuptools, and a compiler if the machine has none."""
    return build_meta.get_requires_for_build_wheel(config_settings) + _compiler_requirement()


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """Requirements of setuptools, and a compiler if the machine has none."""
    return build_meta.get_requires_for_build_editable(config_settings) + _compiler_requirement()


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Compile the kernels, then build the wheel for this platform and every Python."""
    from gpu_vecenv.backend.compiler import LEVELS

    prebuild(LEVELS)
    return build_meta.build_wheel(wheel_directory, _for_platform(config_settings), metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Compile the kernels for this processor into the checkout, then build the editable install."""
    from gpu_vecenv.backend.compiler import cpu_level

    prebuild((cpu_level(),))
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)


def prebuild(levels: tuple[str, ...]) -> None:
    """Compile every kernel of the package for these instruction sets into ``gpu_vecenv/_prebuilt``; remove stale files there."""
    from gpu_vecenv.backend.compiler import LEVELS, PREBUILT, compile_object, object_name
    from gpu_vecenv.backend.trainer_programs import PROGRAMS

    jobs = {object_name(spec, level): (spec, level) for spec in (*_bundled_specs(), *PROGRAMS) for level in LEVELS}
    for stale in PREBUILT.glob("*"):
        if stale.name not in jobs:
            stale.unlink() if stale.is_file() else shutil.rmtree(stale)
    missing = {name: job for name, job in jobs.items() if job[1] in levels and not (PREBUILT / name).is_file()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # threads wait for compilers
        list(pool.map(lambda name: compile_object(*missing[name], PREBUILT / name), missing))


def _bundled_specs() -> list[Any]:
    """The ``SPEC`` of every env folder."""
    from importlib import import_module

    folders = sorted(path.parent.name for path in (ROOT / "envs").glob("*/spec.py"))
    return [import_module(f"gpu_vecenv.envs.{name}.spec").SPEC for name in folders]


def _compiler_requirement() -> list[str]:
    from gpu_vecenv.backend.compiler import find_compiler

    return [] if find_compiler() else ["ziglang"]


def _for_platform(config_settings: Settings) -> dict[str, Any]:
    settings = dict(config_settings or {})
    option = settings.get("--build-option", [])
    options = [option] if isinstance(option, str) else list(option)
    settings["--build-option"] = [*options, f"--plat-name={sysconfig.get_platform()}"]
    return settings
