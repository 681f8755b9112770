"""The same bits from every build of a kernel: compilers, instruction sets, thread counts, team sizes, GPU block sizes."""

import functools
import json
import sys

import gymnasium
import numpy as np
import pytest

from gpu_vecenv.backend import cpu
from gpu_vecenv.backend.compiler import LEVELS, cpu_level
from gpu_vecenv.backend.cpu import CpuBackend
from tests.parity.trajectory import CASES, RECORD, trajectory_hash

CLANG = f"{sys.executable} -m ziglang cc"


@functools.cache
def reference(case):
    """Hash of the plain CPU build."""
    return trajectory_hash(case, backend=functools.partial(CpuBackend, threads=1))


@pytest.mark.parametrize("case", CASES)
def test_the_bits_are_those_on_record(case):
    """A change of structure keeps them. A change of rules writes the list anew: ``python -m tests.parity.trajectory``."""
    assert reference(case) == json.loads(RECORD.read_text())[case]


@pytest.mark.parametrize("case", CASES)
def test_plain_instruction_set(case, build):
    assert trajectory_hash(case, backend=build(level=LEVELS[-1])) == reference(case)


@pytest.mark.parametrize("case", CASES)
def test_clang(case, build):
    assert trajectory_hash(case, backend=build(compiler=CLANG)) == reference(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_unoptimised(case, build):
    assert trajectory_hash(case, backend=build(extra=("-O0",))) == reference(case)


@pytest.mark.parametrize("lanes", [7, *(pytest.param(lanes, marks=pytest.mark.slow) for lanes in (1, 32))])
@pytest.mark.parametrize("case", CASES)
def test_lanes(case, lanes, build):
    """A team of OS threads, as many as a GPU block might have."""
    backend = build(extra=(f"-DGV_LANES={lanes}", "-pthread"))
    assert trajectory_hash(case, steps=100, backend=backend) == trajectory_hash(case, steps=100)


@pytest.mark.parametrize("case", CASES)
def test_lanes_over_several_steps(case, build):
    backend = build(extra=("-DGV_LANES=7", "-pthread"))
    assert trajectory_hash(case, steps=100, backend=backend, at_once=25) == trajectory_hash(case, steps=100)


def sizes_as_constants(layout):
    """Flags that builds for CUDA have: worlds of one agent are then stepped as they are there, not in blocks."""
    constants = {**layout.sizes, "BY_WORLD": int(bool(layout.per_world))}
    return tuple(f"-DGV_{name}={value}" for name, value in constants.items())


@pytest.mark.parametrize("case", [case for case, (name, _) in CASES.items() if "Tag" not in name])
def test_sizes_as_constants(case, build):
    def backend(layout):
        return build(extra=sizes_as_constants(layout))(layout)

    assert trajectory_hash(case, backend=backend) == reference(case)
    assert trajectory_hash(case, backend=backend, at_once=50) == reference(case)


@pytest.mark.parametrize("case", CASES)
def test_several_steps_in_one_launch(case):
    assert trajectory_hash(case, at_once=50) == reference(case)


@pytest.mark.parametrize("case", CASES)
def test_two_threads(case, monkeypatch):
    monkeypatch.setattr(cpu, "MIN_AGENTS_PER_THREAD", 1)
    assert trajectory_hash(case, backend=functools.partial(CpuBackend, threads=2)) == reference(case)


@pytest.mark.skipif(cpu_level() != "x86-64-v3", reason="this processor has no fused multiply-add")
def test_contraction_would_be_seen(build):
    """The hash notices what it is there to notice: fused multiply-adds change it."""
    fused = build(level="x86-64-v3", extra=("-ffp-contract=fast",))
    assert trajectory_hash("tag, small worlds", backend=fused) != reference("tag, small worlds")


@pytest.mark.gpu
@pytest.mark.parametrize("block", [32, 64, 128, 256])
@pytest.mark.parametrize("case", CASES)
def test_gpu(case, block, monkeypatch):
    monkeypatch.setenv("GPU_VECENV_BLOCK_SIZE", str(block))
    assert trajectory_hash(case, device="cuda:0") == reference(case)


@pytest.mark.gpu
@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("case", CASES)
def test_gpu_over_several_steps(case, block, monkeypatch):
    monkeypatch.setenv("GPU_VECENV_BLOCK_SIZE", str(block))
    assert trajectory_hash(case, device="cuda:0", at_once=125) == reference(case)


def worlds(case_name, params, num_envs, first_world, device, steps=120):
    env = gymnasium.make_vec(case_name, array="numpy", device=device, first_world=first_world,
                             **{**params, "num_envs": num_envs})  # fmt: skip
    env.reset(seed=5)
    seen = []
    for t in range(steps):
        ids = np.arange(first_world, first_world + num_envs)
        lead = env.unwrapped.single_action_space.shape
        # every world's actions depend on its number alone
        action = np.stack([np.random.default_rng((t, i)).integers(0, 2, lead, dtype=np.int32) for i in ids])
        obs, reward, *_ = env.step(action)
        seen.append((obs, reward))
    return seen


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("case", ["cartpole", "tag, small worlds"])
def test_a_world_does_not_know_its_neighbours(case, device):
    name, params = CASES[case]
    many = worlds(name, params, 12, 0, device)
    few = worlds(name, params, 5, 4, device)
    for (obs, reward), (obs_few, reward_few) in zip(many, few, strict=True):
        np.testing.assert_array_equal(obs[4:9], obs_few)
        np.testing.assert_array_equal(reward[4:9], reward_few)
