"""Worlds of one agent, stepped in packs on the CPU, compared with a build without packs (teams of one thread, GV_LANES=1)."""

import re
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from gpu_vecenv.backend.compiler import LEVELS, compile_object, cpu_level, object_name
from gpu_vecenv.backend.cpu import CpuBackend
from gpu_vecenv.backend.source import KERNEL_FOLDER
from gpu_vecenv.envs import acrobot, cartpole, mountain_car, mountain_car_continuous, pendulum, recall
from gpu_vecenv.errors import CompileError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Field, Scratch
from gpu_vecenv.spec.params import Param
from gpu_vecenv.spec.roles import Role
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.vector.inputs.actions import ENTRY_TYPES
from tests.marks import slow_but

ENVS = (acrobot, cartpole, mountain_car, mountain_car_continuous, pendulum, recall)
SPECS = {env.SPEC.name: env.SPEC for env in ENVS}
FEW = ("WarpCartPole-v1", "WarpMountainCarContinuous-v0")
"""Envs with choices and with numbers; compiling the others takes most of their time."""

ONE_BY_ONE = ("-DGV_LANES=1", "-pthread", "-O0")
MODES = ("same_step", "next_step", "disabled")


@pytest.fixture(scope="session")
def backend(tmp_path_factory):
    """Return a function that gives an env a build with packs for an instruction set, or the build without packs.

    For the instruction set of this processor, it is the build that every env has.
    """

    folder = tmp_path_factory.mktemp("packs")

    def make(env, level=None):
        if level == cpu_level():
            env.worlds.backend = CpuBackend(env.layout, threads=1)
            return env
        built = folder / f"{level}-{object_name(env.env_spec, cpu_level())}"
        if not built.exists():
            compile_object(env.env_spec, level or cpu_level(), built, () if level else ONE_BY_ONE)
        env.worlds.backend = CpuBackend(env.layout, built, threads=1)
        return env

    return make


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_gcc_steps_a_pack_in_vector_registers(name, tmp_path):
    """A branch or a value in memory in the loop of a pack would keep the compiler from it, and no result would differ.

    The compiler first tries to take the numbers of a world for elements of one vector. If that fails half way, it splits them
    and stores each by itself.
    """
    report, details = tmp_path / "loops.txt", tmp_path / "details.txt"
    flags = (f"-fopt-info-vec-optimized-missed={report}", f"-fdump-tree-vect-details={details}")
    try:
        compile_object(SPECS[name], LEVELS[0], tmp_path / "kernel.so", flags)
    except CompileError:
        pytest.skip("the compiler is not gcc")
    source = (KERNEL_FOLDER / "single" / "pack.h").read_text().split("\n")
    (line,) = (number for number, text in enumerate(source, start=1) if "GV_INDEPENDENT for" in text)
    said = re.findall(rf"pack\.h:{line}:\d+: (optimized: loop vectorized|missed: couldn't vectorize loop)", report.read_text())
    assert set(said) == {"optimized: loop vectorized"}
    assert not re.findall(rf"pack\.h:{line}:\d+: note: +Splitting SLP group", details.read_text())


def actions_of(env, generator, dtype):
    space = env.single_action_space
    if isinstance(space, Box):
        return generator.normal(0, 2, (env.num_envs, 1)).astype(np.float32)
    return generator.integers(0, space.n, env.num_envs).astype(dtype)


def rollout(env, steps=120, dtype=np.int32):
    """Results of every step, and the state at the end. Every 50 steps a mask resets some worlds."""
    seen = [env.reset(seed=3)[0]]
    generator = np.random.default_rng(4)
    for step in range(steps):
        *arrays, info = env.step(actions_of(env, generator, dtype))
        finished = info.get("_final_obs", np.zeros(env.num_envs, bool))
        seen += [*arrays, finished, info["final_obs"][finished] if finished.any() else np.zeros(0)]
        if step % 50 == 49:
            seen.append(env.reset(options={"reset_mask": np.arange(env.num_envs) % 3 == 0})[0])
    return seen + list(env.get_state().values())


