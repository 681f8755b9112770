"""Names of the spec as kernels see them: ``gv_state()``, ``gv_params()``, hooks that are left out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from gpu_vecenv import EnvSpec, Field, GpuVectorEnv, Param, Role
from gpu_vecenv.errors import ParameterError

KERNEL = """
#include "world.h"
GV_FN void env_reset(GvWorld& w) {
    if (w.once) {
        w.state.count = 1;
        w.state.x = 10.0f;
        w.state.y = 20.0f;
    }
    for (auto me : w.agents) me.place = (float)me.index;
}
GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) {
        me.place += w.params.stride * (float)w.t;
        me.reward = me.place;
    }
    if (w.once) {
        w.state.count += 1;
        w.state.y += w.state.x;
        w.terminate(w.t == 3);
    }
}
GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {me.place, w.state.y};
}
"""


@pytest.fixture
def spec(tmp_path: Path):
    kernel = tmp_path / "named.cu"
    kernel.write_text(KERNEL)
    return EnvSpec(
        name="Named-v0",
        kernel=kernel,
        roles=(Role("walker", "num_walkers"), Role("guide", 1)),
        params=(
            Param("num_walkers", 2, "int32", "walkers in a world", low=1),
            Param("stride", 0.5, "float32", "length of a step", per_world=True),
        ),
        state=(
            Field("count", "int32", (), "steps"),
            Field("pair", "float32", (2,), "two numbers", names=("x", "y")),
            Field("place", "float32", ("num_agents",), "place of each agent"),
        ),
        observation=lambda params: Box(-np.inf, np.inf, (2,), np.float32),
        action=lambda params: Discrete(2),
        sizes=("num_walkers",),
        rewards={"place": "its place"},
    )


def test_a_kernel_reads_and_writes_state_by_name(spec):
    strides = np.array([0.5, 2.0, 3.0], np.float32)
    env = GpuVectorEnv(spec, num_envs=3, stride=strides, array="numpy", device="cpu")
    env.reset(seed=0)
    for _ in range(2):
        obs, *_, info = env.step(np.zeros((3, 3), np.int32))
    state = env.get_state()
    np.testing.assert_array_equal(state["count"], [3, 3, 3])
    np.testing.assert_array_equal(state["pair"], [[10, 40]] * 3)
    places = np.arange(3) + 3 * strides[:, None]  # 1 + 2 strides
    np.testing.assert_array_equal(state["place"], places)
    np.testing.assert_array_equal(info["agent_reward"], places)
    np.testing.assert_array_equal(obs, np.stack([places, np.full((3, 3), 40)], -1))
    assert env.step(np.zeros((3, 3), np.int32))[2].all()


@pytest.mark.parametrize("names", [("x",), ("x", "y", "z")])
def test_a_field_has_a_name_for_each_number(spec, names):
    fields = (Field("pair", "float32", (2,), "two numbers", names=names),)
    with pytest.raises(ParameterError, match=r"state field 'pair': names must be one name for each number of the shape \(2,\)"):
        replace(spec, state=fields)


@pytest.mark.parametrize("names", [("x", "x"), ("x", "place"), ("x", "t"), ("x", "a b")])
def test_names_are_different_and_usable(spec, names):
    fields = (Field("pair", "float32", (2,), "two numbers", names=names), spec.state[2])
    with pytest.raises(ParameterError, match="different identifiers"):
        replace(spec, state=fields)


@pytest.mark.parametrize("name", ["obs", "seed", "action", "stride"])
def test_a_field_cannot_have_the_name_of_another_argument(spec, name):
    fields = (*spec.state[:2], Field("place", "float32", ("num_agents",), "place"), Field(name, "int32", (), "taken"))
    with pytest.raises(ParameterError, match=f"'{name}' would be twice in the kernel's argument struct"):
        GpuVectorEnv(replace(spec, state=fields), num_envs=1, device="cpu")


NUMBERS = """
#include "world.h"
GV_FN void env_reset(GvWorld& w) {
    if (w.once) w.state.start = (float)w.team.world_number;
}
GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) me.reward = (float)w.team.world_number;
    if (w.once) w.truncate(w.t == 2);
}
GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {(float)w.team.world_number};
}
"""


@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_hooks_know_the_number_of_their_world(agents, mode, tmp_path):
    """Hooks of 70 worlds, two packs and six more, write their number as observation, reward and state."""
    (tmp_path / "numbers.cu").write_text(NUMBERS)
    spec = EnvSpec("Numbers-v0", tmp_path / "numbers.cu", (Role("agent", agents),), (),
                   (Field("start", "float32", (), "number of the world at its start"),),
                   lambda params: Box(0, 100, (1,)), lambda params: Discrete(2))  # fmt: skip
    env = GpuVectorEnv(spec, num_envs=70, device="cpu", array="numpy", autoreset_mode=mode)
    numbers, none = np.arange(70), np.zeros(env.action_space.shape, np.int32)
    observed = [env.reset(seed=0)[0]]
    for call in (lambda: env.step(none), lambda: env.rollout(none, 1)):
        obs, reward, *_ = call()
        observed.append(obs)
        np.testing.assert_array_equal(reward.ravel(), numbers)
    observed += list(env.rollout(none, 4)[0])  # with starts of episodes
    for obs in observed:
        np.testing.assert_array_equal(obs.reshape(70, agents).T, [numbers] * agents)
    np.testing.assert_array_equal(env.get_state("start")["start"], numbers)
