// Rows of arrays: a world's state, an agent's observation.
#pragma once
#include "gv_device.h"

// n elements that move in as few accesses as their size allows.
template <class T, gv_i32 n>
struct alignas(n * sizeof(T) % 16 == 0 ? 16 : n * sizeof(T) % 8 == 0 ? 8 : n * sizeof(T) % 4 == 0 ? 4 : sizeof(T)) GvRow {
    T value[n];
};

// Write what the env will not read again: it is the first to leave the cache, in which the worlds' state then stays. Not for
// hooks: on CUDA `to` must be in global memory, and what they write to may be a variable of the lane.
template <class T>
GV_FN void gv_put(T* to, T value) {
#if defined(__CUDA_ARCH__)
    __stcs(to, value);
#else
    *to = value;
#endif
}

// Ask for what will be read some steps later: no register waits for it.
GV_FN void gv_prefetch(const void* address) {
#if defined(__CUDA_ARCH__)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#else
    (void)address;
#endif
}

// Write a row of n floats. Where `to` is a variable of the lane, it stays in registers, as the loop is unrolled.
template <gv_i32 n>
GV_FN void gv_put_row(float* to, const float (&values)[n]) {
    GV_UNROLL for (gv_i32 i = 0; i < n; ++i) to[i] = values[i];
}

// Whether rows of n floats can be written in as few stores as their size allows: arrays that callers bind may lie anywhere.
template <gv_i32 n>
GV_FN bool gv_lies_well(const float* table) {
    return (gv_u64)table % (n % 4 == 0 ? 16 : n % 2 == 0 ? 8 : 4) == 0;
}

// Write row number `row` of a table of n floats a row past the cache, as gv_put.
template <gv_i32 n>
GV_FN void gv_stream_row(float* table, gv_i64 row, const float (&values)[n], bool lies_well) {
    float* to = table + row * n;
#if defined(__CUDA_ARCH__)
    if (n % 4 == 0 && lies_well) {
        for (gv_i32 i = 0; i < n; i += 4) __stcs((float4*)(to + i), make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]));
        return;
    }
    if (n % 2 == 0 && lies_well) {
        for (gv_i32 i = 0; i < n; i += 2) __stcs((float2*)(to + i), make_float2(values[i], values[i + 1]));
        return;
    }
#endif
    for (gv_i32 i = 0; i < n; ++i) gv_put(to + i, values[i]);
}

// Where to gather floats that gv_write_out copies to `to`: as far behind a 16-byte boundary as those go. Takes up to 3 more.
GV_FN float* gv_gather_at(float* aligned, const float* to) { return aligned + ((gv_u64)to / sizeof(float) & 3); }

// Copy n gathered floats to where they go, whole lines at a time: to write a part of a 32-byte sector costs a GPU far more.
GV_FN void gv_write_out(const GvTeam& team, const float* gathered, float* to, gv_i32 n) {
    typedef GvRow<float, 4> Quad;
    const gv_i32 line = team.lanes < 32 ? 4 : 32, past = (gv_i32)((gv_u64)to / sizeof(float)) & (line - 1);
    const gv_i32 head = past == 0 ? 0 : line - past < n ? line - past : n, quads = (n - head) / 4;
    GV_LOOP GV_FOR(i, head) to[i] = gathered[i];
    const Quad* from = (const Quad*)(gathered + head);
    Quad* lines = (Quad*)(to + head);
    GV_LOOP for (gv_u32 i = team.lane; i < (gv_u32)quads; i += team.lanes) lines[i] = from[i];
    GV_LOOP GV_FOR(i, n - head - 4 * quads) to[head + 4 * quads + i] = gathered[head + 4 * quads + i];
}

// Overwrite the n elements of this world by those of row `from` of the array at `source`; 0 leaves them as they are.
template <class T>
GV_FN void gv_take_row(const GvTeam& team, T* field, gv_u64 source, gv_i64 from, gv_i32 n) {
    if (source != 0) {
        GV_FOR(i, n) field[(gv_i64)team.world * n + i] = ((const T*)source)[from * n + i];
    }
}
