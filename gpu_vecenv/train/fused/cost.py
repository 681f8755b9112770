"""Lines about policies without fused kernels: why they have none, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_vecenv.train.algorithms.contract import Algorithm

TIMES = {"cpu": "3 to 4", "cuda": "5 to 17"}
"""Time of an iteration of PPO by torch over that by fused kernels, by kind of device; on a GPU both are CUDA graphs. These are
the committed results of ``gpu-vecenv bench --modes training``, of feed-forward networks that have both."""


def not_fused_lines(not_fused: Mapping[str, str], device: str) -> list[str]:
    """Return a line for each policy without fused kernels, and one about the time that PPO takes without them.

    Args:
        not_fused: policy name to the reason.
        device: ``cpu`` or ``cuda:N``.
    """
    lines = [f"{name!r} has no fused kernels: {why}" for name, why in not_fused.items()]
    if any(why != Algorithm.not_fused for why in not_fused.values()):
        kind = device.partition(":")[0]
        option = "; --precision tf32 or bfloat16 makes wide layers faster" if kind == "cuda" else ""
        lines.append(f"torch takes {TIMES[kind]} times as long for an iteration of PPO with networks that can have them{option}")
    return lines
