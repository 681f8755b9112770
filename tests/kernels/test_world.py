"""``GvWorld``: what a hook may not do does not compile; arrays in scratch."""

import dataclasses
import functools
import subprocess

import pytest

from gpu_vecenv import Scratch
from gpu_vecenv.backend.compiler import FLAGS, find_compiler
from gpu_vecenv.backend.source import KERNEL_FOLDER, kernel_source
from gpu_vecenv.errors import SpecError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.library import neighbours_floats
from gpu_vecenv.spec.world_header import world_header
from tests.kernels.test_ptx import spec_of


def messages(source, *flags):
    """Messages of the host's compiler, empty for a text that it accepts."""
    command = [*find_compiler(), *FLAGS, *flags, f"-I{KERNEL_FOLDER}", "-fsyntax-only", "-"]
    return subprocess.run(command, input=source, text=True, capture_output=True, check=False).stderr


@functools.cache
def original(name):
    return spec_of(name).kernel.read_text()


WRONG = {
    "an observation in env_step": ("WarpCartPole-v1", "w.terminate(!inside);", "me.obs[0] = 1.0f;", "GvAgent::obs"),
    "a mask in env_step": ("Pot-v0", "me.put = coins <", "me.mask[0] = 1; me.put = coins <", "GvAgent_player::mask"),
    "a shared part in env_reset": ("Pot-v0", "me.put = 0;", "w.role.player.shared()[0] = 1.0f;", "GvAgents_player::shared"),
    "an unknown parameter": ("WarpCartPole-v1", "p.gravity", "p.gravitty", "GvWorldParams"),
    "an unknown field of an agent": ("Pot-v0", "me.put = 0;", "me.coins = 0;", "GvAgent_player"),
    "an unknown role": ("Pot-v0", "w.role.judge[0].reward", "w.role.jury[0].reward", "GvWorldRoles"),
    "a parameter that is written": ("Pot-v0", "me.put = 0;", "w.params.full = 0;", "read-only"),
    "a size that is written": ("Pot-v0", "me.put = 0;", "w.sizes.num_agents = 0;", "read-only"),
    "time that is written": ("Pot-v0", "me.put = 0;", "w.t = 0;", "read-only"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_hook_may_not_do_does_not_compile(wrong, tmp_path):
    """The compiler names the part of the world; the same text without the mistake compiles, as other tests show."""
    name, mark, mistake, part = WRONG[wrong]
    text = original(name)
    assert text.count(mark) >= 1
    kernel = tmp_path / "wrong.cu"
    kernel.write_text(text.replace(mark, mistake))
    found = messages(kernel_source(dataclasses.replace(spec_of(name), kernel=kernel)))
    assert "error" in found and part.replace("::", "") in found.replace("::", "")


def floats(**changes):
    spec = dataclasses.replace(spec_of("Town-v0"), **changes)
    return Layout(spec, spec.resolve({"num_citizens": 5})).requested_scratch


def test_arrays_in_scratch_follow_one_another():
    bytes_of = Scratch("bytes", "uint8", ("num_citizens",))
    assert floats(scratch=()) == 1
    assert floats(scratch=(bytes_of,)) == 2
    assert floats(scratch=(bytes_of, Scratch("pairs", "float32", ("num_citizens", 2), align=4))) == 4 + 10
    assert floats(scratch=(Scratch("few", "float32", ("num_citizens",), most=5), bytes_of)) == 5 + 2
    assert floats(scratch=(Scratch("few", "float32", ("num_citizens",), most=4), bytes_of)) == 2
    assert floats(scratch=(bytes_of, Scratch("rest", "uint16", lambda p: 2 * p["num_citizens"]))) == 2 + 5


@pytest.mark.parametrize(("align", "multiple"), [(1, 4), (4, 4), (6, 12)])
def test_gathered_rows_begin_at_a_vector_of_four(align, multiple):
    scratch = (Scratch("bytes", "uint8", ("num_citizens",)), Scratch("rows", "float32", lambda p: 40, align=align))
    assert floats(scratch=scratch) == multiple + 40
    header = world_header(dataclasses.replace(spec_of("Town-v0"), scratch=scratch))
    assert f" / 4 + {multiple - 1}) / {multiple} * {multiple})), (GV_SCRATCH - " in header


@pytest.mark.parametrize(("scratch", "message"), [
    ((Scratch("wealth", "float64", (2,)),), "scratch 'wealth': dtype must be one of float32, int32, uint16, uint8"),
    ((Scratch("wealth", "float32", ("citizens",)),), "scratch 'wealth': shape must be"),
    ((Scratch("rest", "float32", lambda p: 3), Scratch("wealth", "float32", (2,))), "or in the last array a function"),
    ((Scratch("wealth", "float32", (2,)), Scratch("wealth", "float32", (2,))), "names of arrays in scratch must be different"),
    ((Scratch("wealth", "float32", (2,), align=0),), "align must be a number of floats from 1 on"),
    ((Scratch("wealth", "float32", (20_000,)),), "floats of scratch must be an integer from 0 to"),
    ((Scratch("int", "float32", (2,)),), "name of an array in scratch must be an identifier"),
    (("wealth",), "scratch must be a tuple of Scratch"),
    (3, "scratch must be a tuple of Scratch, a function of the parameters or None, got 3"),
])  # fmt: skip
def test_wrong_arrays_in_scratch_are_refused(scratch, message):
    with pytest.raises(SpecError, match=message):
        floats(scratch=scratch)


def test_the_search_for_neighbours_needs_the_scratch_that_python_says():
    cases = [(agents, k) for agents in (1, 2, 105, 415, 416, 417, 1000) for k in (1, 10, 32, 33, 64)]
    checks = [f"static_assert(gv_neighbours_floats({a}, {k}) == {neighbours_floats(a, k)}, \"\");" for a, k in cases]
    assert messages("\n".join(['#include "lib/neighbours.h"', *checks])) == ""
    assert "static" in messages('#include "lib/neighbours.h"\nstatic_assert(gv_neighbours_floats(105, 10) == 524, "static");')
