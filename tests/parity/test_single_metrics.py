"""Metrics of single-agent worlds, held by a lane with their state: against NumPy, and the same bits in every build and mode."""

import re

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from gpu_vecenv.backend import cpu
from gpu_vecenv.backend.compiler import compile_object, cpu_level
from gpu_vecenv.backend.cpu import CpuBackend
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Field, Metric
from gpu_vecenv.spec.layout import MODULES
from gpu_vecenv.spec.params import TIME_LIMIT
from gpu_vecenv.spec.roles import Role
from gpu_vecenv.spec.struct import is_single
from gpu_vecenv.testing.nvrtc import compile_ptx
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.kernels.test_rng import philox
from tests.parity.test_packs import MODES, ONE_BY_ONE, assert_equal
from tests.parity.test_same_bits import sizes_as_constants

WORLDS, LIMIT, SEED = 70, 7, 2**40 + 17  # two packs and 6 worlds left over

# `highest` is recorded in steps to the right alone and `lowest` in steps to the left, so some episodes have none.
KERNEL = """
#include "world.h"
GV_FN void env_reset(GvWorld& w) {
    if (w.once) w.state.place = w.draw(0).uniform();
}
GV_FN void env_step(GvWorld& w) {
    float& place = w.state.place;
    for (auto me : w.agents) {
        const int move = me.action.index() - 1;
        place += 0.3f * (float)move;
        me.reward = place;
        w.terminate(place > 1.2f || place < -0.2f);  // in some worlds in the first step
        w.truncate_at(w.params.max_episode_steps);
        w.record.total(place);
        w.record.average(place * 0.7f);
        if (move > 0) w.record.highest(place);
        if (move < 0) w.record.lowest(place);
        w.record.final(place);
    }
}
GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {w.state.place};
}
"""
REDUCTIONS = {"total": "sum", "average": "mean", "highest": "max", "lowest": "min", "final": "last"}


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    """Return the spec of a walk on a line with a metric of each reduction."""
    kernel = tmp_path_factory.mktemp("walk") / "walk.cu"
    kernel.write_text(KERNEL)
    return EnvSpec(
        name="Walk-v0",
        kernel=kernel,
        roles=(Role("agent", 1),),
        params=(TIME_LIMIT,),
        state=(Field("place", "float32", (), "where it is"),),
        observation=lambda params: Box(-np.inf, np.inf, (1,), np.float32),
        action=lambda params: Discrete(3),
        metrics=tuple(Metric(name, reduction, f"{reduction} of places") for name, reduction in REDUCTIONS.items()),
        rewards={"place": "where it is"},
    )


@pytest.fixture(scope="module")
def make(spec):
    """Return a maker of envs in one of several builds for the CPU, or on a GPU."""

    def build(which="packs", threads=1, **options):
        device = "cuda:0" if which == "cuda" else "cpu"
        env = GpuVectorEnv(spec, num_envs=WORLDS, device=device, array="numpy", max_episode_steps=LIMIT, **options)
        if which == "cuda":
            return env
        teams = {"seven lanes": ("-DGV_LANES=7", "-pthread", "-O0"), "one by one": ONE_BY_ONE, "packs": ()}
        flags = sizes_as_constants(env.layout) if which == "constants" else teams[which]
        built = spec.kernel.with_name(f"{which}.so".replace(" ", "-"))
        if not built.exists():
            compile_object(spec, cpu_level(), built, flags)
        env.worlds.backend.close()
        env.worlds.backend = CpuBackend(env.layout, built, threads=threads)
        return env

    return build


class Walk:
    """One world in NumPy float32, written from the comments of ``Metric``."""

    def __init__(self, world):
        self.world, self.episode = world, -1
        self.start()

    def start(self):
        """Start the next episode."""
        self.episode += 1
        word = philox(SEED, (self.world, self.episode, 0, 0))[0]
        self.place, self.places, self.rights, self.lefts = np.float32((word >> 8) / 2**24), [], [], []

    def step(self, action):
        """Return whether the episode ended by the rules or at the limit."""
        self.place = np.float32(self.place + np.float32(0.3) * np.float32(action - 1))
        self.places.append(self.place)
        (self.rights if action == 2 else self.lefts if action == 0 else []).append(self.place)
        return self.place > np.float32(1.2) or self.place < np.float32(-0.2), len(self.places) >= LIMIT

    def metrics(self):
        """Return the numbers of the episode; NaN for those without a record."""
        total = shares = np.float32(0)
        for number, place in enumerate(self.places):
            share = place * np.float32(0.7)
            total, shares = (np.float32(total + place), np.float32(shares + share)) if number else (place, share)
        return {
            "total": total,
            "average": shares / np.float32(len(self.places)),
            "highest": max(self.rights, default=np.nan),
            "lowest": min(self.lefts, default=np.nan),
            "final": self.place,
        }


def actions_of(steps):
    return np.random.default_rng(steps).integers(0, 3, (steps, WORLDS), np.int32)


