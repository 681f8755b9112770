"""``GvWorld`` costs nothing on a GPU: hooks by hand, which take ``(a, team)``, compile to as many loads, stores and sums.

The folder ``by_hand`` has such hooks of seven envs. The rest of a kernel is arithmetic of addresses, whose order a compiler
chooses. In worlds of one agent it is the same, too.
"""

import collections
import dataclasses
import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest

from gpu_vecenv.spec.layout import MODULES
from gpu_vecenv.spec.struct import is_single
from gpu_vecenv.testing.nvrtc import compile_ptx
from gpu_vecenv.testing.subject import action_table
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.kernels.test_ptx import spec_of
from tests.marks import slow_but
from tests.parity.trajectory import CASES, RECORD, STEPS, digest_of

BY_HAND = Path(__file__).with_name("by_hand")
IDS = ("WarpCartPole-v1", "WarpMountainCar-v0", "WarpMountainCarContinuous-v0", "WarpAcrobot-v1", "WarpPendulum-v1",
       "WarpGridTag-v0", "WarpTag-v0")  # fmt: skip
"""Envs with hooks by hand."""
MORE = {
    "cartpole, gravity by world": ("WarpCartPole-v1", {"gravity": np.linspace(9, 10, 4)}),
    "acrobot, masses by world": ("WarpAcrobot-v1", {"link_mass_2": np.linspace(1, 2, 4)}),
    "grid tag, one tagger": ("WarpGridTag-v0", {"num_taggers": 1, "use_full_observation": False}),
    "tag, size by world": ("WarpTag-v0", {"grid_length": np.linspace(10, 20, 4)}),
}
"""Tag with one index or with numbers as actions is left out: it has one or two copies more of its loads of actions, which stand
in branches by the type of actions."""
ALL = {case: entry for case, entry in (CASES | MORE).items() if entry[0] in IDS}


def by_hand(name):
    spec = spec_of(name)
    return dataclasses.replace(spec, kernel=BY_HAND / spec.kernel.name)


@functools.cache
def opcodes(case, is_by_hand, module):
    """Numbers of instructions of each kernel of a module, by kernel and opcode."""
    name, params = ALL[case]
    spec = by_hand(name) if is_by_hand else spec_of(name)
    ptx = compile_ptx(spec, 90, module, **{key: value for key, value in params.items() if key != "num_envs"})
    kernels = re.findall(r"\.entry (\w+)\((.*?)^\}", ptx, re.DOTALL | re.MULTILINE)
    instruction = re.compile(r"^\s*(?:@!?%p\d+ )?([a-z][\w.]+)\s", re.MULTILINE)
    return {name: collections.Counter(instruction.findall(text)) for name, text in kernels}


def work(counts):
    """Bytes that loads and stores move, by the kind of memory, and numbers of barriers, votes and float operations by opcode."""
    total = collections.Counter()
    for opcode, number in counts.items():
        name, *parts = opcode.split(".")
        if name in ("ld", "st") and "param" not in parts:
            bits, vector = int(re.search(r"\d+$", opcode)[0]), re.search(r"\.v(\d)\.", opcode)
            space = next((part for part in parts if part in ("global", "shared", "local")), "any")
            total[f"{name}.{space}"] += number * bits // 8 * (int(vector[1]) if vector else 1)
        elif name in ("atom", "bar", "vote", "shfl", "call") or {"f32", "f64"} & {*parts} and name not in ("ld", "mov", "selp"):
            total[opcode] += number
    return total


@pytest.mark.parametrize("case", slow_but(["cartpole", "grid tag"], ALL))
def test_hooks_that_take_a_world_do_no_more_work_than_hooks_by_hand(case):
    for module, names in enumerate(MODULES):
        plain, world = (opcodes(case, is_by_hand, module) for is_by_hand in (True, False))
        for name in names:
            assert work(world[name]) - work(plain[name]) == {}, name
            assert work(plain[name])["st.global"] > 0
            if is_single(spec_of(ALL[case][0])):
                differ = (world[name] - plain[name]) + (plain[name] - world[name])
                assert {*differ} <= {"mov.u32"}, name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*GvWorld:FutureWarning")
@pytest.mark.parametrize("case", [case for case in ALL if case not in MORE])
def test_hooks_by_hand_have_the_rules_of_the_env(case):
    name, params = ALL[case]
    env = GpuVectorEnv(by_hand(name), device="cpu", array="numpy", **params)
    digest, _ = digest_of(env, action_table(env, STEPS.get(case, 1000), 11))
    env.close()
    assert digest == json.loads(RECORD.read_text())[case]
