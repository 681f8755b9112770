"""The kernels of an update on lanes, which emulate warps, and for CUDA: the same results, and compilation for GPUs."""

import ctypes
import dataclasses
import re

import gymnasium
import pytest
import torch
from counters import counters
from gymnasium import spaces
from reference import BOX, case
from test_fused_act import CPU, drawn
from test_fused_gradient import kernel_gradient
from test_fused_shared import gradient as gradient_of_worlds
from test_fused_shared import twins
from test_many_heads import without_some_chunks

from gpu_vecenv.backend import programs
from gpu_vecenv.backend.compiler import LEVELS, compile_object
from gpu_vecenv.backend.programs import program_options
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.testing.nvrtc import compile_text
from gpu_vecenv.train.fused import act
from gpu_vecenv.train.fused.eligibility import require_fused
from gpu_vecenv.train.fused.recurrent_plan import RecurrentSizes, recurrent_act_program, recurrent_update_program
from gpu_vecenv.train.fused.tile_plan import Sizes, act_program, rollout_program, update_program
from gpu_vecenv.train.policies.contract import Inputs
from tests.kernels.test_ptx import touches


class Lanes:
    """Launches of a build on lanes."""

    def __init__(self, program, folder):
        flags = (f"-DGV_LANES={program.lanes}", "-pthread")
        path = folder / f"lanes{len(list(folder.iterdir()))}.so"
        self.library = ctypes.CDLL(str(compile_object(program, LEVELS[-1], path, flags)))

    def launch(self, name, args, teams, small, shared_bytes=0):
        """Run a kernel on lanes."""
        getattr(self.library, name)(ctypes.byref(args), ctypes.c_int32(0), ctypes.c_int32(teams))


CASES = {
    "discrete": ({"action": spaces.Discrete(2), "rows": 70}, 32),
    "masked, elu, odd sizes": (
        {
            "action": spaces.MultiDiscrete([5, 9]),
            "features": 11,
            "hidden": (24, 40),
            "activation": "elu",
            "masked": (1,),
            "rows": 40,
        },
        32,
    ),
    "staged features": ({"action": spaces.Discrete(11), "features": 36, "masked": (0,), "hidden": (24, 40), "rows": 70}, 32),
    "numbers, three layers, 128 lanes": ({"action": BOX, "features": 3, "hidden": (16, 48, 32), "rows": 70}, 64),
    "split": ({"action": spaces.MultiDiscrete([2, 9]), "features": 7, "hidden": (136, 24), "rows": 70}, 64),
    "wide": ({"action": spaces.MultiDiscrete([2, 9]), "features": 150, "hidden": (136,), "rows": 70}, 64),
    "equal choices": (
        {"action": spaces.MultiDiscrete([5] * 21), "features": 9, "hidden": (24, 40), "filling": 5, "rows": 70},
        64,
    ),
    "many heads": (
        {
            "action": spaces.MultiDiscrete([10, 2, 7, 1, 33, 10, 10, 2] * 3),
            "features": 9,
            "masked": (0, 2, 3, 9),
            "hidden": (24, 40),
            "rows": 70,
        },
        64,
    ),
}


@pytest.mark.slow
def test_lanes_compute_the_gradient_of_worlds_as_the_host(tmp_path, monkeypatch):
    worlds_case = {"action": spaces.Discrete(3), "shared": 40, "own": 70, "hidden": (24,), "num_worlds": 4}
    host = gradient_of_worlds(twins(**worlds_case).worlds, rows=64)
    monkeypatch.setattr(programs, "launches", lambda program, device: Lanes(program, tmp_path))
    by_lanes = gradient_of_worlds(twins(**worlds_case).worlds, rows=64)
    for parameter, values in host.items():
        assert float((by_lanes[parameter] - values).norm()) <= 1e-4 * float(values.norm()), parameter


def compare_lanes(given, folder, monkeypatch, **sizes):
    """Compare the gradient of a case by lanes with that of the host, with some sizes changed."""
    host, host_terms = kernel_gradient(case(**given), **sizes)
    monkeypatch.setattr(programs, "launches", lambda program, device: Lanes(program, folder))
    found, terms = kernel_gradient(case(**given), **sizes)
    torch.testing.assert_close(terms, host_terms, rtol=1e-5, atol=1e-6)
    for parameter, gradient in host.items():
        assert float((found[parameter] - gradient).norm()) <= 1e-4 * float(gradient.norm()), parameter


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_lanes_compute_the_gradient_of_the_host(name, tmp_path, monkeypatch):
    given, rows = CASES[name]
    compare_lanes(given, tmp_path, monkeypatch, rows=rows)


