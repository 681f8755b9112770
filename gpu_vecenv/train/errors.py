"""Errors raised by the trainer; each message says what was expected and what came."""

from gpu_vecenv.errors import GpuVecenvError


class ConfigError(GpuVecenvError, ValueError):
    """A training option is unknown or out of range."""


class PolicyMapError(GpuVecenvError, ValueError):
    """Roles and policies do not fit together."""


class CheckpointError(GpuVecenvError, ValueError):
    """A checkpoint file is missing, damaged, foreign or of another format version."""


class MetricsError(GpuVecenvError, ValueError):
    """A run's metrics are missing, empty or damaged."""


class RunExistsError(GpuVecenvError, ValueError):
    """A new run was pointed at a folder that already holds one."""
