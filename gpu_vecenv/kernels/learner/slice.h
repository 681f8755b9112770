// Sums over the rows of a slice of arrays in stripes: the gradient of weights by derivatives and units in global memory.
#pragma once
#include "learner/tile.h"

// True for all stages of a slice; a type with ALL = false reads flags of stages.
struct GvAllStages {
    static constexpr bool ALL = true;
    GV_METHOD gv_i32 operator()(gv_i32) const { return 1; }
};

// Calls add(memory) for the stages slice, slice + slices, ..., of ROWS rows each. start(memory, row) starts the copies of the stage
// that begins with a row; those of STAGES - 1 stages are in flight while another one is added. A stage has SIZE numbers of 16 bits.
// Stages for which wanted(stage) is 0 are left out. Their flags are loaded one stage before they are used.
template <gv_i32 STAGES, gv_i32 SIZE, gv_i32 ROWS, class Start, class Add, class Wanted = GvAllStages>
GV_FN void gv_each_stage(const GvLanes& team, gv_i32 slice, gv_i32 slices, gv_i32 stages, Start start, Add add,
                         Wanted wanted = {}) {
    const auto place = [&](gv_i32 number) { return (GvHalf*)team.scratch + number % STAGES * SIZE; };
    const auto stage_of = [&](gv_i32 number) { return slice + number * slices; };
    const auto flag_of = [&](gv_i32 number) { return stage_of(number) < stages ? wanted(stage_of(number)) : 0; };
    const auto begin = [&](gv_i32 number, gv_i32 flag) {
        if (flag != 0) start(place(number), stage_of(number) * ROWS);
        gv_end_copies();
    };
    gv_u32 flags = 0;  // bit k: that of stage `number` + k
    for (gv_i32 number = 0; number < STAGES - 1; ++number) {
        const gv_i32 flag = flag_of(number);
        begin(number, flag);
        flags |= (flag != 0 ? 1u : 0u) << number;
    }
    gv_i32 coming = Wanted::ALL ? 0 : flag_of(STAGES - 1);
    GV_LOOP for (gv_i32 number = 0; stage_of(number) < stages; ++number) {
        gv_wait_copies<STAGES - 2>();
        gv_barrier(team);  // the stage is there, and the one before it has been multiplied
        if constexpr (Wanted::ALL) {
            begin(number + STAGES - 1, flag_of(number + STAGES - 1));
            add(place(number));
        } else {
            begin(number + STAGES - 1, coming);
            flags |= (coming != 0 ? 1u : 0u) << (STAGES - 1);
            coming = flag_of(number + STAGES);
            if ((flags & 1) != 0) add(place(number));
            flags >>= 1;
        }
    }
    gv_wait_copies<0>();
}

// sums = a^T b and totals = a^T 1 for M columns of `deltas` from `first` on, and N columns of `units`, over the stages slice,
// slice + slices, ... A stage has GV_STAGE_ROWS rows. Some stages are loaded while another one is multiplied. See gv_each_stage()
// about `wanted`.
template <gv_i32 M, gv_i32 N, class Deltas, class Units, class Wanted = GvAllStages>
GV_FN void gv_sum_slice(GvSpread<M, N>& sums, const GvLanes& team, gv_i32 slice, gv_i32 slices, gv_i32 stages, Deltas deltas,
                        gv_i32 first, Units units, Wanted wanted = {}) {
    const GvGroup group = gv_group(team);
    const auto start = [&](GvHalf* memory, gv_i32 row) {
        gv_start_stripes<GV_STAGE_ROWS>(team, GvStripes<M>{memory}, gv_part(deltas, row, first));
        gv_start_stripes<GV_STAGE_ROWS>(team, GvStripes<N>{memory + GV_STAGE_ROWS * M}, gv_part(units, row, 0));
    };
    const auto add = [&](GvHalf* memory) {
        const GvStripes<M> left = {memory};
        gv_add_columns<GV_STAGE_ROWS>(sums, group, left, GvStripes<N>{memory + GV_STAGE_ROWS * M});
    };
    gv_clear(sums);
    gv_each_stage<GV_STAGES, GV_STAGE_ROWS*(M + N), GV_STAGE_ROWS>(team, slice, slices, stages, start, add, wanted);
}
