"""Registers of kernels: limits by compilers' reports, spills of the shipped envs, and requests of specs."""

import dataclasses
import json
import re

import gymnasium
import pytest

from gpu_vecenv.backend.blocks import blocks_of
from gpu_vecenv.backend.cuda import compile_options, module_blocks
from gpu_vecenv.backend.registers import FEW, LARGER, Report, choose_limit, resident_blocks, usual_limit
from gpu_vecenv.registration import IDS
from gpu_vecenv.spec.layout import MODULES, Layout
from gpu_vecenv.testing.nvrtc import kernel_reports, version
from tests.ids import EVERY_ID, marked
from tests.kernels.registers import ARCH, RECORD, chosen, rows, table
from tests.kernels.test_ptx import spec_of

RECORDED = json.loads(RECORD.read_text())


def test_every_shipped_env_is_recorded():
    assert set(RECORDED) == {"nvrtc", *IDS}


def differences(used, recorded):
    """Return the differences of registers from the record; local memory and spills must be equal."""
    recorded = {name: row for name, row in recorded.items() if name != "limit"}
    fixed, expected = ([(name, row["local"], row["spills"]) for name, row in kernels.items()] for kernels in (used, recorded))
    assert fixed == expected
    return {row["registers"] - recorded[name]["registers"] for name, row in used.items()}


CHECKED = [pytest.param(name, marks=pytest.mark.slow if marked(name) != name else pytest.mark.in_ci) for name in IDS]


@pytest.mark.parametrize("name", CHECKED)
def test_shipped_envs_use_the_registers_recorded_and_steps_do_not_spill(name):
    """Another version of NVRTC may use others, and one version one more or less: its results vary with the addresses at which it
    runs. A rollout may spill a little, or with the largest limit."""
    for module, recorded in enumerate(RECORDED[name]):
        used = kernel_reports(spec_of(name), ARCH, module, recorded["limit"])
        first = used[MODULES[module][0]]
        assert first.spills == 0 or (module == 1 and (first.local <= FEW or first.registers >= LARGER[-1]))
        if RECORDED["nvrtc"] == version():
            assert differences(rows(used), recorded) <= {-1, 0, 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY_ID)
def test_the_limits_recorded_are_those_that_a_gpu_gets(name):
    for used, recorded in zip(table(spec_of(name)), RECORDED[name], strict=True):
        if RECORDED["nvrtc"] == version():
            assert used.pop("limit") == recorded["limit"]
            assert differences(used, recorded) <= {-1, 0, 1}


@pytest.mark.parametrize(("threads", "usual"), [(32, 56), (96, 56), (128, 56), (160, 96), (256, 80), (768, 80), (1024, 64)])
def test_a_multiprocessor_has_registers_for_the_blocks_of_a_limit(threads, usual):
    assert usual_limit(threads) == usual
    for limit in (None, 32, 64, 80, 128, 255):
        resident = resident_blocks(threads, limit)
        assert resident == 1 or resident * threads * (limit or usual) <= 65536
        if limit and (resident + 1) * threads * limit <= 65536:
            raise AssertionError(f"room for more than {resident} blocks of {threads} threads with {limit} registers")


@pytest.mark.parametrize(("threads", "reports", "limit", "compiled"), [
    (128, {None: (48, 0)}, None, 1),
    (128, {None: (56, 0)}, None, 1),
    (128, {None: (48, 160)}, None, 1),  # an array in local memory; the kernel has registers left
    (128, {None: (56, 16)}, None, 1),  # a few bytes
    (128, {None: (56, 24), 64: (64, 0)}, 64, 2),
    (128, {None: (56, 96), 64: (64, 24), 72: (72, 0)}, 72, 3),
    (128, {None: (56, 96), 64: (64, 64), 72: (72, 8), 80: (79, 0)}, 80, 4),
    (128, {None: (56, 208), 64: (64, 168), 72: (72, 136), 80: (80, 104)}, 80, 4),  # it spills less
    (128, {None: (56, 40), 64: (60, 40), 72: (60, 40), 80: (60, 40)}, None, 4),  # an array alone
    (128, {None: (56, 48), 64: (64, 40), 72: (70, 40), 80: (70, 40)}, 64, 4),  # an array of 40 bytes, and spills
    (256, {None: (80, 88)}, None, 1),
    (768, {None: (80, 24)}, None, 1),
])  # fmt: skip
def test_the_smallest_limit_without_spills_is_chosen(threads, reports, limit, compiled):
    asked = []

    def report(one):
        asked.append(one)
        return Report(*reports[one])

    assert choose_limit(report, threads) == limit
    assert len(asked) == len(set(asked)) == compiled


@pytest.mark.slow
def test_a_kernel_that_spills_gets_more_registers():
    """A rollout of COVID spills with 56 registers."""
    spec = spec_of("WarpCovid-v0")
    before = kernel_reports(spec, ARCH, 1)["gv_rollout"]
    limit, used, compiled = chosen(spec, 1)
    assert (limit, compiled) == (80, 4) and used["gv_rollout"].local < before.local / 2


def test_a_kernel_that_does_not_spill_is_compiled_once_with_the_usual_options():
    spec = spec_of("WarpCartPole-v1")
    assert chosen(spec, 0)[::2] == (None, 1)
    layout = Layout(spec, spec.resolve({}))
    assert "-DGV_RESIDENT=9" in compile_options(layout, 0, module_blocks(layout, 0))
    assert "-DGV_RESIDENT=1" in compile_options(layout, 1, module_blocks(layout, 1))


@pytest.mark.parametrize("limit", [40, 128])
def test_a_spec_limits_registers(limit):
    spec = dataclasses.replace(spec_of("WarpGridTag-v0"), registers=lambda params: limit)
    used = kernel_reports(spec, ARCH, 1)["gv_rollout"]
    assert used.registers <= limit and (used.spills == 0) == (limit == 128)


@pytest.mark.parametrize(("limit", "threads"), [(56, 768), (80, 768), (96, 672), (128, 512), (255, 256)])
def test_rollouts_of_single_agent_worlds_have_blocks_for_the_registers_requested(limit, threads):
    assert blocks_of(1, 1, registers=limit) == (1, threads, True) and threads * limit <= 65536
    assert blocks_of(1, 0, registers=limit) == blocks_of(1, 0)


def test_the_parameters_may_set_the_limit():
    spec = dataclasses.replace(spec_of("Town-v0"), registers=lambda params: 64 if params["num_citizens"] > 20 else 40)
    for citizens, resident in ((5, 12), (21, 8)):
        layout = Layout(spec, spec.resolve({"num_citizens": citizens}))
        found = [option for option in compile_options(layout, 0, module_blocks(layout, 0)) if re.match("-DGV_RESIDENT", option)]
        assert found == [f"-DGV_RESIDENT={resident}"]


@pytest.mark.gpu
def test_a_rollout_on_a_gpu_has_the_registers_chosen():
    """Architectures and compilers differ: some need no larger limit."""
    env = gymnasium.make_vec("WarpGridTag-v0", num_envs=8, device="cuda:0")
    env.reset(seed=0)
    env.unwrapped.rollout(num_steps=4)
    kernel = env.unwrapped.worlds.backend._modules[1].get_function("gv_rollout")
    assert kernel.local_size_bytes <= FEW and kernel.num_regs <= 64
