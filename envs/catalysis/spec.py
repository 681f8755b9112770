"""Spec of catalytic reaction pathways: parameters, state, spaces. Landscapes and configurations are read from ``data``."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Constant, Field, Metric, Table
from gpu_vecenv.spec.params import Param, Params, number_array
from gpu_vecenv.spec.roles import Role
from gpu_vecenv.spec.validation import abbreviated, require_one_of

NAME = "WarpCatalysis-v0"
DATA = Path(__file__).parent / "data"
LANDSCAPES = ("base", "double", "diffusion", "diffusion_relax", "two_atom")
LARGEST_ENERGY = 1e30  # eV; differences of two stay finite in float32
MAX_CELLS = 255  # on an axis; coordinates are bytes
MOVES = 6  # of an atom


@functools.cache
def configurations() -> dict[str, dict[str, Any]]:
    """Parameters of each configuration, by its name."""
    by_name: dict[str, dict[str, Any]] = json.loads((DATA / "configurations.json").read_text(encoding="utf-8"))
    return by_name


@functools.cache
def bundled_landscape(name: str) -> np.ndarray:
    """Energies of a landscape of the package in eV, float64 (nx, ny, slab), or (nx, ny, slab) twice for two atoms; read-only."""
    if name == "double":
        energies = twice_as_fine(bundled_landscape("base"))
    else:
        with np.load(DATA / "landscapes.npz") as archive:
            energies = archive[name].astype(np.float64)
    energies.flags.writeable = False
    return energies


def twice_as_fine(energies: np.ndarray) -> np.ndarray:
    """Return energies (n, m, k) on a grid (2 n - 1, 2 m - 1, 2 k - 1): linear interpolation, which ignores the periodic images.

    New cells are means of the 2, 4 or 8 cells around them. Sums are in the order in which the authors' table has been made, so
    that the result has its bits: the last axis varies fastest in a mean of 4, and the first in a mean of 8.
    """
    fine = np.empty([2 * n - 1 for n in energies.shape])
    for odd in np.ndindex(2, 2, 2):
        corners = list(np.ndindex(*(1 + o for o in odd)))
        if sum(odd) == 3:
            corners.sort(key=lambda corner: corner[::-1])
        parts = [energies[tuple(slice(c, n - o + c) for c, o, n in zip(corner, odd, energies.shape, strict=True))]
                 for corner in corners]  # fmt: skip
        fine[tuple(slice(o, None, 2) for o in odd)] = sum(parts[1:], parts[0]) / len(parts)
    return fine


def of(name: str) -> Callable[[Params], Any]:
    """Return the default of a parameter: that of the chosen configuration."""

    def default(params: Params) -> Any:
        """that of the configuration"""  # noqa: D400, D403, D415  (a cell of a table)
        require_one_of(f"{NAME}: configuration", params["configuration"], tuple(configurations()))
        return configurations()[params["configuration"]][name]

    return default


# ---- parameters as arrays -------------------------------------------------------------------------------------------


def landscape(params: Params) -> np.ndarray:
    """Energies in eV, float64 (nx, ny, slab), or (nx, ny, slab) twice for two atoms.

    Raises:
        ParameterError: an unknown name, another shape, or energies that are no finite numbers.
    """
    choice, where = params["landscape"], f"{NAME}: landscape"
    if isinstance(choice, str):
        require_one_of(where, choice, LANDSCAPES)
        energies = bundled_landscape(choice)
    else:
        energies = number_array(choice, where, "energies, or the name of a landscape").astype(np.float64)
    shape = slab_shape(params) * atoms(params)
    if energies.shape != shape:
        expected = f"the shape {shape} by nx, ny, z_slab_lower and z_slab_upper"
        raise ParameterError(f"{where} must have {expected}, got {energies.shape}.")
    if not (np.abs(energies) <= LARGEST_ENERGY).all():
        expected = f"finite energies, at most {LARGEST_ENERGY:g} eV in size"
        raise ParameterError(f"{where} must hold {expected}, got {abbreviated(choice)}.")
    return energies


def places(params: Params, name: str) -> np.ndarray:
    """Cell of each atom, int64 (atoms, 3), from the parameter ``initial_state`` or ``final_state``.

    Raises:
        ParameterError: other than 3 or 6 whole numbers.
    """
    where, expected = f"{NAME}: {name}", "3 whole numbers x, y, z, or 6 for two atoms"
    values = number_array(params[name], where, expected)
    if values.shape not in ((3,), (6,)) or (values != np.floor(values)).any():  # also for NaN
        raise ParameterError(f"{where} must be {expected}, got {abbreviated(params[name])}.")
    return values.astype(np.int64).reshape(-1, 3)


def atoms(params: Params) -> int:
    """Return the number of atoms, 1 or 2."""
    return len(places(params, "initial_state"))


def grid(params: Params) -> tuple[int, int, int]:
    """Cells of the periodic grid in x, y and z."""
    return params["nx"], params["ny"], params["nz"]


def slab_shape(params: Params) -> tuple[int, int, int]:
    """Cells with an energy, in x, y and z."""
    return params["nx"], params["ny"], params["z_slab_upper"] - params["z_slab_lower"]


def cell_in_slab(params: Params, name: str) -> tuple[int, ...]:
    """Index in the landscape of the cells of ``initial_state`` or ``final_state``."""
    cells = places(params, name) - (0, 0, params["z_slab_lower"])
    return tuple(int(coordinate) for coordinate in cells.flat)


def leaving_is_undone(params: Params) -> bool:
    """True if a move out of the slab is undone: with two atoms, or if start and target differ in z."""
    start, target = places(params, "initial_state"), places(params, "final_state")
    return len(start) == 2 or bool(start[0, 2] != target[0, 2])


def rewards(params: Params) -> np.ndarray:
    """Reward for the energy of each cell, float64 of the landscape's shape."""
    above = params["ienergy"] - landscape(params)
    clipped: np.ndarray = np.clip(above / params["max_denergy"], params["min_reward"], 0.0)
    return clipped


