// Masks of policies: a choice is allowed if the env's mask allows it and its entry has an effect. A team has a tile of flags, which
// takes the place of a world in GV_KERNEL.
#ifndef GV_SCRATCH
#define GV_SCRATCH 1  // unused
#endif
#include "target/target.h"

#define GV_TILE 4096  // flags of a team, as in gpu_vecenv/train/returns/effects.py

// gpu_vecenv/train/returns/effects.py fills this struct.
struct GvArgs {
    const gv_u8 *mask, *effects;     // [rows, choices of the env's masks] or null; [rows, groups]
    const gv_i32 *sources, *groups;  // [columns] column of `mask` and of `effects` that a choice depends on; -1 for none
    gv_u8* out;                      // [rows, columns]
    gv_i32* invalid_actions;         // unused; GV_KERNEL expects it
    gv_i64 rows;
    gv_i32 num_worlds, num_agents;   // teams; 1
    gv_i32 columns, mask_columns;
    gv_i32 num_groups, unused;
};
static_assert(sizeof(GvArgs) == 80, "as in gpu_vecenv/train/returns/effects.py");

GV_FN void gv_limit_tile(const GvArgs& a, const GvTeam& team) {
    const gv_i64 first = (gv_i64)team.world * GV_TILE, rest = a.rows * a.columns - first;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 at = first + i, row = at / a.columns;
        const gv_i32 column = (gv_i32)(at - row * a.columns), source = a.sources[column], group = a.groups[column];
        const bool allowed = source < 0 || a.mask[row * a.mask_columns + source] != 0;
        a.out[at] = allowed && (group < 0 || a.effects[row * a.num_groups + group] != 0);
    }
}

GV_KERNEL(gv_limit, gv_limit_tile)

#ifdef GV_PACK
#include "launch/threads.h"
#endif
