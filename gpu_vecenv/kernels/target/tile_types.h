// 16-bit numbers in the memory of a team, and tiles of them.
#pragma once
#include "target/target.h"

struct GvHalf;  // a 16-bit number in memory, IEEE 754's binary16; the host keeps it as a float

// 16-bit numbers in rows that are STRIDE numbers apart. Row and column 0 are at `at`, on a multiple of 16 bytes; STRIDE is a
// multiple of 8.
template <gv_i32 STRIDE>
struct GvTile {
    GvHalf* at;
};

// Largest finite 16-bit number.
#define GV_LARGEST_HALF 65504.0f
