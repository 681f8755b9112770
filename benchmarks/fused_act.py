"""Time of the kernels that act and compute values: ``python benchmarks/fused_act.py [--device cuda:0] [--case NAME ...]``.

Prints, for each case, the time of actions of one step, of the values of these rows, and of the log-probabilities of the actions;
then of the same actions by the modules and the draws of torch. Times are microseconds in a captured graph, the least of several
rounds. Host is the time that a call of the first kind takes outside a graph.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from fused_update import CASES as POLICIES
from fused_update import time_of
from gymnasium import spaces

from gpu_vecenv.backend.programs import launches
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train import NetworkConfig
from gpu_vecenv.train.fused.act import FusedPolicy
from gpu_vecenv.train.fused.eligibility import require_fused
from gpu_vecenv.train.fused.tile_plan import act_program
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import Draw, Inputs

CASES = {
    "cartpole": ("cartpole", 2048, 1),
    "cartpole, 64 steps": ("cartpole", 64 * 2048, 1),
    "pendulum": ("pendulum", 2048, 1),
    "tag": ("tag", 2000, 105),
}
"""Name of the policy, worlds and agents."""

CALLS = 200
"""Calls whose time on the host is measured."""


@torch.no_grad()
def measure(name: str, device: torch.device) -> None:
    """Print the line of a case."""
    of_policy, worlds, agents = CASES[name]
    case, rows = POLICIES[of_policy], worlds * agents
    group = Group("", "", 1, spaces.Box(-np.inf, np.inf, (case.features,), np.float32), case.action, ())
    policy = make_policy("agent", group, 0, NetworkConfig(case.hidden), True).to(device)
    fused = FusedPolicy(policy, require_fused(policy, device), device)
    inputs = Inputs(torch.randn(rows, case.features, device=device))
    row, zeros = (torch.arange(rows, dtype=torch.int32, device=device), torch.zeros(worlds, dtype=torch.int32, device=device))
    draw = Draw(zeros.long(), row[:worlds].clone(), zeros, zeros, row // agents, row % agents)
    action, _ = fused.act(inputs, draw)
    steps = Inputs(inputs.obs[None])
    ways = (
        lambda: fused.act(inputs, draw),
        lambda: fused.value(inputs),
        lambda: fused.log_prob(steps, action[None]),
        lambda: policy.act(inputs, draw),
    )
    times = [time_of(way, device) for way in ways]
    start = time.perf_counter()
    for _ in range(CALLS):
        fused.act(inputs, draw)
    host = 1e6 * (time.perf_counter() - start) / CALLS
    memory, used = fused.sizes.act_memory, ""
    if device.type == "cuda":
        program: Any = launches(act_program(fused.sizes), device)
        attributes = program._module.get_function("gv_act").attributes
        used = f"{attributes['num_regs']}, {attributes['local_size_bytes']} B"
    columns = " ".join(f"{x:10.1f}" for x in (*times, host))
    print(f"{name:>20} {rows:9,} {memory.shared_bytes:8,} {memory.resident:6} {columns}   {used}")


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--case", action="append", choices=CASES, help="default: all")
    options = parser.parse_args()
    titles = " ".join(f"{title:>10}" for title in ("act", "value", "log_prob", "torch act", "host"))
    print(f"{'case':>20} {'rows':>9} {'bytes':>8} {'blocks':>6} {titles}   registers, spilled")
    for name in options.case or CASES:
        measure(name, torch.device(options.device))


if __name__ == "__main__":
    main()
