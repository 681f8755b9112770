// Sums over the rows of a slice of arrays in stripes: the gradient of weights by derivatives and units in global memory.
#pragma once
#include "learner/tile.h"

// sums = a^T b and totals = a^T 1 for M columns of `deltas` from `first` on, and N columns of `units`, over the stages slice,
// slice + slices, ... A stage has GV_STAGE_ROWS rows. Some stages are loaded while another one is multiplied.
template <gv_i32 M, gv_i32 N, class Deltas, class Units>
GV_FN void gv_sum_slice(GvSpread<M, N>& sums, const GvLanes& team, gv_i32 slice, gv_i32 slices, gv_i32 stages, Deltas deltas,
                        gv_i32 first, Units units) {
    constexpr gv_i32 SIZE = GV_STAGE_ROWS * (M + N);
    const GvGroup group = gv_group(team);
    const auto place = [&](gv_i32 number) { return (GvHalf*)team.scratch + number % GV_STAGES * SIZE; };
    const auto start = [&](gv_i32 number) {
        const gv_i32 stage = slice + number * slices, row = stage * GV_STAGE_ROWS;
        if (stage < stages) {
            gv_start_stripes<GV_STAGE_ROWS>(team, GvStripes<M>{place(number)}, gv_part(deltas, row, first));
            gv_start_stripes<GV_STAGE_ROWS>(team, GvStripes<N>{place(number) + GV_STAGE_ROWS * M}, gv_part(units, row, 0));
        }
        gv_end_copies();
    };
    gv_clear(sums);
    for (gv_i32 number = 0; number < GV_STAGES - 1; ++number) start(number);
    GV_LOOP for (gv_i32 number = 0; slice + number * slices < stages; ++number) {
        gv_wait_copies<GV_STAGES - 2>();
        gv_barrier(team);  // the stage is there, and the one before it has been multiplied
        start(number + GV_STAGES - 1);
        const GvStripes<M> left = {place(number)};
        gv_add_columns<GV_STAGE_ROWS>(sums, group, left, GvStripes<N>{place(number) + GV_STAGE_ROWS * M});
    }
    gv_wait_copies<0>();
}
