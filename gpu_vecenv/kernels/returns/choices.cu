// Transitions in which an agent has a choice: the mask of its action allows two choices of one entry at least. A row of masks
// belongs to one transition. A team has a tile of rows.
#include "program_args.h"

// True if the mask of an action allows two choices of one entry.
GV_FN bool gv_has_choice(const gv_u8* mask, const gv_i32* ends, gv_i32 entries) {
    gv_i32 i = 0;
    for (gv_i32 entry = 0; entry < entries; ++entry) {
        gv_i32 allowed = 0;
        for (; i < ends[entry]; ++i) {
            if (mask[i] != 0 && ++allowed > 1) return true;
        }
    }
    return false;
}

GV_FN void gv_choices_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = a.rows - first;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 row = first + i, step = row / a.columns;
        const gv_i32 column = (gv_i32)(row - step * a.columns), sample = column / a.agents;
        const gv_u8* mask = a.mask + step * a.step + sample * a.sample + (column - sample * a.agents) * a.agent;
        a.choice[row] = a.valid[row] != 0 && gv_has_choice(mask, a.ends, a.entries);
    }
}

GV_PLAIN_KERNEL(gv_choices, gv_choices_tile)
