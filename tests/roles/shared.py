"""Pot: a test env with a role whose agents observe a part alike, and a role without one; with a reference in NumPy."""

from functools import partial
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Param, Role
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


def box(length):
    return lambda params: Box(-np.inf, np.inf, (length,), np.float32)


SPEC = EnvSpec(
    name="Pot-v0",
    kernel=Path(__file__).with_name("shared.cu"),
    roles=(
        Role("player", "num_players", box(1), lambda p: Discrete(3), masked=(0,), shared=box(2)),
        Role("judge", 1, box(1), lambda p: Discrete(2)),
    ),
    params=(
        Param("num_players", 3, "int32", "players in a world", low=1, high=1000),
        Param("full", 9, "int32", "coins in the pot that end the game", "coins"),
        TIME_LIMIT,
    ),
    state=(
        Field("purse", "int32", ("num_players",), "coins of a player", "coins"),
        Field("put", "int32", ("num_players",), "coins that a player put into the pot in the last step", "coins"),
        Field("pot", "int32", (), "coins in the pot", "coins"),
        Field("share", "int32", (), "coins that each player got in the last step", "coins"),
    ),
    sizes=("num_players",),
    rewards={"share": "to a player: coins from the pot", "pot": "to the judge: coins in the pot"},
)

make_vec = partial(GpuVectorEnv, SPEC)


class Pot:
    """One world in integers, written from the comments of shared.cu."""

    def __init__(self, purse, full, limit):
        self.full, self.limit = full, limit
        self.reset(purse)

    def reset(self, purse):
        self.purse, self.pot, self.t = np.array(purse), 0, 0

    def step(self, coins, pays):
        """Return the reward of each agent, terminated and truncated."""
        self.t += 1
        put, share = np.minimum(coins, self.purse), self.pot // len(self.purse) * pays
        self.purse = self.purse + share - put
        self.pot += put.sum() - share * len(self.purse)
        return np.append(np.full(len(self.purse), share), self.pot), self.pot >= self.full, 0 < self.limit <= self.t

    def observe(self):
        """Return the observations by role, and the mask of the players."""
        players = {"shared": np.array([self.pot, self.t]), "own": self.purse[:, None]}
        return {"player": players, "judge": np.array([[self.pot]])}, self.purse[:, None] >= np.arange(3)
