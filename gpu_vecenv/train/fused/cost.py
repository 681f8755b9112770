"""Lines about policies without fused kernels: why they have none, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_vecenv.train.algorithms.contract import Algorithm
from gpu_vecenv.train.config import ResolvedConfig

TIMES = {"cpu": "3 to 4", "cuda": "5 to 17"}
"""Time of an iteration of PPO by torch over that by fused kernels, by kind of device; on a GPU both are CUDA graphs. These are
the committed results of ``gpu-vecenv bench --modes training``, of feed-forward networks that have both."""


def not_fused_lines(not_fused: Mapping[str, str], config: ResolvedConfig) -> list[str]:
    """Return a line for each policy without fused kernels, and one about the time that PPO takes without them.

    Args:
        not_fused: policy name to the reason.
        config: options of the run.
    """
    lines = [f"{name!r} has no fused kernels: {why}" for name, why in not_fused.items()]
    if config.kernels == "auto" and config.precision != "float32":
        lines.append(f"no fused kernels: with precision={config.precision!r} torch computes the networks, unless kernels='fused'")
    if any(why != Algorithm.not_fused and config.algorithm_of(name) == "ppo" for name, why in not_fused.items()):
        kind = config.device.partition(":")[0]
        option = "; --precision tf32 or bfloat16 makes wide layers faster" if kind == "cuda" else ""
        lines.append(f"torch takes {TIMES[kind]} times as long for an iteration of PPO with networks that can have them{option}")
    return lines
