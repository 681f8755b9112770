"""Envs with roles or masks for the tests of adapters, and what an adapter makes of their arrays, in NumPy."""

import dataclasses

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

import tests.roles  # noqa: F401  # registers Town, Harvest and Pot
from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Role
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.train.role_envs import MASKED

SOLO = """
// One agent, whose role has spaces of its own: it observes the last choice and must not repeat it.
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    if (w.once) w.state.last = w.draw(0).below(3);
}

GV_FN void env_step(GvWorld& w) {
    for (auto me : w.role.guesser) {
        w.state.last = me.action.index();
        me.reward = (float)w.state.last;
        w.truncate_at(w.params.max_episode_steps);
    }
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.role.guesser) {
        me.obs = {(float)w.state.last};
        for (int k = 0; k < 3; ++k) me.mask[k] = k != w.state.last;
    }
}
"""


def make_one(**options):
    """Roles are alike, and there is one agent in a world."""
    return GpuVectorEnv(dataclasses.replace(MASKED, name="One-v0", roles=(Role("agent", 1, masked=(0,)),)), **options)


def make_solo(folder, **options):
    """A role with spaces of its own has the only agent."""
    kernel = folder / "solo.cu"
    kernel.write_text(SOLO)
    role = Role("guesser", 1, lambda p: Box(0, 2, (1,)), lambda p: Discrete(3), masked=(0,))
    state = (Field("last", "int32", (), "last choice"),)
    return GpuVectorEnv(EnvSpec("Solo-v0", kernel, (role,), (TIME_LIMIT,), state, rewards={"last": "the choice"}), **options)


CASES = {
    "town": ("Town-v0", {"max_episode_steps": 7, "num_citizens": 4}),
    "pot": ("Pot-v0", {"max_episode_steps": 9}),
    "harvest": ("Harvest-v0", {"max_episode_steps": 7, "num_red": 2}),
    "one agent": ("One-v0", {"max_episode_steps": 5}),
    "one agent of a role": ("Solo-v0", {"max_episode_steps": 5}),
    "covid": ("WarpCovid-v0", {"episode_length": 7, "action_cooldown": 3, "subsidy_interval": 2}),
}
"""Ids and parameters: roles with spaces of their own, a shared part, masks of one entry of two, plain keys."""


def register(monkeypatch, folder):
    """Register the envs of one agent for one test."""
    for env_id, make in (("One-v0", make_one), ("Solo-v0", lambda **options: make_solo(folder, **options))):
        monkeypatch.setitem(gymnasium.registry, env_id, gymnasium.envs.registration.EnvSpec(env_id, vector_entry_point=make))


def vector_env(name, num_worlds=1):
    """The env as a vector env on the CPU, in NumPy, in same-step mode."""
    env_id, params = CASES[name]
    return gymnasium.make_vec(env_id, num_worlds=num_worlds, device="cpu", array="numpy", **params).unwrapped


def by_role(env, values):
    """Arrays of a vector env with an axis of agents, (N, A_r, ...), by role. Only masked roles have masks."""
    if not isinstance(values, dict):
        several = values if env.num_agents > 1 else values[:, None]
        ends = np.cumsum(list(env.role_counts.values()))
        return dict(zip(env.role_counts, np.split(several, ends[:-1], axis=1), strict=True))
    return {role: joined(value) if isinstance(value, dict) else value for role, value in values.items()}


def joined(parts):
    """The shared part in front of each agent's own part."""
    shared = np.repeat(parts["shared"][:, None], parts["own"].shape[1], axis=1)
    return np.concatenate([shared, parts["own"]], axis=-1)


def last_of_episode(env, obs, info, name):
    """Observations or masks by role after a step, before autoreset."""
    now, final = by_role(env, obs), by_role(env, info[name])
    return {role: np.where(info["_final_obs"][:, None, None], final[role], now[role]) for role in now}
