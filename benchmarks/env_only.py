"""Env-only speed: steps with given actions, from Python and, on a GPU, in a CUDA graph, beside what memory allows.

Run from a checkout: ``python benchmarks/env_only.py --device cuda:0 --out benchmarks/results/env_only.json``.

The floor of a row is the bytes its step must move, each public array and state field once per read and write, over the
bandwidth of a large device-to-device copy measured in the same run. Tag's rows keep every runner in the game
(``runner_exits_game_after_tagged=False``), so that no step is cheap because the world has emptied.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
import gpu_vecenv  # noqa: F401
from benchmarks.timing import interleaved, seconds_per_call, synchronise, write_results

TAG = {"runner_exits_game_after_tagged": False}
CASES: list[tuple[str, int, dict[str, Any]]] = [
    *[("WarpCartPole-v1", worlds, {}) for worlds in (1_000, 10_000, 100_000, 1_000_000)],
    *[("WarpTag-v0", worlds, TAG) for worlds in (60, 500, 2_000)],
    ("WarpTag-v0", 2_000, {**TAG, "num_taggers": 50, "num_runners": 950}),
]
GRAPH_STEPS = 64


def copy_bandwidth(device: str) -> float:
    """Bytes read and written per second by a large copy on the device."""
    source = torch.empty(2**30 if device != "cpu" else 2**28, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    taken = [seconds_per_call(lambda: target.copy_(source), device) for _ in range(5)]
    return 2 * source.numel() / sorted(taken)[2]


def bytes_moved(env: Any, actions: torch.Tensor) -> int:
    """Bytes one step must move: actions in, public arrays out, state in and out."""
    state = sum(array.nbytes for array in env.get_state().values())
    outputs = sum(array.nbytes for array in env.step(actions)[:4])
    agents = env.num_worlds * env.num_agents * 5 if env.num_agents > 1 else 0  # agent_reward and agent_alive
    return 2 * state + outputs + agents + env.num_worlds + actions.nbytes


def graph_of_steps(env: Any, actions: torch.Tensor) -> Callable[[], None]:
    """A CUDA graph of many steps, as one call."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())  # the actions are made there
    with torch.cuda.stream(side):
        env.step(actions)
        side.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for _ in range(GRAPH_STEPS):
                env.step(actions)
    return graph.replay


def measure(name: str, worlds: int, params: dict[str, Any], device: str, bandwidth: float) -> list[dict[str, Any]]:
    """Rows of one env and size."""
    calls: dict[str, tuple[Callable[[], None], int]] = {}
    envs = {}
    for copy in (True, False):
        env = gymnasium.make_vec(name, num_envs=worlds, device=device, copy=copy, **params).unwrapped
        env.reset(seed=0)
        envs[copy] = env
    space = env.single_action_space
    high = int(space.nvec.flat[0] if hasattr(space, "nvec") else space.n)
    actions = torch.randint(high, (worlds, *space.shape), dtype=torch.int32, device=device)
    for copy in (True, False):
        calls[f"step from Python, copy={copy}"] = (lambda env=envs[copy]: env.step(actions), 1)
    if device != "cpu":
        calls["step in a graph"] = (graph_of_steps(envs[False], actions), GRAPH_STEPS)
    synchronise(device)
    floor = bytes_moved(envs[False], actions) / bandwidth
    rows = []
    for how, taken in interleaved({how: call for how, (call, _) in calls.items()}, device).items():
        steps = calls[how][1]
        step = taken["median_s"] / steps
        rows.append({
            "env": name, "worlds": worlds, "agents": env.num_agents, "params": params, "how": how,
            "us_per_step": step * 1e6, "us_min": taken["min_s"] / steps * 1e6, "us_max": taken["max_s"] / steps * 1e6,
            "world_steps_per_s": worlds / step, "agent_steps_per_s": worlds * env.num_agents / step,
            "floor_us": floor * 1e6, "times_floor": step / floor,
        })  # fmt: skip
        print(f"{name} {worlds} x {env.num_agents}  {how}: {step * 1e6:.1f} us, {worlds / step:.3g} world steps/s, "
              f"{step / floor:.1f} x floor", flush=True)
    for env in envs.values():
        env.close()
    return rows


def main() -> None:
    """Measure every case and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/env_only.json"))
    parser.add_argument("--max-agents", type=int, default=10**9, help="leave out larger cases")
    given = parser.parse_args()
    bandwidth = copy_bandwidth(given.device)
    print(f"copy bandwidth {bandwidth / 1e9:.0f} GB/s", flush=True)
    rows: list[dict[str, Any]] = [{"copy_bandwidth_GB_s": bandwidth / 1e9}]
    for name, worlds, params in CASES:
        agents = params.get("num_taggers", 5) + params.get("num_runners", 100) if name == "WarpTag-v0" else 1
        if worlds * agents <= given.max_agents:
            rows += measure(name, worlds, params, given.device, bandwidth)
    write_results(given.out, "env_only", given.device, rows)


if __name__ == "__main__":
    main()
