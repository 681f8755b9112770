"""Debug builds of kernels: prints, checks of indices, places in the cache, and the bits of other builds."""

import dataclasses
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from gpu_vecenv.backend import compiler
from gpu_vecenv.backend.build_kind import KINDS, VARIABLE
from gpu_vecenv.backend.compiler import FLAGS, cpu_level, find_compiler, object_name
from gpu_vecenv.backend.cpu import CpuBackend
from gpu_vecenv.backend.cuda import compile_options, module_blocks
from gpu_vecenv.backend.debug import DebugCpuBackend
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.errors import CompileError, HookFault, ParameterError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.nvrtc import compile_text
from tests.debug.faulty import KERNEL, SPEC, line_of, make_vec
from tests.kernels.test_ptx import spec_of
from tests.parity.trajectory import CASES, RECORD, trajectory_hash
from tools.docs.readme import blocks

ROOT = Path(__file__).resolve().parents[2]

FAULTS = {
    1: ("w.at.cells", "env_step: index -1 of axis 1 (width) of w.state.cells, which has the elements 0 to 3", 0),
    2: ("w.state.cells[me", "env_step: index -1 of w.state.cells, which has the elements 0 to 19, shape (height, width)", 0),
    3: ("w.agents[me.index + two]", "env_step: index 3 of w.agents, which has the elements 0 to 2", 2),
    4: ("me.v[2", "env_step: index 2 of row 0 of w.state.v, which has the elements 0 to 1, shape (num_agents, 2)", 0),
    5: ("w.scratch.sums", "env_step: index 7 of w.scratch.sums, which has the elements 0 to 2", 0),
    7: ("me.obs[w.t]", "env_observe: index 2 of me.obs, which has the elements 0 to 1", 0),
}
"""Text of the line of a mistake, what is said of it, and the agent."""


@pytest.fixture(autouse=True)
def debug(monkeypatch):
    monkeypatch.setenv(VARIABLE, "debug")


def stepped(fault, steps=3, **options):
    """Step two worlds; the mistake comes in step 2."""
    env = make_vec(num_envs=2, device="cpu", array="numpy", fault=fault, **options)
    try:
        env.reset(seed=0)
        for _ in range(steps):
            env.step(np.ones((2, 3), np.int32))
    finally:
        env.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_an_index_outside_of_an_array_is_named(fault):
    text, said, agent = FAULTS[fault]
    with pytest.raises(HookFault) as error:
        stepped(fault)
    assert str(error.value) == f"faulty.cu:{line_of(text)}: {said}; step 2, world 0, agent {agent}."


def test_a_row_of_another_length_is_named():
    with pytest.raises(HookFault, match=r"^faulty\.cu: 3 numbers for me\.obs, which has 2; step 2, world 0, agent 0\.$"):
        stepped(6)


def test_an_action_at_a_reset_is_named():
    """A release build would read address 0."""
    said = "env_observe: an action is read where there is none, outside of a step; step 0, world 0, agent 0"
    with pytest.raises(HookFault, match=rf"^faulty\.cu:{line_of('me.obs = {(float)me.action')}: {said}\.$"):
        stepped(12)


def test_an_env_goes_on_after_a_fault_and_reports_the_next_one():
    env = make_vec(num_envs=1, device="cpu", array="numpy", fault=4)
    for _ in range(2):
        env.reset(seed=0)
        env.step(np.zeros((1, 3), np.int32))
        with pytest.raises(HookFault, match="step 2"):
            env.step(np.zeros((1, 3), np.int32))
    env.close()


def test_prints_have_step_world_and_agent(capfd):
    stepped(8)
    half, whole = line_of('"half"'), line_of('"whole"')
    assert capfd.readouterr().out.splitlines() == [
        line
        for world in (0, 1)
        for line in [
            *(f"faulty.cu:{half}: step 2, world {world}, agent {agent}: half = 0.5" for agent in range(3)),
            f"faulty.cu:{whole}: step 2, world {world}: whole = 2",
        ]
    ]


def test_other_builds_have_no_print_and_no_check():
    command = [*find_compiler(), *FLAGS, "-E", "-P", "-"]
    texts = {}
    for kind in ("release", "debug"):
        source = kernel_source(SPEC, KINDS[kind])
        texts[kind] = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    for word in ("printf", "gv_fault", "gv_wrong_index"):
        assert word in texts["debug"] and word not in texts["release"]


@pytest.mark.slow
@pytest.mark.parametrize("arch", [80, 90])
def test_a_debug_build_compiles_for_gpus(arch):
    """Slow tests of PTX run in other processes: NVRTC 13.5 orders loads of later texts otherwise after a text with -G."""
    layout = Layout(SPEC, SPEC.resolve({}))
    ptx = compile_text(kernel_source(SPEC, KINDS["debug"]), arch, *compile_options(layout, 0, module_blocks(layout, 0)))
    assert "vprintf" in ptx and "gv_fault_record" in ptx and re.search(r"\.file.*faulty\.cu", ptx)


