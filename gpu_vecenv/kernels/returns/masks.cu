// Masks of the transitions of a rollout. A column of these arrays belongs to one row of the env. A team has GV_TILE columns
// in GV_STEPS steps. All steps are loaded before the first is used, so that a lane waits for memory once.
#include "program_args.h"

// Address of a column's flag in step 0.
GV_FN const gv_u8* gv_column(const GvArgs& a, const GvFlags& flags, gv_i32 column) {
    const gv_i32 world = column / a.agents;
    return flags.at + world * flags.world + (column - world * a.agents) * flags.agent;
}

// Flags of a column in the step before the team's first and in the team's steps, a bit each.
GV_FN gv_u32 gv_read(const GvArgs& a, const GvFlags& flags, gv_i32 column, gv_i32 first) {
    const gv_u8* const at = gv_column(a, flags, column);
    gv_u32 bits = 0;
    GV_UNROLL for (gv_i32 k = 0; k <= GV_STEPS; ++k) {
        const gv_i32 step = first + k - 1;
        if (step >= 0 && step < a.steps && at[step * flags.step] != 0) bits |= 1u << k;
    }
    return bits;
}

GV_FN void gv_masks_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i32 tiles = (a.columns + GV_TILE - 1) / GV_TILE;
    const gv_i32 first = tile / tiles * GV_STEPS, start = tile % tiles * GV_TILE, rest = a.columns - start;
    GV_FOR(i, rest < GV_TILE ? rest : GV_TILE) {
        const gv_i32 column = start + i;
        const gv_u32 terminated = gv_read(a, a.terminated, column, first), truncated = gv_read(a, a.truncated, column, first);
        const gv_u32 alive = gv_read(a, a.agent_alive, column, first), ended = terminated | truncated;
        const gv_u32 reset = a.alive_reset.at == nullptr ? ~0u : gv_read(a, a.alive_reset, column, first);
        // A transition is valid if its agent was alive after the step before, or after the reset if that step ended the episode.
        gv_u32 valid = ((ended & reset) | (~ended & alive)) << 1;
        if (first == 0) valid = (valid & ~2u) | (*gv_column(a, a.alive_start, column) != 0 ? 2u : 0u);
        const gv_u32 present = valid & alive, episode_end = ended | ~present, timed_out = truncated & ~terminated & present;
        GV_UNROLL for (gv_i32 k = 1; k <= GV_STEPS; ++k) {
            if (first + k > a.steps) break;
            const gv_i64 to = (first + k - 1) * a.step + column;
            a.valid[to] = valid >> k & 1u;
            a.episode_end[to] = episode_end >> k & 1u;
            a.timed_out[to] = timed_out >> k & 1u;
            a.ended[to] = ended >> k & 1u;
        }
    }
}

GV_PLAIN_KERNEL(gv_masks, gv_masks_tile)
