// Rows of a group at work, and where their results lie.
#pragma once
#include "learner/loss.h"
#include "learner/rows.h"

// Rows of a group in a tile: the first one, their number, and their outputs.
struct GvOwn {
    float* outputs;  // [GV_OWN, GV_OUTPUT_STRIDE]
    gv_i32 first, rows;
};

GV_FN gv_i64 gv_place(const GvArgs& a, const GvSlab& slab, gv_i32 row) { return gv_place_in(slab, row, a.samples_per_step); }
GV_FN float& gv_log_prob_of(const GvArgs& a, gv_i32 row) { return ((float*)a.log_prob.at)[gv_place(a, a.log_prob, row)]; }
