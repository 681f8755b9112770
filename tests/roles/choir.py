"""Choir: a test env whose parameters decide about arrays by role, masks and a field's shape; with a reference in NumPy."""

from functools import partial
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Metric, Param, Role
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


def box(length):
    return Box(-np.inf, np.inf, (length,), np.float32)


def memory(params):
    return params["memory"]


SPEC = EnvSpec(
    name="Choir-v0",
    kernel=Path(__file__).with_name("choir.cu"),
    roles=(
        Role(
            "singer",
            "num_singers",
            masked=lambda p: (0,) if p["may_not_repeat"] else (),
            shared=lambda p: None if p["whole"] else box(2),
        ),
    ),
    observation=lambda p: box(1 + p["memory"] + 2 * p["whole"]),
    action=lambda p: Discrete(3),
    params=(
        Param("num_singers", 3, "int32", "singers in a world", low=1, high=1000),
        Param("memory", 2, "int32", "notes before the present one that a singer observes", low=0, high=9),
        Param("may_not_repeat", True, "bool", "True: a mask forbids the present note"),
        Param("whole", False, "bool", "True: whole rows of observations"),
        TIME_LIMIT,
    ),
    state=(
        Field("note", "int32", ("num_singers",), "present note", low=0, high=2),
        Field("heard", "int32", (memory, "num_singers"), "notes before, the latest first", low=-1, high=2),
        Field("lead", "int32", (), "last note of the first singer", low=0, high=2),
    ),
    sizes=("num_singers",),
    metrics=(Metric("notes", "sum", "sum of all notes"),),
    rewards={"in tune": "1 for the note of the first singer"},
)

make_vec = partial(GpuVectorEnv, SPEC)


class Choir:
    """One world in integers, written from the comments of choir.cu."""

    def __init__(self, note, memory):
        self.note, self.lead, self.t = np.array(note), 0, 0
        self.heard = np.full((memory, len(note)), -1)

    def step(self, notes):
        """Return the reward of each singer. Notes that do not exist are 0."""
        self.heard = np.concatenate([self.note[None], self.heard])[: len(self.heard)]
        self.note = np.where((notes >= 0) & (notes < 3), notes, 0)
        self.lead, self.t = self.note[0], self.t + 1
        return (self.note == self.lead).astype(np.float32)

    def observe(self):
        """Return the part that all observe alike, that of each, and the masks."""
        own = np.concatenate([self.note[None], self.heard]).T
        return np.array([self.lead, self.t]), own, self.note[:, None] != np.arange(3)
