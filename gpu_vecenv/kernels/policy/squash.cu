// Tanh of normal numbers with its log-density, and the derivatives. A team has a tile of rows, and a lane a row.
#include "policy/squash.h"
#include "program_args.h"

GV_FN GvSquashed gv_squashed_entry(const GvArgs& a, gv_i64 row, gv_i32 entry) {
    const float* outputs = a.outputs + 2 * row * a.entries;
    return gv_squashed(outputs[entry], outputs[a.entries + entry], a.noise[row * a.entries + entry], a.low, a.high);
}

GV_FN void gv_squash_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = a.rows - first;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 row = first + i;
        float sum = 0.0f;
        for (gv_i32 entry = 0; entry < a.entries; ++entry) {
            const GvSquashed now = gv_squashed_entry(a, row, entry);
            sum += gv_log_density(now, a.noise[row * a.entries + entry]);
            a.action[row * a.entries + entry] = now.action;
        }
        a.log_prob[row] = sum;
    }
}

GV_FN void gv_squash_back_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = a.rows - first;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 row = first + i;
        for (gv_i32 entry = 0; entry < a.entries; ++entry) {
            const GvSquashed now = gv_squashed_entry(a, row, entry);
            const gv_i64 at = row * a.entries + entry, mean = 2 * row * a.entries + entry;
            const float log_std = a.outputs[mean + a.entries];
            const bool within = log_std >= a.low && log_std <= a.high;
            const GvSquashSlopes slopes = gv_squash_slopes(now, a.noise[at], within, a.of_action[at], a.of_log_prob[row]);
            a.of_outputs[mean] = slopes.mean;
            a.of_outputs[mean + a.entries] = slopes.log_std;
        }
    }
}

GV_PLAIN_KERNEL(gv_squash, gv_squash_tile)
GV_PLAIN_KERNEL(gv_squash_back, gv_squash_back_tile)
