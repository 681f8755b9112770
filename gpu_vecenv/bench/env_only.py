"""Single steps with given actions: from Python, into slabs, and in a CUDA graph."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any
from unittest.mock import patch

import gymnasium
import torch

import gpu_vecenv  # noqa: F401
from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.counting import count, peak_memory
from gpu_vecenv.bench.floors import bare_launch, python_loop, step_bytes
from gpu_vecenv.bench.machine import room_for
from gpu_vecenv.bench.subject import Maker, Subject
from gpu_vecenv.bench.timing import Local, Timed, synchronise
from gpu_vecenv.vector.inputs.random_actions import uniform_actions
from gpu_vecenv.vector.outputs.memory_needs import memory_needs
from gpu_vecenv.vector.outputs.views import View

ACTION_BATCHES = 8
"""Batches of random actions that are used in turn."""

SLAB_STEPS = {"cpu": 16, "cuda": 64}
SLAB_BYTES = 16 * 2**30
"""Steps in bound slabs, and the most bytes of them; slabs that would take more have fewer steps."""

GRAPH_STEPS = 128
"""Steps in a CUDA graph, as many as in a rollout of a trainer."""


def ways(case: Case, device: str) -> dict[str, Maker]:
    """Return a maker for every way to step a case on a device."""
    makers: dict[str, Maker] = {
        "python_copy_false": lambda: _python(case, device, copy=False),
        "python_copy_true": lambda: _python(case, device, copy=True),
        "python_bind": lambda: _bound(case, device),
    }
    if device == "cpu":
        return {**makers, "python_one_thread": lambda: _one_thread(case)}
    return {**makers, "graph": lambda: _graph(case, device)}


def host_probes(case: Case, device: str) -> dict[str, Callable[[], Timed]]:
    """Return makers of host probes: calls timed in the same rounds to measure the host's speed, which varies with time."""
    if device == "cpu":
        return {}
    return {
        "python_loop_s": lambda: python_loop(device),
        "fresh_arrays_s": lambda: fresh_arrays(case, device),
        "bare_launch_s": lambda: bare_launch(device),
    }


def random_actions(env: Any, steps: int, seed: int = 0) -> torch.Tensor:
    """Uniform random actions, (steps, *action batch): int32 indices, or float32 within a Box's bounds."""
    generator = torch.Generator(env.device).manual_seed(seed)
    return uniform_actions(env.single_action_space, (steps, env.num_envs), generator)


def make_env(case: Case, device: str, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Make and reset the env of a case; return it and the seconds that both took."""
    start = time.perf_counter()
    env: Any = gymnasium.make_vec(case.env, num_worlds=case.worlds, device=device, **case.env_params(), **options).unwrapped
    synchronise(device)
    made_at = time.perf_counter()
    env.reset(seed=0)
    synchronise(device)
    return env, {"make_s": made_at - start, "reset_s": time.perf_counter() - made_at}


def prepare(case: Case, device: str, copy: bool) -> tuple[Any, dict[str, Any]]:
    """Make the env of a case and step it; return it and entries of its row: floor, predicted memory and peak memory."""
    with peak_memory(device) as peak:
        env, facts = make_env(case, device, copy=copy)
        actions = random_actions(env, 1)[0]
        for _ in range(3):
            results = env.step(actions)
    view = View(env.layout, env.num_worlds, env.view == "agents")
    facts["predicted_bytes"] = sum(memory_needs(view, env.autoreset_mode, copy).values())
    facts["bytes_per_world"] = facts["predicted_bytes"] / env.num_worlds
    return env, {**facts, **peak, "floor_bytes": step_bytes(env, results, actions.nbytes)}


def fresh_arrays(case: Case, device: str) -> Local:
    """Allocate as many tensors as a step with ``copy=True`` returns, by ``torch.empty_like``."""
    env, _ = make_env(case, device, copy=False)
    *arrays, info = env.step(random_actions(env, 1)[0])
    like = [array.new_empty(1).expand(array.shape) for array in (*arrays, *info.values())]
    env.close()
    last: list[Any] = [None]

    def call() -> None:
        last[0] = [torch.empty_like(pattern) for pattern in like]

    return Local(call, device)


def slabs_for(env: Any) -> dict[str, torch.Tensor]:
    """Slabs of all outputs but final observations, with as many steps as fit."""
    obs, reward, terminated, truncated, info = env.step(random_actions(env, 1)[0])
    arrays = {"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated, "finished": info["_final_obs"]}
    arrays |= {name: info[name] for name in ("agent_alive", "agent_reward") if name in info}
    most_steps = room_for(SLAB_BYTES, env.device) // sum(array.nbytes for array in arrays.values())
    steps = max(1, min(SLAB_STEPS[env.device.partition(":")[0]], most_steps))
    return {name: array.new_empty((steps + (name == "obs"), *array.shape)) for name, array in arrays.items()}


def _python(case: Case, device: str, copy: bool) -> Subject:
    """Steps called from Python; the caller keeps the results of the last step only."""
    env, facts = prepare(case, device, copy)
    batches = cycle(list(random_actions(env, ACTION_BATCHES)))
    last: list[Any] = [None]

    def call() -> None:
        last[0] = env.step(next(batches))

    call()
    return Subject(Local(call, device), 1, facts | count(env, call, 1, device), env.close)


def _one_thread(case: Case) -> Subject:
    """Steps as in ``python_copy_false``, with one thread for all worlds."""
    with patch.dict(os.environ, GPU_VECENV_NUM_THREADS="1"):
        return _python(case, "cpu", copy=False)


def _bound(case: Case, device: str) -> Subject:
    """Steps called from Python, which write into bound slabs; full slabs are rewound."""
    env, facts = prepare(case, device, copy=False)
    slabs = slabs_for(env)
    env.bind(**slabs)
    steps, batches = len(slabs["reward"]), cycle(list(random_actions(env, ACTION_BATCHES)))

    def call() -> None:
        env.step(next(batches))

    def fill() -> None:
        for _ in range(steps):
            call()
        env.rewind()

    fill()
    timed = Local(call, device, lap=steps, between=env.rewind)
    return Subject(timed, 1, facts | count(env, fill, steps, device), env.close)


def _graph(case: Case, device: str) -> Subject:
    """Single steps in a CUDA graph, with given actions."""
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        env, facts = prepare(case, device, copy=False)
        actions = random_actions(env, ACTION_BATCHES)
        batches = [actions[t % ACTION_BATCHES] for t in range(GRAPH_STEPS)]

        def call() -> None:
            for batch in batches:
                env.step(batch)

        call()
        facts |= count(env, call, GRAPH_STEPS, device)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            call()
    graph.replay()

    def close(alive: Any = (graph, actions)) -> None:  # the graph reads the actions until it is freed
        env.close()

    return Subject(Local(graph.replay, device), GRAPH_STEPS, facts, close)
