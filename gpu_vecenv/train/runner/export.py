"""Exports a policy of a run or of a checkpoint."""

from __future__ import annotations

from pathlib import Path

from gpu_vecenv.train.policies.contract import Policy
from gpu_vecenv.train.policies.export import form_text, write_policy
from gpu_vecenv.train.runner.saved_policy import saved_policy


def export_policy(source: Policy | str | Path, path: str | Path, policy: str | None = None) -> Path:
    """Write a policy for use without this package; ``write_policy()`` describes the file.

    Args:
        source: a policy, a run's folder or a checkpoint file.
        path: file to write, which ends with ``.pt2``, ``.onnx`` or ``.pt`` (TorchScript).
        policy: name of the policy in the run; None takes its only one.

    Returns:
        The path.

    Raises:
        CheckpointError: the checkpoint is unusable.
        ConfigError: the run has no such policy, or several and no name was given, or the file or the policy is not supported.
        MissingExtraError: a library that the format needs is missing.
        OSError: the file cannot be written.
    """
    return write_policy(source if isinstance(source, Policy) else saved_policy(source, policy).policy, path)


def export_with_text(run: str | Path, path: str | Path, policy: str | None = None) -> tuple[Path, str]:
    """Write a policy of a run, and return the path and the form of the program in words; see ``export_policy()``."""
    saved = saved_policy(run, policy).policy
    written = write_policy(saved, path)
    return written, form_text(path, saved)  # type: ignore[arg-type]  # write_policy() has refused others
