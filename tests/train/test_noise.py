"""Random numbers of updates: an independent Philox, their distributions, and the counter in the state."""

import numpy as np
import pytest
import torch
from counters import philox

from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.train import CheckpointError, Noise

PURPOSE = 0xFAFE


def words(seed, count, rows, entries):
    """Return the four words of each entry's draw, uint64 (rows, entries, 4)."""
    row, entry = (x.astype(np.uint64) for x in np.indices((rows, entries)))
    number = [np.full_like(row, count % 2**32), np.full_like(row, count // 2**32)]
    last = np.uint64(PURPOSE << 16) | entry // np.uint64(4)
    return philox(np.full_like(row, seed % 2**64), [row, *number, last])


def uniform(word):
    return (word >> np.uint64(8)).astype(np.float64) / 2**24


@pytest.mark.parametrize(("seed", "count"), [(7, 0), (-3, 5), (2**63 - 1, 2**32 + 9)])
def test_numbers_are_those_of_an_independent_implementation(seed, count):
    rows, k = 300, 7
    noise = Noise(seed, rows, "cpu")
    noise.count.fill_(count)
    drawn, normal, below = noise.uniform(k), noise.normal(k), noise.integers(10**9)
    assert (drawn.dtype, normal.dtype, below.dtype) == (torch.float32, torch.float32, torch.int64)
    entry = np.arange(k) % 4
    mine = words(seed, count, rows, k)
    np.testing.assert_array_equal(drawn.numpy(), uniform(mine[:, np.arange(k), entry]))
    mine, pair = words(seed, count + 1, rows, k), np.arange(k) // 2 % 2 * 2
    radius = np.sqrt(-2 * np.log(1 - uniform(mine[:, np.arange(k), pair])))
    angle = 2 * np.pi * uniform(mine[:, np.arange(k), pair + 1])
    np.testing.assert_allclose(normal, radius * np.where(entry % 2, np.sin(angle), np.cos(angle)), rtol=0, atol=3e-6)
    high, low = words(seed, count + 2, rows, 1)[:, 0, :2].T.tolist()
    assert below.tolist() == [(a * 2**32 + b) * 10**9 >> 64 for a, b in zip(high, low, strict=True)]
    assert noise.count == count + 3


def test_numbers_are_uniform_and_new_in_each_draw():
    noise, rows = Noise(1, 60_000, "cpu"), 60_000
    first, second, filled = noise.integers(6), noise.integers(6), torch.tensor(3)
    counts = torch.bincount(6 * first + second, minlength=36).double()
    assert ((counts - rows / 36) ** 2 / (rows / 36)).sum() < 85  # chi-square with 35 degrees of freedom: 4e-6
    below = noise.integers(filled)
    assert below.min() == 0 and below.max() == 2 and not noise.integers(filled.zero_()).any()
    share = noise.uniform(5)
    counts = torch.histc(share, 100, 0.0, 1.0).double()
    assert ((counts - 3000) ** 2 / 3000).sum() < 170 and share.max() < 1  # 99 degrees of freedom
    normal = noise.normal(5).double()
    assert (torch.corrcoef(normal.T) - torch.eye(5)).abs().max() < 0.03
    assert abs(normal.mean()) < 0.01 and abs(normal.var() - 1) < 0.02


def test_numbers_may_have_an_array_of_their_own():
    new, given, out = Noise(3, 5, "cpu"), Noise(3, 5, "cpu"), torch.empty(5, 2)
    for _ in range(2):
        assert given.normal(2, out) is out and torch.equal(out, new.normal(2))
    with pytest.raises(ShapeError, match=r"out: expected 10 numbers, got an array of shape \(5, 3\)"):
        given.normal(2, torch.empty(5, 3))
    with pytest.raises(ArrayTypeError, match="out: expected numbers of torch.float32, got torch.float64"):
        given.normal(2, torch.empty(5, 2, dtype=torch.float64))


def test_a_state_goes_on_with_the_same_numbers():
    noise, other = Noise(5, 4, "cpu"), Noise(5, 4, "cpu")
    noise.normal(3)
    state = {"count": noise.state_dict()["count"].clone()}
    want = noise.normal(3)
    assert not torch.equal(other.normal(3), want)
    other.load_state_dict(state, "here")
    assert torch.equal(other.normal(3), want)
    with pytest.raises(CheckpointError, match="here"):
        other.load_state_dict({"count": torch.zeros(2)}, "here")


@pytest.mark.parametrize(
    ("draw", "text"),
    [
        (lambda: Noise(1, 0, "cpu"), "rows must be an integer from 1 to 2,147,483,647, got 0"),
        (lambda: Noise(1, 2, "cpu").normal(1025), "k must be an integer from 1 to 1,024, got 1025"),
        (lambda: Noise(1, 2, "cpu").uniform(0), "k must be an integer from 1 to 1,024, got 0"),
        (lambda: Noise(1, 2, "cpu").integers(2**31), "high must be an integer from 1 to 2,147,483,647, got 2147483648"),
    ],
)
def test_numbers_out_of_range_are_refused(draw, text):
    with pytest.raises(ParameterError, match=f"^Noise: {text}"):
        draw()
    with pytest.raises(ArrayTypeError, match="high must be torch.int64"):
        Noise(1, 2, "cpu").integers(torch.tensor(3.0))


@pytest.mark.gpu
def test_a_graph_draws_anew_and_has_the_bits_of_the_cpu():
    here, there = (Noise(9, 1000, device) for device in ("cpu", "cuda:0"))
    filled = torch.tensor(77, device="cuda:0")

    def draws(noise, high):
        return noise.normal(5), noise.uniform(6), noise.integers(high)

    for found, want in zip(draws(there, filled), draws(here, 77), strict=True):
        assert torch.equal(found.cpu(), want)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        drawn = draws(there, filled)
    for _ in range(3):
        graph.replay()
        for found, want in zip(drawn, draws(here, 77), strict=True):
            assert torch.equal(found.cpu(), want)
