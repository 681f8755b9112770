"""Many steps in one launch, every result of every step written: with given actions, and with actions drawn in the kernel."""

from __future__ import annotations

from typing import Any

from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.counting import count, peak_memory
from gpu_vecenv.bench.env_only import prepare, random_actions
from gpu_vecenv.bench.floors import step_bytes
from gpu_vecenv.bench.machine import room_for
from gpu_vecenv.bench.subject import Maker, Subject
from gpu_vecenv.bench.timing import Local

STEPS = {"cpu": 16, "cuda": 128}
BYTES = 24 * 2**30
"""Steps in a launch, fewer where their results would take more bytes than this."""


def ways(case: Case, device: str) -> dict[str, Maker]:
    """Actions given, drawn and kept, drawn and not kept. All share an env, as what a rollout writes is large."""
    env = LazyEnv(case, device)
    return {
        "rollout": lambda: _rollout(env, drawn=False),
        "rollout_random": lambda: _rollout(env, drawn=True),
        "rollout_unkept": lambda: _rollout(env, drawn=True, kept=False),
    }


class LazyEnv:
    """An env made when it is first asked for, closed once, and what is known of it."""

    def __init__(self, case: Case, device: str) -> None:
        self._case, self.device = case, device
        self._made: tuple[Any, dict[str, Any]] | None = None

    def get(self) -> tuple[Any, dict[str, Any]]:
        """The env, with persistent results, and facts."""
        if self._made is None:
            self._made = prepare(self._case, self.device, copy=False)
        return self._made

    def close(self) -> None:
        """Let go of the env."""
        if self._made is not None:
            self._made[0].close()
            self._made = None


def _rollout(shared: LazyEnv, drawn: bool, kept: bool = True) -> Subject:
    env, facts = shared.get()
    results = env.step(random_actions(env, 1)[0])
    written = sum(array.nbytes for array in (*results[:4], *results[4].values()))
    steps = max(1, min(STEPS[shared.device.partition(":")[0]], room_for(BYTES, shared.device) // written))
    actions = None if drawn else random_actions(env, steps)

    def call() -> None:
        env.rollout(actions, num_steps=steps if drawn else None, keep_actions=kept)

    with peak_memory(shared.device) as peak:  # what the rollout takes beside the env
        call()
    action_bytes = random_actions(env, 1)[0].nbytes if kept else 0  # read, or written where they are drawn
    floor = step_bytes(env, results, action_bytes, steps)
    facts = {**facts, **count(env, call, steps, shared.device), "floor_bytes": floor, "steps_per_launch": steps}
    return Subject(Local(call, shared.device), steps, {**facts, **peak}, shared.close)
