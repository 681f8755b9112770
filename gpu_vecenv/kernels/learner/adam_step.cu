// The step of Adam or RAdam for a list of parameters: the norm of their gradient, whether the step is taken, and the step. Semantics
// are those of gpu_vecenv/train/algorithms/masked_adam.py and masked_radam.py. Parts of a parameter are divided into tiles, one for each team.
#include "lib/powers.h"
#include "lib/reduce.h"
#include "program_args.h"

#define GV_ITEMS 128  // sums of a team, each of numbers that lie so far apart

// The numbers of a tile, from `first` on, in a part.
struct GvPlace {
    gv_i32 part, count;
    gv_i64 first;
};
GV_FN GvPlace gv_place(const GvArgs& a, gv_i32 tile) {
    gv_i32 k = 0;
    while (tile >= a.parts[k].end_tile) ++k;
    const gv_i64 first = (gv_i64)(k == 0 ? tile : tile - a.parts[k - 1].end_tile) * GV_TILE, rest = a.parts[k].count - first;
    return {k, rest < GV_TILE ? (gv_i32)rest : GV_TILE, first};
}

// Sum of value(0) .. value(n - 1), in an order that depends on n alone. The result is the same in all lanes.
template <class Value>
GV_FN float gv_sum_of_many(const GvLanes& team, gv_i32 n, const Value& value) {
    GV_FOR(item, GV_ITEMS) {
        float sum = 0.0f;
        for (gv_i32 i = item; i < n; i += GV_ITEMS) sum += value(i);
        team.scratch[item] = sum;
    }
    return gv_sum(team, GV_ITEMS, [&](gv_i32 item) { return team.scratch[item]; });
}

// Adds up the squares of the gradient in a tile.
GV_FN void gv_square_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const GvPlace place = gv_place(a, tile);
    const float* gradient = a.parts[place.part].gradient + place.first;
    const float sum = gv_sum_of_many(team, place.count, [&](gv_i32 i) { return gradient[i] * gradient[i]; });
    GV_ONCE { a.squares[tile] = sum; }
}

// Norm of the gradient before it is clipped, its divisor, and whether the step is taken, which is then counted. One team.
GV_FN void gv_decide(const GvArgs& a, const GvLanes& team, gv_i32 /*number*/) {
    const float norm = gv_sqrt(gv_sum_of_many(team, a.tiles, [&](gv_i32 i) { return a.squares[i]; })) / a.scale;
    const bool taken = *a.mask != 0 && norm < GV_INFINITY;  // false for NaN
    GV_FOR(k, a.num_parts) *a.parts[k].step += taken ? 1.0f : 0.0f;
    GV_ONCE {
        *a.norm = norm;
        *a.divisor = gv_max(norm / a.max_norm, 1.0f) * a.scale;
        *a.taken = taken ? 1 : 0;
    }
}

// 1 - beta^n.
// double: a float would lose its digits for small n.
GV_FN float gv_bias_correction(double log_beta, float n) { return (float)(1.0 - gv_exp_for_power((double)n * log_beta)); }

// The step of the numbers in a tile.
GV_FN void gv_step_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    if (*a.taken == 0) return;
    const GvPlace place = gv_place(a, tile);
    const GvAdamPart& part = a.parts[place.part];
    GV_FOR(i, 2) team.scratch[i] = gv_bias_correction(i == 0 ? GV_LOG_M_DECAY : GV_LOG_V_DECAY, *part.step);
    gv_barrier(team);
    const gv_i64 row = a.factors == nullptr ? 0 : (gv_i64)gv_min(*part.step, (float)a.last_factor);
    const float of_step = a.factors == nullptr ? *a.rate : a.factors[2 * row] * *a.rate;
    const float of_momentum = a.factors == nullptr ? 0.0f : a.factors[2 * row + 1] * *a.rate;
    const float rate = of_step / team.scratch[0], root = gv_sqrt(team.scratch[1]), divisor = *a.divisor;
    GV_FOR(i, place.count) {
        const gv_i64 at = place.first + i;
        const float gradient = part.gradient[at] / divisor;
        const float m = GV_M_DECAY * part.m[at] + GV_M_SHARE * gradient;
        const float v = GV_V_DECAY * part.v[at] + GV_V_SHARE * gradient * gradient;
        part.m[at] = m;
        part.v[at] = v;
        part.weight[at] -= rate * m / (gv_sqrt(v) / root + a.eps);
        if (a.factors != nullptr) part.weight[at] -= of_momentum * m;
    }
}

GV_PLAIN_KERNEL(gv_decide_step, gv_decide)
GV_PLAIN_KERNEL(gv_square_gradient, gv_square_tile)
GV_PLAIN_KERNEL(gv_take_step, gv_step_tile)
