"""Typed errors. Each is a subclass of a built-in error, so that ``except ValueError`` catches it."""

import gymnasium


class GpuVecenvError(Exception):
    """Base of every error this package raises on purpose."""


class ParameterError(GpuVecenvError, ValueError):
    """A parameter, option or state value is outside what the env accepts."""


class SpecError(ParameterError):
    """An ``EnvSpec`` declares, or a function of it returns, what no env can have; the message names the env and the part.

    An error that a function of the spec raised is its ``__cause__``.
    """


class RoleSpacesError(ParameterError):
    """The agents view of an env whose roles have spaces of their own."""


class UnknownIdError(ParameterError, gymnasium.error.UnregisteredEnv):
    """No env is registered with an id, or the module before its colon cannot be imported."""


class UnknownParameterError(GpuVecenvError, TypeError):
    """The env has no parameter of this name."""


class UnknownAttributeError(GpuVecenvError, AttributeError):
    """The env has no attribute or method of this name for each env."""


class ShapeError(GpuVecenvError, ValueError):
    """An array has the wrong shape."""


class ActionError(GpuVecenvError, ValueError):
    """An action index out of range, or NaN."""


class ArrayTypeError(GpuVecenvError, TypeError):
    """An array has the wrong dtype or kind."""


class DeviceError(GpuVecenvError, RuntimeError):
    """A device or its driver is missing, or an array is on another device."""


class CompileError(GpuVecenvError, RuntimeError):
    """A kernel did not compile; the message holds the compiler's output."""


class HookError(CompileError):
    """A hook in Python that is not in the subset; the message begins with the file, the line and the function."""


class HookFault(GpuVecenvError, RuntimeError):
    """A hook failed a check of ``device="python"`` or of a debug build.

    The message begins with the file, the line and the function.
    """


class NonFiniteError(GpuVecenvError, ArithmeticError):
    """A number became infinite or NaN; the message names role or policy, world, agent and step as far as they are known.

    Attributes:
        file: the file with the world before it, for ``gpu-vecenv replay``; None without one.
    """

    file: str | None = None


class RecordingError(GpuVecenvError, ValueError):
    """A file of recorded steps is missing, damaged, of another kind or version, or of an env that has changed since."""


class DifferenceError(GpuVecenvError, ArithmeticError):
    """Steps that were made again gave other numbers than recorded; the message names the first of them."""


class ClosedError(GpuVecenvError, RuntimeError):
    """The env was used after ``close()``."""


class ConcurrentCallError(GpuVecenvError, RuntimeError):
    """An env was called during another call, by another thread or by a signal handler."""


class CopyError(GpuVecenvError, TypeError):
    """An env cannot be pickled, or its spec is not found where the pickle is loaded."""


class OutOfMemoryError(GpuVecenvError, MemoryError):
    """An env or a rollout needs more memory than is free on its device."""


class SequenceError(GpuVecenvError, RuntimeError):
    """A call came at the wrong time: before the first reset, after bound slabs are full, or while a CUDA graph is captured."""


class SeveralAgentsError(GpuVecenvError, ValueError):
    """A function for envs of one agent got an env with several agents."""


class MissingExtraError(GpuVecenvError, ImportError):
    """An optional library is missing; the message names the extra that installs it."""


class CheckoutError(GpuVecenvError, ImportError):
    """Parts of the package are imported from different checkouts or installations; the message names both folders."""


class VideoError(GpuVecenvError, OSError):
    """The encoder of a video failed.

    The message holds the encoder's output; ``errno`` is set if the disk could not store the file.
    """
