"""Calls of ``GvWorld``: sums, pairs, agents and scratch against Python, on teams of one lane and of seven."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, GpuVectorEnv, Metric, Param, ResetOption, Role, Scratch, Table

KERNEL = """
#include "world.h"
GV_FN void env_reset(GvWorld& w) {
    for (auto me : w.agents) me.kind = 100 * me.in_role + w.agents[me.index].in_role;
    for (int cell : w.each(4)) w.state.cells[cell] = w.options.start;
    if (w.once) w.state.chosen = 0;
}
GV_FN void env_step(GvWorld& w) {
    const int order = w.role.chief[0].action.index();
    for (auto me : w.role.hand) {
        const auto [left, right] = me.action.indices<2>().value;
        me.tools[0] = (float)left + 0.1f;
        me.tools[1] = (float)right + 0.3f;
        w.scratch.spare[me.in_role] = (unsigned char)(left + right);
    }
    w.barrier();
    const auto left_of = [&](auto it) { return it.tools[0]; };
    const auto right_of = [&](auto it) { return it.tools[1]; };
    const auto both_of = [&](auto it) { return it.tools[0] + it.tools[1]; };
    const auto [lefts, rights, both] = w.sum(w.role.hand, left_of, right_of, both_of).value;
    const float alone = w.sum(w.role.hand, right_of);
    const bool none = !w.any(w.role.hand, [&](auto it) { return w.scratch.spare[it.in_role] > 0; });
    const int last = w.role.hand.count() - 1;
    for (auto me : w.role.hand) me.reward = w.tables.weight[me.in_role] * (float)w.scratch.spare[last - me.in_role];
    w.record.most(both);
    for (auto me : w.role.chief) me.reward = lefts;
    if (w.once) {
        w.state.chosen = order;
        w.state.cells[0] = rights;
        w.state.cells[1] = alone;
        w.state.cells[2] = none ? 1.0f : 0.0f;
        w.truncate_at(w.params.max_episode_steps);
    }
}
GV_FN void env_observe(GvWorld& w) {
    for (auto [me, it] : w.pairs(w.role.hand)) me.obs[it.in_role] = it.tools[0] - 0.5f * me.tools[1];
    w.barrier();
    for (auto [me, cell] : w.pairs(w.role.chief, w.each(4))) me.obs[2 + cell] = w.state.cells[cell];
    w.barrier();
    if (w.once) {
        w.role.chief[0].obs[0] = (float)w.state.chosen;
        w.role.chief[0].obs[1] = (float)w.t;
    }
}
"""


@pytest.fixture(scope="module")
def gang(tmp_path_factory):
    """Return a maker of envs in which hands have two tools each and a chief gives an order, built for a number of lanes."""
    kernel = tmp_path_factory.mktemp("world") / "gang.cu"
    kernel.write_text(KERNEL)
    spec = EnvSpec(
        name="Gang-v0",
        kernel=kernel,
        roles=(
            Role("hand", "hands", lambda p: Box(-9, 9, (p["hands"],)), lambda p: MultiDiscrete([3, 4])),
            Role("chief", 1, lambda p: Box(-9, 9, (6,)), lambda p: Discrete(5)),
        ),
        params=(Param("hands", 40, "int32", "hands in a world", low=1), TIME_LIMIT),
        sizes=("hands",),
        state=(
            Field("kind", "int32", ("num_agents",), "numbers in the role, twice"),
            Field("tools", "float32", ("hands", 2), "what a hand holds"),
            Field("cells", "float32", (4,), "sums"),
            Field("chosen", "int32", (), "order of the chief"),
        ),
        tables=(Table("weight", lambda p: np.arange(p["hands"]) + 1.0, "weight of a hand"),),
        reset_options=(ResetOption("start", 0.5, "value of the cells"),),
        scratch=(
            Scratch("spare", "uint8", ("hands",), "tools of a hand"),
            Scratch("rows", "float32", lambda p: p["hands"] ** 2 + 4, "gathered rows"),
        ),
        metrics=(Metric("most", "max", "sum of all tools"),),
    )

    def make(lanes=None, builds=None, **params):
        env = GpuVectorEnv(spec, num_envs=3, device="cpu", array="numpy", **params)
        if lanes is not None:
            env.worlds.backend = builds.team(lanes, "-O0")(env.layout)
        return env

    return make


def partial_sums(values):
    """Sum in the order of ``gv_sum``: 32 partial sums, then these."""
    parts = [np.float32(0)] * min(32, len(values))
    for i, value in enumerate(np.asarray(values, np.float32)):
        parts[i % 32] += value
    total = np.float32(0)
    for part in parts:
        total += part
    return total


@pytest.mark.parametrize(("lanes", "hands"), [(None, 40), (7, 40), (7, 5)])
def test_sums_pairs_and_agents_are_those_of_python(lanes, hands, gang, builds):
    env = gang(lanes, builds, hands=hands, max_episode_steps=3)
    env.reset(seed=1, options={"start": 0.25})
    assert (env.get_state()["cells"] == 0.25).all()
    np.testing.assert_array_equal(env.get_state()["kind"], [[*(101 * np.arange(hands)), 0]] * 3)
    random = np.random.default_rng(hands)
    for _ in range(3):
        tools, order = random.integers(0, 3, (3, hands, 2)).astype(np.int32), random.integers(0, 5, (3, 1)).astype(np.int32)
        obs, _, _, truncated, info = env.step({"hand": tools, "chief": order})
        if truncated.all():
            obs = info["final_obs"]
        held = tools.astype(np.float32) + np.array([0.1, 0.3], np.float32)
        pairs = held[:, None, :, 0] - np.float32(0.5) * held[:, :, None, 1]
        np.testing.assert_array_equal(obs["hand"], pairs)
        np.testing.assert_array_equal(obs["chief"][:, 0, 0], order[:, 0])
        rights = [partial_sums(world[:, 1]) for world in held]
        no_tool = (tools == 0).all((1, 2))
        np.testing.assert_array_equal(obs["chief"][:, 0, 2:], np.stack([rights, rights, no_tool, np.full(3, 0.25)], -1))
        weights = (np.arange(hands) + 1) * tools.sum(-1)[:, ::-1]
        np.testing.assert_array_equal(info["agent_reward"][:, :-1], weights)
        np.testing.assert_array_equal(info["agent_reward"][:, -1], [partial_sums(world[:, 0]) for world in held])
    assert truncated.all()
    np.testing.assert_array_equal(info["episode"]["most"] > 0, True)
    env.close()


@pytest.mark.parametrize("lanes", [None, 7])
def test_several_sums_at_once_have_the_bits_of_one(lanes, gang, builds):
    env = gang(lanes, builds)
    env.reset(seed=1)
    tools = np.random.default_rng(0).integers(0, 3, (3, 40, 2)).astype(np.int32)
    env.step({"hand": tools, "chief": np.zeros((3, 1), np.int32)})
    cells = env.get_state()["cells"]
    expected = [partial_sums(world) for world in tools[..., 1].astype(np.float32) + np.float32(0.3)]
    np.testing.assert_array_equal(cells[:, 0], expected)
    np.testing.assert_array_equal(cells[:, 1], expected)
    env.close()


GATHERED = """
#include "world.h"
GV_FN void env_reset(GvWorld& w) { if (w.once) w.state.day = 0; }
GV_FN void env_step(GvWorld& w) { for (auto me : w.agents) me.reward = 0.0f; }
GV_FN void env_observe(GvWorld& w) {
    for (auto [me, k] : w.pairs(RANGE, w.each(3))) me.obs[k] = RANGE.is_gathered(w.scratch.rows_room) ? 1.0f : 0.0f;
}
"""


@pytest.mark.parametrize(("agents", "number", "roles"), [("w.agents", 5, 2), ("w.role.red", 2, 1)])
def test_rows_are_gathered_if_scratch_has_room_for_them_and_for_the_margin(agents, number, roles, tmp_path, builds):
    """The margin is that of the page: 6 n - 2 floats for n roles."""
    kernel = tmp_path / "gathered.cu"
    kernel.write_text(GATHERED.replace("RANGE", agents))
    spec = EnvSpec(
        name="Gathered-v0", kernel=kernel, roles=(Role("red", 2), Role("blue", 3)),
        params=(Param("room", 1, "int32", "floats of scratch", low=1), TIME_LIMIT), sizes=("room",),
        state=(Field("day", "int32", (), "nothing"),), action=lambda p: Discrete(2),
        observation=lambda p: Box(-1, 1, (3,)), scratch=(Scratch("rows", "float32", ("room",)),),
    )  # fmt: skip
    room = 3 * number + 6 * roles - 2
    for given, gathers in ((room, 1), (room - 1, 0)):
        env = GpuVectorEnv(spec, num_envs=2, device="cpu", array="numpy", room=given)
        env.worlds.backend = builds.team(7, "-O0")(env.layout)
        obs, _ = env.reset(seed=0)
        np.testing.assert_array_equal(obs[:, :number], gathers)
        env.close()


READ = """
#include "world.h"
GV_FN void env_reset(GvWorld& w) { for (auto me : w.agents) me.seen = 0; }
GV_FN void env_step(GvWorld& w) {
    %s
    for (auto me : w.agents) me.reward = 0.0f;
}
GV_FN void env_observe(GvWorld& w) { for (auto me : w.agents) me.obs = {(float)me.seen}; }
"""
WAYS = {
    "for (auto me : w.agents) me.seen = me.action.index();": {1: 1, 2: 1, 7: 1},
    "const int given = w.agents[3].action.index(); for (auto me : w.agents) me.seen = given;": {1: 1, 2: 1, 7: 1},
    "for (auto me : w.agents) me.seen = w.agents[3].action.index();": {1: 5, 2: 3, 7: 1},
    "for (auto me : w.agents) me.seen = w.agents[(me.index + 1) % 5].action.index();": {1: 1, 2: 1, 7: 0},
    "w.count(w.agents, [&](auto it) { return it.action.index() == 1; });": {1: 1, 2: 1, 7: 1},
    "w.any(w.agents, [&](auto it) { return it.action.index() == 1; });": {1: 1, 2: 1, 7: 1},
    "w.sum(w.agents, [&](auto it) { return (float)it.action.index(); });": {1: 1, 2: 1, 7: 1},
    "w.sum(w.agents, [&](auto it) { return (float)it.action.index(); }, [](auto) { return 0.0f; });": {1: 1, 2: 1, 7: 1},
    "const auto no = [](auto) { return 0.0f; };"  # there is room for six sums of five agents
    "w.sum(w.agents, [&](auto it) { return (float)it.action.index(); }, no, no, no, no, no, no);": {1: 1, 2: 1, 7: 1},
    "for (auto [me, it] : w.pairs(w.agents)) me.action.index();": {1: 5, 2: 5, 7: 5},
    "for (auto [me, it] : w.pairs(w.agents)) it.action.index();": {1: 5, 2: 5, 7: 5},
}
"""Ways to read actions, and how often the invalid action of agent 3 counts by the number of lanes."""


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """Return the spec of an env in which five agents read actions in one of the ways."""
    kernel = tmp_path_factory.mktemp("read") / "read.cu"
    kernel.write_text(READ % "\n".join(f"if (w.params.way == {k}) {{ {way} }}" for k, way in enumerate(WAYS)))
    return EnvSpec(
        name="Read-v0", kernel=kernel, roles=(Role("reader", 5),),
        params=(Param("way", 0, "int32", "number of the way to read actions"), TIME_LIMIT),
        state=(Field("seen", "int32", ("num_agents",), "the action that was read"),), action=lambda p: Discrete(3),
        observation=lambda p: Box(-9, 9, (1,)),
    )  # fmt: skip


@pytest.mark.parametrize("lanes", [1, 2, 7])
@pytest.mark.parametrize("way", WAYS)
def test_how_often_an_invalid_action_counts(way, lanes, reader, builds):
    """The page of hooks says so: the action of an agent that is taken by its number counts in the first lane alone."""
    env = GpuVectorEnv(reader, num_envs=2, device="cpu", array="numpy", way=[*WAYS].index(way))
    env.worlds.backend = builds.team(lanes, "-O0")(env.layout)
    env.reset(seed=0)
    actions = np.zeros((2, 5), np.int32)
    actions[1, 3] = 8
    env.worlds.step((actions, actions.ctypes.data, 4))  # unchecked, because the CPU refuses invalid actions before a step
    assert int(env.worlds.arguments.invalid[0]) == WAYS[way][lanes]
    np.testing.assert_array_equal(env.get_state()["seen"], 0)
    env.worlds.arguments.invalid[:] = 0  # close() would raise an error
    env.close()
