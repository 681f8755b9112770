"""Headers of kernels have layers: each compiles by itself and includes lower layers only; only target/ names compilers."""

import re
import subprocess

import pytest

from gpu_vecenv.backend.compiler import FLAGS, find_compiler
from gpu_vecenv.backend.source import KERNEL_FOLDER
from gpu_vecenv.backend.trainer_programs import HOST_UPDATE, REPLAY_ADD
from gpu_vecenv.envs.cartpole.spec import SPEC as CARTPOLE
from gpu_vecenv.envs.tag.spec import SPEC as TAG
from gpu_vecenv.spec.arguments import program_header
from gpu_vecenv.spec.header import args_header
from gpu_vecenv.spec.world_header import world_header
from gpu_vecenv.testing.nvrtc import compile_text
from gpu_vecenv.train.fused.recurrent_plan import RecurrentSizes, recurrent_act_program, recurrent_update_program
from gpu_vecenv.train.fused.tile_plan import Sizes, act_program, update_program
from tests.roles.harvest import SPEC as HARVEST
from tests.roles.shared import SPEC as POT
from tests.roles.town import SPEC as TOWN

LAYERS = (
    "target", "program_args.h", "lib", "policy", "learner", "args.h", "state.h", "groups.h", "metrics.h", "hooks.h",
    "world_parts.h", "world.h", "world_hooks.h", "random_actions.h", "autoreset.h", "outputs.h", "protocol.h", "single", "launch",
)  # fmt: skip
"""From the lowest to the highest; ``args.h`` and ``world.h`` are made from a spec, ``program_args.h`` from a program."""

LANES = {"target/lanes.h": 2, "target/lanes_warp.h": 32, "target/warp_tile.h": 32}
"""Lanes of a team, for headers of lanes; a warp has 32."""

SIZES, GRU = Sizes(4, (8, 8), "tanh", 2, (2,)), RecurrentSizes(4, (32,), "tanh", 2, (2,))
HEADS = Sizes(4, (8, 8), "tanh", 34, (2,) * 17, (0,) * 17, split=True, head_columns=64)
PROGRAMS = {
    "learner/gru.h": recurrent_update_program(GRU),
    "learner/gru_tile.h": recurrent_act_program(GRU.acting),
    "learner/replay.h": REPLAY_ADD,
    "learner/act_rows.h": act_program(SIZES),
    "learner/act_heads.h": act_program(HEADS),
    "learner/heads_gradient.h": update_program(HEADS),
    "learner/many_heads.h": update_program(HEADS),
}
"""Programs of headers that not every update has."""

HEADERS = sorted(path.relative_to(KERNEL_FOLDER).as_posix() for path in KERNEL_FOLDER.rglob("*.h"))
COMPILERS = r"__CUDA|__clang__|__GNUC__|__x86_64__|__NVCC__|_MSC_VER"


def layer(name):
    return LAYERS.index(name if name in LAYERS else name.partition("/")[0])


def specs_of(name):
    """Specs whose ``args.h`` goes with a header: with arrays of all agents, masks, arrays by role, and shared parts.

    Headers of lower layers than ``args.h`` do not include it, so one spec is enough for them.
    """
    if name.startswith("target/cuda"):
        return []
    if name.startswith("single/"):
        return [CARTPOLE]
    return [TAG] if layer(name) < layer("args.h") else [TAG, HARVEST, TOWN, POT]


def includes(name):
    return re.findall(r'#include "([^"]+)"', (KERNEL_FOLDER / name).read_text())


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_includes_its_own_layer_and_lower_ones(name):
    assert [other for other in includes(name) if layer(other) > layer(name)] == []


def test_no_header_includes_itself_by_way_of_others():
    generated = ("args.h", "world.h", "program_args.h")
    graph = {name: [other for other in includes(name) if other not in generated] for name in HEADERS}
    while leaves := [name for name, others in graph.items() if not others]:
        graph = {name: [o for o in others if o not in leaves] for name, others in graph.items() if name not in leaves}
    assert graph == {}


@pytest.mark.parametrize("name", HEADERS)
def test_only_target_headers_name_compilers(name):
    if not name.startswith("target/"):
        assert re.findall(rf"#.*(?:{COMPILERS}).*", (KERNEL_FOLDER / name).read_text()) == []


@pytest.mark.parametrize(("name", "spec"), [(name, spec) for name in HEADERS for spec in specs_of(name)])
def test_a_header_compiles_by_itself(name, spec, tmp_path):
    """Compiles for the host. Hooks are declared but not defined; the compiler gives a warning for that."""
    (tmp_path / "args.h").write_text(args_header(spec))
    (tmp_path / "world.h").write_text(world_header(spec))
    text = f'#include "{name}"\n'
    flags = ["-DGV_SINGLE=1"] if spec is CARTPOLE else [f"-DGV_LANES={LANES[name]}"] if name in LANES else []
    if name.startswith(("learner/", "policy/")):  # sizes are constants of the program
        program = HOST_UPDATE if name.startswith("learner/host_") else PROGRAMS.get(name, update_program(SIZES))
        (tmp_path / "program_args.h").write_text(program_header(program.args))
        flags = [f"-DGV_{constant}={value}" for constant, value in program.constants]
    command = [*find_compiler(), *FLAGS, *flags, f"-I{tmp_path}", f"-I{KERNEL_FOLDER}", "-fsyntax-only", "-"]
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [name for name in HEADERS if name.startswith("target/cuda")])
def test_a_header_of_cuda_compiles_by_itself(name):
    flags = ["--std=c++17", "-DGV_LANES=32", "-DGV_TEAMS=1", "-DGV_RESIDENT=1", "-DGV_SCRATCH=1", f"-I{KERNEL_FOLDER}"]
    assert ".target sm_90" in compile_text(f'#include "{name}"\n', 90, *flags)
