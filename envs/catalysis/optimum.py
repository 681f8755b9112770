"""Exact optima of WarpCatalysis-v0: the best return of an episode, its path, and the lowest barrier of any path.

Tests and findings compare policies with them. ``python -m gpu_vecenv.envs.catalysis.optimum`` prints those of all configurations;
``--gamma 0.999`` discounts the return by that factor a step.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpu_vecenv.envs.catalysis.spec import (
    SPEC,
    atoms,
    cell_in_slab,
    configurations,
    landscape,
    leaving_is_undone,
    places,
    rewards,
)
from gpu_vecenv.spec.params import Params


@dataclass(frozen=True)
class Optimum:
    """An optimal episode.

    Args:
        value: the highest discounted return from the start.
        total: the return of this episode without a discount.
        steps: steps of this episode, the fewest of all optimal ones.
        arrived: True if it ends at the target.
        barrier: highest energy on its path above that of the start, in eV.
        cells: the path, int64 (steps + 1, atoms, 3).
    """

    value: float
    total: float
    steps: int
    arrived: bool
    barrier: float
    cells: np.ndarray


class _Cells:
    """All states of an env without its time: places of one or two atoms, outside the slab only if atoms may stay there."""

    def __init__(self, params: Params) -> None:
        energies = landscape(params)
        self.stays = leaving_is_undone(params)
        self.outside_reward = max(-1.0, params["min_reward"])
        self.shift = params["z_slab_lower"] if self.stays else 0  # z of the first layer
        layers = slice(params["z_slab_lower"] - self.shift, params["z_slab_upper"] - self.shift)
        slab = (slice(None), slice(None), layers) * atoms(params)
        shape = energies.shape if self.stays else (params["nx"], params["ny"], params["nz"])
        self.energy = np.full(shape, np.nan)
        self.energy[slab] = energies
        self.reward = np.full(shape, self.outside_reward)
        self.reward[slab] = rewards(params)
        self.start, self.target = (self._cell(params, name) for name in ("initial_state", "final_state"))
        self.reward[self.target] += params["terminate_reward"]

    def _cell(self, params: Params, name: str) -> tuple[int, ...]:
        """Index of the state in which all atoms are in the cells of a parameter."""
        return tuple(int(coordinate) for coordinate in (places(params, name) - (0, 0, self.shift)).flat)

    def after_moves(self, entered: np.ndarray, undone: np.ndarray) -> Iterator[np.ndarray]:
        """Yield for each move the array of what it leads to, from all states.

        Args:
            entered: what a state is worth to those who enter it.
            undone: what a state is worth to those who stay there, because their move out of the slab is undone.
        """
        for axis in range(entered.ndim):
            for by in (1, -1):
                moved = np.roll(entered, -by, axis)
                if axis % 3 == 2 and self.stays:
                    edge = [slice(None)] * entered.ndim
                    edge[axis] = slice(-1, None) if by == 1 else slice(0, 1)
                    moved[tuple(edge)] = undone[tuple(edge)]
                yield moved

    def step(self, state: tuple[int, ...], move: int) -> tuple[tuple[int, ...], float]:
        """Return the state after a move, and its reward."""
        axis, by = move // 2, 1 if move % 2 == 0 else -1
        to = list(state)
        to[axis] += by
        if axis % 3 == 2 and self.stays and not 0 <= to[axis] < self.energy.shape[axis]:
            return state, self.outside_reward
        to[axis] %= self.energy.shape[axis]
        return tuple(to), float(self.reward[tuple(to)])


def best_return(params: Params, gamma: float = 1.0) -> Optimum:
    """Find the best episode by value iteration over the steps that are left, which is exact for the time limit, too.

    Args:
        params: resolved parameters of WarpCatalysis-v0.
        gamma: discount a step.

    Returns:
        The shortest of the episodes with the highest discounted return.
    """
    cells = _Cells(params)
    value = np.zeros(cells.energy.shape)  # highest return with a number of steps left
    moves, values = [], [0.0]
    for _ in range(params["episode_length"]):
        future = gamma * value
        undone = cells.outside_reward + future
        future[cells.target] = 0.0  # the episode ends there
        best, choice = np.full(value.shape, -np.inf), np.zeros(value.shape, np.uint8)
        for move, result in enumerate(cells.after_moves(cells.reward + future, undone)):
            better = result > best
            best[better], choice[better] = result[better], move
        moves.append(choice)
        values.append(float(best[cells.start]))
        if np.array_equal(best, value):
            break
        value = best
    left = values.index(values[-1], 1)  # the fewest steps that allow the highest return
    state, path, total = cells.start, [cells.start], 0.0
    while state != cells.target and left > 0:
        left -= 1
        state, reward = cells.step(state, int(moves[left][state]))
        total += reward
        path.append(state)
    heights = [cells.energy[place] - cells.energy[cells.start] for place in path]
    return Optimum(
        value=values[-1],
        total=total,
        steps=len(path) - 1,
        arrived=state == cells.target,
        barrier=float(np.nanmax(heights)),
        cells=np.array(path).reshape(-1, atoms(params), 3) + (0, 0, cells.shift),
    )


def lowest_barrier(params: Params) -> float:
    """Return the lowest barrier of any path in the slab from start to target, in eV; infinite if no path leads there.

    A state is reached from the target at the lowest possible highest energy; that is iterated until no state changes. Paths
    outside the slab do not count, because cells there have no energy.
    """
    cells = _Cells(params)
    energy = np.where(np.isnan(cells.energy), np.inf, cells.energy)
    highest = np.full(energy.shape, np.inf)
    highest[cells.target] = energy[cells.target]
    while True:
        lower = highest
        for reached in cells.after_moves(highest, highest):
            lower = np.minimum(lower, np.maximum(energy, reached))
        if np.array_equal(lower, highest):
            return float(highest[cells.start] - energy[cells.start])
        highest = lower


def fewest_steps(params: Params) -> int:
    """Return the fewest steps from start to target: with the periodic distance of every coordinate, in the slab."""
    start, target = cell_in_slab(params, "initial_state"), cell_in_slab(params, "final_state")
    steps = 0
    for axis, (here, there) in enumerate(zip(start, target, strict=True)):
        way = abs(here - there)
        steps += way if axis % 3 == 2 else min(way, (params["nx"], params["ny"])[axis % 3] - way)
    return steps


def main() -> None:
    """Print the optima of all configurations as a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m gpu_vecenv.envs.catalysis.optimum", description=__doc__)
    parser.add_argument("--gamma", type=float, default=1.0, metavar="FLOAT", help="discount a step (default: %(default)s)")
    gamma = parser.parse_args().gamma
    print("| configuration | fewest steps | best return | its steps | its barrier, eV | lowest barrier, eV |")
    print("|---|---|---|---|---|---|")
    for name in configurations():
        params = SPEC.resolve({"configuration": name})
        best = best_return(params, gamma)
        columns = f"{best.total:.6f} | {best.steps} | {best.barrier:.4f} | {lowest_barrier(params):.4f}"
        print(f"| `{name}` | {fewest_steps(params)} | {columns} |")


if __name__ == "__main__":
    main()
