"""Many steps in one launch, which writes the outputs of every step; actions are given, or drawn in the kernel."""

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
"""Steps in a launch, and the most bytes of their outputs; launches that would write more have fewer steps."""


def ways(case: Case, device: str) -> dict[str, Maker]:
    """Makers of rollouts: actions given; random actions, stored; random actions, not stored. One env saves memory."""
    env = LazyEnv(case, device)
    return {
        "rollout": lambda: _rollout(env, is_random=False),
        "rollout_random": lambda: _rollout(env, is_random=True),
        "rollout_unkept": lambda: _rollout(env, is_random=True, stored=False),
    }


class LazyEnv:
    """An env and its facts, made at the first use."""

    def __init__(self, case: Case, device: str) -> None:
        self._case, self.device = case, device
        self._env_and_facts: tuple[Any, dict[str, Any]] | None = None

    def get(self) -> tuple[Any, dict[str, Any]]:
        """Return the env, made with ``copy=False``, and its facts."""
        if self._env_and_facts is None:
            self._env_and_facts = prepare(self._case, self.device, copy=False)
        return self._env_and_facts

    def close(self) -> None:
        """Close the env, if it has been made."""
        if self._env_and_facts is not None:
            self._env_and_facts[0].close()
            self._env_and_facts = None


def _rollout(shared: LazyEnv, is_random: bool, stored: bool = True) -> Subject:
    env, facts = shared.get()
    storing = {} if stored else {"keep_actions": False}
    results = env.step(random_actions(env, 1)[0])
    written = sum(array.nbytes for array in (*results[:4], *results[4].values()))
    steps = max(1, min(STEPS[shared.device.partition(":")[0]], room_for(BYTES, shared.device) // written))
    actions = None if is_random else random_actions(env, steps)

    def call() -> None:
        env.rollout(actions, num_steps=steps if is_random else None, **storing)

    with peak_memory(shared.device) as peak:  # memory of the rollout, without that of the env
        call()
    one = env.worlds.outputs.new_actions(1) if actions is None else actions[:1]  # random ones are written, given ones are read
    action_bytes = one.nbytes if stored else 0
    floor = step_bytes(env, results, action_bytes, steps)
    facts = {**facts, **count(env, call, steps, shared.device), "floor_bytes": floor, "steps_per_launch": steps}
    return Subject(Local(call, shared.device), steps, {**facts, **peak}, shared.close)
