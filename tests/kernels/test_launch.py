"""How kernels are launched on a GPU, as far as no GPU is needed to tell."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_vecenv.backend.cuda import block_shape, rollout_block
from gpu_vecenv.backend.overlap import may_overlap
from gpu_vecenv.errors import ParameterError


def test_who_is_asked_to_overlap_launches():
    drivers = (12020, 12030, 13000)
    asked = {(major, driver) for major in (7, 8, 9, 10, 12) for driver in drivers if may_overlap((major, 0), driver)}
    assert asked == {(9, 12030), (9, 13000)}


@given(st.integers(1, 2**31 - 1), st.sampled_from([64, 128, 768, 1024]), st.integers(1, 200))
def test_rollouts_load_all_multiprocessors_alike(worlds, most, multiprocessors):
    threads = rollout_block(worlds, most, multiprocessors)
    assert 32 <= threads <= most and threads % 32 == 0
    rounds = ceil(worlds / (most * multiprocessors))
    blocks = rounds * multiprocessors * (1 if rounds == 1 else 2)
    assert ceil(worlds / threads) <= blocks  # all are done in as many rounds
    assert threads == 32 or ceil(worlds / (threads - 32)) > blocks  # and with smaller blocks would not be


def test_few_worlds_are_spread_out_and_many_come_in_two_blocks_a_round():
    sizes = {1: 32, 1_000: 32, 10_000: 96, 100_000: 768, 101_376: 768, 150_000: 288, 200_000: 384, 1_000_000: 384}
    assert {worlds: rollout_block(worlds, 768, 132) for worlds in sizes} == sizes


def test_a_block_size_that_is_asked_for(monkeypatch):
    monkeypatch.setenv("GPU_VECENV_BLOCK_SIZE", "64")
    for part in (0, 1):
        assert [block_shape(agents, part) for agents in (1, 4, 105)] == [(1, 64), (4, 16), (64, 1)]
    monkeypatch.setenv("GPU_VECENV_BLOCK_SIZE", "768")
    with pytest.raises(ParameterError, match="must be a power of two from 32 to 1024, got '768'"):
        block_shape(1, 0)
