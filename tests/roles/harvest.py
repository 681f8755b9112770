"""Harvest: a test env whose agents are alike and have masks, with a reference in NumPy."""

from functools import partial
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, MultiDiscrete

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Metric, Param, Role, Scratch, Table
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.kernels.test_rng import philox

SIDE, RADIUS, FROZEN_STEPS = 8, 2, 3
GROUND, WALL, TREE = 0, 1, 2
MAPS = np.zeros((3, SIDE, SIDE), int)
MAPS[0, 2:6:3, 1:7] = TREE
MAPS[1, :, 4] = WALL
MAPS[1, 3, 4] = GROUND
MAPS[1, 5:, :3] = TREE
MAPS[2, ::2, ::2] = TREE
MAPS[2, 1::4, 1::2] = WALL
MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])


def window_names():
    """Names of the cells around an agent."""
    places = [f"{dx}, {dy}" for dy in range(-RADIUS, RADIUS + 1) for dx in range(-RADIUS, RADIUS + 1)]
    return [f"{what} at {place}" for what in ("wall", "apple", "others") for place in places]


SPEC = EnvSpec(
    name="Harvest-v0",
    kernel=Path(__file__).with_name("harvest.cu"),
    roles=(Role("red", "num_red", masked=(0,)), Role("blue", "num_blue", masked=(0,))),
    params=(
        Param("num_red", 3, "int32", "agents of the red team", low=1, high=1000),
        Param("num_blue", 2, "int32", "agents of the blue team", low=1, high=1000),
        Param("map", 0, "int32", "number of the map", low=0, high=len(MAPS) - 1, per_world=True),
        Param("regrowth", 0.01, "float32", "probability that an apple grows, for each apple around it", low=0, high=1),
        Param("zap_cost", 0.25, "float32", "subtracted from the reward of an agent that zaps"),
        TIME_LIMIT,
    ),
    state=(
        Field("x", "int32", ("num_agents",), "x of the cell", "cells", 0, SIDE - 1),
        Field("y", "int32", ("num_agents",), "y of the cell", "cells", 0, SIDE - 1),
        Field("frozen_until", "int32", ("num_agents",), "last step in which the agent is frozen", "steps"),
        Field("zaps", "uint8", ("num_agents",), "1 if the agent zapped in the last step", low=0, high=1),
        Field("ate", "uint8", ("num_agents",), "1 if the agent ate in the last step", low=0, high=1),
        Field("apples", "uint8", (SIDE, SIDE), "1 for a cell with an apple", low=0, high=1),
    ),
    observation=lambda params: Box(-np.inf, np.inf, (4 + 3 * (2 * RADIUS + 1) ** 2,), np.float32),
    action=lambda params: MultiDiscrete([5, 2]),
    sizes=("num_red", "num_blue"),
    tables=(
        Table("maps", lambda params: MAPS, "ground of each cell of each map: 1 a wall, 2 a tree", dtype="uint8"),
        Table("moves", lambda params: MOVES, "steps in x and y of each move", "cells", dtype="int8"),
    ),
    scratch=(Scratch("grown", "float32", (SIDE, SIDE), "1 for a cell with an apple behind the step"),),
    metrics=(
        Metric("eaten", "sum", "apples eaten", "apples"),
        Metric("fewest_apples", "min", "apples left", "apples"),
        Metric("most_frozen", "max", "frozen agents", "agents"),
        Metric("last_zaps", "last", "zaps in the last step with a zap", "zaps"),
    ),
    rewards={"apple": "1 for an apple eaten", "`zap_cost`": "subtracted for a zap"},
    feature_names=lambda params: ["x", "y", "frozen steps", "zap", *window_names()],
)

make_vec = partial(GpuVectorEnv, SPEC)


