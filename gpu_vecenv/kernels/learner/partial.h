// Sums of a team, in its columns of the partial sums.
#pragma once
#include "learner/heads.h"

// Writes a sum to its column, or adds it to those of earlier rows.
GV_FN void gv_write_sum(float& column, float sum, bool adds) { column = adds ? column + sum : sum; }

// Writes the sums of a layer of `units` x `from` weights to their columns; row 0 of the sums is unit `first`.
template <gv_i32 M, gv_i32 N>
GV_FN void gv_write_sums(const GvSpread<M, N>& sums, const GvGroup& group, float* columns, gv_i32 first, gv_i32 units, gv_i32 from,
                         float unscale, bool adds) {
    const auto store = [&](gv_i32 row, gv_i32 i, float sum) {
        const gv_i32 unit = first + row;
        if (unit < units && i < from) gv_write_sum(columns[unit * from + i], unscale * sum, adds);
    };
    const auto store_total = [&](gv_i32 row, float total) {
        const gv_i32 unit = first + row;
        if (unit < units) gv_write_sum(columns[units * from + unit], unscale * total, adds);
    };
    gv_each_sum(sums, group, store, store_total);
}

// Adds the terms of all lanes, 16 partial sums each, and writes them to their columns. `memory` is free.
template <class Head>
GV_FN void gv_write_terms(const Head& head, const GvLanes& team, float* memory, float* columns, bool adds) {
    GV_UNROLL for (gv_i32 i = 0; i < Head::TERMS; ++i) memory[i * team.lanes + team.lane] = gv_term(head, i);
    float* partial = memory + Head::TERMS * team.lanes;
    gv_barrier(team);
    GV_FOR(i, Head::TERMS * 16) {
        float sum = 0.0f;
        for (gv_i32 lane = i % 16; lane < team.lanes; lane += 16) sum += memory[i / 16 * team.lanes + lane];
        partial[i] = sum;
    }
    gv_barrier(team);
    GV_FOR(i, Head::TERMS) {
        float sum = 0.0f;
        for (gv_i32 p = 0; p < 16; ++p) sum += partial[16 * i + p];
        gv_write_sum(columns[i], sum, adds);
    }
}
