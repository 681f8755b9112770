"""Every kernel compiles for every supported GPU, to arithmetic that gives the bits of the CPU."""

import importlib
import re
from dataclasses import replace

import pytest

import tests.roles
from gpu_vecenv.backend.blocks import SIZES
from gpu_vecenv.backend.cuda import compile_options, module_blocks
from gpu_vecenv.registration import IDS
from gpu_vecenv.spec.fields import Scratch
from gpu_vecenv.spec.layout import MAX_SCRATCH, MODULES, Layout
from gpu_vecenv.testing.nvrtc import ARCHITECTURES, compile_ptx, has_trap, inexact_instructions
from tests.marks import slow_but

SHAPES = {
    "WarpTag-v0": [
        {},
        {"num_taggers": 1, "num_runners": 1},
        {"num_taggers": 50, "num_runners": 950},
        {"num_taggers": 5, "num_runners": 410, "num_other_agents_observed": 32},
        {"num_taggers": 96, "num_runners": 4000, "use_full_observation": True},
        {"num_other_agents_observed": 64},
    ],
    "WarpGridTag-v0": [{}, {"num_taggers": 1, "use_full_observation": False}, {"num_taggers": 4095}],
    "WarpRice-v0": [{}, {"negotiation_on": True, "observe": "whole"}],
    **{name: [{}] for name in IDS if name not in ("WarpTag-v0", "WarpGridTag-v0", "WarpRice-v0")},
    "WarpSimpleSpread-v3": [{}, {"num_landmarks": 100, "num_agent_neighbors": 7, "continuous_actions": True}],
    "WarpSimpleTag-v3": [{}, {"num_good": 3, "num_agent_neighbors": 2, "continuous_actions": True}],
    "WarpSimpleWorldComm-v3": [{}, {"num_good": 20, "num_forests": 0}],
    "WarpForaging-v3": [{}, {"players": 1, "max_num_food": 4}],
    "WarpRecall-v0": [{}, {"num_cues": 63}],
    "WarpRware-v2": [{}, {"n_agents": 1}, {"n_agents": 40, "msg_bits": 3, "shelf_rows": 9, "shelf_columns": 9}],
    "WarpCartPole-v1": [{}, {"observe_velocity": False}],
    "WarpPendulum-v1": [{}, {"observe_velocity": False}],
    "Town-v0": [{}, {"num_citizens": 1}, {"num_citizens": 1000}],
    "Harvest-v0": [{}, {"num_red": 1, "num_blue": 1}, {"num_red": 900, "num_blue": 100}],
    "Pot-v0": [{}, {"num_players": 1}],
    "Whisper-v0": [{}, {"quiet": 1}, {"noise": False}],
    "WhisperAlike-v0": [{"quiet": 1}],
    "Choir-v0": [{}, {"whole": True, "may_not_repeat": False, "memory": 0}],
}
QUICK = ("WarpCartPole-v1", "WarpGridTag-v0")
"""Envs whose first shape is compiled in each run of the tests; the others take minutes in all."""
DOUBLES = ("WarpRice-v0",)
"""Envs that compute in double where their rules need it."""



def spec_of(name):
    if name in tests.roles.IDS:
        module = importlib.import_module(f"tests.roles.{tests.roles.IDS[name]}")
        spec, *_ = getattr(module, tests.roles.MAKERS.get(name, "make_vec")).args
        return spec
    module = IDS[name]["vector_entry_point"].partition(":")[0]
    return importlib.import_module(f"{module}.spec").SPEC


CASES = [(name, params) for name, shapes in SHAPES.items() for params in shapes]
MODULES_OF_CASES = [
    pytest.param((name, params, module), id=f"{name}-params{number}-{module}",
                 marks=pytest.mark.slow if params != SHAPES[name][0] else () if name in QUICK else pytest.mark.in_ci)
    for number, (name, params) in enumerate(CASES)
    for module in range(len(MODULES))
]  # fmt: skip


