"""Planted faults fit the present text of the kernels. Slow tests find them, some on a GPU."""

import gymnasium
import pytest

import tests.roles  # noqa: F401  # registers Town, Harvest and Pot
from gpu_vecenv.backend.source import kernel_source
from tests.sanitize.faults import ON_GPU, RACES, WRITES


@pytest.mark.parametrize("fault", [*RACES.values(), *WRITES.values(), *ON_GPU.values()], ids=[*RACES, *WRITES, *ON_GPU])
def test_the_text_of_a_fault_occurs_once(fault):
    env = gymnasium.make_vec(fault.env_id, device="cpu")
    assert fault.piece != fault.wrong
    assert kernel_source(env.unwrapped.env_spec).count(fault.piece) == 1
    env.close()
