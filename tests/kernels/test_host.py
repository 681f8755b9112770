"""Functions that only the host's build has, compared with NumPy."""

import ctypes

import numpy as np
import pytest

GUARD = 0xABCD


@pytest.mark.parametrize("count", [*range(35), 63, 64, 65, 287])
def test_rank_sort_orders_by_key(call, count):
    generator = np.random.default_rng(count)
    for high in (2, 2**31 - 1):  # many keys, or few, differ in their lower half only
        upper, lower = generator.integers(0, high, count), generator.permutation(2**16)[:count]
        keys = np.full((count + 15) // 16 * 16, -1, np.int64)
        keys[:count] = upper << 32 | lower
        ordered = np.full(count + 2, GUARD, np.uint16)
        expected = lower[np.lexsort((lower, upper))]
        call.of_host("rank_sort_of", keys, count, ordered)
        np.testing.assert_array_equal(ordered[:count], expected)
        assert ordered[count + 1] == GUARD


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("count", [1, 7, 8, 33, 10_001])
def test_max_index_finds_one_invalid_index_anywhere(call, count, dtype):
    indices = np.random.default_rng(count).integers(0, 21, count).astype(dtype)

    def max_index():
        return call.of_host("gv_max_index", indices, count, indices.itemsize, result=ctypes.c_uint64)

    assert max_index() == indices.max()
    bits = 8 * indices.itemsize
    for place in (0, count // 2, count - 1):
        kept = indices[place]
        for bad in (21, -1, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1):
            indices[place] = bad
            assert max_index() == bad % 2**bits
        indices[place] = kept