def assert_equal(some, others):
    for one, other in zip(some, others, strict=True):
        np.testing.assert_array_equal(one, other)


def compare(backend, spec, steps=120, dtype=np.int32, prepare=lambda env: None, **options):
    """Compare the builds for every instruction set with the build without packs."""
    runs = []
    for level in (None, *LEVELS[LEVELS.index(cpu_level()) :]):
        env = backend(GpuVectorEnv(spec, array="numpy", device="cpu", **options), level)
        prepare(env)
        runs.append(rollout(env, steps, dtype))
    for run in runs[1:]:
        assert_equal(run, runs[0])
    return runs[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("worlds", [1, 31, 32, 33, 95])
@pytest.mark.parametrize("name", slow_but(FEW[:1], SPECS))
def test_any_number_of_worlds_gives_the_same_bits(name, worlds, mode, backend):
    """Less than a pack, whole packs, packs and worlds left over. Episodes end at different times within a pack."""
    short = {"delay": 16} if name == "WarpRecall-v0" else {"max_episode_steps": 17}
    compare(backend, SPECS[name], num_envs=worlds, autoreset_mode=mode, **short)


@pytest.mark.parametrize("mode", MODES)
def test_more_packs_than_are_stepped_together_give_the_same_bits(mode, backend):
    compare(backend, SPECS["WarpCartPole-v1"], num_envs=2 * 16 * 32 + 3 * 32 + 5, max_episode_steps=40, autoreset_mode=mode)


def test_episodes_end_at_different_times_within_packs(backend):
    """The tests above need this: some worlds of a pack are reset while others go on."""
    env = backend(GpuVectorEnv(SPECS["WarpCartPole-v1"], num_envs=64, array="numpy", device="cpu"), cpu_level())
    env.reset(seed=3)
    generator = np.random.default_rng(4)
    ended = [env.step(actions_of(env, generator, np.int32))[2].reshape(2, 32).sum(1) for _ in range(60)]
    assert ((np.array(ended) > 0) & (np.array(ended) < 32)).any(0).all()


def test_parameters_of_each_world_give_the_same_bits(backend):
    spec = SPECS["WarpCartPole-v1"]
    factors = np.linspace(0.7, 1.4, 70).astype(np.float32)
    names = [param.name for param in spec.params if param.per_world]
    assert len(names) > 3
    for given in (names, names[::2]):
        values = {p.name: np.float32(p.default) * factors for p in spec.params if p.name in given}
        compare(backend, spec, num_envs=70, **values)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtypes"),
    [
        ("WarpCartPole-v1", ("int64", "uint8", "int8", "int16")),
        ("WarpAcrobot-v1", ("int64", "uint8")),
    ],
)
def test_actions_of_every_dtype_give_the_same_bits(name, dtypes, backend):
    expected = compare(backend, SPECS[name], num_envs=70, max_episode_steps=30)
    for dtype in dtypes:
        assert_equal(compare(backend, SPECS[name], dtype=np.dtype(dtype), num_envs=70, max_episode_steps=30), expected)