@pytest.mark.slow
def test_lanes_sum_the_gradient_above_a_wide_layer_as_the_host(tmp_path, monkeypatch):
    sizes = {"rows": 64, "split": True, "wide": True, "stages": 3}
    assert Sizes(150, (24, 40), "tanh", 26, (21, 5), held=True, **sizes).team_sums
    policy = {"action": spaces.MultiDiscrete([21, 5]), "features": 150, "hidden": (24, 40), "rows": 150}
    compare_lanes(policy, tmp_path, monkeypatch, **sizes)


@pytest.mark.slow
def test_lanes_leave_out_chunks_as_the_host(tmp_path, monkeypatch):
    host, host_terms = kernel_gradient(without_some_chunks(257), rows=64)
    monkeypatch.setattr(programs, "launches", lambda program, device: Lanes(program, tmp_path))
    found, terms = kernel_gradient(without_some_chunks(257), rows=64)
    torch.testing.assert_close(terms, host_terms, rtol=1e-5, atol=1e-6)
    for parameter, gradient in host.items():
        assert float((found[parameter] - gradient).norm()) <= 1e-4 * float(gradient.norm()), parameter


ACTS = {
    "masked, elu, odd sizes": ({**CASES["masked, elu, odd sizes"][0], "masked": (1,)}, 32),
    "numbers, 128 lanes": ({"action": BOX, "features": 3, "hidden": (16, 48)}, 64),
    "split": ({"action": BOX, "features": 3, "hidden": (136, 48)}, 64),
    "wide": ({"action": BOX, "features": 150, "hidden": (136,)}, 64),
    "many heads": CASES["many heads"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTS)
def test_lanes_act_as_the_host(name, tmp_path, monkeypatch):
    """Sums of products have another order. Actions are those of draws from the outputs of the lanes."""
    given, rows = ACTS[name]
    one = case(**(given | {"rows": 3 * rows - 7, "filling": 0}))
    count = one.samples.valid.numel()
    inputs = Inputs(one.samples.obs[:-1].flatten(0, 1), one.samples.mask[:-1].flatten(0, 1) if given.get("masked") else None)
    results = []
    for number in range(2):
        if number:
            monkeypatch.setattr(programs, "launches", lambda program, device: Lanes(program, tmp_path))
        sizes = dataclasses.replace(require_fused(one.policy, CPU), rows=rows)
        fused, outputs, draw = act.FusedPolicy(one.policy, sizes, CPU), torch.empty(count, sizes.outputs), counters(count, 1)
        fused.most_teams = 2
        action, log_prob = fused.act(inputs, draw, outputs=outputs)
        wanted = drawn(fused, inputs, draw, outputs)
        assert torch.equal(action, wanted[0]) and torch.equal(log_prob, wanted[1])
        taken = results[0][3] if number else action  # the same actions
        alone = fused.log_prob(Inputs(*(x if x is None else x[None] for x in inputs[:2])), taken[None])
        results.append((outputs, fused.value(inputs), alone, action))
    for host, lanes in zip(results[0][:3], results[1][:3], strict=True):
        torch.testing.assert_close(lanes, host, rtol=1e-4, atol=1e-4)


SIZES = [
    Sizes(4, (64, 64), "tanh", 2, (2,)),
    Sizes(71, (64, 64), "tanh", 42, (21, 21), (0, 21)),
    Sizes(64, (64, 64), "tanh", 11, (11,), (0,), staged=True),
    Sizes(3, (128, 48, 33), "elu", 1, None),
    Sizes(75, (256, 256), "tanh", 42, (21, 21), split=True),
    Sizes(735, (64, 64), "tanh", 42, (21, 21), split=True, wide=True),
    Sizes(1030, (200,), "relu", 3, None, split=True, wide=True),
    Sizes(20, (256, 256), "elu", 5, (5,), split=True, wide=True),
    Sizes(1043, (64, 64), "tanh", 42, (21, 21), split=True, wide=True, shared=1007),
    Sizes(1043, (64, 64), "tanh", 597, (10,) * 57 + (27,), split=True, wide=True, shared=1007, head_columns=64),
    Sizes(20, (64, 64), "tanh", 1164, (10,) * 111 + (2,) * 27, (0,) * 138, split=True, head_columns=64),
    Sizes(1043, (64, 64), "tanh", 570, (10,) * 57, split=True, wide=True, shared=1007, head_columns=64).of_update,
    Sizes(9, (200, 128), "relu", 200, (100, 100), split=True, head_columns=128),
]


GRUS = [
    RecurrentSizes(4, (64,), "tanh", 2, (2,)),
    RecurrentSizes(17, (128,), "tanh", 6, None),
    RecurrentSizes(71, (45,), "tanh", 42, (21, 21), (0, -1)),
]


WAIT, START = "griddepcontrol.wait", "griddepcontrol.launch_dependents"
"""Instructions that wait for the previous kernel, and let the next one start."""


def entries(make, sizes):
    """Return the names of the kernels of a program."""
    packs = ["gv_pack_heads", *(["gv_pack_masks"] if sizes.mask_first else [])] if sizes.head_columns else []
    if sizes.wide:
        first = ["gv_pack_first", "gv_values", "gv_wide_first"]
        ends = ["gv_reduce", *([] if sizes.team_sums else ["gv_weight_sums"]), "gv_wide_sums", "gv_wide_units"]
        of_update = ["gv_adam", "gv_deltas", "gv_pack_rows", "gv_pack_first", *ends]
        if sizes.shared:
            first.append("gv_wide_worlds")
            of_update += ["gv_pack_worlds", "gv_world_deltas", "gv_world_sums", "gv_world_units"]
        return sorted(["gv_act", "gv_evaluate", *first, *packs] if make is act_program else [*of_update, *packs])
    if make is act_program:
        return ["gv_act", "gv_evaluate", *(["gv_first"] if sizes.split else []), *packs, "gv_values"]
    gradient = ["gv_deltas", "gv_first_units"] if sizes.split else ["gv_gradient"]
    return ["gv_adam", *gradient, *packs, "gv_reduce", *(["gv_weight_sums"] if sizes.split else [])]


@pytest.mark.slow
@pytest.mark.parametrize("arch", [pytest.param(80, marks=pytest.mark.slow), 90])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("make", [update_program, act_program])
def test_kernels_compile_for_cuda_without_local_memory(make, sizes, arch):
    program = make(sizes)
    ptx = compile_text(kernel_source(program), arch, *program_options(program))
    assert sorted(re.findall(r"\.entry (\w+)", ptx)) == entries(make, sizes)
    assert ".local" not in ptx and "mma.sync" in ptx


@pytest.mark.slow
@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("sizes", GRUS, ids=str)
def test_kernels_of_a_gru_compile_for_cuda_without_local_memory(sizes, arch):
    found = []
    for program in (recurrent_update_program(sizes), recurrent_act_program(sizes.acting)):
        ptx = compile_text(kernel_source(program), arch, *program_options(program))
        assert ".local" not in ptx and "mma.sync" in ptx
        found += re.findall(r"\.entry (\w+)", ptx)
    assert sorted(found) == ["gv_adam", "gv_gru_act", "gv_gru_gradient", "gv_gru_sums", "gv_reduce", "gv_walk"]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_kernels_write_nothing_before_they_have_waited(sizes):
    program = update_program(sizes)
    ptx = compile_text(kernel_source(program), 90, *program_options(program))
    found = {text.partition("(")[0]: touches("".join((".entry ", text)))[0] for text in re.split(r"\.entry ", ptx)[1:]}
    for name, order in found.items():
        before = order[: order.index(WAIT)]
        assert not [each for each in before if each.startswith(("st", "atom", "red"))], name
    assert found["gv_reduce"][:2] == [START, WAIT]
    assert all(each.startswith("ld") for each in found["gv_adam"][: found["gv_adam"].index(WAIT)])


def test_a_gradient_lets_the_next_kernel_start_after_its_last_product():
    """A kernel that waits takes registers from other runs."""
    program = update_program(SIZES[0])
    ptx = compile_text(kernel_source(program), 90, *program_options(program))
    (text,) = [text for text in re.split(r"\.entry ", ptx)[1:] if text.startswith("gv_gradient(")]
    actor, critic, after = text.split(START)
    assert "mma.sync" in actor and "mma.sync" in critic and "mma.sync" not in after


@pytest.mark.parametrize(
    "sizes",
    [
        Sizes(4, (64, 64), "tanh", 2, (2,), rows=16),
        pytest.param(Sizes(4, (32,), "relu", 2, (2,), rows=64), marks=pytest.mark.slow),
        pytest.param(Sizes(4, (64, 64), "tanh", 2, (2,), rows=16, workers=4), marks=pytest.mark.slow),
        pytest.param(GRUS[0].acting, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_rollouts_compile_for_cuda_without_local_memory(sizes):
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=2, device="cpu").unwrapped
    program = rollout_program(sizes, env.layout)
    ptx = compile_text(kernel_source(program), 90, *program_options(program))
    assert re.findall(r"\.entry (\w+)", ptx) == ["gv_rollout_with_policy"]
    assert ".local" not in ptx and "mma.sync" in ptx
    assert "mma.sync" not in ptx.split(START)[1]
