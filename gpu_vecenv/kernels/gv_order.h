// Ordering on the host, where a team is one lane.
#pragma once
#include "gv_device.h"

#define GV_KEYS 16  // ordered at a time

// Put the lower 16 bits of `count` different keys into the order of the keys. Each goes where as many come before it as do, which
// is counted side by side in vector registers and without a branch. `keys` has room up to a multiple of GV_KEYS, `ordered` for
// one more than keys.
GV_FN void gv_order(gv_i64* keys, gv_i32 count, gv_u16* ordered) {
    typedef gv_i64 Four __attribute__((vector_size(32), aligned(8)));
    const gv_i32 padded = (count + GV_KEYS - 1) / GV_KEYS * GV_KEYS;
    for (gv_i32 i = count; i < padded; ++i) keys[i] = 0x7fffffffffffffff;
    for (gv_i32 first = 0; first < padded; first += GV_KEYS) {
        Four before[GV_KEYS / 4] = {};
        for (gv_i32 i = 0; i < padded; ++i) {
            const Four other = {keys[i], keys[i], keys[i], keys[i]};
            for (gv_i32 part = 0; part < GV_KEYS / 4; ++part) before[part] -= other < *(const Four*)(keys + first + 4 * part);
        }
        for (gv_i32 i = 0; i < GV_KEYS; ++i) ordered[before[i / 4][i % 4]] = (gv_u16)keys[first + i];
    }
}
