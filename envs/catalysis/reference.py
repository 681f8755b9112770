"""Catalytic reaction pathways in slow, readable Python: the rules of README.md in this folder, one world at a time.

Tests compare the kernel with it. It is written from the rules, not from the kernel. Arithmetic is float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpu_vecenv.envs.catalysis.spec import landscape


class CatalysisReference:
    """One or two atoms over a landscape of energies.

    Args:
        params: resolved parameters of WarpCatalysis-v0, by name.
        energies: energies of the cells in eV, (nx, ny, slab), for two atoms (nx, ny, slab) twice; by default those that the
            parameters name.

    Attributes:
        position: coordinates of all atoms, one atom after the other; 3 or 6 integers.
        t: steps taken in this episode.
        barrier: highest energy on the path above that of the start, in eV.
    """

    def __init__(self, params: Mapping[str, Any], energies: np.ndarray | None = None) -> None:
        self._params, self._energies = params, landscape(params) if energies is None else energies
        self._start = [int(value) for value in params["initial_state"]]
        self._target = [int(value) for value in params["final_state"]]
        self._size = [params["nx"], params["ny"], params["nz"]] * (len(self._start) // 3)
        self._leaving_is_undone = len(self._start) == 6 or self._start[2] != self._target[2]
        self.reset()

    def reset(self) -> np.ndarray:
        """Start an episode; returns the observation, float32 (4,), or (8,) for two atoms."""
        self.position, self.t, self.barrier = list(self._start), 0, 0.0
        return self.observe()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take the state of one world, with the names of the spec and ``t``."""
        atoms = (state["position"], state["position2"])[: len(self._start) // 3]
        self.position = [int(value) for atom in atoms for value in atom[:3]]
        self.t, self.barrier = int(state["t"]), 0.0

    def get_state(self) -> dict[str, Any]:
        """Return the state under the names of the spec."""
        atoms = [np.array([*self.position[first : first + 3], 0], np.uint8) for first in range(0, len(self.position), 3)]
        return {"t": self.t, **dict(zip(("position", "position2"), atoms, strict=False))}

    def observe(self) -> np.ndarray:
        """Observation of the present state: coordinates over the size of the grid, then the distance of each atom."""
        shares = [at / size for at, size in zip(self.position, self._size, strict=True)]
        distances = []
        for first in range(0, len(self.position), 3):
            atom = slice(first, first + 3)
            distances.append(
                np.linalg.norm(np.subtract(self.position[atom], self._target[atom]))
                / np.linalg.norm(np.subtract(self._start[atom], self._target[atom]))
            )
        return np.array(shares + distances, np.float32)

    def is_outside(self) -> bool:
        """True if an atom is in a cell without an energy."""
        p = self._params
        return not all(p["z_slab_lower"] <= z < p["z_slab_upper"] for z in self.position[2::3])

    def energy(self) -> float:
        """Energy of the present cell in eV; the cell must be in the slab."""
        cell = list(self.position)
        for axis in range(2, len(cell), 3):
            cell[axis] -= self._params["z_slab_lower"]
        return float(self._energies[tuple(cell)])

    def step(self, action: int | Sequence[int]) -> tuple[np.ndarray, float, bool, bool]:
        """Move one atom by one cell.

        Args:
            action: the move, 0 to 5; with two atoms the atom, 0 or 1, and the move.

        Returns:
            obs: as ``observe``.
            reward: for the energy of the new cell, or for a move out of the slab; plus the reward for the target.
            terminated: every atom is on its target.
            truncated: the time limit is reached, and the target is not.
        """
        p, before = self._params, list(self.position)
        atom, move = action if isinstance(action, Sequence | np.ndarray) else (0, action)
        axis = int(3 * atom + move // 2)
        self.position[axis] = (self.position[axis] + (1 if move % 2 == 0 else -1)) % self._size[axis]
        self.t += 1
        if self.is_outside():
            raw = -1.0
            if self._leaving_is_undone:
                self.position = before
        else:
            raw = (p["ienergy"] - self.energy()) / p["max_denergy"]
            self.barrier = max(self.barrier, self.energy() - self._energy_of_start())
        reward = min(max(raw, p["min_reward"]), 0.0)
        terminated = self.position == self._target
        if terminated:
            reward += p["terminate_reward"]
        return self.observe(), reward, terminated, not terminated and self.t >= p["episode_length"]

    def _energy_of_start(self) -> float:
        cell = list(self._start)
        for axis in range(2, len(cell), 3):
            cell[axis] -= self._params["z_slab_lower"]
        return float(self._energies[tuple(cell)])
