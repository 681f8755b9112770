"""Build back end of this repository: setuptools, with the bundled CPU kernels compiled first.

A wheel contains shared objects but no Python extension, so its tag is ``py3-none-<platform>`` and it works for every Python
version. An editable install has those for the processor of this machine, in the checkout's ``gpu_vecenv/_prebuilt``, and links
to all folders of the package in ``.editable``.

The setting ``machine`` (``pip wheel -C machine=aarch64 .``) builds a wheel for a release: zig, from the package ``ziglang``,
compiles for that machine and an old C library, so that the wheel fits every Linux that pip supports.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
import sysconfig
import zipfile
from base64 import urlsafe_b64encode
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

GLIBC = "2.17"
"""Oldest version of the C library on which wheels of a release run; the first one for aarch64."""

Settings = dict[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Requirements of setuptools, and a compiler if the machine has none."""
    compiler = _compiler_requirement() if _machine(config_settings) is None else ["ziglang"]
    return build_meta.get_requires_for_build_wheel(config_settings) + compiler


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """Requirements of setuptools, and a compiler if the machine has none."""
    return build_meta.get_requires_for_build_editable(config_settings) + _compiler_requirement()


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Compile the kernels, then build the wheel for every Python, on this platform or on the setting ``machine``."""
    from gpu_vecenv.backend.compiler import LEVELS, LEVELS_OF

    machine = _machine(config_settings)
    if machine is None:
        prebuild(LEVELS)
    else:
        os.environ["CXX"] = f"{shlex.quote(sys.executable)} -m ziglang cc -target {machine}-linux-gnu.{GLIBC} -s"
        prebuild(LEVELS_OF[machine])
    return build_meta.build_wheel(wheel_directory, _for_platform(config_settings), metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Compile the kernels for this processor into the checkout, then build the editable install."""
    from gpu_vecenv.backend.compiler import LEVELS

    prebuild(LEVELS, for_this_processor=True)
    name = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    _put_on_path(Path(wheel_directory, name), link_package())
    return name


def link_package() -> Path:
    """Link the package as wheels have it, with ``envs/`` and ``adapters/`` inside, and return the folder for the path.

    Folders are links, so that new files in them are part of the package at once.
    """
    package = ROOT / ".editable" / "gpu_vecenv"
    shutil.rmtree(package.parent, ignore_errors=True)
    package.mkdir(parents=True)
    for path in (*(ROOT / "gpu_vecenv").iterdir(), ROOT / "envs", ROOT / "adapters"):
        if path.name != "__pycache__":
            (package / path.name).symlink_to(path)
    return package.parent


def _put_on_path(wheel: Path, folder: Path) -> None:
    """Let an editable wheel put a folder on the path, in place of the import hook of setuptools, which no type checker runs."""
    name, text = "gpu_vecenv.pth", f"{folder}\n"
    digest = urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(wheel) as archive:
        files = {each: archive.read(each).decode() for each in archive.infolist() if not each.filename.startswith("__editable__")}
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, text)
        for each, content in files.items():
            if each.filename.endswith(".dist-info/RECORD"):
                kept = [line for line in content.splitlines() if not line.startswith("__editable__")]
                content = "\n".join([f"{name},sha256={digest},{len(text.encode())}", *kept, ""])
            archive.writestr(each, content)


def prebuild(levels: tuple[str, ...], for_this_processor: bool = False) -> None:
    """Compile every kernel of the package into ``gpu_vecenv/_prebuilt``, and remove all other files there.

    Args:
        levels: instruction sets of a machine, whose files stay.
        for_this_processor: compile only what this processor loads.
    """
    from gpu_vecenv.backend.compiler import PREBUILT, compile_object, cpu_level, levels_of, object_name
    from gpu_vecenv.backend.trainer_programs import HOST_PROGRAMS, PROGRAMS

    jobs = {}
    for spec in (*_bundled_specs(), *PROGRAMS, *HOST_PROGRAMS):
        all_levels = levels_of(spec, levels)
        jobs |= {object_name(spec, level): (spec, level, level == cpu_level(all_levels)) for level in all_levels}
    for stale in PREBUILT.glob("*"):
        if stale.name not in jobs:
            stale.unlink() if stale.is_file() else shutil.rmtree(stale)
    missing = {
        name: (spec, level) for name, (spec, level, loaded) in jobs.items()
        if (loaded or not for_this_processor) and not (PREBUILT / name).is_file()
    }  # fmt: skip
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


def _machine(config_settings: Settings) -> str | None:
    """Return the setting ``machine``, None if it is missing.

    Raises:
        ValueError: it is no machine that has bundled kernels.
    """
    from gpu_vecenv.backend.compiler import LEVELS_OF

    machine = (config_settings or {}).get("machine")
    if machine is not None and machine not in LEVELS_OF:
        raise ValueError(f"machine must be one of {', '.join(LEVELS_OF)}, got {machine!r}.")
    return machine


def _for_platform(config_settings: Settings) -> dict[str, Any]:
    """Return the settings with the tag of the wheel's platform."""
    settings, machine = dict(config_settings or {}), _machine(config_settings)
    settings.pop("machine", None)
    platform = sysconfig.get_platform() if machine is None else f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    option = settings.get("--build-option", [])
    options = [option] if isinstance(option, str) else list(option)
    settings["--build-option"] = [*options, f"--plat-name={platform}"]
    return settings
