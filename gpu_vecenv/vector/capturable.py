"""What a CUDA graph cannot hold of a step."""

from __future__ import annotations

from gpu_vecenv.backend.base import Backend
from gpu_vecenv.errors import SequenceError


def require_capturable(backend: Backend, fresh: bool, debug: bool, to_host: bool) -> None:
    """Raise SequenceError where a graph is being captured and a step allocates or waits for the device.

    Args:
        backend: asked whether one is.
        fresh: whether results are new arrays.
        debug: whether actions are judged in each step.
        to_host: whether results are copied to the host.
    """
    if (debug or to_host) and not backend.may_wait():
        what = "debug=True" if debug else 'array="numpy"'
        raise SequenceError(f"{what} waits for the device in each step, which a CUDA graph cannot; make another env.")
    if fresh and backend.capturing():
        raise SequenceError("copy=True allocates in every step, which a CUDA graph cannot; use bind() or copy=False.")
