// Masks of policies: a choice is allowed if the env's mask allows it and its entry has an effect. A team has a tile of flags.
#include "program_args.h"

GV_FN void gv_limit_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = a.rows * a.columns - first;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 at = first + i, row = at / a.columns;
        const gv_i32 column = (gv_i32)(at - row * a.columns), source = a.sources[column], group = a.groups[column];
        const bool allowed = source < 0 || a.mask[row * a.mask_columns + source] != 0;
        a.out[at] = allowed && (group < 0 || a.effects[row * a.num_groups + group] != 0);
    }
}

GV_PLAIN_KERNEL(gv_limit, gv_limit_tile)
