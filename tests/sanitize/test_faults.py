"""Faults planted in the GPU build fit the present text of the kernel. A GPU is needed to find them."""

import pytest

from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.envs.tag.spec import SPEC
from tests.sanitize.short_run import FAULTS


@pytest.mark.parametrize("fault", FAULTS)
def test_the_text_of_a_fault_occurs_once(fault):
    piece, wrong = FAULTS[fault]
    assert piece != wrong
    assert kernel_source(SPEC).count(piece) == 1
