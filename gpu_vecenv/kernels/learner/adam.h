// Sums of the blocks' gradients, and the step of Adam: the second and the third kernel of a minibatch. Semantics are those of
// gpu_vecenv/train/algorithms/ppo/ppo.py and masked_adam.py.
#pragma once
#include "learner/totals.h"
#include "learner/update_args.h"
#include "lib/reduce.h"

#define GV_SLICES 8    // sums of a column, one after the other added at the end
#define GV_REDUCE_TEAMS ((GV_COLUMNS + GV_REDUCED - 1) / GV_REDUCED)
#define GV_NORMS (1 + GV_TWO_COUNTS)  // parts of the gradient, each a mean over rows of its own

// Sum of the numbers slice, slice + SLICES, ... of `count` numbers that lie `stride` apart. FLIGHT loads are in flight.
template <gv_i32 SLICES, gv_i32 FLIGHT>
GV_FN float gv_slice_sum(const float* numbers, gv_i32 count, gv_i32 stride, gv_i32 slice) {
    float sum = 0.0f;
    for (gv_i32 first = slice; first < count; first += FLIGHT * SLICES) {
        float value[FLIGHT];
        GV_UNROLL for (gv_i32 j = 0; j < FLIGHT; ++j) {
            const gv_i32 number = first + j * SLICES;
            value[j] = number < count ? numbers[(gv_i64)number * stride] : 0.0f;
        }
        GV_UNROLL for (gv_i32 j = 0; j < FLIGHT; ++j) sum += value[j];
    }
    return sum;
}

GV_FN bool gv_is_weight(gv_i32 column) {
    const gv_i32 of_critic = column - GV_ACTOR_COLUMNS;
    return of_critic < 0 ? column < GV_ACTOR_WEIGHTS : of_critic < GV_CRITIC_WEIGHTS;
}

#if GV_WIDE  // wide.h comes before this file
// Rows of the partial sums that have a column of a wide first layer: slices of the shared part, or of the part of an agent.
GV_FN gv_i32 gv_first_layer_rows(const GvArgs& a, gv_i32 of_network) {
    const gv_i32 at = of_network - gv_weight_column(1);
    const bool shared = at < gv_units(1) * GV_FEATURES && at % GV_FEATURES < gv_part_features(GV_SHARED_PART);
    return shared ? a.world_slices : a.wide_slices;
}
#endif

// Rows of the partial sums that have a column: one for each slice whose sums a kernel of a split network writes, or one for each team.
GV_FN gv_i32 gv_partial_rows(const GvArgs& a, gv_i32 column) {
    const gv_i32 of_critic = column - GV_ACTOR_COLUMNS;
    const bool actor = of_critic < 0;
    const gv_i32 of_network = actor ? column : of_critic, teams = actor ? a.actor_blocks : a.critic_blocks;
    if (column < GV_GRU_COLUMNS) return a.slices;
#if GV_WIDE
    if (of_network < gv_weight_column(2)) return gv_first_layer_rows(a, of_network);
#endif
    const gv_i32 weights = actor ? gv_weight_columns(0) : gv_weight_columns(1);  // constants: a table read by number is in memory
    return GV_SPLIT && !GV_TEAM_SUMS && of_network < weights ? a.slices : teams;
}

// Part of the gradient that a column belongs to: all, or the actor and the critic.
GV_FN gv_i32 gv_part_of(gv_i32 column) { return GV_TWO_COUNTS && column >= GV_ACTOR_COLUMNS ? 1 : 0; }

// Adds the partial sums of GV_REDUCED columns, and the squares of those that are weights.
// gv_adam may start at once: what it reads before its wait is older than the sums of the teams.
GV_FN void gv_reduce_columns(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    gv_start_next();
    gv_wait_for_previous();
    float *slices = team.scratch, *squares = slices + GV_REDUCED * GV_SLICES;  // [GV_NORMS, GV_REDUCED]
    const gv_i32 first = block * GV_REDUCED;
    GV_FOR(i, GV_REDUCED * GV_SLICES) {
        const gv_i32 column = first + i % GV_REDUCED, of_critic = column - GV_ACTOR_COLUMNS;
        const float* critic = a.partial + (gv_i64)a.actor_blocks * GV_ACTOR_COLUMNS;
        float sum = 0.0f;
        const gv_i32 rows = gv_partial_rows(a, column);
        if (of_critic < 0) sum = gv_slice_sum<GV_SLICES, 8>(a.partial + column, rows, GV_ACTOR_COLUMNS, i / GV_REDUCED);
        else if (of_critic < GV_CRITIC_COLUMNS)
            sum = gv_slice_sum<GV_SLICES, 8>(critic + of_critic, rows, GV_CRITIC_COLUMNS, i / GV_REDUCED);
        slices[i] = sum;
    }
    gv_barrier(team);
    GV_FOR(i, GV_REDUCED) {
        float sum = 0.0f;
        for (gv_i32 slice = 0; slice < GV_SLICES; ++slice) sum += slices[slice * GV_REDUCED + i];
        if (first + i < GV_COLUMNS) a.sums[first + i] = sum;
        const float square = first + i < GV_COLUMNS && gv_is_weight(first + i) ? sum * sum : 0.0f;
        for (gv_i32 part = 0; part < GV_NORMS; ++part) {
            squares[part * GV_REDUCED + i] = gv_part_of(first + i) == part ? square : 0.0f;
        }
    }
    gv_barrier(team);
    GV_FOR(part, GV_NORMS) {
        float sum = 0.0f;
        for (gv_i32 i = 0; i < GV_REDUCED; ++i) sum += squares[part * GV_REDUCED + i];
        a.squares[part * GV_REDUCE_TEAMS + block] = sum;
    }
}

