// Sums of a team, in its columns of the partial sums.
#pragma once
#include "learner/heads.h"

// Writes a sum to its column, or adds it to those of earlier rows.
GV_FN void gv_write_sum(float& column, float sum, bool adds) { column = adds ? column + sum : sum; }

GV_FN gv_i32 gv_same_unit(gv_i32 row) { return row; }

// Writes the sums of a layer of `units` x `from` weights to their columns; row 0 of the sums is unit unit_of(first), and so on. A
// row whose unit is -1 or not below `units` belongs to none.
template <gv_i32 M, gv_i32 N, class UnitOf>
GV_FN void gv_write_sums(const GvSpread<M, N>& sums, const GvGroup& group, float* columns, gv_i32 first, gv_i32 units, gv_i32 from,
                         float unscale, bool adds, UnitOf unit_of) {
    const auto store = [&](gv_i32 row, gv_i32 i, float sum) {
        const gv_i32 unit = unit_of(first + row);
        if (unit >= 0 && unit < units && i < from) gv_write_sum(columns[unit * from + i], unscale * sum, adds);
    };
    const auto store_total = [&](gv_i32 row, float total) {
        const gv_i32 unit = unit_of(first + row);
        if (unit >= 0 && unit < units) gv_write_sum(columns[units * from + unit], unscale * total, adds);
    };
    gv_each_sum(sums, group, store, store_total);
}

template <gv_i32 M, gv_i32 N>
GV_FN void gv_write_sums(const GvSpread<M, N>& sums, const GvGroup& group, float* columns, gv_i32 first, gv_i32 units, gv_i32 from,
                         float unscale, bool adds) {
    gv_write_sums(sums, group, columns, first, units, from, unscale, adds, gv_same_unit);
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
