"""Queries to the NVIDIA driver itself, which work without torch and CuPy."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

LIBRARY = "libcuda.so.1"


@dataclass(frozen=True)
class Driver:
    """Version and GPUs of the driver."""

    cuda: tuple[int, int]
    """Newest CUDA version it supports."""
    devices: tuple[str, ...]
    """Names of the GPUs this process may use."""


class DriverError(Exception):
    """No driver works; the message says which step failed."""


def find_driver() -> Driver:
    """Load the driver's library and count its GPUs.

    Raises:
        DriverError: the library is missing, does not start, or a query fails.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise DriverError(f"the driver's library {LIBRARY} was not found") from error
    status = library.cuInit(0)
    if status == 100:  # CUDA_ERROR_NO_DEVICE
        return Driver(_cuda_version(library), ())
    if status != 0:
        raise DriverError(f"the driver did not start: cuInit returned {status}")
    count = ctypes.c_int()
    if library.cuDeviceGetCount(ctypes.byref(count)) != 0:
        raise DriverError("the driver could not count its GPUs")
    return Driver(_cuda_version(library), tuple(_device_name(library, index) for index in range(count.value)))


def nvidia_card() -> bool:
    """Return True if the PCI bus has an NVIDIA display or compute device, with or without a driver."""
    for device in Path("/sys/bus/pci/devices").glob("*"):
        try:
            vendor, kind = (device / "vendor").read_text().strip(), (device / "class").read_text().strip()
        except OSError:
            continue
        if vendor == "0x10de" and kind.startswith("0x03"):
            return True
    return False


def _cuda_version(library: ctypes.CDLL) -> tuple[int, int]:
    version = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(version)) != 0:
        raise DriverError("the driver did not return its version")
    return version.value // 1000, version.value % 1000 // 10


def _device_name(library: ctypes.CDLL, index: int) -> str:
    name = ctypes.create_string_buffer(256)
    library.cuDeviceGetName(name, len(name), index)
    return name.value.decode()
