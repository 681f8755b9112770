// Transitions in which an agent has a choice: the mask of its action allows two choices of one entry at least. A row of masks
// belongs to one transition. A team has a tile of rows, and some lanes share the entries of a row.
#include "program_args.h"

// True if the mask of an action allows two choices of an entry, of the entries strand, strand + strands, ...
GV_FN bool gv_has_choice(const gv_u8* mask, const gv_i32* ends, gv_i32 entries, gv_i32 strand, gv_i32 strands) {
    for (gv_i32 entry = strand; entry < entries; entry += strands) {
        gv_i32 allowed = 0;
        for (gv_i32 i = entry > 0 ? ends[entry - 1] : 0; i < ends[entry]; ++i) allowed += mask[i] != 0;
        if (allowed > 1) return true;
    }
    return false;
}

GV_FN void gv_choices_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = a.rows - first;
    const gv_i32 rows = rest < GV_TILE ? (gv_i32)rest : GV_TILE;
    const gv_i32 strands = GV_ONE_LANE ? 1 : a.entries < GV_STRANDS ? a.entries : GV_STRANDS;
    gv_i32* with_choice = (gv_i32*)team.scratch;  // strands that see a choice, by row
    GV_FOR(i, rows) with_choice[i] = 0;
    gv_barrier(team);
    GV_FOR(i, rows * strands) {
        const gv_i64 row = first + i / strands, step = row / a.columns;
        const gv_i32 column = (gv_i32)(row - step * a.columns), sample = column / a.agents;
        const gv_u8* mask = a.mask + step * a.step + sample * a.sample + (column - sample * a.agents) * a.agent;
        if (a.valid[row] == 0 || !gv_has_choice(mask, a.ends, a.entries, i % strands, strands)) continue;
        gv_fetch_add(with_choice + i / strands);
    }
    gv_barrier(team);
    GV_FOR(i, rows) a.choice[first + i] = with_choice[i] != 0;
}

GV_PLAIN_KERNEL(gv_choices, gv_choices_tile)
