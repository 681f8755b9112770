"""Faults to plant in the GPU build fit the kernel text as it is; whether they are found needs a GPU."""

import pytest

from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.envs.tag.spec import SPEC
from tests.sanitize.short_run import FAULTS


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_has_one_place(fault):
    piece, wrong = FAULTS[fault]
    assert piece != wrong
    assert kernel_source(SPEC).count(piece) == 1
