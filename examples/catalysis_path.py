"""Finds a reaction pathway on an energy surface and prints its barrier beside the lowest one that exists.

It takes two minutes on a CPU. ``--configuration gas1`` chooses another reaction; README.md of the env lists all twelve.
"""

import argparse
from collections.abc import Iterable
from typing import Any

import numpy as np

from gpu_vecenv.envs.catalysis.optimum import best_return, lowest_barrier
from gpu_vecenv.envs.catalysis.spec import SPEC, atoms
from gpu_vecenv.train import TrainConfig, Trainer, evaluate, play

LONGEST = 60  # cells of a path that are printed


def path_of(states: Iterable[dict[str, np.ndarray]], number: int) -> list[str]:
    """Return the cells of a played episode, as text: x y z of each of ``number`` atoms."""
    names = ("position", "position2")[:number]
    return ["; ".join(" ".join(map(str, state[name][:3].tolist())) for name in names) for state in states]


def main(configuration: str, out: str, **options: Any) -> None:
    """Train with the preset, or with options in its place, and print the path of the most probable moves."""
    params = SPEC.resolve({"configuration": configuration})
    Trainer(TrainConfig("WarpCatalysis-v0", out=out, env_kwargs={"configuration": configuration}, **options)).train()
    states = list(play(out, deterministic=True))
    best = best_return(params)
    mean = evaluate(out, 4, deterministic=True).mean_return["agent"]
    end = "reaches the target" if states[-1]["episode_arrived"] else "does not reach the target"
    cells = path_of(states[:LONGEST], atoms(params)) + ["..."] * (len(states) > LONGEST)
    print(f"path, which {end}:", " > ".join(cells))
    print(f"return: {mean:.4f}; the best possible: {best.total:.4f}")
    print(f"barrier: {states[-1]['episode_barrier']:.4f} eV; the lowest possible: {lowest_barrier(params):.4f} eV")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configuration", default="surface")
    parser.add_argument("--out", default="runs/catalysis")
    given = parser.parse_args()
    main(given.configuration, given.out)
