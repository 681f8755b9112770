"""The kernels of policies' draws compile for every supported GPU, to arithmetic that gives the bits of the CPU."""

import re

import pytest

from gpu_vecenv.backend.programs import program_options
from gpu_vecenv.backend.source import DRAW, kernel_source
from tests.kernels.nvrtc import compile_text
from tests.kernels.test_ptx import ARCHITECTURES, inexact_instructions, shared_bytes, touches


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_draws_compile_for_every_architecture_without_inexact_instructions(arch):
    ptx = compile_text(kernel_source(DRAW), arch, *program_options())
    assert f".target sm_{arch}" in ptx
    assert sorted(re.findall(r"\.entry (\w+)", ptx)) == ["gv_draw_choices", "gv_draw_normals", "gv_draw_uniforms"]
    assert inexact_instructions(ptx) == []
    assert ".local" not in ptx
    assert 0 < shared_bytes(ptx) <= 48 * 1024
    for found in touches(ptx):
        waits = [instruction for instruction in found if instruction.startswith("griddep")]
        assert waits == (["griddepcontrol.wait", "griddepcontrol.launch_dependents"] if arch >= 90 else [])
        assert found[: len(waits)] == waits
