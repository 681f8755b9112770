"""Searches for neighbours and tiles of rows against NumPy, for every strategy and for teams of several lanes."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from gpu_vecenv.backend.compiler import FLAGS, find_compiler
from gpu_vecenv.backend.source import KERNEL_FOLDER
from tests.marks import slow_but

LANES = ("-DGV_LANES=3", "-pthread")
BUILDS = {
    "as released": (),
    "naive": ("-DGV_NAIVE_SEARCH",),
    "scan": ("-DGV_NO_SERIAL",),
    "scan without a bound": ("-DGV_NO_SERIAL", "-DGV_NO_BOUND"),
    "cells": ("-DGV_NO_SERIAL", "-DGV_MIN_CELLS=32"),
    "lanes, scan": LANES,
    "lanes, cells": (*LANES, "-DGV_MIN_CELLS=32"),
}
FAR, NOBODY = np.float32(3e38), 0xFFFF


class Args(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("invalid", "place", "last", "found", "finished", "first", "second")] + [
        (name, ctypes.c_int32) for name in ("agents", "k", "one_tile", "split", "length", "size")
    ]


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Library of neighbours.cu by the name of a build; each is compiled once."""
    folder, built = tmp_path_factory.mktemp("neighbours"), {}

    def make(name):
        if name not in built:
            path = folder / f"{len(built)}.so"
            source = Path(__file__).with_name("neighbours.cu")
            command = [*find_compiler(), *FLAGS, *BUILDS[name], "-I", str(KERNEL_FOLDER), str(source), "-o", str(path)]
            subprocess.run(command, check=True)
            built[name] = ctypes.CDLL(str(path))
        return built[name]

    return make


def launch(library, name, **values):
    args = Args(**{key: v.ctypes.data if isinstance(v, np.ndarray) else v for key, v in values.items()})
    getattr(library, name)(ctypes.byref(args), 0, 1)


def expected_neighbours(places, k):
    """(agents, k) indices by squared float32 distance, then index."""
    found = np.full((len(places), k), NOBODY, np.int32)
    seen = np.flatnonzero(places[:, 0] < FAR)
    for i in seen:
        others = seen[seen != i]
        dx, dy = (places[others] - places[i]).T
        order = np.lexsort((others, dx * dx + dy * dy))[:k]
        found[i, : len(order)] = others[order]
    return found


def scenes(agents, generator):
    """Places in the unit square: spread, on few points so that distances are equal, in a corner, some unseen, all unseen."""
    spread = generator.random((agents, 2), np.float32)
    hidden = spread.copy()
    hidden[generator.random(agents) < 0.6] = FAR
    coarse = generator.integers(0, 3, (agents, 2)).astype(np.float32) / 4
    return [spread, spread, coarse, spread / 100, hidden, np.full_like(spread, FAR), spread[::-1].copy()]


SIZES = [(2, 1), (5, 4), (7, 3), (33, 10), (105, 10), (64, 32), (150, 32), (500, 10), (60, 40), (70, 70), (250, 150)]


@pytest.mark.parametrize(("agents", "k"), SIZES)
@pytest.mark.parametrize("name", slow_but(["as released", "naive", "lanes, cells"], BUILDS))
def test_neighbours_are_those_of_a_sort(name, agents, k, build):
    """The list of the last search is kept from scene to scene, so that bounds are wide, narrow and of agents that left."""
    generator = np.random.default_rng(agents)
    last = np.full((agents, k), NOBODY, np.uint16)
    for one_tile in (0, 1):
        for scene in scenes(agents, generator):
            places = np.full((agents + agents % 2 + 2, 2), FAR, np.float32)
            places = places[(places.ctypes.data % 16) // 8 :]  # 16-byte aligned
            places[:agents] = scene
            found, finished = np.full((agents, k), -1, np.int32), np.zeros(agents, np.int32)
            launch(build(name), "find_neighbours", place=places, last=last, found=found, finished=finished,
                   agents=agents, k=k, one_tile=int(one_tile and agents <= 32))  # fmt: skip
            np.testing.assert_array_equal(found, expected_neighbours(scene, k))
            assert (finished == 1).all()


@pytest.mark.parametrize("size", [0, 1, 3, 7])
@pytest.mark.parametrize("name", ["as released", "lanes, scan"])
def test_tiles_fill_their_rows_and_nothing_else(name, size, build):
    """Two tables at addresses of any alignment, split at any agent."""
    agents, length = 7, 5
    for split in (1, 4, 7):
        for offset in range(4):
            first, second = (np.full(agents * length + 40, -1, np.float32) for _ in range(2))
            at_first, at_second = offset, (3 * offset + 1) % 8
            launch(build(name), "write_tiles", first=first[at_first:], second=second[at_second:], agents=agents, split=split,
                   length=length, size=size)  # fmt: skip
            rows = 1000 * np.arange(agents)[:, None] + np.arange(length, dtype=np.float32)
            for table, at, part in ((first, at_first, rows[:split]), (second, at_second, rows[split:])):
                wanted = np.full_like(table, -1)
                wanted[at : at + part.size] = part.ravel()
                np.testing.assert_array_equal(table, wanted)
