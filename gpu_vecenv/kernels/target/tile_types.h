// 16-bit numbers in the memory of a team, and tiles of them.
#pragma once
#include "target/target.h"

struct GvHalf;  // a 16-bit number in memory, IEEE 754's binary16; the host keeps it as a float

// Both layouts consist of matrices of 8 x 8 numbers. Their constants are distances in numbers: to the next ROW of a matrix, to the
// matrix on its RIGHT and to the one BELOW, and to the NEXT 16 rows. `at` is row and column 0, on a multiple of 16 bytes.

// 16-bit numbers in rows that are STRIDE numbers apart, a multiple of 8.
template <gv_i32 STRIDE>
struct GvTile {
    static constexpr gv_i32 ROW = STRIDE, RIGHT = 8, BELOW = 8 * STRIDE, NEXT = 16 * STRIDE;
    GvHalf* at;
};

// 16-bit numbers in stripes of 16 rows. Numbers of a matrix lie side by side, so that a warp reads or writes one as 128 bytes.
template <gv_i32 COLUMNS>
struct GvStripes {
    static_assert(COLUMNS % 16 == 0, "a stripe has pairs of matrices");
    static constexpr gv_i32 ROW = 8, RIGHT = 128, BELOW = 64, NEXT = 16 * COLUMNS;
    GvHalf* at;
};

// Place of a number relative to `at`.
template <class Layout>
GV_FN gv_i32 gv_place_of(gv_i32 row, gv_i32 column) {
    const gv_i32 matrix = row / 16 * Layout::NEXT + row % 16 / 8 * Layout::BELOW + column / 8 * Layout::RIGHT;
    return matrix + row % 8 * Layout::ROW + column % 8;
}

// Largest finite 16-bit number.
#define GV_LARGEST_HALF 65504.0f
