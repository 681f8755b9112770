"""Choice of the device and its back end."""

from __future__ import annotations

import importlib.util
import re
import warnings

from gpu_vecenv.backend.base import Backend
from gpu_vecenv.backend.build_kind import build_kind
from gpu_vecenv.backend.cpu import CpuBackend
from gpu_vecenv.errors import DeviceError, ParameterError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.validation import abbreviated


def cuda_devices() -> int:
    """Return the number of GPUs that torch sees; 0 without a driver or with a CPU build of torch."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def choose_device(device: str) -> str:
    """Return ``"cpu"`` or ``"cuda:N"`` for ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.

    ``"auto"`` chooses the current GPU if one works, and warns if only CuPy is missing.

    Raises:
        ParameterError: not a device name.
        DeviceError: the GPU does not exist or does not work.
    """
    if not isinstance(device, str) or not re.fullmatch(r"cpu|auto|cuda(:[0-9]{1,3})?", device):
        raise ParameterError(f'device must be "auto", "cpu", "cuda" or "cuda:N", got {abbreviated(device)}.')
    if device == "cpu":
        return "cpu"
    count = cuda_devices()
    if device == "auto":
        if count == 0:
            return "cpu"
        if importlib.util.find_spec("cupy") is None:
            warnings.warn(
                'A GPU is present but CuPy is not, so this env runs on the CPU: pip install "gpu-vecenv[cuda13]".',
                stacklevel=2,
            )
            return "cpu"
    index = int(device.partition(":")[2]) if ":" in device else None
    if count == 0 or (index is not None and index >= count):
        seen = f"torch sees {count} GPUs" if count else "torch sees no usable GPU"
        raise DeviceError(
            f'device={device!r} was asked for, but {seen}. Run "gpu-vecenv doctor" for the cause, or use device="cpu".'
        )
    if index is None:
        import torch

        index = torch.cuda.current_device()
    return f"cuda:{index}"


def make_backend(layout: Layout, device: str, kind: str) -> Backend:
    """Return the back end for ``"python"`` or a device of ``choose_device()``; ``kind`` is the array kind."""
    build = build_kind()
    if device == "python":
        from gpu_vecenv.backend.python import PythonBackend

        return PythonBackend(layout)
    if build.debug:
        from gpu_vecenv.backend.debug import DebugCpuBackend, DebugCudaBackend

        return DebugCpuBackend(layout, build) if device == "cpu" else DebugCudaBackend(layout, device, kind, build)
    if device == "cpu":
        return CpuBackend(layout)
    from gpu_vecenv.backend.cuda import CudaBackend

    return CudaBackend(layout, device, kind)
