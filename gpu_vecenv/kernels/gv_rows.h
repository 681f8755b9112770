// Rows of arrays: a world's state, an agent's observation.
#pragma once
#include "gv_device.h"

// n elements that move in as few accesses as their size allows.
template <class T, gv_i32 n>
struct alignas(n * sizeof(T) % 16 == 0 ? 16 : n * sizeof(T) % 8 == 0 ? 8 : sizeof(T)) GvRow {
    T value[n];
};

// Write a row of n floats; `to` may lie anywhere, as callers bind arrays of their own.
template <gv_i32 n>
GV_FN void gv_put_row(float* to, const float (&values)[n]) {
    GvRow<float, n> row;
    for (gv_i32 i = 0; i < n; ++i) row.value[i] = values[i];
    if ((gv_u64)to % alignof(GvRow<float, n>) == 0) {
        *(GvRow<float, n>*)to = row;
    } else {
        for (gv_i32 i = 0; i < n; ++i) to[i] = row.value[i];
    }
}

// Overwrite the n elements of this world by those of row `from` of the array at `source`; 0 leaves them as they are.
template <class T>
GV_FN void gv_take_row(const GvTeam& team, T* field, gv_u64 source, gv_i64 from, gv_i32 n) {
    if (source != 0) {
        GV_FOR(i, n) field[(gv_i64)team.world * n + i] = ((const T*)source)[from * n + i];
    }
}
