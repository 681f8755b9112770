"""Trains runs of ``process_cases`` in a process that torchrun started: ``process_worker.py DEVICE FOLDER``.

A GPU does not work in a forked process, so tests on GPUs start new ones. With ``even alone`` behind the words, one process makes
a group, too. The results of each process go to a file in the folder.
"""

import dataclasses
import sys
from pathlib import Path

import torch
from process_cases import SHARDED, hashes, run
from ways import WAYS

from gpu_vecenv.train.processes.join import joined

BASE = dataclasses.replace(SHARDED, device="cuda", total_steps=64 * 6 * 6, num_envs=64)
RUNS = {way: dataclasses.replace(BASE, **options) for way, options in WAYS.items()}
"""Six iterations, the third of which is captured."""


def results(processes, runs):
    """Return what each way gives, and why it had no graph."""
    found = {}
    for way, config in runs.items():
        reasons = []
        found[way] = run(config, processes, reasons)
        found[f"{way} without a graph"] = reasons[0]
    return found


NUMBERS = (1, 7, 4096, 9161, 2**17, 2**17 + 1)
"""Sizes of arrays that are summed, the last of which is too large to be summed directly."""


def sums(processes):
    """Return the sums of some arrays as a run makes them, and by NCCL alone."""
    found, direct = [], processes.direct
    for numbers in NUMBERS:
        generator = torch.Generator().manual_seed(processes.rank)
        x = torch.randn(numbers, generator=generator).cuda()
        of_run = processes.sum(x.clone())
        processes.direct = None
        found.append((of_run.cpu(), processes.sum(x.clone()).cpu()))
        processes.direct = direct
    return found


def main(device, folder, even_alone):
    with joined(device, even_alone) as processes:
        found = results(processes, RUNS)
        found["hashes"] = hashes(processes, "cuda")
        found["backend"] = None if processes is None else processes.backend
        found["direct"] = processes is not None and processes.direct is not None
        found["sums"] = [] if processes is None else sums(processes)
        rank = 0 if processes is None else processes.rank
    torch.save(found, Path(folder) / f"rank-{rank}.pt")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:] == ["even", "alone"])