// `open` says whether the epoch takes steps. The loads of the count and of the squares are in flight at the same time.
GV_FN GvStep gv_step_of(const GvArgs& a, const GvLanes& team, bool open, float before) {
    const float choices = a.sums[GV_ACTOR_COLUMNS - 1], count = GV_TWO_COUNTS ? a.sums[GV_COLUMNS - 1] : choices;
    const float inverse = 1.0f / gv_max(count, 1.0f);
    GV_FOR(p, 32) team.sums[p] = gv_slice_sum<32, 16>(a.squares, GV_REDUCE_TEAMS, 1, p);
    gv_barrier(team);
    const float of_first = gv_sqrt(gv_add_partial_sums(team, 32));
    float norm = of_first * inverse, inverse_of_actor = inverse;
#if GV_TWO_COUNTS
    gv_barrier(team);
    GV_FOR(p, 32) team.sums[p] = gv_slice_sum<32, 16>(a.squares + GV_REDUCE_TEAMS, GV_REDUCE_TEAMS, 1, p);
    gv_barrier(team);
    inverse_of_actor = 1.0f / gv_max(choices, 1.0f);
    const float of_actor = of_first * inverse_of_actor, of_critic = gv_sqrt(gv_add_partial_sums(team, 32)) * inverse;
    norm = gv_sqrt(of_actor * of_actor + of_critic * of_critic);
#endif
    const float scale = norm / a.max_grad_norm, excess = gv_max(scale, 1.0f);
    const bool wanted = count > 0.0f && open;
    return {wanted, wanted && norm < GV_INFINITY, norm, inverse_of_actor / excess, inverse / excess, before};
}

// A column: its parameter, its place there, and what Adam reads.
struct GvColumn {
    gv_i32 tensor, at;
    float weight, m, v, sum;
};
GV_FN GvColumn gv_column(const GvArgs& a, gv_i32 column) {
    gv_i32 t = 0;
    GV_UNROLL for (gv_i32 other = 1; other < GV_TENSORS; ++other) t = column >= a.tensors[other].first ? other : t;
    const gv_i32 at = column - a.tensors[t].first;
    if (at >= a.tensors[t].size) return {t, -1};  // a term, or behind the last column
    return {t, at, a.tensors[t].weight[at], a.tensors[t].m[at], a.tensors[t].v[at]};
}

// Adam of the columns of a team. torch.optim.Adam computes the same. One more team, the last one, adds to the totals. Everything
// but the sums is older than the gradient, so it is read before the wait.
GV_FN void gv_adam_columns(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    constexpr gv_i32 EACH = (GV_ADAM_COLUMNS + GV_TEAM_LANES - 1) / GV_TEAM_LANES;  // columns of a lane
    const float before = a.steps[a.minibatch], learning_rate = *a.rate;
    const bool open = a.stopped[a.epoch] == 0, sums_up = block == a.teams - 1;
    const gv_i32 first = block * GV_ADAM_COLUMNS + team.lane;
    GvColumn columns[EACH];
    GV_UNROLL for (gv_i32 j = 0; j < EACH; ++j) {
        columns[j] = sums_up ? GvColumn{0, -1} : gv_column(a, first + j * GV_TEAM_LANES);
    }
    GvTotals now = {};
    if (sums_up) {
        GV_UNROLL for (gv_i32 i = 0; i < 9; ++i) now.totals[i] = a.totals[i];
        GV_UNROLL for (gv_i32 i = 0; i < 2; ++i) now.started[i] = a.epoch_start[i];
    }
    GV_FOR(i, 2) team.scratch[i] = gv_bias_correction(i == 1, before + 1.0f);
    gv_wait_for_previous();  // for the sums
    gv_start_next();
    if (sums_up) {
        GV_UNROLL for (gv_i32 i = 0; i < 5; ++i) now.terms[i] = a.sums[GV_ACTOR_WEIGHTS + i];
        now.value_loss = a.sums[GV_ACTOR_COLUMNS + GV_CRITIC_WEIGHTS];
        now.count = GV_TWO_COUNTS ? a.sums[GV_COLUMNS - 1] : now.terms[4];
    }
    GV_UNROLL for (gv_i32 j = 0; j < EACH; ++j) {
        if (columns[j].at >= 0) columns[j].sum = a.sums[first + j * GV_TEAM_LANES];
    }
    const GvStep step = gv_step_of(a, team, open, before);
    if (sums_up) GV_ONCE gv_add_to_totals(a, step, open, now);
    if (!step.taken) return;
    const float rate = learning_rate / team.scratch[0], root = gv_sqrt(team.scratch[1]);
    GV_UNROLL for (gv_i32 j = 0; j < EACH; ++j) {
        const GvColumn& column = columns[j];
        const GvTensor& tensor = a.tensors[column.tensor];
        if (column.at < 0) continue;
        const bool of_critic = GV_TWO_COUNTS && first + j * GV_TEAM_LANES >= GV_ACTOR_COLUMNS;
        const float gradient = column.sum * (of_critic ? step.of_critic : step.of_actor);
        const float m = GV_M_DECAY * column.m + GV_M_SHARE * gradient;
        const float v = GV_V_DECAY * column.v + GV_V_SHARE * gradient * gradient;
        tensor.m[column.at] = m;
        tensor.v[column.at] = v;
        tensor.weight[column.at] = column.weight - rate * m / (gv_sqrt(v) / root + a.eps);
        if (column.at == 0) *tensor.step = step.before + 1.0f;
    }
}
