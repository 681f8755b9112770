// Loss of values of actions in a minibatch, with its derivatives, and sums over the minibatches of an update. Semantics are those
// of PQN._backward() in gpu_vecenv/train/algorithms/pqn/pqn.py. A team has a tile of units; a unit has `width` rows.
#include "lib/math.h"
#include "lib/reduce.h"
#include "program_args.h"

// The value of the action of a row: `row` in the minibatch, `at` in the rollout.
GV_FN float gv_value_of(const GvArgs& a, gv_i64 row, gv_i64 at) {
    float value = 0.0f;
    for (gv_i32 k = 0; k < a.entries; ++k) value += a.values[row * a.choices + a.first[k] + a.action[at * a.entries + k]];
    return value;
}

struct GvTerms {
    float loss, value;
};

// Terms of rows whose values are added up, and their derivatives. The rows are neighbours.
GV_FN GvTerms gv_learn_rows(const GvArgs& a, gv_i64 row, gv_i64 at, gv_i32 rows, bool counts, float target) {
    const float share = 1.0f / gv_max(*a.total, 1.0f);
    float q = 0.0f;
    for (gv_i32 i = 0; i < rows; ++i) q += a.valid[at + i] != 0 ? gv_value_of(a, row + i, at + i) : 0.0f;
    const float error = counts ? q - target : 0.0f, slope = error * share * a.scale;
    for (gv_i32 i = 0; i < rows; ++i) {
        float* slopes = a.slopes + (row + i) * a.choices;
        for (gv_i32 c = 0; c < a.choices; ++c) slopes[c] = 0.0f;
        if (a.valid[at + i] == 0) continue;
        for (gv_i32 k = 0; k < a.entries; ++k) slopes[a.first[k] + a.action[(at + i) * a.entries + k]] = slope;
    }
    return {0.5f * error * error * share, counts ? q * share : 0.0f};
}

GV_FN void gv_q_loss_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i32 first = tile * GV_TILE, n = a.units - first < GV_TILE ? a.units - first : GV_TILE;
    const gv_i32 teams = a.sums_rows != 0 ? 1 : a.width, rows = a.sums_rows != 0 ? a.width : 1;
    float *losses = team.scratch, *values = losses + GV_TILE;
    GV_FOR(i, n) {
        const gv_i64 unit = first + i, from = a.index[unit];
        float loss = 0.0f, value = 0.0f;
        for (gv_i32 k = 0; k < teams; ++k) {
            const bool counts = a.learned[from * teams + k] != 0 && a.used[unit] != 0;
            const gv_i64 row = unit * a.width + k, at = from * a.width + k;
            const GvTerms terms = gv_learn_rows(a, row, at, rows, counts, a.target[from * teams + k]);
            loss += terms.loss;
            value += terms.value;
        }
        losses[i] = loss;
        values[i] = value;
    }
    const float loss = gv_sum(team, n, [&](gv_i32 i) { return losses[i]; });
    const float value = gv_sum(team, n, [&](gv_i32 i) { return values[i]; });
    GV_ONCE {
        a.terms[2 * (gv_i64)tile] = loss;
        a.terms[2 * (gv_i64)tile + 1] = value;
    }
}

// Adds loss, value, norm of the gradient and 1 to the sums of an update, if the step was taken. One team.
GV_FN void gv_q_add(const GvArgs& a, const GvLanes& team, gv_i32 /*number*/) {
    if (*a.taken == 0) return;
    const float loss = gv_sum(team, a.tiles, [&](gv_i32 i) { return a.terms[2 * (gv_i64)i]; });
    const float value = gv_sum(team, a.tiles, [&](gv_i32 i) { return a.terms[2 * (gv_i64)i + 1]; });
    GV_ONCE {
        a.sums[0] += loss;
        a.sums[1] += value;
        a.sums[2] += *a.norm;
        a.sums[3] += 1.0f;
    }
}

GV_PLAIN_KERNEL(gv_q_loss, gv_q_loss_tile)
GV_PLAIN_KERNEL(gv_q_sums, gv_q_add)
