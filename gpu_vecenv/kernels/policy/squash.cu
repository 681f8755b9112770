// Tanh of normal numbers with its log-density, and the derivatives. A team has a tile of rows, and a lane a row. Semantics are those
// of squashed() in gpu_vecenv/train/policies/actor.py.
#include "lib/math.h"
#include "lib/powers.h"
#include "program_args.h"

#define GV_CONSTANT 0.918938533204672742f  // log(2 pi) / 2
#define GV_LOG_2 0.693147180559945309f

// A number before the tangent, e^-2|u|, and its tangent.
struct GvSquashed {
    float log_std, u, e, action;
};
GV_FN GvSquashed gv_squashed(const GvArgs& a, gv_i64 row, gv_i32 entry) {
    const float* outputs = a.outputs + 2 * row * a.entries;
    const float log_std = gv_clamp(outputs[a.entries + entry], a.low, a.high);
    const float u = outputs[entry] + gv_exp(log_std) * a.noise[row * a.entries + entry];
    const float e = gv_exp(-2.0f * gv_abs(u)), size = (1.0f - e) / (1.0f + e);
    return {log_std, u, e, u < 0.0f ? -size : size};
}

GV_FN void gv_squash_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = a.rows - first;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 row = first + i;
        float sum = 0.0f;
        for (gv_i32 entry = 0; entry < a.entries; ++entry) {
            const GvSquashed now = gv_squashed(a, row, entry);
            const float noise = a.noise[row * a.entries + entry];
            const float softplus = gv_max(-2.0f * now.u, 0.0f) + gv_log(1.0f + now.e);  // log(1 + e^-2u)
            sum += 2.0f * (now.u + softplus - GV_LOG_2) - 0.5f * noise * noise - now.log_std - GV_CONSTANT;
            a.action[row * a.entries + entry] = now.action;
        }
        a.log_prob[row] = sum;
    }
}

// Derivatives by the outputs: the log-density rises by 2 tanh(u) with u, and the tangent by 1 - tanh(u)^2 = 4 e / (1 + e)^2.
GV_FN void gv_squash_back_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = a.rows - first;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 row = first + i;
        const float of_log_prob = a.of_log_prob[row];
        for (gv_i32 entry = 0; entry < a.entries; ++entry) {
            const GvSquashed now = gv_squashed(a, row, entry);
            const gv_i64 at = row * a.entries + entry, mean = 2 * row * a.entries + entry;
            const float slope = 4.0f * now.e / ((1.0f + now.e) * (1.0f + now.e));
            const float of_u = a.of_action[at] * slope + of_log_prob * 2.0f * now.action;
            const float log_std = a.outputs[mean + a.entries];
            const bool within = log_std >= a.low && log_std <= a.high;
            a.of_outputs[mean] = of_u;
            a.of_outputs[mean + a.entries] = within ? of_u * gv_exp(now.log_std) * a.noise[at] - of_log_prob : 0.0f;
        }
    }
}

GV_PLAIN_KERNEL(gv_squash, gv_squash_tile)
GV_PLAIN_KERNEL(gv_squash_back, gv_squash_back_tile)
