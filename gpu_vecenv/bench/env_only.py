"""Steps with given actions: from Python, in a CUDA graph, and many to a launch."""

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
from gpu_vecenv.vector.memory_needs import memory_needs
from gpu_vecenv.vector.views import View

BANK = 8
"""Different batches of actions that take turns."""

SLAB_STEPS = {"cpu": 16, "cuda": 64}
SLAB_BYTES = 16 * 2**30
"""Steps in bound slabs, fewer where slabs would take more bytes than this."""

GRAPH_STEPS = 128
"""As in a rollout of a trainer."""


def ways(case: Case, device: str) -> dict[str, Maker]:
    """Makers of every way to step a case on a device."""
    made: dict[str, Maker] = {
        "python_copy_false": lambda: _python(case, device, copy=False),
        "python_copy_true": lambda: _python(case, device, copy=True),
        "python_bind": lambda: _bound(case, device),
    }
    if device == "cpu":
        return {**made, "python_one_thread": lambda: _one_thread(case)}
    return {**made, "graph": lambda: _graph(case, device)}


def beside(case: Case, device: str) -> dict[str, Callable[[], Timed]]:
    """What takes its turn before the ways on a GPU, as a host has fast and slow phases: its host time stands in every row."""
    if device == "cpu":
        return {}
    return {
        "python_loop_s": lambda: python_loop(device),
        "fresh_arrays_s": lambda: fresh_arrays(case, device),
        "bare_launch_s": lambda: bare_launch(device),
    }


def random_actions(env: Any, steps: int, seed: int = 0) -> torch.Tensor:
    """Uniform actions of some steps, (steps, *action batch): int32 indices, or float32 in a Box's bounds."""
    space, batch = env.single_action_space, (steps, env.num_envs)
    generator = torch.Generator(env.device).manual_seed(seed)
    if isinstance(space, gymnasium.spaces.Box):
        low, high = (torch.as_tensor(bound, device=env.device) for bound in (space.low, space.high))
        return low + (high - low) * torch.rand((*batch, *space.shape), generator=generator, device=env.device)
    levels = int(space.nvec.flat[0] if hasattr(space, "nvec") else space.n)
    return torch.randint(levels, (*batch, *space.shape), generator=generator, dtype=torch.int32, device=env.device)


def make_env(case: Case, device: str, **options: Any) -> tuple[Any, dict[str, Any]]:
    """An env of a case, reset, and seconds to make and to reset it."""
    start = time.perf_counter()
    env: Any = gymnasium.make_vec(case.env, num_worlds=case.worlds, device=device, **case.env_params(), **options).unwrapped
    synchronise(device)
    made = time.perf_counter()
    env.reset(seed=0)
    synchronise(device)
    return env, {"make_s": made - start, "reset_s": time.perf_counter() - made}


def prepare(case: Case, device: str, copy: bool) -> tuple[Any, dict[str, Any]]:
    """A stepped env of a case, with its floor, the memory predicted for it and what it held at most."""
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
    """As many new tensors as a step with fresh arrays hands out, by ``torch.empty_like``: a yardstick for such a step."""
    env, _ = make_env(case, device, copy=False)
    *arrays, info = env.step(random_actions(env, 1)[0])
    like = [array.new_empty(1).expand(array.shape) for array in (*arrays, *info.values())]
    env.close()
    last: list[Any] = [None]

    def call() -> None:
        last[0] = [torch.empty_like(pattern) for pattern in like]

    return Local(call, device)


def slabs_for(env: Any) -> dict[str, torch.Tensor]:
    """Slabs for every result but final observations, for as many steps as fit."""
    obs, reward, terminated, truncated, info = env.step(random_actions(env, 1)[0])
    arrays = {"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated, "finished": info["_final_obs"]}
    arrays |= {name: info[name] for name in ("agent_alive", "agent_reward") if name in info}
    room = room_for(SLAB_BYTES, env.device) // sum(array.nbytes for array in arrays.values())
    steps = max(1, min(SLAB_STEPS[env.device.partition(":")[0]], room))
    return {name: array.new_empty((steps + (name == "obs"), *array.shape)) for name, array in arrays.items()}


def _python(case: Case, device: str, copy: bool) -> Subject:
    """Each step a call from Python; a caller keeps the last results, no more."""
    env, facts = prepare(case, device, copy)
    turns = cycle(list(random_actions(env, BANK)))
    last: list[Any] = [None]

    def call() -> None:
        last[0] = env.step(next(turns))

    call()
    return Subject(Local(call, device), 1, facts | count(env, call, 1, device), env.close)


def _one_thread(case: Case) -> Subject:
    """As ``python_copy_false``, with one thread to step the worlds."""
    with patch.dict(os.environ, GPU_VECENV_NUM_THREADS="1"):
        return _python(case, "cpu", copy=False)


def _bound(case: Case, device: str) -> Subject:
    """Each step a call from Python that writes into a rollout's slabs, which are rewound when they are full."""
    env, facts = prepare(case, device, copy=False)
    slabs = slabs_for(env)
    env.bind(**slabs)
    steps, turns = len(slabs["reward"]), cycle(list(random_actions(env, BANK)))

    def call() -> None:
        env.step(next(turns))

    def fill() -> None:
        for _ in range(steps):
            call()
        env.rewind()

    fill()
    timed = Local(call, device, lap=steps, between=env.rewind)
    return Subject(timed, 1, facts | count(env, fill, steps, device), env.close)


def _graph(case: Case, device: str) -> Subject:
    """Single steps in a CUDA graph, with actions from outside."""
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        env, facts = prepare(case, device, copy=False)
        actions = random_actions(env, BANK)
        turns = [actions[t % BANK] for t in range(GRAPH_STEPS)]

        def call() -> None:
            for each in turns:
                env.step(each)

        call()
        facts |= count(env, call, GRAPH_STEPS, device)
        side.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            call()
    graph.replay()

    def close(kept: Any = (graph, actions)) -> None:  # what the graph reads must outlive it
        env.close()

    return Subject(Local(graph.replay, device), GRAPH_STEPS, facts, close)