def reward_at_target(params: Params) -> float:
    """Return the reward of the step that reaches the target."""
    return float(rewards(params)[cell_in_slab(params, "final_state")] + params["terminate_reward"])


def heights(params: Params) -> np.ndarray:
    """Energy of each cell above that of the start in eV, 0 where it is lower; float64 of the landscape's shape."""
    energies = landscape(params)
    above: np.ndarray = np.maximum(energies - energies[cell_in_slab(params, "initial_state")], 0.0)
    return above


def start_distance(params: Params, atom: int) -> float:
    """Return the distance of an atom from its target at the start, in cells; 1 for an atom that does not exist."""
    if atom >= atoms(params):
        return 1.0
    way = places(params, "initial_state")[atom] - places(params, "final_state")[atom]
    return float(np.sqrt((way**2).sum()))


def check(params: Params) -> None:
    """Raise ParameterError for parameters that contradict each other."""
    low, high, nz = params["z_slab_lower"], params["z_slab_upper"], params["nz"]
    if not low < high <= nz:
        raise ParameterError(f"{NAME}: z_slab_upper must be from z_slab_lower + 1 to nz, {low + 1} to {nz}, got {high}.")
    start, target = places(params, "initial_state"), places(params, "final_state")
    for name, cells in (("initial_state", start), ("final_state", target)):
        if len(cells) != len(start):
            raise ParameterError(f"{NAME}: final_state must have {start.size} numbers as initial_state, got {cells.size}.")
        if not ((cells >= (0, 0, low)) & (cells < (params["nx"], params["ny"], high))).all():
            raise ParameterError(
                f"{NAME}: {name} must be in the slab, from (0, 0, {low}) to {(params['nx'] - 1, params['ny'] - 1, high - 1)}, "
                f"got {abbreviated(params[name])}."
            )
    if (start == target).all(axis=1).any():
        raise ParameterError(f"{NAME}: final_state must be another cell than initial_state for every atom.")
    landscape(params)


# ---- spaces and tables ----------------------------------------------------------------------------------------------


def observation_space(params: Params) -> Box:
    """Float32 (4,), or (8,) for two atoms: position over the size of the grid, then the distance of each atom from its target.

    The bound of a distance is that of the farthest cell, computed as the kernel does.
    """
    farthest = []
    for atom, target in enumerate(places(params, "final_state")):
        way = np.maximum(target, np.array(grid(params)) - 1 - target)
        farthest.append(np.sqrt(np.float32((way**2).sum())) / np.float32(start_distance(params, atom)))
    return Box(0.0, np.array([1.0] * 3 * len(farthest) + farthest, np.float32), dtype=np.float32)


def action_space(params: Params) -> Space:
    """Move of the atom; atom and move with two atoms, in one index with ``flatten_actions``."""
    if atoms(params) == 1:
        return Discrete(MOVES)
    return Discrete(2 * MOVES) if params["flatten_actions"] else MultiDiscrete([2, MOVES])


