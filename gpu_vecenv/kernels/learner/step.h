// Sums of the blocks' gradients, and the step of Adam: the second and the third kernel of a minibatch. Semantics are those of
// gpu_vecenv/train/algorithms/ppo.py and gated_adam.py.
#pragma once
#include "learner/update_args.h"
#include "lib/reduce.h"

#define GV_REDUCED 32  // columns of a team of gv_reduce
#define GV_SLICES 8    // sums of a column, one after the other added at the end

// Sum of a column over the blocks slice, slice + GV_SLICES, ... Eight loads are in flight.
GV_FN float gv_slice_sum(const float* column, gv_i32 blocks, gv_i32 stride, gv_i32 slice) {
    float sum = 0.0f;
    for (gv_i32 first = slice; first < blocks; first += 8 * GV_SLICES) {
        float value[8];
        GV_UNROLL for (gv_i32 j = 0; j < 8; ++j) {
            const gv_i32 block = first + j * GV_SLICES;
            value[j] = block < blocks ? column[(gv_i64)block * stride] : 0.0f;
        }
        GV_UNROLL for (gv_i32 j = 0; j < 8; ++j) sum += value[j];
    }
    return sum;
}

GV_FN bool gv_is_weight(gv_i32 column) {
    const gv_i32 of_critic = column - GV_ACTOR_COLUMNS;
    return of_critic < 0 ? column < GV_ACTOR_WEIGHTS : of_critic < GV_CRITIC_WEIGHTS;
}

// Adds the partial sums of GV_REDUCED columns, and the squares of those that are weights.
GV_FN void gv_reduce_columns(const GvArgs& a, const GvTeam& team) {
    float *slices = team.scratch, *squares = slices + GV_REDUCED * GV_SLICES;
    const gv_i32 first = team.world * GV_REDUCED;
    GV_FOR(i, GV_REDUCED * GV_SLICES) {
        const gv_i32 column = first + i % GV_REDUCED, of_critic = column - GV_ACTOR_COLUMNS;
        const float* critic = a.partial + (gv_i64)a.actor_blocks * GV_ACTOR_COLUMNS;
        float sum = 0.0f;
        if (of_critic < 0) sum = gv_slice_sum(a.partial + column, a.actor_blocks, GV_ACTOR_COLUMNS, i / GV_REDUCED);
        else if (of_critic < GV_CRITIC_COLUMNS)
            sum = gv_slice_sum(critic + of_critic, a.critic_blocks, GV_CRITIC_COLUMNS, i / GV_REDUCED);
        slices[i] = sum;
    }
    gv_barrier(team);
    GV_FOR(i, GV_REDUCED) {
        float sum = 0.0f;
        for (gv_i32 slice = 0; slice < GV_SLICES; ++slice) sum += slices[slice * GV_REDUCED + i];
        if (first + i < GV_COLUMNS) a.sums[first + i] = sum;
        squares[i] = first + i < GV_COLUMNS && gv_is_weight(first + i) ? sum * sum : 0.0f;
    }
    gv_barrier(team);
    GV_ONCE {
        float sum = 0.0f;
        for (gv_i32 i = 0; i < GV_REDUCED; ++i) sum += squares[i];
        a.squares[team.world] = sum;
    }
}

// A step of the optimiser: its gate, and the factor of sums that gives the clipped mean gradient.
struct GvStep {
    bool wanted, taken;
    float norm, factor, before;  // steps of Adam before
};
GV_FN GvStep gv_step_of(const GvArgs& a, const GvTeam& team, float before) {
    constexpr gv_i32 TEAMS = (GV_COLUMNS + GV_REDUCED - 1) / GV_REDUCED;
    const float squares = gv_sum(team, TEAMS, [&](gv_i32 i) { return a.squares[i]; });
    const float count = a.sums[GV_ACTOR_COLUMNS - 1], inverse = 1.0f / gv_max(count, 1.0f);
    const float norm = gv_sqrt(squares) * inverse, scale = norm / a.max_grad_norm;
    const bool wanted = count > 0.0f && a.stopped[a.epoch] == 0;
    return {wanted, wanted && norm < GV_INFINITY, norm, inverse / gv_max(scale, 1.0f), before};
}

// double: 1 - beta^n of a float would lose its digits for small n.
// 1 - beta^n, for the beta of the first or the second moment: 0.9 or 0.999.
GV_FN float gv_bias_correction(bool second, float n) {
    const double log_beta = second ? -0.0010005003335835335 : -0.10536051565782628;
    return (float)(1.0 - gv_exp_in_double((double)n * log_beta));
}

// Adds the terms of a minibatch to the totals, and stops the epochs after one whose mean divergence is too large.
GV_FN void gv_add_to_totals(const GvArgs& a, const GvStep& step) {
    const float* terms = a.sums + GV_ACTOR_WEIGHTS;
    const float inverse = 1.0f / gv_max(terms[4], 1.0f), value_loss = a.sums[GV_COLUMNS - 1];
    a.totals[7] += step.wanted ? 1.0f : 0.0f;
    a.steps[a.minibatch + 1] = step.before + (step.taken ? 1.0f : 0.0f);
    if (step.taken) {
        const float added[7] = {terms[0] * inverse, value_loss * inverse, terms[1] * inverse, terms[2] * inverse,
                                terms[3] * inverse, step.norm,            1.0f};
        GV_UNROLL for (gv_i32 i = 0; i < 7; ++i) a.totals[i] += added[i];
    }
    if (a.ends_epoch != 0) {
        const float kl = (a.totals[3] - a.epoch_start[0]) / (a.totals[6] - a.epoch_start[1]);  // NaN without a step
        a.stopped[a.epoch + 1] = a.stopped[a.epoch] != 0 || kl > a.target_kl ? 1 : 0;
        a.epoch_start[0] = a.totals[3];
        a.epoch_start[1] = a.totals[6];
    }
}

// Adam of the columns of a team, one a lane. torch.optim.Adam computes the same. The number of steps is older than the sums.
GV_FN void gv_adam_columns(const GvArgs& a, const GvTeam& team) {
    const float before = a.steps[a.minibatch];
    GV_FOR(i, 2) team.scratch[i] = gv_bias_correction(i == 1, before + 1.0f);
    gv_grid_dependency_sync();  // for the sums
    const GvStep step = gv_step_of(a, team, before);
    if (team.world == 0) GV_ONCE gv_add_to_totals(a, step);
    gv_barrier(team);
    const float rate = *a.rate / team.scratch[0], root = gv_sqrt(team.scratch[1]);
    const gv_i32 first = team.world * GV_ADAM_COLUMNS;
    GV_FOR(i, GV_ADAM_COLUMNS) {
        const gv_i32 column = first + i;
        gv_i32 t = 0;
        GV_UNROLL for (gv_i32 other = 1; other < GV_TENSORS; ++other) t = column >= a.tensors[other].first ? other : t;
        const gv_i32 at = column - a.tensors[t].first;
        if (step.taken && at < a.tensors[t].size) {
            float *weight = a.tensors[t].weight + at, *mean = a.tensors[t].mean + at, *square = a.tensors[t].square + at;
            const float gradient = a.sums[column] * step.factor;
            const float m = 0.9f * *mean + 0.1f * gradient, s = 0.999f * *square + 0.001f * gradient * gradient;
            *mean = m;
            *square = s;
            *weight -= rate * m / (gv_sqrt(s) / root + a.eps);
            if (at == 0) *a.tensors[t].step = step.before + 1.0f;
        }
    }
}
