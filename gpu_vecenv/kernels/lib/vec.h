// Vectors of n elements that move in as few accesses as their size allows, and rows of floats made from them.
#pragma once
#include "target/target.h"

template <class T, gv_i32 n>
struct alignas(n * sizeof(T) % 16 == 0 ? 16 : n * sizeof(T) % 8 == 0 ? 8 : n * sizeof(T) % 4 == 0 ? 4 : sizeof(T)) GvVec {
    T value[n];
};

// Writes a row of n floats. The loop is unrolled, so that a row in a variable of the lane stays in registers.
template <gv_i32 n>
GV_INLINE void gv_write_row(float* to, const float (&values)[n]) {
    GV_UNROLL for (gv_i32 i = 0; i < n; ++i) to[i] = values[i];
}

// True if the address of a table allows vector stores of its rows of n floats. Callers may bind arrays at any address.
template <gv_i32 n>
GV_INLINE bool gv_is_aligned(const float* table) {
    return (gv_u64)table % (n % 4 == 0 ? 16 : n % 2 == 0 ? 8 : 4) == 0;
}

// The same, in vectors where they pay and the address allows them.
template <gv_i32 n>
GV_INLINE void gv_write_row(float* to, const float (&values)[n], bool aligned) {
    if (GV_VECTOR_STORES && aligned) {
        GvVec<float, n> row;
        GV_UNROLL for (gv_i32 i = 0; i < n; ++i) row.value[i] = values[i];
        *(GvVec<float, n>*)to = row;
    } else {
        gv_write_row(to, values);
    }
}

// Writes row number `row` of a table in global memory, n floats a row, with the evict-first policy.
template <gv_i32 n>
GV_INLINE void gv_store_row_once(float* table, gv_i64 row, const float (&values)[n], bool aligned) {
    float* to = table + row * n;
    if constexpr (GV_VECTOR_STORES && n % 4 == 0) {
        if (aligned) {
            for (gv_i32 i = 0; i < n; i += 4) gv_store_once(to + i, values[i], values[i + 1], values[i + 2], values[i + 3]);
            return;
        }
    }
    if constexpr (GV_VECTOR_STORES && n % 2 == 0) {
        if (aligned) {
            for (gv_i32 i = 0; i < n; i += 2) gv_store_once(to + i, values[i], values[i + 1]);
            return;
        }
    }
    for (gv_i32 i = 0; i < n; ++i) gv_store_once(to + i, values[i]);
}