def test_builds_of_each_kind_and_folder_have_files_of_their_own(tmp_path):
    names = {object_name(SPEC, cpu_level(), kind) for kind in KINDS.values()}
    assert len(names) == len(KINDS)
    shutil.copy(KERNEL, tmp_path / KERNEL.name)
    moved = dataclasses.replace(SPEC, kernel=tmp_path / KERNEL.name)
    same = {kind: object_name(moved, cpu_level(), KINDS[kind]) == object_name(SPEC, cpu_level(), KINDS[kind]) for kind in KINDS}
    assert same == {"release": True, "quick": True, "debug": False, "asan": False, "tsan": False}  # debuggers show the file


def test_an_unknown_kind_is_refused(monkeypatch):
    monkeypatch.setenv(VARIABLE, "fast")
    with pytest.raises(ParameterError, match="GPU_VECENV_KERNELS must be one of release, quick, debug, asan, tsan, got 'fast'"):
        stepped(0)


def test_a_sanitizer_without_its_library_is_refused(monkeypatch):
    monkeypatch.setenv(VARIABLE, "asan")
    with pytest.raises(CompileError, match="which gpu-vecenv debug --asan loads"):
        stepped(0)


@pytest.mark.parametrize("case", [
    pytest.param(case, marks=() if case == "cartpole" else pytest.mark.slow) for case in CASES
])  # fmt: skip
@pytest.mark.parametrize("kind", ["quick", "debug"])
def test_other_builds_give_the_recorded_bits(case, kind, monkeypatch, tmp_path):
    monkeypatch.setattr(compiler, "PREBUILT", tmp_path)
    monkeypatch.setenv(VARIABLE, kind)

    def backend(layout):
        return DebugCpuBackend(layout, KINDS[kind]) if KINDS[kind].debug else CpuBackend(layout, threads=1)

    assert trajectory_hash(case, backend=backend) == json.loads(RECORD.read_text())[case]


@pytest.mark.gpu
@pytest.mark.parametrize("fault", [1, 4, 7])
def test_a_gpu_names_an_index_as_the_cpu_does(fault):
    with pytest.raises(HookFault) as on_cpu:
        stepped(fault)
    env = make_vec(num_envs=2, device="cuda:0", fault=fault)
    env.reset(seed=0)
    with pytest.raises(HookFault) as on_gpu:
        for _ in range(3):
            env.step(env.action_space.sample())
    place = r"step 2, world \d, agent \d"
    assert re.sub(place, "", str(on_gpu.value)).split(": index")[0] == re.sub(place, "", str(on_cpu.value)).split(": index")[0]


@pytest.mark.gpu
def test_a_gpu_prints(capfd):
    env = make_vec(num_envs=2, device="cuda:0", fault=8)
    env.reset(seed=0)
    for _ in range(2):
        env.step(np.ones((2, 3), np.int64))
    lines = set(capfd.readouterr().out.splitlines())
    half = line_of('"half"')
    assert {f"faulty.cu:{half}: step 2, world {w}, agent {a}: half = 0.5" for w in (0, 1) for a in range(3)} <= lines


def test_the_fused_rollout_gives_way_to_debug_kernels(monkeypatch):
    """Programs have no debug build, so hooks in them would print nothing."""
    from gpu_vecenv.train.fused import rollout

    monkeypatch.setattr(rollout, "FusedRollout", lambda *_: "fused")
    env = type("Env", (), {"env_spec": spec_of("WarpCartPole-v1"), "autoreset_mode": rollout.AutoresetMode.SAME_STEP})
    fused = type("Fused", (), {"sizes": type("Sizes", (), {"split": False})})
    assert rollout.whole_rollout(env, None, fused) is None
    monkeypatch.setenv(VARIABLE, "release")
    assert rollout.whole_rollout(env, None, fused) == "fused"


def test_the_page_shows_messages_as_they_are():
    page = blocks(ROOT / "docs" / "learn" / "debugging.md")
    shown = [re.sub(r"\d+", "N", block.text.strip()) for block in page if block.language == "text"]
    said = [f"walk.cu:1: {FAULTS[fault][1]}; step 2, world 0, agent 0." for fault in (2, 1)]
    printed = "walk.cu:1: step 2, world 0, agent 0: speed = -0.5"  # as in test_prints_have_step_world_and_agent
    assert shown == [re.sub(r"\d+", "N", text) for text in (printed, *said)]
