// Layout of the sums of an update in memory.
#pragma once
#include "learner/loss.h"
#include "learner/rows.h"

#ifdef GV_CHOICES
#define GV_SPREADS 0
#else
#define GV_SPREADS GV_ENTRIES  // derivatives by log_std
#endif
#ifndef GV_TWO_COUNTS
#define GV_TWO_COUNTS 0  // 1 if masks can leave a row without a choice: the critic counts rows that the actor does not
#endif
#define GV_TENSORS (4 * GV_LAST + (GV_SPREADS > 0 ? 1 : 0))

// Columns of a network's sums: weights and bias of each layer in turn, then log_std.
GV_FN constexpr gv_i32 gv_weight_column(gv_i32 layer) {
    return layer == 1 ? 0 : gv_weight_column(layer - 1) + gv_units(layer - 1) * (gv_units(layer - 2) + 1);
}
GV_FN constexpr gv_i32 gv_columns_of(gv_i32 outputs, gv_i32 spreads) {
    return gv_weight_column(GV_LAST) + outputs * (gv_units(GV_LAYERS) + 1) + spreads;
}
#define GV_ACTOR_WEIGHTS gv_columns_of(GV_OUTPUTS, GV_SPREADS)
#define GV_CRITIC_WEIGHTS gv_columns_of(1, 0)
#define GV_ACTOR_COLUMNS (GV_ACTOR_WEIGHTS + 5)  // and policy loss, entropy, kl, clip fraction, rows with a choice
#define GV_CRITIC_COLUMNS (GV_CRITIC_WEIGHTS + 1 + GV_TWO_COUNTS)  // and value loss; rows if those of the actor are fewer
#define GV_COLUMNS (GV_ACTOR_COLUMNS + GV_CRITIC_COLUMNS)
