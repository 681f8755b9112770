"""Exact optima of catalysis against an exhaustive search, and against those of an independent graph search."""

import copy
import functools
import sys
from pathlib import Path

import numpy as np
import pytest

from gpu_vecenv.envs.catalysis import optimum
from gpu_vecenv.envs.catalysis.reference import CatalysisReference
from gpu_vecenv.envs.catalysis.spec import SPEC, landscape
from gpu_vecenv.train.config import PRESETS
from tests.envs.catalysis_cases import CONFIGURATIONS, random_params

ROOT = Path(__file__).parents[2]

GRAPH_SEARCH = {
    "diffusion2d": (14, 8.948364499999986, 20, 1.6385500000000093),
    "diffusion2d_relaxed": (14, 9.398331, 14, 1.230579999999975),
    "diffusion3d": (15, 28.951777999999987, 19, 1.6316300000000012),
    "gas1": (8, 28.984781799999997, 8, 0.0),
    "gas2": (13, 27.976228299999995, 13, 0.0),
    "gas2_double_grids": (26, 25.87830609999999, 26, 0.0),
    "surface": (18, 28.21185949999999, 20, 0.5300799999999981),
    "surface_double_grids": (35, 46.40207099999998, 40, 0.3979850000000056),
    "two_atom_diffusion": (8, 28.025889862060545, 8, 0.0),
    "check_min_reward": (15, 8.951777999999987, 19, 1.6316300000000012),
    "check_two_atom_b": (14, 28.042780853271484, 18, 0.0),
    "check_two_atom_c": (2, 29.288849517822264, 2, 1.96478271484375),
}
"""Fewest steps, best return without a discount, its steps, lowest barrier; by Dijkstra's method over the authors' classes."""


@functools.cache
def best_of(name):
    """The best episode of a configuration without a discount; several tests read the same."""
    return optimum.best_return(SPEC.resolve({"configuration": name}))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_optima_are_those_of_a_graph_search(name):
    params, best = SPEC.resolve({"configuration": name}), best_of(name)
    steps, value, steps_of_best, barrier = GRAPH_SEARCH[name]
    assert (optimum.fewest_steps(params), best.steps, best.arrived) == (steps, steps_of_best, True)
    assert best.value == pytest.approx(value, abs=1e-9) and best.total == pytest.approx(value, abs=1e-9)
    assert optimum.lowest_barrier(params) == pytest.approx(barrier, abs=1e-9)


def test_every_move_of_an_optimal_path_is_one_of_the_reference():
    for name in CONFIGURATIONS:
        params = SPEC.resolve({"configuration": name})
        best, reference, total = best_of(name), CatalysisReference(params, landscape(params)), 0.0
        for here, there in zip(best.cells[:-1], best.cells[1:], strict=True):
            (change,) = np.argwhere(here != there)
            up = (there - here)[tuple(change)] in (1, 1 - [params["nx"], params["ny"], params["nz"]][change[1]])
            move = int(2 * change[1] + (not up))
            _, reward, arrived, _ = reference.step([int(change[0]), move] if len(here) == 2 else move)
            assert reference.position == there.ravel().tolist()
            total += reward
        assert arrived and total == pytest.approx(best.total) and reference.barrier == pytest.approx(best.barrier)


def exhaustive_return(reference, gamma):
    """Highest discounted return of all sequences of actions from the state of a reference."""
    moves = range(6) if len(reference.position) == 3 else [(atom, move) for atom in (0, 1) for move in range(6)]
    best = -np.inf
    for move in moves:
        after = copy.copy(reference)
        after.position = list(reference.position)
        _, reward, terminated, truncated = after.step(move)
        best = max(best, reward + (0 if terminated or truncated else gamma * exhaustive_return(after, gamma)))
    return best


@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_best_returns_are_those_of_an_exhaustive_search(gamma):
    arrived = set()
    for seed in range(14):
        given = random_params(np.random.default_rng(seed))
        given["episode_length"] = 4 if len(given["initial_state"]) == 3 else 3
        params = SPEC.resolve(given)
        best = optimum.best_return(params, gamma)
        assert best.value == pytest.approx(exhaustive_return(CatalysisReference(params, landscape(params)), gamma))
        arrived.add(best.arrived)
    assert arrived == {True, False}


def test_no_optimum_leads_through_the_ends_of_a_slab():
    """The slab is the whole grid in z, in which a move through an end is undone."""
    params = SPEC.resolve({"landscape": np.zeros((1, 1, 5)), "nx": 1, "ny": 1, "nz": 5, "z_slab_lower": 0, "z_slab_upper": 5,
                           "initial_state": (0, 0, 0), "final_state": (0, 0, 4), "ienergy": -1.0})  # fmt: skip
    best = optimum.best_return(params)
    assert best.cells[:, 0, 2].tolist() == [0, 1, 2, 3, 4] and best.steps == optimum.fewest_steps(params) == 4
    ridge = np.zeros((1, 1, 5))
    ridge[0, 0, 2] = 3.0
    assert optimum.lowest_barrier({**params, "landscape": ridge}) == 3


def flooded(params, level):
    """True if a path of cells with energies up to a level leads from the start to the target, all in the slab."""
    reference = CatalysisReference(params, landscape(params))
    seen, todo = set(), [list(reference.position)]
    while todo:
        here = todo.pop()
        reference.position = list(here)
        if tuple(here) in seen or reference.is_outside() or reference.energy() > level:
            continue
        if here == [int(value) for value in params["final_state"]]:
            return True
        seen.add(tuple(here))
        for axis in range(len(here)):
            for by in (1, -1):
                there = list(here)
                there[axis] += by
                if axis % 3 != 2:
                    there[axis] %= (params["nx"], params["ny"])[axis % 3]
                todo.append(there)
    return False


def test_lowest_barriers_are_the_lowest_levels_that_connect_start_and_target():
    seen = 0
    for seed in range(12):
        given = random_params(np.random.default_rng(seed))
        if len(given["initial_state"]) == 6 or given["z_slab_upper"] - given["z_slab_lower"] == given["nz"]:
            continue  # large; or the slab is periodic in z, if a target at the height of the start lets the atom leave it
        params = SPEC.resolve(given)
        reference = CatalysisReference(params, landscape(params))
        level = optimum.lowest_barrier(params) + reference.energy()
        assert flooded(params, level + 1e-9) and not flooded(params, level - 1e-9)
        seen += 1
    assert seen >= 5


@pytest.mark.parametrize(("gamma", "lowest"), [(0.999, True), (0.998, False)])
def test_a_discount_decides_about_the_barrier_of_the_best_path(gamma, lowest):
    params = SPEC.resolve({"configuration": "surface"})
    assert (optimum.best_return(params, gamma).barrier == pytest.approx(optimum.lowest_barrier(params))) == lowest


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_discount_of_the_preset_changes_no_best_path(name):
    preset = PRESETS["WarpCatalysis-v0"]
    discounted = optimum.best_return(SPEC.resolve({"configuration": name}), preset.ppo.gamma)
    best = best_of(name)
    assert (discounted.total, discounted.barrier) == pytest.approx((best.total, best.barrier))


def test_the_contract_lists_the_optima(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [optimum.__name__])
    optima = {name: best_of(name) for name in CONFIGURATIONS}  # before the stand-in, which best_of() would call
    monkeypatch.setattr(optimum, "best_return", lambda params, gamma: optima[params["configuration"]])
    optimum.main()
    assert capsys.readouterr().out in (ROOT / "envs/catalysis/README.md").read_text()