@pytest.fixture(scope="module", params=MODULES_OF_CASES)
def compiled(request):
    """Return an env, its parameters, a module, and its PTX for sm_90.

    Tests of one parameter of a fixture follow each other, so one process compiles it, once.
    """
    name, params, module = request.param
    return name, params, module, compile_ptx(spec_of(name), 90, module, **params)


def test_every_id_is_compiled_here():
    assert set(SHAPES) == {*IDS, *tests.roles.IDS}


SHARING_A_BLOCK = [
    ("WarpTag-v0", {"num_taggers": 1, "num_runners": 1}),
    ("WarpTag-v0", {"num_taggers": 4, "num_runners": 12, "use_full_observation": True}),
    ("WarpTag-v0", {"num_taggers": 2, "num_runners": 30, "num_other_agents_observed": 31, "extended_observation": True}),
    ("WarpGridTag-v0", {"num_taggers": 24}),
    ("WarpRice-v0", {"negotiation_on": True, "observe": "whole"}),
]
"""Worlds of several agents that share a block and have many neighbours to observe."""


def shared_bytes(ptx):
    """Bytes of shared memory of the kernel that uses most."""
    arrays = re.findall(r"\.shared \.align \d+ \.b8 _ZZ\d+(gv_[a-z_]+)E\w+\[(\d+)\]", ptx)
    assert len(arrays) == ptx.count(".shared .align")
    return max((sum(int(size) for owner, size in arrays if owner == kernel) for kernel, _ in arrays), default=0)


def test_kernels_have_no_traps_and_no_inexact_instructions(compiled):
    name, _, module, ptx = compiled
    assert inexact_instructions(ptx, doubles=name in DOUBLES) == []
    assert not has_trap(ptx)
    assert sorted(re.findall(r"\.entry (\w+)", ptx)) == sorted(MODULES[module])
    assert shared_bytes(ptx) <= 48 * 1024


def touches(ptx):
    """For each kernel, its instructions that wait for the previous kernel, let the next one start, or touch memory; in order."""
    wanted = r"griddepcontrol\.\w+|\b(?:ld|st|atom|red|prefetch)\.(?!param|local|shared|const)[\w.]+|bar\.sync"
    return [re.findall(wanted, text) for text in re.split(r"\.entry ", ptx)[1:]]


def test_kernels_wait_for_the_previous_kernel_before_they_touch_memory(compiled):
    for found in touches(compiled[-1]):
        assert found[:2] == ["griddepcontrol.wait", "griddepcontrol.launch_dependents"]
        assert not any(instruction.startswith("griddep") for instruction in found[2:])
        assert len(found) > 2


def test_the_argument_struct_is_read_before_the_wait(compiled):
    """At least one word of each line of 64 bytes is read."""
    name, params, _, ptx = compiled
    spec = spec_of(name)
    size = Layout(spec, spec.resolve(params)).dtype.itemsize
    for text in re.split(r"\.entry ", ptx)[1:]:
        early = text.partition("griddepcontrol")[0]
        offsets = {int(offset) for offset in re.findall(r"ld\.param\.\S+\s[^;]*\+(\d+)\]", early)}
        assert offsets >= set(range(64, size, 64))


@pytest.mark.parametrize("early", ["ld.u64 %rd1, [%rd2];", "st.global.f32 [%rd1], %f1;", "prefetch.global.L2 [%rd1];"])
def test_the_check_finds_accesses_before_the_wait(early):
    ptx = f".visible .entry gv_step( {{ ld.param.u64 %rd1, [a]; {early} griddepcontrol.wait; griddepcontrol.launch_dependents; }}"
    assert touches(ptx)[0][0] == early.partition(" ")[0]


def test_kernels_for_older_gpus_have_no_wait():
    assert "griddepcontrol" not in compile_ptx(spec_of("WarpCartPole-v1"), 89)


