"""gymnax: JAX envs with random actions and autoreset; compiling is not timed."""

from __future__ import annotations

import time
from typing import Any

from gpu_vecenv.bench.cases import CARTPOLE, Case
from gpu_vecenv.bench.peers import CLASSIC_IDS
from gpu_vecenv.bench.subject import Subject
from gpu_vecenv.bench.timing import Local

NAME, DISTRIBUTION = "gymnax", "gymnax"
SCANNED = {"cpu": 10**6, "cuda": 10**8}
"""Env steps in a scan, approximately."""

STACKED_STEPS = 100
MAX_WORLDS = {"scan": 4_000_000, "stacked": 1_000_000, "step": 1_000_000}


def ways(case: Case, device: str) -> list[dict[str, Any]]:
    """Steps in one ``lax.scan``, and for CartPole two more ways.

    ``scan`` carries observation and state and sums up reward and done. ``stacked`` also returns observation, reward and
    done of every step. ``step`` is one jitted step called from Python.
    """
    if case.env not in CLASSIC_IDS:
        return []
    paths = [path for path, most in MAX_WORLDS.items() if case.worlds <= most and (path == "scan" or case.env == CARTPOLE)]
    return [{"path": path, "device": device, "env_id": CLASSIC_IDS[case.env], "num_envs": case.worlds} for path in paths]


def make(path: str, device: str, env_id: str, num_envs: int) -> Subject:
    """A jitted rollout, or a Python loop over a jitted step."""
    import gymnax
    import jax
    import jax.numpy as jnp

    env, params = gymnax.make(env_id)
    space = env.action_space(params)
    length = max(16, min(1_000, SCANNED[device.partition(":")[0]] // num_envs))
    steps = length if path == "scan" else min(length, STACKED_STEPS)

    def step_one(key: Any, state: Any) -> tuple[Any, ...]:
        action_key, step_key = jax.random.split(key)
        obs, state, reward, *done = env.step(step_key, state, space.sample(action_key), params)[:-1]
        return obs, state, reward, done[0] if len(done) == 1 else done[0] | done[1]

    def step_all(key: Any, obs: Any, state: Any) -> tuple[Any, ...]:
        key, now = jax.random.split(key)
        obs, state, reward, done = jax.vmap(step_one)(jax.random.split(now, num_envs), state)
        return key, obs, state, reward, done

    def rollout(key: Any, obs: Any, state: Any) -> tuple[Any, ...]:
        def body(carry: Any, _: None) -> tuple[Any, Any]:
            key, obs, state, total, ended = carry
            key, obs, state, reward, done = step_all(key, obs, state)
            return (key, obs, state, total + reward.sum(), ended + done.sum()), (obs, reward, done) if path == "stacked" else None

        carry, stacked = jax.lax.scan(body, (key, obs, state, jnp.float32(0), jnp.int32(0)), None, steps)
        return (*carry, stacked)

    start = time.perf_counter()
    key = jax.random.key(0)
    obs, state = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))(jax.random.split(key, num_envs), params)
    compiled = jax.jit(step_all if path == "step" else rollout).lower(key, obs, state).compile()
    facts = {"compile_s": time.perf_counter() - start, "scan_steps": steps}
    carried = [(key, obs, state)]

    def call() -> None:
        for _ in range(steps if path == "step" else 1):
            result = compiled(*carried[0])
            carried[0] = result[:3]
        jax.block_until_ready(result)

    return Subject(Local(call, "cpu"), steps, facts, carried.clear)
