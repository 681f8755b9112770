// Sorting on the host, in vector registers.
#pragma once
#include "target/target.h"

#define GV_KEYS 16  // keys whose rank is counted in one pass

// Rank sort: a key's index is the number of smaller keys. Writes the lower 16 bits of `count` different keys to `ordered`, in the
// order of the keys, without a branch. `keys` must have room for `count` rounded up to a multiple of GV_KEYS, which is filled with
// padding; `ordered` for `count` + 1, because all padding is written to the last index.
GV_FN void gv_rank_sort(gv_i64* keys, gv_i32 count, gv_u16* ordered) {
    typedef gv_i64 Four __attribute__((vector_size(32), aligned(8)));
    const gv_i32 padded = (count + GV_KEYS - 1) / GV_KEYS * GV_KEYS;
    for (gv_i32 i = count; i < padded; ++i) keys[i] = 0x7fffffffffffffff;
    for (gv_i32 first = 0; first < padded; first += GV_KEYS) {
        Four smaller[GV_KEYS / 4] = {};
        for (gv_i32 i = 0; i < count; ++i) {
            const Four other = {keys[i], keys[i], keys[i], keys[i]};
            for (gv_i32 four = 0; four < GV_KEYS / 4; ++four) {
                smaller[four] -= other < *(const Four*)(keys + first + 4 * four);  // true is -1 in each element
            }
        }
        for (gv_i32 i = 0; i < GV_KEYS; ++i) ordered[smaller[i / 4][i % 4]] = (gv_u16)keys[first + i];
    }
}
