"""Town: a test env whose two roles observe and do different things, with a reference in NumPy."""

from functools import partial
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Metric, Param, Role, Scratch, Table
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

STRIKE_STEPS = 3


def skills(params):
    return np.linspace(0.25, 1, params["num_citizens"])


SPEC = EnvSpec(
    name="Town-v0",
    kernel=Path(__file__).with_name("town.cu"),
    roles=(
        Role("citizen", "num_citizens", lambda p: Box(-np.inf, np.inf, (4,)), lambda p: Discrete(3), masked=(0,)),
        Role("mayor", 1, lambda p: Box(-np.inf, np.inf, (p["num_citizens"] + 1,)), lambda p: Box(0, 1, (2,))),
    ),
    params=(
        Param("num_citizens", 5, "int32", "citizens in a world", low=1, high=1000),
        Param("rich", 12.0, "float32", "wealth of all citizens that ends the game"),
        TIME_LIMIT,
    ),
    state=(
        Field("wealth", "float32", ("num_citizens",), "savings"),
        Field("idle_until", "int32", ("num_citizens",), "step from which work is allowed again", "steps"),
        Field("tax", "float32", (), "tax of the last step"),
    ),
    sizes=("num_citizens",),
    scratch=(
        Scratch("wealth", "float32", ("num_citizens",), "savings of a citizen"),
        Scratch("idle", "float32", ("num_citizens",), "1 during a strike"),
        Scratch("tax", "float32", (), "tax of the step"),
    ),
    tables=(Table("skill", skills, "income of a step of work"),),
    metrics=(
        Metric("strikes", "sum", "steps of strike, of all citizens", "steps"),
        Metric("tax", "mean", "tax"),
    ),
    reward_role="citizen",
    limit_is_rule=True,
    rewards={"income": "to a citizen: its income", "total": "to the mayor: the wealth of all citizens"},
)

make_vec = partial(GpuVectorEnv, SPEC)


def add_partial_sums(values):
    """Sum of float32 numbers in the order of ``gv_sum``."""
    partial = [np.float32(0)] * min(32, len(values))
    for i, value in enumerate(values):
        partial[i % 32] = np.float32(partial[i % 32] + value)
    total = np.float32(0)
    for value in partial:
        total = np.float32(total + value)
    return total


class Town:
    """One world in NumPy float32, written from the comments of town.cu."""

    def __init__(self, wealth, rich, limit):
        self.rich, self.limit = np.float32(rich), limit
        self.skill = skills({"num_citizens": len(wealth)}).astype(np.float32)
        self.reset(wealth)

    def reset(self, wealth):
        self.wealth, self.idle_until = wealth.astype(np.float32), np.zeros(len(wealth), int)
        self.tax, self.t, self.strikes, self.taxes = np.float32(0), 0, np.float32(0), np.float32(0)

    def step(self, choices, mayor):
        """Return the reward of each agent, the reward of the world, terminated and truncated."""
        self.t += 1
        tax, dole = np.clip(np.float32(mayor), 0, 1)
        income = np.where(choices == 1, self.skill, np.float32(0)) * (np.float32(1) - tax) + dole * np.float32(0.125)
        self.wealth = self.wealth + income
        self.idle_until = np.where(choices == 2, self.t + STRIKE_STEPS, self.idle_until)
        self.tax, total = tax, add_partial_sums(self.wealth)
        self.strikes += np.float32((self.t < self.idle_until).sum())
        self.taxes = np.float32(self.taxes + tax)
        reward = add_partial_sums(income) / np.float32(len(income))
        return np.append(income, total), reward, total > self.rich, 0 < self.limit <= self.t

    def metrics(self):
        return {"strikes": self.strikes, "tax": self.taxes / np.float32(self.t)}

    def observe(self):
        """Return the observations of citizens and mayor, and the mask of the citizens."""
        n = len(self.wealth)
        citizens = np.stack([self.wealth, self.skill, np.full(n, self.tax), np.full(n, self.t)], axis=1)
        mask = np.ones((n, 3), bool)
        mask[:, 1:] = (self.t >= self.idle_until)[:, None]
        return citizens.astype(np.float32), np.append(self.wealth, self.t)[None].astype(np.float32), mask
