"""Steps of CartPole worlds a second in loops of JAX, beside a loop of torch and gymnax, whose env is written in JAX.

All loops take the same steps: a linear policy on the observation, then a step of all worlds. ``python benchmarks/jax_loops.py
--device cuda:0`` takes less than a minute. The results file keeps what other devices recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch needs memory too

import gymnasium
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
import gpu_vecenv  # noqa: F401  registers the ids
from gpu_vecenv.bench.machine import machine

NUM_STEPS, NUM_WORLDS = 100, (64, 4_096, 65_536)
SECONDS = 1.0
"""Least time of a measurement."""

Loop = Callable[[], None]
"""Takes ``NUM_STEPS`` steps and waits for them."""


def make(worlds: int, device: str, array: str) -> Any:
    """An env after its reset."""
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=worlds, device=device, array=array).unwrapped
    env.reset(seed=0)
    return env


def torch_loop(worlds: int, device: str) -> Loop:
    """Tensors, with an eager policy."""
    env = make(worlds, device, "torch")
    obs = [env.observe()]

    def loop() -> None:
        for _ in range(NUM_STEPS):
            obs[0] = env.step((obs[0][:, 2] + obs[0][:, 3] > 0).int())[0]
        if device != "cpu":
            torch.cuda.synchronize(device)

    return loop


def jax_loop(worlds: int, device: str) -> Loop:
    """JAX arrays by DLPack, with a compiled policy between steps."""
    import jax

    env = make(worlds, device, "jax")
    policy, obs = jax.jit(lambda obs: (obs[:, 2] + obs[:, 3] > 0).astype("int32")), [env.observe()]

    def loop() -> None:
        for _ in range(NUM_STEPS):
            obs[0] = env.step(policy(obs[0]))[0]
        obs[0].block_until_ready()

    return loop


def jit_loop(worlds: int, device: str) -> Loop:
    """One compiled scan that calls the env through the host."""
    import jax

    from gpu_vecenv.adapters.jax import jittable
    from gpu_vecenv.backend.jax_memory import jax_device

    env = make(worlds, device, "numpy")
    _, step = jittable(env)

    @jax.jit
    def scan(obs: Any) -> Any:
        def body(obs: Any, _: None) -> tuple[Any, Any]:
            obs, reward, *_ = step((obs[:, 2] + obs[:, 3] > 0).astype("int32"))
            return obs, reward.sum()

        return jax.lax.scan(body, obs, None, NUM_STEPS)

    carried = [jax.device_put(env.observe(), jax_device(device))]

    def loop() -> None:
        carried[0], _ = scan(carried[0])
        carried[0].block_until_ready()

    return loop


def gymnax_loop(worlds: int, device: str) -> Loop:
    """One compiled scan of gymnax's CartPole."""
    import gymnax
    import jax

    from gpu_vecenv.backend.jax_memory import jax_device

    env, params = gymnax.make("CartPole-v1")

    @jax.jit
    def scan(key: Any, obs: Any, state: Any) -> Any:
        def body(carry: Any, _: None) -> tuple[Any, Any]:
            key, obs, state = carry
            key, now = jax.random.split(key)
            actions = (obs[:, 2] + obs[:, 3] > 0).astype("int32")
            obs, state, reward, *_ = jax.vmap(env.step, (0, 0, 0, None))(jax.random.split(now, worlds), state, actions, params)
            return (key, obs, state), reward.sum()

        return jax.lax.scan(body, (key, obs, state), None, NUM_STEPS)

    key = jax.random.key(0)
    start = (key, *jax.vmap(env.reset, (0, None))(jax.random.split(key, worlds), params))
    carried = [jax.device_put(start, jax_device(device))]

    def loop() -> None:
        carried[0], _ = scan(*carried[0])
        jax.block_until_ready(carried[0])

    return loop


LOOPS = {
    "torch": (torch_loop, "torch"),
    "jax, DLPack between compiled calls": (jax_loop, "jax"),
    "jax, callbacks inside jit": (jit_loop, "jax"),
    "gymnax, pure JAX": (gymnax_loop, "gymnax"),
}
"""A loop and the library whose version is recorded."""


def measure(name: str, worlds: int, device: str, rounds: int) -> dict[str, Any]:
    """Median of the rounds, after two calls that compile; or that the library is missing, or its error."""
    make_loop, library = LOOPS[name]
    row: dict[str, Any] = {"loop": name, "num_envs": worlds}
    try:
        row["version"] = version(library)
        loop = make_loop(worlds, device)
        loop()
        loop()
        speeds = []
        for _ in range(rounds):
            calls, start = 0, time.perf_counter()
            while calls == 0 or time.perf_counter() - start < SECONDS / rounds:
                loop()
                calls += 1
            speeds.append(calls * NUM_STEPS * worlds / (time.perf_counter() - start))
    except PackageNotFoundError:
        return row | {"missing": True}
    except Exception as error:
        return row | {"error": f"{type(error).__name__}: {error}"}
    speed = statistics.median(speeds)
    return row | {
        "rows_per_second": speed, "rows_per_second_min": min(speeds), "rows_per_second_max": max(speeds),
        "us_per_step": 1e6 * worlds / speed, "rounds": rounds,
    }  # fmt: skip


def main() -> None:
    """Measure all loops and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0", help="cpu or cuda:0")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/jax_loops.json"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for worlds in NUM_WORLDS:
        for name in LOOPS:
            rows.append(measure(name, worlds, options.device, options.rounds))
            print(rows[-1], flush=True)
    recorded = json.loads(options.out.read_text()) if options.out.exists() else {}
    run = {"command": f"python {sys.argv[0]} --device {options.device}", "machine": machine(options.device), "rows": rows}
    result = {"benchmark": "jax_loops", "devices": {**recorded.get("devices", {}), options.device: run}}
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
