"""Texts about a run that the trainer prints."""

from __future__ import annotations

import torch

from gpu_vecenv.train.config import ResolvedConfig
from gpu_vecenv.train.runner.parts import Parts


def run_text(config: ResolvedConfig, parts: Parts) -> str:
    """Return the env, its size, the device and the folder of a run, and a line for each policy without fused kernels."""
    env, device = parts.collector.env, config.device
    if device.startswith("cuda"):
        device += f" ({torch.cuda.get_device_name(device)})"
    size = f"{config.num_envs} worlds x {env.num_agents} agents"
    text = f"{config.env_id}: {size} on {device}, torch threads: {config.threads}, out: {config.out}"
    return "\n".join([text, *(f"{name!r} has no fused kernels: {why}" for name, why in parts.not_fused.items())])


def move_text(before: str, now: str) -> str:
    """Return a warning if a run goes on with a device of another kind, whose networks round differently; empty otherwise."""
    if before.partition(":")[0] == now.partition(":")[0]:
        return ""
    return f"moved from {before} to {now}; the rest of the run is not bit-identical to an uninterrupted one"
