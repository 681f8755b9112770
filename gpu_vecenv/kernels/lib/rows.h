// Rows of several agents, written by a team so that memory moves in whole sectors of 32 bytes.
#pragma once
#include "lib/vec.h"

// Runs body(row, column) for every row and column of a table, distributed over the lanes in the order of memory. If whole rows
// fill at least 7/8 of the lanes, each lane keeps one column, so values that depend on the column alone are computed once.
template <class Body>
GV_FN void gv_for_table(const GvTeam& team, gv_i32 rows, gv_i32 columns, Body body) {
    const gv_i32 step = team.lanes / columns, rest = team.lanes - step * columns;  // rows and columns to a lane's next call
    gv_i32 row = team.lane / columns, column = team.lane - row * columns;
    if (8 * rest <= team.lanes) {
        GV_LOOP for (gv_i32 end = row < step ? rows : 0; row < end; row += step) body(row, column);
        return;
    }
    GV_LOOP while (row < rows) {
        body(row, column);
        row += step;
        column += rest;
        if (column >= columns) {
            column -= columns;
            ++row;
        }
    }
}

// Runs store(k, load(k)) for k = 0 .. n - 1, distributed over the lanes. A lane makes up to `batch` loads before it stores the first
// value, so that they wait for memory at the same time.
template <gv_i32 batch, class Load, class Store>
GV_FN void gv_for_batches(const GvTeam& team, gv_i32 n, Load load, Store store) {
    decltype(load(0)) values[batch];
    gv_i32 first = team.lane, rest = n;
    GV_LOOP for (; rest >= batch * team.lanes; rest -= batch * team.lanes) {  // in whole batches nothing is compared
        GV_UNROLL for (gv_i32 b = 0; b < batch; ++b) values[b] = load(first + b * team.lanes);
        GV_UNROLL for (gv_i32 b = 0; b < batch; ++b) store(first + b * team.lanes, values[b]);
        first += batch * team.lanes;
    }
    GV_UNROLL for (gv_i32 b = 0; b < batch; ++b) {
        if (first + b * team.lanes < n) values[b] = load(first + b * team.lanes);
    }
    GV_UNROLL for (gv_i32 b = 0; b < batch; ++b) {
        if (first + b * team.lanes < n) store(first + b * team.lanes, values[b]);
    }
}

// The four bytes from an address on, which need not be aligned, as a word. Reads the aligned words around them.
GV_FN gv_u32 gv_load_word(const gv_u8* from) {
    const gv_u32* const words = (const gv_u32*)((gv_u64)from & ~(gv_u64)3);
    const gv_u32 shift = 8 * ((gv_u32)(gv_u64)from & 3);
    return shift == 0 ? words[0] : words[0] >> shift | words[1] << (32 - shift);
}

// Copies n bytes to scratch, on a GPU in words; `to` has room for 3 more.
GV_FN void gv_copy_bytes_in(const GvTeam& team, const gv_u8* from, gv_i32 n, gv_u8* to) {
    if constexpr (GV_VECTOR_STORES) {
        gv_u32* const words = (gv_u32*)to;
        gv_for_batches<8>(team, (n + 3) / 4, [&](gv_i32 k) { return gv_load_word(from + 4 * k); },
                          [&](gv_i32 k, gv_u32 word) { words[k] = word; });
    } else {
        GV_FOR(k, n) to[k] = from[k];
    }
}

// Writes the same n floats to each of several rows, which are `stride` floats apart. A lane loads up to `held` of them at a time and
// keeps them in registers for all rows.
template <gv_i32 held>
GV_FN void gv_repeat_in_rows(const GvTeam& team, const float* from, gv_i32 n, float* to, gv_i32 rows, gv_i32 stride) {
    float values[held];
    gv_i32 first = team.lane, rest = n;
    GV_LOOP for (; rest >= held * team.lanes; rest -= held * team.lanes) {  // as above
        GV_UNROLL for (gv_i32 b = 0; b < held; ++b) values[b] = from[first + b * team.lanes];
        float* at = to + first;
        GV_LOOP for (gv_i32 row = 0; row < rows; ++row, at += stride) {
            GV_UNROLL for (gv_i32 b = 0; b < held; ++b) at[b * team.lanes] = values[b];
        }
        first += held * team.lanes;
    }
    GV_UNROLL for (gv_i32 b = 0; b < held; ++b) values[b] = first + b * team.lanes < n ? from[first + b * team.lanes] : 0.0f;
    float* at = to + first;
    GV_LOOP for (gv_i32 row = 0; row < rows; ++row, at += stride) {
        GV_UNROLL for (gv_i32 b = 0; b < held; ++b) {
            if (first + b * team.lanes < n) at[b * team.lanes] = values[b];
        }
    }
}

// Address in scratch at which to gather floats that gv_copy_out copies to `to`. Both addresses have the same distance from a
// 16-byte boundary. `scratch` must be 16-byte aligned and have room for 3 more floats than are gathered.
GV_FN float* gv_gather_address(float* scratch, const float* to) { return scratch + ((gv_u64)to / sizeof(float) & 3); }

// Copies n gathered floats to `to`. All but the ends are written in vectors of 16 bytes, by large teams from a 128-byte boundary
// on, because partly written sectors cost a GPU far more than whole ones. Teams that share a warp copy together if they can; they
// pass the same n and the same place in scratch. A barrier must precede, and another one the next write to what was gathered.
GV_FN void gv_copy_out(const GvTeam& team, const float* gathered, float* to, gv_i32 n) {
    typedef GvVec<float, 4> Quad;
    if (gv_copy_out_together(team, gathered, to, n)) return;
    const gv_i32 line = team.lanes < 32 ? 4 : 32, offset = (gv_i32)((gv_u64)to / sizeof(float)) & (line - 1);
    const gv_i32 head = offset == 0 ? 0 : line - offset < n ? line - offset : n, quads = (n - head) / 4;
    GV_LOOP GV_FOR(i, head) to[i] = gathered[i];
    const Quad* from = (const Quad*)(gathered + head);
    Quad* to_quads = (Quad*)(to + head);
    GV_LOOP for (gv_u32 i = team.lane; i < (gv_u32)quads; i += team.lanes) to_quads[i] = from[i];
    GV_LOOP GV_FOR(i, n - head - 4 * quads) to[head + 4 * quads + i] = gathered[head + 4 * quads + i];
}
