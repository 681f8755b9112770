"""Time and error of the kernels of an update: ``python benchmarks/fused_update.py [--device cuda:0] [--case NAME ...]``.

Prints, for each case, the time of the gradient of a minibatch, of the sum over blocks and of the step of Adam; of the three one
after the other, as a captured graph runs them; and of all epochs of an update, with the shuffle of minibatches. Then the error of
a gradient of a few rows relative to float64: of all weights, and the largest of a layer. Times are microseconds, the least of
several rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces

from gpu_vecenv.backend.programs import launches
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train import NetworkConfig, PPOConfig
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.algorithms.schedules import DeviceScalars
from gpu_vecenv.train.fused.guard import exact_gradient, kernel_gradient, relative_errors
from gpu_vecenv.train.fused.tile_plan import update_program
from gpu_vecenv.train.fused.update import FusedBackend
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.storage.samples import Samples

STEPS, MINIBATCHES = 128, 4
SAMPLE = 4096
"""Rows whose gradient is compared. Targets are random, so the gradient of many rows is nearly 0, and its error is not."""

LAUNCHES = 20
"""Launches of a kernel in one graph."""


@dataclass(frozen=True)
class Case:
    """A policy, and the rows of a step."""

    features: int
    action: spaces.Space
    hidden: tuple[int, ...] = (64, 64)
    rows: int = 2048


CASES = {
    "cartpole": Case(4, spaces.Discrete(2)),
    "cartpole, 4 times the rows": Case(4, spaces.Discrete(2), rows=8192),
    "pendulum": Case(3, spaces.Box(-2.0, 2.0, (1,), np.float32)),
    "tag": Case(71, spaces.MultiDiscrete([21, 21])),
    "tag, 256-256": Case(75, spaces.MultiDiscrete([21, 21]), (256, 256), rows=6250),
    "tag, all agents": Case(735, spaces.MultiDiscrete([21, 21]), rows=6250),
    "cartpole, 128-128": Case(4, spaces.Discrete(2), (128, 128)),
}


def samples_of(case: Case, device: torch.device) -> tuple[PPO, Samples]:
    """Return PPO of a new policy, and random samples of which some ratios are clipped."""
    group = Group("", "", 1, spaces.Box(-np.inf, np.inf, (case.features,), np.float32), case.action, ())
    policy = make_policy("agent", group, 0, NetworkConfig(case.hidden), True).to(device)
    generator = torch.Generator(device).manual_seed(0)

    def normal(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, generator=generator, device=device)

    shape = (STEPS, case.rows)
    obs = 3.0 * normal(STEPS + 1, case.rows, case.features) + 1.0
    policy.observe(obs, torch.ones(obs.shape[:2], dtype=torch.bool, device=device))
    if isinstance(case.action, spaces.Box):
        action = normal(*shape, *case.action.shape)
    else:
        most = torch.tensor(group.choices, device=device)
        action = (torch.rand(*shape, len(most), generator=generator, device=device) * most).int()
        action = action.squeeze(-1) if isinstance(case.action, spaces.Discrete) else action
    flags = torch.zeros(3, *shape, dtype=torch.bool, device=device)
    samples = Samples(obs, action, normal(*shape), normal(*shape), ~flags[0], *flags)
    config = PPOConfig(num_steps=STEPS, num_epochs=4, num_minibatches=MINIBATCHES)
    return PPO(policy, config, (case.rows,), 0, device, FusedBackend), samples


@torch.no_grad()
def evaluate(ppo: PPO, samples: Samples) -> None:
    """Set the log-probabilities to nearly those of the present weights, as in the first minibatch of an update.

    Later, some ratios are next to a bound of the clip. Their gradient is there or not, by any rounding.
    """
    assert isinstance(samples.obs, torch.Tensor)
    for t in range(STEPS):
        exact = ppo.policy.evaluate(Inputs(samples.obs[t]), samples.action[t]).log_prob
        samples.log_prob[t] = exact + 0.01 * torch.sin(torch.arange(len(exact), device=exact.device))


def time_of(work: Callable[[], object], device: torch.device, launches: int = LAUNCHES, rounds: int = 7) -> float:
    """Return the least time of a call, in microseconds; on a GPU that of calls in a graph."""
    work()
    if device.type == "cpu":
        times = []
        for _ in range(3):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        return 1e6 * min(times)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(rounds):
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * start.elapsed_time(end) / launches)
    return min(times)


def registers(ppo: PPO, device: torch.device) -> str:
    """Return the registers of a lane of the gradient, and bytes of its memory that do not fit in them."""
    if device.type == "cpu":
        return ""
    sizes = cast(FusedBackend, ppo.backend).sizes
    program: Any = launches(update_program(sizes), device)
    name = "gv_deltas" if sizes.split else "gv_gradient"
    attributes = program._module.get_function(name).attributes
    return f"{attributes['num_regs']}, {attributes['local_size_bytes']} B"


def measure(name: str, device: torch.device, tile: int | None) -> None:
    """Print the line of a case."""
    ppo, samples = samples_of(CASES[name], device)
    backend = cast(FusedBackend, ppo.backend)
    backend.sizes = backend.sizes if tile is None else dataclasses.replace(backend.sizes, rows=tile)
    scalars = DeviceScalars(*torch.tensor([3e-4, 0.01, 0.2], device=device))
    with torch.no_grad():
        evaluate(ppo, samples)
        ppo.update(samples, scalars)
        evaluate(ppo, samples)
        advantage, target, value = ppo._advantages(samples)
        columns = torch.stack((samples.log_prob, value, advantage, target)).flatten(1)
        kernels = backend._prepared(samples, scalars)
    columns = columns.t().contiguous()
    kernels.args.numbers = columns.data_ptr()
    count = samples.valid.numel() // MINIBATCHES
    index = torch.randperm(samples.valid.numel(), device=device)[:count]
    chosen = index.int()
    few = torch.arange(count, device=device) < SAMPLE
    gradient = kernel_gradient(kernels, index, few)
    errors = relative_errors(gradient, exact_gradient(ppo.policy, ppo.config, samples, scalars, columns, index, few))

    def minibatch() -> None:
        kernels.gradient(chosen)
        kernels.reduce()
        kernels.step(0, 0, False)

    times = [
        time_of(lambda: kernels.gradient(chosen), device),
        time_of(kernels.reduce, device),
        time_of(lambda: kernels.step(0, 0, False), device),
        time_of(minibatch, device),
        time_of(lambda: backend._learn(kernels, samples, columns), device, launches=1),
    ]
    largest = max(error for layer, error in errors.items() if layer != "total")
    sizes, used_registers = kernels.sizes, registers(ppo, device)
    memory = sizes.update_memory
    line = f"{name:>27} {count:9,} {memory.shared_bytes:8,} {memory.resident:6} " + " ".join(f"{x:10.1f}" for x in times)
    print(f"{line} {errors['total']:10.1e} {largest:10.1e}   {used_registers}")


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--case", action="append", choices=CASES, help="default: all")
    parser.add_argument("--tile", type=int, choices=(32, 64, 128), help="rows of a tile; default: as in training")
    options = parser.parse_args()
    device = torch.device(options.device)
    names = ("rows", "bytes", "blocks", "gradient", "sum", "Adam", "all three", "update", "total err", "layer err", "  registers")
    print(
        f"{device}: us a launch\n{'':>27} " + " ".join(f"{n:>{w}}" for n, w in zip(names, (9, 8, 6, *[10] * 7, 10), strict=True))
    )
    for name in options.case or CASES:
        measure(name, device, options.tile)


if __name__ == "__main__":
    main()