def test_starts_from_a_reset_pool_give_the_same_bits(backend):
    def prepare(env):
        env.set_reset_pool(env.draw_start_states(5, seed=1))

    compare(backend, SPECS["WarpCartPole-v1"], prepare=prepare, num_envs=70, max_episode_steps=30)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_invalid_actions_act_as_zero_and_are_counted(dtype, backend):
    """Launches the kernel directly, as the env would refuse the actions."""
    after = []
    limits = np.iinfo(dtype)
    bad = [-1, 2, 127, -128, 255, 256, 257, 2**31 - 1, -(2**31), 2**32, 2**32 + 1, -(2**40), limits.min or 2, limits.max]
    bad = np.array([index for index in bad if limits.min <= index <= limits.max], dtype)
    for level in (None, cpu_level()):
        env = backend(GpuVectorEnv(SPECS["WarpCartPole-v1"], num_envs=70, array="numpy", device="cpu"), level)
        env.reset(seed=0)
        actions = np.resize(np.concatenate([bad, np.array([0, 1], dtype)]), 70)
        env.worlds.step((actions, actions.ctypes.data, ENTRY_TYPES[dtype]))
        invalid = env.worlds.arguments.invalid
        after.append((env.get_state("state")["state"], int(invalid[0])))
        invalid[...] = 0
    assert after[0][1] == after[1][1] == int((~np.isin(actions, (0, 1))).sum()) > 0
    np.testing.assert_array_equal(after[0][0], after[1][0])


def test_actions_of_worlds_that_start_an_episode_are_ignored(backend):
    """In next-step mode. Launches the kernel directly, as the env would refuse the actions."""
    counts = []
    bad = np.full(70, 7, np.int32)
    for level in (None, cpu_level()):
        spec = SPECS["WarpCartPole-v1"]
        options = {"max_episode_steps": 3, "autoreset_mode": "next_step", "array": "numpy", "device": "cpu"}
        env = backend(GpuVectorEnv(spec, num_envs=70, **options), level)
        env.reset(seed=0)
        env.set_state({"t": (np.arange(70) % 3).astype(np.int32)})
        seen, invalid = [], env.worlds.arguments.invalid
        for _ in range(4):
            env.worlds.step((bad, bad.ctypes.data, ENTRY_TYPES["int32"]))
            seen.append(int(invalid[0]))
        counts.append(seen)
        invalid[...] = 0
    # Worlds with t = 2, then 1, then 0 at the start end an episode and ignore their next action; there are 23, 23 and 24 of them.
    assert counts[0] == counts[1] == [70, 70 + 47, 70 + 47 + 47, 70 + 47 + 47 + 46]


WIDE = """
#include "world.h"
GV_FN void env_reset(GvWorld& w) {
    if (w.once) w.state.place = (float)(w.draw(0).word[0] >> 28);
}
GV_FN void env_step(GvWorld& w) {
    const float place = w.state.place;
    const float sum = w.sum(w.each(5), [&](int i) { return place * (float)i * 0.01f; });
    for (auto me : w.agents) {
        for (int i = 0; i < 4; ++i) w.scratch.sums[i] = i > 0 ? w.scratch.sums[i - 1] + sum : place;
        me.reward = w.state.place = w.scratch.sums[3] + (float)me.action.index();
    }
    if (w.once) w.terminate(w.state.place > 20.0f);
}
GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents)
        for (int f = 0; f < w.agents.num_features(); ++f) me.obs[f] = w.state.place + (float)f;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 2, 5])
def test_an_observation_whose_width_is_a_parameter_gives_the_same_bits(width, backend, tmp_path: Path):
    """Packs are compiled for the default width; with others, worlds are stepped one by one. Sums and scratch are per world."""
    kernel = tmp_path / "wide.cu"
    kernel.write_text(WIDE)
    spec = EnvSpec(
        name="Wide-v0",
        kernel=kernel,
        roles=(Role("agent", 1),),
        params=(Param("width", 2, "int32", "features of an observation", low=1),),
        state=(Field("place", "float32", (), "where it is"),),
        observation=lambda params: Box(-np.inf, np.inf, (params["width"],), np.float32),
        action=lambda params: Discrete(3),
        scratch=(Scratch("sums", "float32", (4,), "sums"),),
        rewards={"place": "where it is"},
    )
    seen = compare(backend, spec, num_envs=70, width=width)
    obs, reward, ended = seen[1:4]
    assert not ended.all()
    np.testing.assert_array_equal(obs[~ended], reward[~ended, None] + np.arange(width, dtype=np.float32))
