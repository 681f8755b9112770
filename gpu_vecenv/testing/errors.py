"""Outcomes of a check other than success."""

from __future__ import annotations

from gpu_vecenv.errors import GpuVecenvError


class CheckError(GpuVecenvError, AssertionError):
    """A check of an env failed; the message names the first difference, or file and line."""


class NotRunError(GpuVecenvError, RuntimeError):
    """A check cannot run here; the message gives the reason, such as a missing GPU."""