@pytest.mark.slow
def test_metrics_are_those_of_a_loop_over_the_worlds(make, spec):
    assert is_single(spec)
    env = make()
    env.reset(seed=SEED)
    walks, ends, without = [Walk(world) for world in range(WORLDS)], 0, 0
    for actions in actions_of(40):
        obs, reward, terminated, truncated, info = env.step(actions)
        for w, walk in enumerate(walks):
            ended = walk.step(int(actions[w]))
            assert (terminated[w], truncated[w], reward[w]) == (*ended, walk.place)
            assert info["_episode"][w] == any(ended)
            if any(ended):
                expected = walk.metrics()
                np.testing.assert_array_equal([info["episode"][name][w] for name in expected], list(expected.values()))
                ends, without = ends + 1, without + np.isnan(list(expected.values())).sum()
                walk.start()
        np.testing.assert_array_equal(obs[:, 0], [walk.place for walk in walks])
    assert ends > 300 and without > 20
    env.set_state({"episode_total": np.arange(WORLDS, dtype=np.float32)})
    np.testing.assert_array_equal(env.get_state("episode_total")["episode_total"], np.arange(WORLDS))


def numbers(out):
    """Arrays of a step or a rollout, copied; 0 where no episode ended."""
    *arrays, info = out
    ended = info["_episode"]
    seen = [ended, *(np.where(ended, info["episode"][name], 0) for name in REDUCTIONS)]
    if "final_obs" in info:
        seen.append(np.where(ended[..., None], info["final_obs"], 0))
    return [np.array(array) for array in (*arrays, *seen)]


def run(env, at_once):
    """Results with a shared seed, after a partial reset, with flags that were set, and of copies with seeds of each world."""
    seen, slots = [np.array(env.reset(seed=3)[0])], np.arange(WORLDS)

    def go(steps):
        actions = actions_of(steps)
        outs = numbers(env.rollout(actions)) if at_once else zip(*(numbers(env.step(each)) for each in actions), strict=True)
        seen.extend(np.stack(list(out)) for out in outs)
        seen.extend(env.get_state().values())

    go(33)
    seen.append(np.array(env.reset(options={"reset_mask": slots % 3 == 0})[0]))
    env.set_state({"terminated": (slots % 5 == 0).astype(np.uint8), "truncated": (slots % 7 == 0).astype(np.uint8)})
    go(22)
    env.reset(seed=slots.tolist())
    env.copy_worlds([0, 1, 40], [3, 39, 69], diverge=True)
    go(23)
    env.set_reset_pool(env.get_state("place"))
    env.reset()
    go(24)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_build_gives_the_same_bits(mode, make, monkeypatch):
    """With the build of seven lanes, worlds stay in memory."""
    monkeypatch.setattr(cpu, "MIN_AGENTS_PER_THREAD", 1)
    expected = run(make("one by one", autoreset_mode=mode), at_once=False)
    for which, threads in (("one by one", 1), ("packs", 1), ("packs", 2), ("constants", 1), ("seven lanes", 1)):
        for at_once in (False, True):
            copy, view = not at_once, "agents" if at_once else "worlds"  # with one agent a world the views are the same
            assert_equal(run(make(which, threads, autoreset_mode=mode, copy=copy, view=view), at_once), expected)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_teams_of_a_warp_give_the_same_bits(mode, make, spec):
    env = make("one by one", autoreset_mode=mode)
    built = spec.kernel.with_name("warp.so")
    if not built.exists():
        compile_object(spec, cpu_level(), built, ("-DGV_LANES=32", "-pthread"))
    expected = run(make("one by one", autoreset_mode=mode), at_once=False)
    env.worlds.backend = CpuBackend(env.layout, built, threads=1)
    assert_equal(run(env, at_once=True), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at_once", [False, True])
def test_only_ends_of_episodes_write_metrics(mode, at_once, make):
    """A row of another world keeps what the caller wrote in it; packs store such rows as they were."""
    env = make(autoreset_mode=mode, copy=False)
    env.reset(seed=3)
    episodes, ends = None, 0  # arrays that each call writes
    for actions in actions_of(75).reshape(3, 25, WORLDS) if at_once else actions_of(25):
        for array in episodes or ():
            array.fill(-7)
        if at_once:
            env.reset()
        info = (env.rollout(actions) if at_once else env.step(actions))[-1]
        if episodes is not None:
            for array in info["episode"].values():
                np.testing.assert_array_equal(array == -7, ~info["_episode"])
            ends += info["_episode"].sum()
        episodes = list(info["episode"].values())
    assert ends >= WORLDS // 2


@pytest.mark.gpu
@pytest.mark.parametrize("mode", MODES)
def test_a_gpu_gives_the_same_bits(mode, make):
    expected = run(make("one by one", autoreset_mode=mode), at_once=False)
    for at_once in (False, True):
        assert_equal(run(make("cuda", autoreset_mode=mode), at_once), expected)


@pytest.mark.parametrize("module", range(len(MODULES)))
def test_metrics_need_no_local_memory(module, spec):
    ptx = compile_ptx(spec, 90, module)
    assert ".local" not in ptx and ".shared" not in ptx
    assert len(re.findall(r"\.entry ", ptx)) == len(MODULES[module])
