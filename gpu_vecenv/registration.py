"""The ids. Entry points are strings, so that registering imports nothing."""

from __future__ import annotations

from typing import Any

import gymnasium

IDS: dict[str, dict[str, Any]] = {
    "WarpTag-v0": {"vector_entry_point": "gpu_vecenv.envs.tag:make_vec"},
    "WarpCartPole-v1": {
        "entry_point": "gpu_vecenv.envs.cartpole:make",
        "vector_entry_point": "gpu_vecenv.envs.cartpole:make_vec",
        "max_episode_steps": 500,
        "reward_threshold": 475.0,
    },
}
"""Every id with what it is registered with. Tag has several agents, so it is a vector env only."""


def register_envs() -> None:
    """Register each id that is not registered yet; a second import stays silent."""
    for name, arguments in IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, **arguments)
