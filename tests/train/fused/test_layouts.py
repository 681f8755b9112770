"""Places in the memory of a block: arrays do not overlap and fit. Sizes of the arrays are counted here, row by row."""

import itertools

import pytest

from gpu_vecenv.train.fused.tile_plan import Sizes, update_program

SIZES = [
    Sizes(4, (64, 64), "tanh", 2, (2,)),
    Sizes(71, (64, 24, 8), "relu", 42, (21, 21), (0, 21), rows=64),
    Sizes(64, (64, 64), "tanh", 11, (11,), (0,), staged=True),
    Sizes(3, (40,), "elu", 5, None),
    Sizes(75, (256, 136), "tanh", 42, (21, 21), split=True),
    Sizes(9, (64, 40), "tanh", 375, (10, 2, 7, 1, 33, 10, 10, 2) * 5, (0,) * 40, split=True, head_columns=64),
]


def padded(count, multiple):
    return next(number for number in itertools.count(0, multiple) if number >= count)


def row(columns):
    """Numbers of a row of a tile: at least its columns, and an odd number of eights."""
    return next(8 * eights for eights in itertools.count(1, 2) if 8 * eights >= columns)


def assert_apart(arrays, size):
    """Assert that arrays, given by their first number and their size, follow each other within a memory."""
    arrays = sorted(arrays)
    for (first, count), (following, _) in itertools.pairwise([*arrays, (size, 0)]):
        assert first + count <= following


def floats_of(sizes):
    outputs = 1 if sizes.head_columns else sizes.outputs  # biases of many heads come with their chunks
    return sum(padded(units, 16) for units in sizes.hidden) + padded(outputs, 8) + 3 * sizes.features


def floats_of_heads(sizes, places, of_row):
    """Biases of two chunks; of each row some floats, four of places and one for each 32 outputs of a chunk; flags of chunks."""
    columns = sizes.head_columns
    if not columns:
        return []
    assert places["HEAD_ROWS"] % 2 == 0
    rows = (places["HEAD_ROWS"], sizes.rows * (of_row + 4 + columns // 32))
    return [(places["HEAD_BIASES"], 2 * columns), rows, (places["HEAD_NEXT"], (1 + sizes.rows // 16) * len(sizes.chunks) + 1)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_floats_of_a_block_do_not_overlap(sizes):
    update, act = sizes.update_memory, sizes.act_memory
    outputs = sizes.rows * ((sizes.head_columns or sizes.outputs) | 1)
    features = sizes.features if (sizes.features <= 32 or sizes.staged) and not sizes.split else 0
    staged = 4 + (sizes.entries if sizes.entries <= 4 else 1) + features
    prefetch = update.places["PREFETCH"]
    assert prefetch % 4 == 0
    taken = sizes.rows * min(6, max((len(chunk) for chunk in sizes.chunks), default=0))
    more = [(prefetch, sizes.rows * staged + 7), (update.places["HEAD_TAKEN"], taken)]
    for memory, of_row, others in ((update, 2, more), (act, 6, [])):  # a row has a count and a push, or counters
        heads = floats_of_heads(sizes, memory.places, of_row)
        assert_apart([(0, floats_of(sizes)), (memory.places["OUTPUTS"], outputs), *heads, *others], memory.floats)


def test_weights_of_chunks_do_not_overlap():
    """High and low parts of two chunks are behind the layers between the first and the last; derivatives follow in an update."""
    sizes = SIZES[-1]
    chunk, widths = 2 * 64 * row(48), [padded(units, 16) for units in sizes.hidden]
    arrays = [(0, widths[1] * row(widths[0])), (sizes.act_memory.places["HEAD_WEIGHTS"], 2 * chunk)]
    assert_apart(arrays, sizes.act_memory.halves)
    update = sizes.update_memory
    assert update.places["HEAD_WEIGHTS"] == sizes.act_memory.places["HEAD_WEIGHTS"]
    assert_apart([*arrays, (update.places["DELTAS"], sizes.rows * row(64))], update.halves)
    # Words of a row's mask, and of a tile of the gradient no more outputs than a chunk has.
    assert sizes.mask_words == 2 * len(sizes.chunks) and sizes.packed_halves == chunk * len(sizes.chunks)


@pytest.mark.parametrize("sizes", [sizes for sizes in SIZES if not sizes.split], ids=str)
def test_weights_and_tiles_of_an_update_do_not_overlap(sizes):
    widths = [padded(units, 16) for units in sizes.hidden]
    features, last = row(padded(2 * sizes.features, 16)), padded(sizes.outputs, 16)
    strides = [row(padded(2 * sizes.features, 16) + padded(sizes.features, 16)), *map(row, widths)]
    arrays = [(at, width * stride) for at, width, stride in zip(sizes.weights_at[1:], widths, strides, strict=False)]
    arrays.append((sizes.weights_at[-1], (last + padded(sizes.outputs, 8)) * strides[-1]))
    tiles = sizes.update_memory.places["TILES"]
    arrays.append((tiles, sizes.rows * features))
    arrays += [(tiles + at, 2 * sizes.rows * row(width)) for at, width in zip(sizes.units_at[1:], widths, strict=False)]
    arrays.append((tiles + sizes.units_at[-1], sizes.rows * row(last)))
    assert_apart(arrays, sizes.update_memory.halves)


def test_arrays_of_the_sums_of_a_team_do_not_overlap():
    """Weights above the first layer, of the actor's last one high and low parts, derivatives by outputs, arrays of layers."""
    sizes = Sizes(735, (64, 24), "tanh", 42, (21, 21), split=True, wide=True, stages=3).of_update
    assert sizes.team_sums
    places, rows = sizes.update_memory.places, sizes.rows
    weights = 32 * row(64) + 2 * 48 * row(32)  # 24 units in memory for 32
    arrays = [(0, weights), (places["DELTAS"], rows * 48), (places["TEAM_ARRAYS"], 2 * rows * (64 + 32))]
    assert_apart(arrays, sizes.update_memory.halves)


def test_kernels_get_places_as_macros():
    sizes = SIZES[1]
    macros, memory = update_program(sizes).macros, sizes.update_memory
    assert (macros["HALVES"], macros["FLOATS"]) == (memory.halves, memory.floats)
    assert macros["PREFETCH_AT"] == memory.places["PREFETCH"]
    assert macros["WEIGHTS_AT"] == "{" + ", ".join(map(str, sizes.weights_at)) + "}"
    assert macros["ACTIVATION"] == "GV_RELU" and macros["RELU"] != macros["TANH"]
