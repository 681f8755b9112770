"""JaxMARL: MPE's simple_tag and simple_spread with random actions in one ``lax.scan``; compiling is not timed."""

from __future__ import annotations

import time
from typing import Any

from gpu_vecenv.bench.cases import SIMPLE_TAG, SPREAD, TAG, Case
from gpu_vecenv.bench.subject import Subject
from gpu_vecenv.bench.timing import Local

NAME, DISTRIBUTION = "JaxMARL", "jaxmarl"
SCANNED = {"cpu": 10**5, "cuda": 10**7}
"""Env steps in a scan, approximately."""


def ways(case: Case, device: str) -> list[dict[str, Any]]:
    """Three adversaries and one prey, compared with Tag of three taggers and one runner; Spread as it is by default."""
    if (case.env, case.params) == (SPREAD, {}):
        env_id = "MPE_simple_spread_v3"
    elif case.env == TAG and SIMPLE_TAG.items() <= case.params.items():
        env_id = "MPE_simple_tag_v3"
    else:
        return []
    return [{"path": f"{env_id} scan", "device": device, "env_id": env_id, "num_envs": case.worlds}]


def make(path: str, device: str, env_id: str, num_envs: int) -> Subject:
    """A jitted rollout."""
    import jax
    import jax.numpy as jnp
    import jaxmarl

    env = jaxmarl.make(env_id)
    steps = max(16, min(500, SCANNED[device.partition(":")[0]] // num_envs))

    def step_one(key: Any, state: Any) -> tuple[Any, ...]:
        step_key, *keys = jax.random.split(key, env.num_agents + 1)
        actions = {agent: env.action_space(agent).sample(k) for agent, k in zip(env.agents, keys, strict=True)}
        obs, state, reward, done, _ = env.step(step_key, state, actions)
        return obs, state, sum(reward.values()), done["__all__"]

    def rollout(key: Any, obs: Any, state: Any) -> Any:
        def body(carry: Any, _: None) -> tuple[Any, None]:
            key, obs, state, total, ended = carry
            key, now = jax.random.split(key)
            obs, state, reward, done = jax.vmap(step_one)(jax.random.split(now, num_envs), state)
            return (key, obs, state, total + reward.sum(), ended + done.sum()), None

        return jax.lax.scan(body, (key, obs, state, jnp.float32(0), jnp.int32(0)), None, steps)[0]

    start = time.perf_counter()
    key = jax.random.key(0)
    obs, state = jax.jit(jax.vmap(env.reset))(jax.random.split(key, num_envs))
    compiled = jax.jit(rollout).lower(key, obs, state).compile()
    facts = {"compile_s": time.perf_counter() - start, "scan_steps": steps, "agents": env.num_agents}
    carried = [(key, obs, state)]

    def call() -> None:
        result = compiled(*carried[0])
        carried[0] = result[:3]
        jax.block_until_ready(result)

    return Subject(Local(call, "cpu"), steps, facts, carried.clear)
