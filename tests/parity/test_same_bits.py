"""The same bits from every build: compilers, instruction sets, numbers of threads, team sizes, GPU block sizes."""

import functools
import json

import gymnasium
import numpy as np
import pytest

from gpu_vecenv.backend import cpu
from gpu_vecenv.backend.compiler import LEVELS, cpu_level
from gpu_vecenv.backend.cpu import CpuBackend
from gpu_vecenv.testing.builds import clang
from gpu_vecenv.testing.same_bits import one_thread
from tests.marks import in_ci, slow_but
from tests.parity.trajectory import CASES, EACH, RECORD, trajectory_hash


@functools.cache
def reference(case):
    """Hash of the CPU build for speed with one thread."""
    return trajectory_hash(case, backend=one_thread)


@pytest.mark.parametrize("case", EACH)
def test_the_bits_are_the_recorded_ones(case):
    """A change of structure keeps the bits. CONTRIBUTING.md says how to record new ones."""
    assert reference(case) == json.loads(RECORD.read_text())[case]


@pytest.mark.slow  # tests/package/test_install.py compares the kernels of a wheel, for all instruction sets
@pytest.mark.parametrize("case", EACH)
def test_the_plain_instruction_set_gives_the_same_bits(case, builds):
    assert trajectory_hash(case, backend=builds.backend(level=LEVELS[-1])) == reference(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_clang_gives_the_same_bits(case, builds):
    assert trajectory_hash(case, backend=builds.backend(compiler=clang())) == reference(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", EACH)
def test_an_unoptimised_build_gives_the_same_bits(case, builds):
    assert trajectory_hash(case, backend=builds.backend("-O0")) == reference(case)


TEAMS = {
    "7 lanes, few worlds": (7, 20),
    "1 lane": (1, None),
    "7 lanes": (7, None),
    "32 lanes": (32, None),
}
"""OS threads of a team and the most worlds; None: those of the case. Most time goes into barriers, where threads wait."""

FAST_TEAM = "7 lanes, few worlds"
IN_TEAMS = ("harvest", "rice", "tag, small worlds", "pot", "grid tag", "cartpole")
"""Cases whose teams step in each run of the tests: each kind of work that lanes share."""


def at_most(case, rows):
    """Return options that leave a case at most so many rows, and as many values of parameters by world; none for None."""
    _, params = CASES[case]
    if rows is None or params["num_envs"] <= rows:
        return {}
    arrays = {name: values[:rows] for name, values in params.items() if isinstance(values, np.ndarray)}
    return {"num_envs": rows, **arrays}


@functools.cache
def short_reference(case, rows):
    """Hash of 100 steps of the default CPU build."""
    return trajectory_hash(case, steps=100, **at_most(case, rows))


def assert_same_bits_with(team, case, builds, at_once=0):
    """Compare a build for teams; -O0 and -O1 compile in less than half of the time, and barriers and sums are the same."""
    lanes, rows = TEAMS[team]
    backend = builds.team(lanes, "-O0" if team == FAST_TEAM else "-O1")
    found = trajectory_hash(case, steps=100, backend=backend, at_once=at_once, **at_most(case, rows))
    assert found == short_reference(case, rows)


@pytest.mark.parametrize("team", slow_but([FAST_TEAM], TEAMS))
@pytest.mark.parametrize("case", slow_but(IN_TEAMS, CASES))
def test_teams_of_threads_give_the_same_bits(case, team, builds):
    """A team has as many OS threads as it may have lanes on a GPU."""
    assert_same_bits_with(team, case, builds)


@pytest.mark.slow
@pytest.mark.parametrize("case", EACH)
def test_teams_of_threads_give_the_same_bits_in_rollouts(case, builds):
    assert_same_bits_with(FAST_TEAM, case, builds, at_once=25)


RUNGS = {
    "naive": ("-DGV_NAIVE_SEARCH",),
    "scan": ("-DGV_NO_SERIAL",),
    "scan without a bound": ("-DGV_NO_SERIAL", "-DGV_NO_BOUND"),
}
"""Flags of slower searches for the neighbours of agents (``kernels/lib/neighbours.h``)."""


@pytest.mark.slow
@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("case", [case for case, (name, _) in CASES.items() if name == "WarpTag-v0"])
def test_slower_searches(case, rung, builds):
    """The naive search is obviously right; the others must agree with it."""
    backend = builds.backend(*RUNGS[rung])
    assert trajectory_hash(case, steps=100, backend=backend) == short_reference(case, None)


def sizes_as_constants(layout):
    """Flags of builds for CUDA. With them, single-agent worlds are stepped one by one as on CUDA, not in packs."""
    constants = {**layout.sizes, "BY_WORLD": int(bool(layout.per_world))}
    return tuple(f"-DGV_{name}={value}" for name, value in constants.items())


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case, (name, _) in CASES.items() if "Tag" not in name])
def test_sizes_as_constants_give_the_same_bits(case, builds):
    def backend(layout):
        return builds.backend(*sizes_as_constants(layout))(layout)

    assert trajectory_hash(case, backend=backend) == reference(case)
    assert trajectory_hash(case, backend=backend, at_once=50) == reference(case)


