// Transitions in which an agent has a choice: the mask of its action allows two choices of one entry at least. A row of masks
// belongs to one transition. A team has a tile of rows, which takes the place of a world in GV_KERNEL.
#ifndef GV_SCRATCH
#define GV_SCRATCH 1  // unused
#endif
#include "target/target.h"

#define GV_TILE 128  // rows of a team, as in gpu_vecenv/train/returns/choices.py

// gpu_vecenv/train/returns/choices.py fills this struct.
struct GvArgs {
    const gv_u8* mask;               // of agent i of sample b in step t at t * step + b * sample + i * agent, a byte a choice
    gv_i64 step, sample, agent;
    const gv_i32* ends;              // [entries] end of the choices of each masked entry
    const gv_u8* valid;              // [steps, columns] 1 if the transition counts
    gv_u8* choice;                   // the same: 1 if it counts and the agent has a choice
    gv_i32* invalid_actions;         // unused; GV_KERNEL expects it
    gv_i64 rows;                     // steps * columns
    gv_i32 num_worlds, num_agents;   // teams; 1
    gv_i32 columns, agents;          // samples of a step times agents of a sample
    gv_i32 entries, unused;
};
static_assert(sizeof(GvArgs) == 96, "as in gpu_vecenv/train/returns/choices.py");

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

GV_FN void gv_choices_tile(const GvArgs& a, const GvTeam& team) {
    const gv_i64 first = (gv_i64)team.world * GV_TILE, rest = a.rows - first;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 row = first + i, step = row / a.columns;
        const gv_i32 column = (gv_i32)(row - step * a.columns), sample = column / a.agents;
        const gv_u8* mask = a.mask + step * a.step + sample * a.sample + (column - sample * a.agents) * a.agent;
        a.choice[row] = a.valid[row] != 0 && gv_has_choice(mask, a.ends, a.entries);
    }
}

GV_KERNEL(gv_choices, gv_choices_tile)

#ifdef GV_PACK
#include "launch/threads.h"
#endif
