"""Speed of policies' draws against ``torch.multinomial`` and ``torch.normal``: ``python benchmarks/draw.py [--device cuda:0]``.

Torch's way is what the kernel replaces: softmax and ``multinomial`` for each entry, and the log-probability and the entropy of
the action. A second column leaves the last two out. Times are the least of several rounds; both ways alternate.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from gpu_vecenv.train.policies.contract import Draw
from gpu_vecenv.train.policies.distributions import DiagonalGaussian, MultiCategorical
from gpu_vecenv.train.policies.draw import draw_choices, draw_normal

CASES = {
    "2,000 x 105 x (21 + 21)": (2000, 105, [21, 21]),
    "2,048 x 2": (2048, 1, [2]),
    "65,536 x 3": (65536, 1, [3]),
    "100 x 27 x 138 entries": (100, 27, [10] * 111 + [2] * 27),
}
"""Worlds, agents, choices of each entry."""

GAUSSIAN = ("2,000 x 105 x 2 numbers", 2000, 105, 2)


def counters(worlds: int, agents: int, device: str) -> Draw:
    """Return counters of all agents of all worlds."""
    row = torch.arange(worlds * agents, dtype=torch.int32, device=device)
    zeros = torch.zeros(worlds, dtype=torch.int32, device=device)
    return Draw(zeros.long(), torch.arange(worlds, dtype=torch.int32, device=device), zeros, zeros, row // agents, row % agents)


def multinomial(logits: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Draw all entries by torch; entries of one size as one batch, if all sizes are equal."""
    if len(set(sizes)) == 1:
        p = torch.softmax(logits.view(-1, sizes[0]), -1)
        return torch.multinomial(p, 1).view(-1, len(sizes))
    return torch.cat([torch.multinomial(torch.softmax(part, -1), 1) for part in logits.split(sizes, -1)], -1)


def with_values(logits: torch.Tensor, sizes: list[int]) -> tuple[torch.Tensor, ...]:
    """Draw all entries, with log-probability and entropy."""
    action, distribution = multinomial(logits, sizes), MultiCategorical(logits, sizes)
    return action, distribution.log_prob(action), distribution.entropy()


def normal(mean: torch.Tensor, log_std: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Draw normal numbers, with log-density and entropy."""
    action, distribution = torch.normal(mean, log_std.exp().expand_as(mean)), DiagonalGaussian(mean, log_std)
    return action, distribution.log_prob(action), distribution.entropy()


def least_times(ways: list[Callable[[], object]], device: str, rounds: int = 7) -> list[float]:
    """Return the least time of a call of each way, in microseconds."""
    on_gpu = torch.device(device).type == "cuda"

    def sample(way: Callable[[], object], calls: int) -> float:
        if on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            way()
        if on_gpu:
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / calls * 1e6

    calls = [max(1, int(2e4 / max(sample(way, 1), sample(way, 1)))) for way in ways]
    return [
        min(times)
        for times in zip(*([sample(w, c) for w, c in zip(ways, calls, strict=True)] for _ in range(rounds)), strict=True)
    ]


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    device = parser.parse_args().device
    print(f"{device}: us a call; ratio to the kernel\n{'':>26}   kernel   multinomial alone   with log-prob and entropy")
    for name, (worlds, agents, sizes) in CASES.items():
        draw, logits = counters(worlds, agents, device), torch.randn(worlds * agents, sum(sizes), device=device)
        ways = [
            lambda: draw_choices(logits, sizes, draw),  # noqa: B023
            lambda: multinomial(logits, sizes),  # noqa: B023
            lambda: with_values(logits, sizes),  # noqa: B023
        ]
        ours, alone, whole = least_times(ways, device)
        print(f"{name:>26} {ours:8.1f} {alone:11.1f} {alone / ours:6.1f}x {whole:17.1f} {whole / ours:6.1f}x")
    name, worlds, agents, entries = GAUSSIAN
    draw, mean = counters(worlds, agents, device), torch.randn(worlds * agents, entries, device=device)
    log_std = torch.zeros(entries, device=device)
    ours, whole = least_times([lambda: draw_normal(mean, log_std, draw), lambda: normal(mean, log_std)], device)
    print(f"{name:>26} {ours:8.1f} {'':>19} {whole:17.1f} {whole / ours:6.1f}x")


if __name__ == "__main__":
    main()
