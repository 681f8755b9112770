"""VMAS: torch envs on the CPU or a GPU; its simple_tag with given actions."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from gpu_vecenv.bench.cases import SIMPLE_TAG, TAG, Case
from gpu_vecenv.bench.peers.gym_alias import alias_gym
from gpu_vecenv.bench.subject import Subject
from gpu_vecenv.bench.timing import Local

NAME, DISTRIBUTION = "VMAS", "vmas"
ACTIONS = 5


def ways(case: Case, device: str) -> list[dict[str, Any]]:
    """Three adversaries and one prey, compared with Tag of three taggers and one runner."""
    if case.env != TAG or not SIMPLE_TAG.items() <= case.params.items():
        return []
    return [{"path": "simple_tag", "device": device, "num_envs": case.worlds}]


def make(path: str, device: str, num_envs: int) -> Subject:
    """Steps from Python; no step limit, so nothing is reset."""
    alias_gym()
    import torch
    import vmas

    env = vmas.make_env("simple_tag", num_envs=num_envs, device=device, continuous_actions=False, seed=0)
    env.reset()
    actions = torch.randint(ACTIONS, (8, env.n_agents, num_envs, 1), device=device)
    batches = cycle([list(batch) for batch in actions])
    return Subject(Local(lambda: env.step(next(batches)), device), facts={"agents": env.n_agents})
