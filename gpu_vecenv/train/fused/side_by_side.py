"""Sizes of launches depend on whether a run has the GPU for itself. Results do not depend on it."""

from __future__ import annotations

import torch


def has_gpu_for_itself(device: torch.device) -> bool:
    """True if the caller prepares a run that has its device for itself; runs side by side have a stream each (``OneOfMany``)."""
    return device.type != "cuda" or torch.cuda.current_stream(device) == torch.cuda.default_stream(device)