@pytest.mark.slow
@pytest.mark.parametrize("block", [None, "1024"])
@pytest.mark.parametrize(("name", "params"), SHARING_A_BLOCK)
def test_worlds_that_share_a_block_share_its_memory(name, params, block, monkeypatch):
    if block is not None:
        monkeypatch.setenv("GPU_VECENV_BLOCK_SIZE", block)
    assert 0 < shared_bytes(compile_ptx(spec_of(name), 90, **params)) <= 48 * 1024


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "params"), SHARING_A_BLOCK)
def test_a_team_has_the_scratch_that_it_requests_in_blocks_of_all_sizes(name, params, size, monkeypatch):
    """With eight worlds of RICE-N in a block, scratch of 48 KiB would be too small for their observations."""
    monkeypatch.setenv("GPU_VECENV_BLOCK_SIZE", size)
    spec = spec_of(name)
    layout = Layout(spec, spec.resolve(params))
    blocks = module_blocks(layout, 0)
    assert f"-DGV_SCRATCH={layout.requested_scratch}" in compile_options(layout, 0, blocks)
    assert blocks.teams * (layout.requested_scratch + 32) * 4 <= 48 * 1024


@pytest.mark.parametrize("citizens", slow_but([20], [1, 20, 100]))
def test_worlds_fill_the_shared_memory_of_a_block_at_most(citizens):
    """Time and flags of a step take shared memory, too, whether roles have arrays of their own or not."""
    for name, agents in (("Town-v0", {"num_citizens": citizens}), ("WarpGridTag-v0", {"num_taggers": citizens})):
        spec = spec_of(name)
        arrays = tuple(array for array in spec.scratch if not array.is_rest)
        taken = Layout(replace(spec, scratch=arrays), spec.resolve(agents)).requested_scratch if arrays else 0
        taken += -taken % 4  # rows begin at four floats
        rest = Scratch("rows", "float32", lambda params, taken=taken: MAX_SCRATCH - taken)
        spec = replace(spec, scratch=(*arrays, rest))
        assert 40 * 1024 < shared_bytes(compile_ptx(spec, 90, **agents)) <= 48 * 1024


@pytest.mark.slow
@pytest.mark.parametrize("block", [None, "1024"])
def test_scratch_of_single_agent_worlds_is_local_memory(block, tmp_path, monkeypatch):
    """It takes no shared memory, however many worlds share a block."""
    if block is not None:
        monkeypatch.setenv("GPU_VECENV_BLOCK_SIZE", block)
    spec = spec_of("WarpCartPole-v1")
    mark, text = "w.terminate(!inside);", spec.kernel.read_text()
    assert text.count(mark) == 1
    sums = "for (gv_i32 i = 0; i < 40; ++i) w.team.scratch[i] = gv_sum(w.team, i + w.t, [](gv_i32 j) { return (float)j; });"
    kernel = tmp_path / "scratch.cu"
    kernel.write_text(text.replace(mark, f"{sums} w.terminate(w.team.scratch[w.t % 40] > 7.0f);"))
    for module in range(len(MODULES)):
        ptx = compile_ptx(replace(spec, kernel=kernel, scratch=lambda params: 40), 90, module)
        assert ".shared" not in ptx and ".local" in ptx


POWERS = ["gv_exp(x)", "gv_log(x)", "gv_log2(x)", "gv_softplus(x)", "gv_tanh(x)", "gv_pow(x, 1.5f)",
          "(float)gv_pow_in_double((double)x, 1.5)"]  # fmt: skip


