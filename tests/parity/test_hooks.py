"""Single-agent worlds whose hooks differ from classic control's, in every build and mode, by steps and by rollouts."""

import numpy as np
import pytest
from gymnasium.spaces import Box, MultiDiscrete

from gpu_vecenv.backend.compiler import compile_object, cpu_level
from gpu_vecenv.backend.cpu import CpuBackend
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Field
from gpu_vecenv.spec.params import TIME_LIMIT, Param
from gpu_vecenv.spec.roles import Role
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.kernels.test_rng import philox
from tests.parity.test_packs import MODES, ONE_BY_ONE, assert_equal
from tests.parity.test_same_bits import sizes_as_constants

WORLDS = 70  # two packs and 6 worlds left over

# Every step draws random numbers. Observations show the episode number, and fields before env_settle changes them.
KERNEL = """
#include "world.h"
GV_FN void env_reset(GvWorld& w) {
    const auto drawn = w.draw(0);
    for (auto me : w.agents)
        for (int i = 0; i < LENGTH; ++i) w.state.place[i] = drawn.uniform(i % 3);
    if (w.once) w.state.mark = (gv_u8)(drawn.word[3] & 7);
}
GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) {
        float push = w.draw(1).uniform();
        for (int entry = 0; entry < w.agents.num_entries(); ++entry)
            push += w.sizes.continuous ? gv_clamp(me.action.value(entry), -1.0f, 1.0f) : (float)me.action.index(entry);
        for (int i = 0; i < LENGTH; ++i) w.state.place[i] += w.params.stride * push * (float)(i + 1);
        me.reward = w.state.place[0];
    }
    if (w.once) {
        w.terminate(w.state.place[1] > 2.0f);
        w.truncate_at(w.params.max_episode_steps);
    }
}
GV_FN void env_observe(GvWorld& w) {
    const auto& s = w.state;
    for (auto me : w.agents)
        for (int f = 0; f < w.agents.num_features(); ++f)
            me.obs[f] = s.place[f % LENGTH] + (float)(f % 2 ? w.a.episode[w.team.world] : s.mark + f);
}
GV_FN void env_settle(GvWorld& w) {
    if (w.once) {
        w.state.mark += 1;
        w.state.place[2] *= 0.5f;
    }
}
"""
ACTIONS = {"choices": MultiDiscrete([2, 3]), "numbers": Box(-1, 1, (2,), np.float32)}


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Return a maker of envs with given lengths of observation and state, in one of three builds for the CPU or on a GPU."""
    folder = tmp_path_factory.mktemp("hooks")

    def build(which, width, kind, length=3, **options):
        kernel = folder / f"hooks{length}.cu"
        kernel.write_text(f"#define LENGTH {length}\n{KERNEL}")
        spec = EnvSpec(
            name="Hooks-v0",
            kernel=kernel,
            roles=(Role("agent", 1),),
            params=(Param("stride", 0.05, "float32", "length of a step", per_world=True), TIME_LIMIT),
            state=(Field("place", "float32", (length,), "where it is"), Field("mark", "uint8", (), "steps settled, and more")),
            observation=lambda params: Box(-np.inf, np.inf, (width,), np.float32),
            action=lambda params: ACTIONS[kind],
            rewards={"place": "where it is"},
        )
        stride = np.linspace(0.02, 0.1, WORLDS).astype(np.float32)
        options |= {"device": "cuda:0" if which == "cuda" else "cpu", "array": "numpy", "max_episode_steps": 17}
        env = GpuVectorEnv(spec, num_envs=WORLDS, stride=stride, **options)
        if which == "cuda":
            return env
        flags = {"one by one": ONE_BY_ONE, "packs": (), "constants": sizes_as_constants(env.layout)}[which]
        built = folder / f"{which}-{width}-{length}-{kind}.so"
        if not built.exists():
            compile_object(spec, cpu_level(), built, flags)
        env.worlds.backend = CpuBackend(env.layout, built, threads=1)
        return env

    return build


def actions_of(env, steps, dtype):
    generator = np.random.default_rng(steps)
    shape = (steps, *env.action_space.shape)
    continuous = env.layout.groups[0].continuous
    return generator.normal(0, 1, shape).astype(np.float32) if continuous else generator.integers(0, 2, shape, dtype)


def arrays(out):
    """Arrays of a step or a rollout, copied; rows of final_obs without a finished episode are 0."""
    *seen, info = out
    if "final_obs" in info:
        seen += [info["_final_obs"], np.where(info["_final_obs"][..., None], info["final_obs"], 0)]
    return [np.array(array) for array in seen]


def run(env, dtype, at_once):
    """Results with a shared seed, after a partial reset, with marks that were set, with seeds of each world, and from a pool."""
    seen = [np.array(env.reset(seed=3)[0])]

    def go(steps):
        actions = actions_of(env, steps, dtype)
        outs = arrays(env.rollout(actions)) if at_once else zip(*(arrays(env.step(action)) for action in actions), strict=True)
        seen.extend(np.stack(list(out)) for out in outs)
        seen.extend(env.get_state().values())

    slots = np.arange(WORLDS)
    go(43)
    seen.append(np.array(env.reset(options={"reset_mask": slots % 3 == 0})[0]))
    go(21)
    env.set_state({"terminated": (slots % 5 == 0).astype(np.uint8), "truncated": (slots % 7 == 0).astype(np.uint8)})
    go(22)
    env.reset(seed=slots.tolist())
    env.copy_worlds([0, 1, 40], [3, 39, 69], diverge=True)
    go(23)
    env.set_reset_pool(env.get_state("place"))
    env.reset()
    go(24)
    return seen


def compare(make, width, kind, dtype, builds=("one by one", "packs", "constants"), **options):
    expected = run(make("one by one", width, kind, **options), dtype, at_once=False)
    for which in builds:
        for at_once in (False, True):
            assert_equal(run(make(which, width, kind, **options), dtype, at_once), expected)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("width", "kind", "dtype", "copy"), [(4, "choices", np.int64, False), (40, "numbers", np.float32, True)])  # fmt: skip
def test_every_build_gives_the_same_bits(width, kind, dtype, copy, mode, make):
    """With constants, a lane holds a row of 4 floats in registers; a row of 40 is written in place."""
    compare(make, width, kind, dtype, autoreset_mode=mode, copy=copy)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["one by one", "packs"])
def test_a_step_draws_from_seed_world_episode_and_step(which, make):
    """World w draws in step t of episode e from counter (w, e, t, purpose), with the seed as key."""
    env = make(which, 40, "numbers")
    env.reset(seed=2**40 + 17)
    idle, stride = np.zeros(env.action_space.shape, np.float32), np.linspace(0.02, 0.1, WORLDS).astype(np.float32)
    for _ in range(20):  # steps of two episodes
        before = env.get_state("place", "episode", "t")
        reward = env.step(idle)[1]
        words = [philox(2**40 + 17, (w, int(before["episode"][w]), int(before["t"][w]) + 1, 1 << 16))[0] for w in range(WORLDS)]
        push = (np.array(words) >> 8).astype(np.float32) * np.float32(2**-24)
        np.testing.assert_array_equal(reward, before["place"][:, 0] + stride * push)
    assert (before["episode"] > 0).all()


@pytest.mark.gpu
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("width", "kind", "dtype", "length"), [
    (4, "choices", np.int64, 3), (40, "numbers", np.float32, 3), (4, "choices", np.int32, 300)])  # fmt: skip
def test_a_gpu_gives_the_same_bits(width, kind, dtype, length, mode, make):
    compare(make, width, kind, dtype, builds=("cuda",), length=length, autoreset_mode=mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_state_too_long_for_registers_gives_the_same_bits(mode, make):
    """It stays in memory, and its worlds are stepped by the code for several agents."""
    compare(make, 4, "choices", np.int32, length=300, autoreset_mode=mode)


@pytest.mark.slow
def test_an_observation_too_long_for_the_stack_gives_the_same_bits(make):
    """The rows of a whole pack would not fit on the stack."""
    packs, single = (make(which, 70_000, "numbers", autoreset_mode="next_step") for which in ("packs", "one by one"))
    for env in (packs, single):
        env.reset(seed=3)
    for action in actions_of(single, 20, np.float32):
        assert_equal(arrays(packs.step(action)), arrays(single.step(action)))