def coordinate(name: str, atom: int, axis: int) -> Callable[[Params], int]:
    """Return the function that gives a coordinate of ``initial_state`` or ``final_state``, 0 for an atom that does not exist."""
    return lambda params: int(places(params, name)[atom, axis]) if atom < atoms(params) else 0


CELLS = tuple(
    Constant(f"{word}_{axis}{('', 2)[atom]}", coordinate(name, atom, number), f"{axis} of the {word} of atom {atom + 1}", "cells")
    for word, name in (("start", "initial_state"), ("target", "final_state"))
    for atom in (0, 1)
    for number, axis in enumerate("xyz")
)  # fmt: skip

SPEC = EnvSpec(
    name=NAME,
    kernel=Path(__file__).with_name("catalysis.cu"),
    roles=(Role("agent", 1),),
    params=(
        Param("configuration", "surface", None, "name of a configuration, which gives the defaults of all other parameters"),
        Param("landscape", of("landscape"), None, "name of a landscape, or energies (nx, ny, slab), twice for two atoms", "eV"),
        Param("initial_state", of("initial_state"), None, "cell x, y, z in which each atom starts", "cells"),
        Param("final_state", of("final_state"), None, "cell x, y, z that is the target of each atom", "cells"),
        Param("nx", of("nx"), "int32", "cells in x", "cells", low=1, high=MAX_CELLS),
        Param("ny", of("ny"), "int32", "cells in y", "cells", low=1, high=MAX_CELLS),
        Param("nz", of("nz"), "int32", "cells in z, those without an energy included", "cells", low=1, high=MAX_CELLS),
        Param("z_slab_lower", of("z_slab_lower"), "int32", "first z with an energy", "cells", low=0, high=MAX_CELLS),
        Param("z_slab_upper", of("z_slab_upper"), "int32", "z after the last one with an energy", "cells", low=1, high=MAX_CELLS),
        Param("ienergy", of("ienergy"), "float64", "energy up to which a cell costs nothing", "eV"),
        Param("max_denergy", of("max_denergy"), "float64", "energy above `ienergy` that costs 1", "eV", low=1e-6),
        Param("min_reward", of("min_reward"), "float64", "lowest reward for an energy", high=0),
        Param("terminate_reward", of("terminate_reward"), "float64", "reward for the target"),
        Param("episode_length", of("episode_length"), "int32", "time limit", "steps", low=1),
        Param("flatten_actions", False, "bool", "True: the action is one Discrete, which is 6 x atom + move with two atoms"),
    ),
    state=(
        Field("position", "uint8", (4,), "cell x, y, z of the atom, and a byte that is 0", "cells",
              0, lambda p: max(grid(p)) - 1, ("x", "y", "z", "spare")),
        Field("position2", "uint8", (4,), "cell x, y, z of the second atom, and a byte that is 0; 0 with one atom", "cells",
              0, lambda p: max(grid(p)) - 1, ("x2", "y2", "z2", "spare2")),
    ),
    observation=observation_space,
    action=action_space,
    sizes=("nx", "ny", "nz", "z_slab_lower", "z_slab_upper"),
    constants=(
        *CELLS,
        Constant("start_distance", lambda p: start_distance(p, 0), "distance from the target at the start, of atom 1", "cells"),
        Constant("start_distance2", lambda p: start_distance(p, 1), "the same of atom 2", "cells"),
        Constant("leaving_is_undone", leaving_is_undone, "1 if a move out of the slab is undone"),
        Constant("reward_outside", lambda p: max(-1.0, p["min_reward"]), "reward for a move out of the slab"),
        Constant("bonus", lambda p: p["terminate_reward"], "reward for the target"),
        Constant("reward_at_target", reward_at_target, "reward of the step that reaches the target"),
    ),
    tables=(
        Table("cells", lambda p: np.stack([rewards(p), heights(p)], axis=-1),
              "reward for the energy of each cell, and its energy above that of the start, at least 0", "-, eV"),
    ),
    check=check,
    metrics=(
        Metric("barrier", "max", "highest energy on the path above that of the start", "eV"),
        Metric("arrived", "last", "1 if the episode ended at the target"),
    ),
    rewards={
        "energy": "(`ienergy` - energy of the new cell) / `max_denergy`, at least `min_reward` and at most 0",
        "`min_reward`, at least -1": "instead, for a move that ends outside the slab",
        "`terminate_reward`": "added in the step that reaches the target",
    },
)  # fmt: skip
