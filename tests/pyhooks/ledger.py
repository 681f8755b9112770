"""Ledger: a test env whose only hooks are written in Python, or in texts of tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Metric, Param, Role, Scratch, Table
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

HEAD = """from gpu_vecenv.pyhooks import Agent, World, dividing, f32, floor, i32, mod, pow, sincos, sqrt
import numpy as np

CELLS = 6
"""
HOOKS = {
    "env_reset": """
def env_reset(w):
    for me in w.agents:
        me.gold = 1 + w.draw(0, me.index).below(5)
        for k in range(2):
            me.memory[k] = 0.0
    for k in w.each(CELLS):
        w.state.cells[k] = k
    if w.once:
        w.state.pot = 0
""",
    "env_step": """
def env_step(w):
    for me in w.agents:
        me.reward = f32(me.gold)
    if w.once:
        w.truncate_at(w.params.max_episode_steps)
""",
    "env_observe": """
def env_observe(w):
    for me in w.agents:
        me.obs[0] = f32(me.gold)
        me.obs[1] = f32(w.state.pot)
""",
}


def text_with(text: str) -> str:
    """Return a file of hooks with a text, which begins at the line ``FIRST``, in place of the hooks that it defines."""
    defined = re.findall(r"^def (\w+)", text, re.MULTILINE)
    return HEAD + text + "".join(hook for name, hook in HOOKS.items() if name not in defined)


FIRST = HEAD.count("\n") + 1
"""Line of the file at which a text of ``text_with()`` begins, which starts with an empty line."""


def spec_of_text(text: str, folder: Path) -> EnvSpec:
    """Return the spec of Ledger with a file of hooks that is written to a folder."""
    path = folder / "hooks.py"
    path.write_text(text)
    return EnvSpec(
        name="Ledger-v0",
        kernel=path,
        roles=(Role("owner", "num_owners"),),
        params=(
            Param("num_owners", 3, "int32", "agents", low=1, high=64),
            Param("tax", 0.25, "float32", "share that is taken"),
            TIME_LIMIT,
        ),
        state=(
            Field("gold", "int32", ("num_agents",), "coins of an agent"),
            Field("memory", "float32", ("num_agents", 2), "two numbers of an agent"),
            Field("cells", "int32", (6,), "a row of cells"),
            Field("pot", "int32", (), "coins in the pot"),
        ),
        tables=(Table("prices", lambda params: np.arange(4) / 4, "prices"),),
        scratch=(Scratch("sums", "float32", ("num_agents",), "a number of each agent"),),
        metrics=(Metric("most", "max", "most coins"),),
        sizes=("num_owners",),
        observation=lambda params: Box(-np.inf, np.inf, (2,), np.float32),
        action=lambda params: Discrete(5),
    )


def ledger(text: str, folder: Path, **options: Any) -> GpuVectorEnv:
    """Return an env of Ledger with hooks of which a text replaces some."""
    spec = spec_of_text(text_with(text), folder)
    return GpuVectorEnv(spec, **{"num_worlds": 2, "device": "python", "array": "numpy", **options})