@pytest.mark.parametrize("call", slow_but(["gv_pow(x, 1.5f)"], POWERS))
def test_a_kernel_may_include_powers(call, tmp_path):
    """Only powers compute in double."""
    spec = spec_of("WarpCartPole-v1")
    mark, text = "w.terminate(!inside);", spec.kernel.read_text()
    assert text.count(mark) == 1
    kernel = tmp_path / "powers.cu"
    kernel.write_text(f'#include "lib/powers.h"\n{text.replace(mark, f"const float x = s.x; w.terminate({call} > 2.0f);")}')
    for module in range(len(MODULES)):
        ptx = compile_ptx(replace(spec, kernel=kernel), 90, module)
        assert inexact_instructions(ptx, doubles="gv_pow" in call) == []
        assert ("div.rn.f64" in ptx) == ("gv_pow" in call)


def test_gv_any_of_a_single_agent_world_is_no_vote(tmp_path):
    """Lanes of a warp may have diverged in a hook, so a vote would hang. Votes and barriers around hooks stay as they are."""
    spec = spec_of("WarpCartPole-v1")
    text = spec.kernel.read_text()
    mark = "w.terminate(!inside);"
    assert text.count(mark) == 1
    kernel = tmp_path / "asks.cu"
    kernel.write_text(text.replace(mark, "w.terminate(w.any(!inside));"))
    for module in range(len(MODULES)):
        asking, plain = (
            sorted(re.findall(r"\b(?:vote|bar|barrier|activemask)\.\S+", compile_ptx(each, 90, module)))
            for each in (replace(spec, kernel=kernel), spec)
        )
        assert asking == plain


@pytest.mark.parametrize("text", ["fma.rn.f32 a, b, c, d;", "sqrt.approx.f32 a, b;", "mul.ftz.f32 a, b, c;", "add.f64 a, b, c;",
                                  "fma.rn.f32 a, b, c, d;  // in a sum", "add.f64 a, b, c;  // in a quotient"])
def test_the_check_finds_inexact_instructions(text):
    assert inexact_instructions(text)


def test_the_check_finds_inexact_instructions_in_double():
    assert inexact_instructions("add.f64 a, b, c; div.rn.f64 a, b, c;", doubles=True) == []
    for text in ("fma.rn.f64 a, b, c, d;", "rcp.approx.ftz.f64 a, b;"):
        assert len(inexact_instructions(text, doubles=True)) == 1


@pytest.mark.parametrize("text", ["add.rn.f64", "cvt.f64.f32", "cvt.rz.f32.f64", "cvt.rzi.s32.f64", "setp.lt.f64", "neg.f64"])
def test_copies_of_a_double_are_exact_and_arithmetic_is_found(text):
    """A parameter of float64 reaches hooks in Python as f32."""
    copies = "ld.param.f64 %fd1, [%rd1+504]; mov.f64 %fd2, %fd1; selp.f64 %fd3, %fd1, %fd2, %p1; ld.global.nc.v2.f64 a; "
    copies += "cvt.rn.f32.f64 %f1, %fd3;"
    assert inexact_instructions(copies) == []
    assert len(inexact_instructions(f"{copies} {text} a, b;")) == 1


ON_OLDEST = ("WarpCartPole-v1", "WarpTag-v0", "WarpRice-v0", "WarpSimpleSpread-v3", "Harvest-v0", "Pot-v0")
"""Envs of one agent, with neighbours, of doubles, of particles, with roles and masks, and with shared parts."""

FOR_ARCHITECTURES = [
    pytest.param(name, params, module, arch, id=f"{name}-params{number}-{module}-{arch}",
                 marks=pytest.mark.in_ci if arch == ARCHITECTURES[0] and params == SHAPES[name][0] and name in ON_OLDEST
                 else pytest.mark.slow)
    for number, (name, params) in enumerate(CASES)
    for module in range(len(MODULES))
    for arch in ARCHITECTURES
]  # fmt: skip
"""Modules of all envs on each architecture; CI compiles one shape of each kind of env on the oldest one."""


@pytest.mark.parametrize(("name", "params", "module", "arch"), FOR_ARCHITECTURES)
def test_kernels_compile_for_every_architecture(name, params, module, arch):
    assert f".target sm_{arch}" in compile_ptx(spec_of(name), arch, module, **params)
