"""Errors of the trainer; each message states what was expected and what came."""

from gpu_vecenv.errors import GpuVecenvError
from gpu_vecenv.errors import NonFiniteError as NonFiniteError


class ConfigError(GpuVecenvError, ValueError):
    """A training option is unknown or out of range."""


class CallbackError(GpuVecenvError, TypeError):
    """A callback or a sink has the wrong type, or a callback returned a value without a meaning."""


class PolicyMapError(GpuVecenvError, ValueError):
    """Roles and policies do not fit together."""


class CheckpointError(GpuVecenvError, ValueError):
    """A file is missing, damaged, no checkpoint, of another format version, or of a run that cannot be built here."""


class MetricsError(GpuVecenvError, ValueError):
    """A run's metrics are missing, empty or damaged."""


class RunExistsError(GpuVecenvError, ValueError):
    """A run was given a folder that already holds another run."""


class RunLockedError(GpuVecenvError, RuntimeError):
    """A run's folder is locked by another trainer, or this trainer no longer holds the lock."""


class RunGoneError(GpuVecenvError, FileNotFoundError):
    """A run's folder was removed or replaced while its trainer was running."""


class UnfinishedError(GpuVecenvError, RuntimeError):
    """Episodes of an evaluation did not end within the bound on their steps; the message holds what was seen so far."""


class LostRankError(GpuVecenvError, RuntimeError):
    """A process of a run on several devices is gone; the message names its rank. The newest checkpoint is whole."""


class RunsError(GpuVecenvError, RuntimeError):
    """Some of several runs ended with an error; the others are complete."""
