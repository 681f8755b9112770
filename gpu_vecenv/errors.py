"""Typed errors. Each subclasses the built-in that fits, so that ``except ValueError`` keeps working."""


class GpuVecenvError(Exception):
    """Base of every error this package raises on purpose."""


class ParameterError(GpuVecenvError, ValueError):
    """A parameter, option or state value is outside what the env accepts."""


class UnknownParameterError(GpuVecenvError, TypeError):
    """A keyword that the env does not have."""


class ShapeError(GpuVecenvError, ValueError):
    """An array has the wrong shape."""


class ActionError(GpuVecenvError, ValueError):
    """An action index out of range, or NaN."""


class ArrayTypeError(GpuVecenvError, TypeError):
    """An array has the wrong dtype or kind."""


class DeviceError(GpuVecenvError, RuntimeError):
    """A device, or what it needs, is missing, or an array lives on another device."""


class CompileError(GpuVecenvError, RuntimeError):
    """A kernel did not compile; the message holds the compiler's own words."""


class ClosedError(GpuVecenvError, RuntimeError):
    """The env was used after ``close()``."""


class ConcurrentCallError(GpuVecenvError, RuntimeError):
    """A thread called an env while another thread was in a call of it."""


class OutOfMemoryError(GpuVecenvError, MemoryError):
    """An env or a rollout needs more memory than is free on its device."""


class SequenceError(GpuVecenvError, RuntimeError):
    """Calls in an order that cannot work: a step before the first reset, a step past a bound slab."""


class SeveralAgentsError(GpuVecenvError, ValueError):
    """An env with several agents was asked for by a call that makes envs of one agent."""


class MissingExtraError(GpuVecenvError, ImportError):
    """An optional library is needed; the message names the extra that brings it."""


class VideoError(GpuVecenvError, OSError):
    """The encoder of a video failed.

    The message holds the encoder's output; ``errno`` is set where the disk refused.
    """