class Harvest:
    """One world in NumPy, written from the comments of harvest.cu. A draw is keyed by seed, world, episode, step and purpose."""

    def __init__(self, params, seed, world_id, number):
        self.params, self.seed, self.world_id = params, seed, world_id
        self.ground, self.team = MAPS[number], np.repeat([0, 1], [params["num_red"], params["num_blue"]])

    def draw(self, purpose, agent):
        return philox(self.seed, (self.world_id, self.episode, self.t, purpose << 16 | agent))[0]

    def reset(self, episode):
        self.episode, self.t = episode, 0
        agents = len(self.team)
        free = [int(cell) for cell in np.flatnonzero(self.ground.ravel() != WALL)] * 2
        first = [self.draw(0, i) * SIDE**2 >> 32 for i in range(agents)]
        starts = np.array([next((c for c in free if c >= cell), free[0]) for cell in first])
        self.place = np.stack([starts % SIDE, starts // SIDE], axis=1)
        self.frozen_until, self.zaps = np.zeros(agents, int), np.zeros(agents, bool)
        self.apples = self.ground == TREE
        self.seen = []

    def is_wall(self, x, y):
        return not (0 <= x < SIDE and 0 <= y < SIDE) or self.ground[y, x] == WALL

    def step(self, actions):
        """Return the reward of each agent, terminated and truncated."""
        self.t += 1
        frozen = self.t <= self.frozen_until
        for i, (move, _) in enumerate(actions):
            target = self.place[i] + MOVES[move]
            if not frozen[i] and not self.is_wall(*target):
                self.place[i] = target
        self.zaps = (actions[:, 1] == 1) & ~frozen
        near = abs(self.place[:, None] - self.place).max(2) <= 1
        hit = (near & (self.team[:, None] != self.team) & self.zaps).any(1)
        self.frozen_until[hit] = self.t + FROZEN_STEPS
        cells = [tuple(place[::-1]) for place in self.place.tolist()]
        ate = np.array([self.apples[cell] and cell not in cells[:i] for i, cell in enumerate(cells)])
        apples = self.apples.copy()
        for y, x in np.argwhere((self.ground == TREE) & ~self.apples).tolist():
            around = self.apples[max(0, y - 1) : y + 2, max(0, x - 1) : x + 2].sum()
            uniform = (self.draw(1, y * SIDE + x) >> 8) / 2**24
            apples[y, x] = uniform < np.float32(self.params["regrowth"]) * np.float32(around)
        for cell in cells:
            apples[cell] = False
        self.apples = apples
        self.seen.append((ate.sum(), apples.sum(), (self.t < self.frozen_until).sum(), self.zaps.sum()))
        reward = ate.astype(np.float32) - self.zaps * np.float32(self.params["zap_cost"])
        return reward, not apples.any(), 0 < self.params["max_episode_steps"] <= self.t

    def metrics(self):
        eaten, apples, frozen, zaps = np.array(self.seen).T
        last = zaps[zaps > 0][-1] if zaps.any() else np.nan
        return {"eaten": eaten.sum(), "fewest_apples": apples.min(), "most_frozen": frozen.max(), "last_zaps": last}

    def observe(self):
        """Return the observations and the masks of all agents."""
        width = 2 * RADIUS + 1
        left = np.maximum(self.frozen_until - self.t, 0)
        obs, mask = [], np.ones((len(self.team), 5), bool)
        walls, apples = np.pad(self.ground == WALL, RADIUS, constant_values=True), np.pad(self.apples, RADIUS)
        for i, (x, y) in enumerate(self.place):
            others = np.zeros((SIDE + 2 * RADIUS,) * 2)
            for other_x, other_y in self.place[self.team != self.team[i]]:
                others[other_y + RADIUS, other_x + RADIUS] += 1
            windows = [grid[y : y + width, x : x + width].ravel() for grid in (walls, apples, others)]
            obs.append(np.concatenate([[x, y, left[i], self.zaps[i]], *windows]))
            mask[i, 1:] = [left[i] == 0 and not self.is_wall(*(self.place[i] + move)) for move in MOVES[1:]]
        return np.array(obs, np.float32), mask
