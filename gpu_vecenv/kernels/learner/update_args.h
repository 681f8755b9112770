// Arguments of the kernels of an update, and the layout of sums in memory.
#pragma once
#include "learner/loss.h"
#include "learner/rows.h"

// A parameter and torch's state of Adam for it; `first` is its first column in the sums.
struct GvTensor {
    float *weight, *mean, *square, *step;
    gv_i32 first, size;
};

#ifdef GV_CHOICES
#define GV_SPREADS 0
#else
#define GV_SPREADS GV_ENTRIES  // derivatives by log_std
#endif
#ifndef GV_TWO_COUNTS
#define GV_TWO_COUNTS 0  // 1 if masks can leave a row without a choice: the critic counts rows that the actor does not
#endif
#define GV_TENSORS (4 * GV_LAST + (GV_SPREADS > 0 ? 1 : 0))

// gpu_vecenv/train/fused/kernels.py and update.py fill this struct.
struct GvArgs {
    GvLayer layers[2][4];                      // of the actor and of the critic
    GvNorm norm;
    gv_i32 clip_value, samples_per_step;
    GvSlab obs, action, mask;                  // mask: null allows all choices
    const float* numbers;                      // [samples, 4] log-probability, value, advantage, target
    const gv_u8* choice;                       // [samples] 1 if the agent had a choice; null: it always had one
    const gv_i32* samples;                     // [rows] samples of the minibatch, -1 for rows that fill it up
    const float* moments;                      // mean of the advantages, and the inverse of their deviation
    const float *log_std, *centre, *half_width;  // [entries] of numbers
    const float *entropy_coef, *clip_coef, *scales, *rate;  // scales: of the actor's and of the critic's derivatives
    GvHalf* stash;                             // of a split network, see split_gradient.cu
    float* partial;                            // [actor_blocks, GV_ACTOR_COLUMNS], then [critic_blocks, GV_CRITIC_COLUMNS]
    float *sums, *squares;                     // [columns]; [1 + GV_TWO_COUNTS, teams of gv_reduce]
    float* totals;                             // [9] sums of TERMS, gradient norm and 1 over steps; steps wanted; with a choice
    float* epoch_start;                        // [2] the totals of kl and of steps with a choice when the epoch started
    gv_i32* stopped;                           // [epochs + 1] 1 if no step may be taken in an epoch
    float* steps;                              // [minibatches + 1] steps of Adam before each minibatch
    GvTensor tensors[17];
    gv_i32* invalid_actions;                   // unused; GV_KERNEL expects it
    gv_i32 num_worlds, num_agents;             // teams; 1
    gv_i32 rows, actor_blocks, critic_blocks;
    gv_i32 epoch, minibatch, ends_epoch;       // ends_epoch: 1 after the last minibatch of an epoch
    float value_coef, max_grad_norm, target_kl, eps;
    gv_i32 room, slices, adds, unused;         // of a split network, see split_gradient.cu
};
static_assert(sizeof(GvArgs) == GV_ARGS_SIZE, "as in gpu_vecenv/train/fused/arguments.py");

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
