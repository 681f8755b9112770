"""Jumanji: its level-based foraging and robot warehouse with random actions in one ``lax.scan``; compiling is not timed."""

from __future__ import annotations

import time
from typing import Any

from gpu_vecenv.bench.cases import COOP, FORAGING, RWARE, WAREHOUSE, Case
from gpu_vecenv.bench.subject import Subject
from gpu_vecenv.bench.timing import Local

NAME, DISTRIBUTION = "Jumanji", "jumanji"
SCANNED = {"cpu": 10**4, "cuda": 10**7}
"""Env steps in a scan, approximately."""

IDS = {(FORAGING, "resolve"): "LevelBasedForaging-v0", (RWARE, "end"): "RobotWarehouse-v0"}
PARAMS = {FORAGING: COOP, RWARE: {**WAREHOUSE, "collision": "end"}}
"""Jumanji's envs as they are by default, and our parameters of the same rules but for the limit of steps in foraging."""

RESETS = {"scan": True, "scan without resets": False}


def ways(case: Case, device: str) -> list[dict[str, Any]]:
    """With Jumanji's automatic resets, which compute a start in every step of every world, and without resets."""
    if PARAMS.get(case.env) != case.params:
        return []
    env_id = IDS[case.env, case.params.get("collision", "resolve")]
    return [{"path": path, "device": device, "env_id": env_id, "num_envs": case.worlds} for path in RESETS]


def make(path: str, device: str, env_id: str, num_envs: int) -> Subject:
    """A jitted rollout."""
    import jax
    import jax.numpy as jnp
    import jumanji
    from jumanji.wrappers import VmapAutoResetWrapper, VmapWrapper

    env = (VmapAutoResetWrapper if RESETS[path] else VmapWrapper)(jumanji.make(env_id))
    choices = env.action_spec.num_values
    steps = max(16, min(500, SCANNED[device.partition(":")[0]] // num_envs))

    def rollout(key: Any, state: Any) -> Any:
        def body(carry: Any, _: None) -> tuple[Any, None]:
            key, state, total = carry
            key, now = jax.random.split(key)
            actions = jax.random.randint(now, (num_envs, len(choices)), 0, jnp.asarray(choices))
            state, timestep = env.step(state, actions)
            seen = sum(leaf.astype(jnp.float32).sum() for leaf in jax.tree.leaves(timestep.observation))
            return (key, state, total + timestep.reward.sum() + seen), None

        return jax.lax.scan(body, (key, state, jnp.float32(0)), None, steps)[0]

    start = time.perf_counter()
    key = jax.random.key(0)
    state, _ = jax.jit(env.reset)(jax.random.split(jax.random.PRNGKey(0), num_envs))
    compiled = jax.jit(rollout).lower(key, state).compile()
    facts = {"compile_s": time.perf_counter() - start, "scan_steps": steps, "agents": len(choices)}
    carried = [(key, state)]

    def call() -> None:
        result = compiled(*carried[0])
        carried[0] = result[:2]
        jax.block_until_ready(result)

    return Subject(Local(call, "cpu"), steps, facts, carried.clear)