@pytest.mark.parametrize("case", in_ci(["harvest, more agents than lanes"], EACH))
def test_rollouts_give_the_same_bits(case):
    assert trajectory_hash(case, at_once=50) == reference(case)


@pytest.mark.parametrize("case", slow_but(IN_TEAMS, CASES))
def test_two_threads_give_the_same_bits(case, monkeypatch):
    monkeypatch.setattr(cpu, "MIN_AGENTS_PER_THREAD", 1)
    assert trajectory_hash(case, backend=functools.partial(CpuBackend, threads=2)) == reference(case)


@pytest.mark.slow
@pytest.mark.skipif(cpu_level() != "x86-64-v3", reason="this processor has no fused multiply-add")
def test_contraction_changes_the_hash(builds):
    """Shows that the hash finds fused multiply-adds."""
    fused = builds.backend("-ffp-contract=fast", level="x86-64-v3")
    assert trajectory_hash("tag, small worlds", backend=fused) != reference("tag, small worlds")


@pytest.mark.gpu
@pytest.mark.parametrize("block", [32, 64, 128, 256])
@pytest.mark.parametrize("case", EACH)
def test_a_gpu_gives_the_same_bits(case, block, monkeypatch):
    monkeypatch.setenv("GPU_VECENV_BLOCK_SIZE", str(block))
    assert trajectory_hash(case, device="cuda:0") == reference(case)


@pytest.mark.gpu
@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("case", EACH)
def test_rollouts_on_a_gpu_give_the_same_bits(case, block, monkeypatch):
    monkeypatch.setenv("GPU_VECENV_BLOCK_SIZE", str(block))
    assert trajectory_hash(case, device="cuda:0", at_once=50) == reference(case)


def worlds(case_name, params, num_envs, first_world, device, steps=120):
    env = gymnasium.make_vec(case_name, array="numpy", device=device, first_world=first_world,
                             **{**params, "num_envs": num_envs})  # fmt: skip
    env.reset(seed=5)
    seen = []
    for t in range(steps):
        ids = np.arange(first_world, first_world + num_envs)
        lead = env.unwrapped.single_action_space.shape
        # actions depend on the number of the world only
        action = np.stack([np.random.default_rng((t, i)).integers(0, 2, lead, dtype=np.int32) for i in ids])
        obs, reward, *_ = env.step(action)
        seen.append((obs, reward))
    return seen


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("case", ["cartpole", "tag, small worlds"])
def test_results_of_a_world_do_not_depend_on_other_worlds(case, device):
    name, params = CASES[case]
    many = worlds(name, params, 12, 0, device)
    few = worlds(name, params, 5, 4, device)
    for (obs, reward), (obs_few, reward_few) in zip(many, few, strict=True):
        np.testing.assert_array_equal(obs[4:9], obs_few)
        np.testing.assert_array_equal(reward[4:9], reward_few)
