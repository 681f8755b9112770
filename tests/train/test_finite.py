"""The search for numbers that are not finite, compared with torch's."""

import math

import pytest
import torch

from gpu_vecenv.errors import ArrayTypeError
from gpu_vecenv.train.runner.finite import CHUNK, EXPONENTS, FiniteSearch

CPU = torch.device("cpu")


def found(*states):
    flags = torch.zeros(len(states))
    FiniteSearch(states, CPU)(flags)
    return flags.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", EXPONENTS, ids=str)
def test_every_pattern_of_bits_is_judged_as_by_torch(dtype):
    """All patterns of up to 16 bits; those of larger floats have them in front."""
    size = dtype.itemsize
    bits = torch.arange(1 << min(8 * size, 16)) << max(8 * size - 16, 0)
    values = bits.to({1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.int64}[size]).view(dtype)
    want = (~values.to(torch.float64).isfinite()).float().tolist()
    flags = torch.zeros(len(values))
    FiniteSearch([[value] for value in values], CPU)(flags)
    assert flags.tolist() == want
    assert 0.0 in want and 1.0 in want


@pytest.mark.parametrize("size", [1, CHUNK - 1, CHUNK, 2 * CHUNK + 5])
@pytest.mark.parametrize("place", [0, -1])
def test_a_number_is_found_in_any_chunk_of_its_state(size, place):
    x = torch.full((size,), torch.finfo(torch.float32).max)
    assert found([x, x.double()], [], [x.half().fill_(1.0)]) == [0.0, 0.0, 0.0]
    nonfinite = x.clone()
    nonfinite[place] = -math.inf
    assert found([x], [x, nonfinite], [x]) == [0.0, 1.0, 0.0]


def test_gaps_between_numbers_are_not_read():
    whole = torch.zeros(6, 5, 4)
    whole[:, 2], whole[1] = math.nan, math.nan
    for part in (whole[2:, :2], whole[2:, 3:, ::2], whole[2:].permute(1, 2, 0)[1], whole[0, 0, :1].expand(9), whole[:0]):
        assert found([part]) == [0.0]
    for part in (whole[2:, 1:3], whole.permute(1, 2, 0), whole[:, 0, 3], whole[5, 2, 1].expand(9)):
        assert found([part]) == [1.0]


def test_present_numbers_are_read_and_flags_are_not_cleared():
    x, flags = torch.zeros(3), torch.tensor([0.0, 1.0])
    search = FiniteSearch([[x], [x]], CPU)
    search(flags)
    assert flags.tolist() == [0.0, 1.0]
    x[2] = math.nan
    search(flags)
    assert flags.tolist() == [1.0, 1.0]


def test_other_devices_are_left_out_and_other_dtypes_are_refused():
    assert found([torch.zeros(2, device="meta")], []) == [0.0, 0.0]
    with pytest.raises(ArrayTypeError, match="expected one of .*, got torch.float8_e4m3fnuz"):
        FiniteSearch([[torch.zeros(2, dtype=torch.float8_e4m3fnuz)]], CPU)
