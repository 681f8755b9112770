"""Memory of an env that hands out JAX arrays, and the order of torch's stream and JAX's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gpu_vecenv.backend.memory import TorchMemory
from gpu_vecenv.backend.private import current_device
from gpu_vecenv.errors import ArrayTypeError, DeviceError, MissingExtraError
from gpu_vecenv.spec.validation import Array, host_array, on_device


class JaxMemory(TorchMemory):
    """Torch tensors on one device, which callers get as JAX arrays without a copy.

    JAX cannot be told that a kernel of ours writes one of its arrays, so kernels write tensors and JAX takes them by DLPack,
    which orders its reads after the kernel.

    DLPack does not order what happens after an array is dropped. On a GPU, each library reuses freed memory in the order of its
    own stream, while work queued on the other one may still read it. ``meet()`` therefore orders the two streams each time that
    memory is allocated.
    """

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._jax = import_jax()
        self._index: int | None = None if self._device.type == "cpu" else self._device.index
        self._place = jax_device(device)
        if self._index is not None:
            self._current_device = current_device()
            with on_device(self._index):  # JAX makes its last GPU current when it starts
                self._passed = self._jax.jit(lambda mark: mark + 1)
                self._mark = self._torch.zeros((), dtype=self._torch.int32, device=self._device)  # never written

    def __reduce__(self) -> tuple[type[JaxMemory], tuple[str]]:
        """For copies: a memory of the same device."""
        return JaxMemory, (str(self._device),)

    def meet(self) -> None:
        """On a GPU, order later work of torch after earlier work of JAX, and the other way round. The host does not wait."""
        if self._index is None:
            return
        with self._current():
            # JAX's stream waits for the mark, so for torch's stream. Torch's stream waits for the result.
            self._torch.from_dlpack(self._passed(self._jax.dlpack.from_dlpack(self._mark)))

    def empty(self, shape: tuple[int, ...], dtype: str) -> Array:
        """Uninitialised tensor."""
        tensor = super().empty(shape, dtype)
        self.meet()
        return tensor

    def allocator(self, arrays: Sequence[tuple[tuple[int, ...], str]]) -> Callable[[], list[Array]]:
        """Return a function that makes fresh tensors."""
        make = super().allocator(arrays)
        if self._index is None:
            return make

        def allocate() -> list[Array]:
            tensors = make()
            self.meet()
            return tensors

        return allocate

    def from_numpy(self, values: np.ndarray) -> Array:
        """Tensor with a copy of host values."""
        self.meet()
        return super().from_numpy(values)

    def copy(self, array: Array) -> Array:
        """Copy on the same device."""
        self.meet()
        return super().copy(array)

    def hand_out(self, array: Array) -> Any:
        """Return a tensor as a JAX array; as a NumPy array if it has 64 bits a number, and JAX's are limited to 32."""
        dtype = np.dtype(str(array.dtype).removeprefix("torch."))
        if self._jax.dtypes.canonicalize_dtype(dtype) != dtype:
            return self.to_numpy(array)
        with self._current():
            return self._jax.dlpack.from_dlpack(array)

    def take(self, actions: Any) -> Any:
        """Return a JAX array on this device as a tensor, or on the CPU as a NumPy array, without a copy; other values unchanged.

        JAX may write to the memory again as soon as the caller drops the tensor, unless ``meet()`` comes before.

        Raises:
            ArrayTypeError: a value inside ``jax.jit``, or an array that was deleted.
            DeviceError: an array on another GPU, or on several devices.
        """
        if not isinstance(actions, self._jax.Array):
            return actions
        require_values(actions, "actions")
        if self._index is None:
            return host_array(actions, "actions")
        devices = actions.devices()
        if devices == {self._place}:
            with self._current():
                return self._torch.from_dlpack(actions)
        if len(devices) > 1 or next(iter(devices)).platform != "cpu":
            raise DeviceError(f"actions must be on {self._device}, got a JAX array on {', '.join(map(str, devices))}.")
        return actions

    def _current(self) -> AbstractContextManager[Any]:
        """Make the GPU current in a block if it is not, because torch exports tensors of the current GPU only."""
        if self._index is None or self._current_device() == self._index:
            return nullcontext()
        return on_device(self._index)


class JaxArrays:
    """JAX arrays on one device, for code that computes with what an env handed out, such as wrappers."""

    kind = "jax"

    def __init__(self, device: str) -> None:
        self._device, self._place = device, jax_device(device)

    def __reduce__(self) -> tuple[type[JaxArrays], tuple[str]]:
        """For copies: devices of JAX cannot be pickled."""
        return JaxArrays, (self._device,)

    def here(self) -> AbstractContextManager[Any]:
        """Do nothing: JAX computes on the device of an array."""
        return nullcontext()

    def from_numpy(self, values: np.ndarray) -> Any:
        """Array with a copy of host values; 64 bits become 32 unless JAX is set to 64."""
        return import_jax().device_put(np.array(values), self._place)

    def adopt(self, array: Any, where: str) -> Any:
        """Return an array of any kind on the device."""
        jax = import_jax()
        source = array if isinstance(array, jax.Array) else np.asarray(host_array(array, where))
        return jax.device_put(source, self._place)


def import_jax(caller: str = 'array="jax"') -> Any:
    """Import JAX.

    Args:
        caller: what needs it, for the message.

    Raises:
        MissingExtraError: JAX is not installed; the message names the extra.
    """
    try:
        import jax
        import jax.dlpack
    except ImportError as error:
        raise MissingExtraError(f'{caller} needs JAX: pip install "gpu-vecenv[jax]".') from error
    return jax


def jax_device(device: str) -> Any:
    """Return JAX's object for ``"cpu"`` or ``"cuda:N"``. The current GPU stays current.

    Raises:
        MissingExtraError: JAX is not installed.
        DeviceError: JAX does not see the device.
    """
    import torch

    jax = import_jax()
    platform, index = ("cpu", 0) if device == "cpu" else ("gpu", int(device.partition(":")[2]))
    with torch.cuda.device(-1 if platform == "cpu" else index):  # JAX makes its last GPU current when it starts
        try:
            devices = [one for one in jax.local_devices(backend=platform) if platform == "cpu" or one.local_hardware_id == index]
        except RuntimeError:  # the platform is not among those of this JAX
            devices = []
    if not devices:
        remedy = 'install JAX with CUDA, pip install "jax[cuda13]"' if platform == "gpu" else "add cpu to JAX_PLATFORMS"
        raise DeviceError(f'array="jax" on {device} needs a JAX that sees this device; {remedy}, or use array="torch".')
    return devices[0]


def require_values(array: Any, where: str) -> None:
    """Raise ArrayTypeError for a JAX array without values: inside ``jax.jit``, or deleted."""
    if isinstance(array, import_jax().core.Tracer):
        raise ArrayTypeError(
            f"{where} must hold values, got a JAX tracer; inside jax.jit use gpu_vecenv.adapters.jax.jittable(env)."
        )
    if array.is_deleted():
        raise ArrayTypeError(f"{where} must hold values, got a JAX array that was deleted or donated.")
