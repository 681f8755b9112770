// Worlds of one agent, stepped in blocks on the host. The common case, a step without a beginning or an end of an episode, is
// one loop over a block's worlds in which all is local, so that the compiler may step several at once in vector registers.
// Each world goes through the same functions as it would alone.
#pragma once
#include "gv_env.h"

// Step the block's worlds, none of which awaits a reset. BYTES is the size of an action.
template <gv_i32 BYTES>
GV_FN void gv_run_block(const GvArgs& a, const GvTeam& team, GvBlock& block) {
    GV_INDEPENDENT for (gv_i32 i = 0; i < GV_BLOCK; ++i) {
        GvWorld held;
        GvOutput out;
        GvArgs mine = gv_block_window<BYTES>(a, team.world, i, block, held, out);
        mine.autoreset = GV_DISABLED;  // a new episode begins later
        const GvTeam alone = {0, 0, 1, team.slots, team.scratch};
        gv_advance(mine, alone);
        gv_block_put(a, (gv_i64)team.world + i, held, out);
        block.invalid[i] = out.invalid;
    }
}

GV_FN bool gv_awaits_reset(const GvArgs& a, gv_i64 first) {
    gv_u8 waiting = 0;
    for (gv_i32 i = 0; i < GV_BLOCK; ++i) waiting |= a.terminated[first + i] | a.truncated[first + i];
    return waiting != 0;
}

// Called from more than one place, and written out in none: compilers would take minutes.
#define GV_CALLED static __attribute__((noinline))
GV_CALLED void gv_step_alone(const GvArgs& a, const GvTeam& team) { gv_step_world(a, team); }
GV_CALLED void gv_rollout_alone(const GvArgs& a, const GvTeam& team) { gv_rollout_world(a, team); }

// Its arguments are copies, which no store to an output can change: else the loop is not vectorised.
GV_CALLED void gv_step_block(const GvArgs a, const GvTeam team) {
    if (a.num_features != GV_SOLO_FEATURES || a.num_heads != GV_SOLO_HEADS || gv_awaits_reset(a, team.world)) {
        for (gv_i32 i = 0; i < GV_BLOCK; ++i) {
            const GvTeam one = {team.world + i, 0, 1, team.slots, team.scratch};
            gv_step_alone(a, one);
        }
        return;
    }
    GvBlock block;
    gv_block_params(a, team.world, block);
    if (a.action_bytes == 8) gv_run_block<8>(a, team, block);
    else gv_run_block<4>(a, team, block);
    for (gv_i32 i = 0; i < GV_BLOCK; ++i) *a.invalid_actions += block.invalid[i];
    if (a.autoreset != GV_SAME_STEP) return;
    GvStart start;
    gv_load_start(a, start);
    for (gv_i32 i = 0; i < GV_BLOCK; ++i) {
        const gv_i64 w = (gv_i64)team.world + i;
        if (!(a.terminated[w] | a.truncated[w])) continue;
        for (gv_i32 f = 0; f < GV_SOLO_FEATURES; ++f) a.final_obs[w * GV_SOLO_FEATURES + f] = a.obs[w * GV_SOLO_FEATURES + f];
        GvWorld held;
        gv_load(a, w, held);
        const GvTeam alone = {0, 0, 1, team.slots, team.scratch};
        GvArgs mine = gv_window(a, w, held);
        gv_at_row(a, mine, w);
        gv_begin_held(mine, alone, start, held);
        gv_store(a, w, held);
    }
}

// Several steps of the block's worlds. One draw of random words serves four steps.
GV_FN void gv_rollout_block(const GvArgs& a, const GvTeam& team) {
    if (a.num_heads != GV_SOLO_HEADS) {
        for (gv_i32 i = 0; i < GV_BLOCK; ++i) {
            const GvTeam one = {team.world + i, 0, 1, team.slots, team.scratch};
            gv_rollout_alone(a, one);
        }
        return;
    }
    const GvStrides strides = gv_strides(a);
    GvArgs now = a;
    GvOrigin origins[GV_BLOCK];
    GvDraw words[GV_BLOCK * GV_SOLO_HEADS];
    for (gv_i32 i = 0; i < GV_BLOCK; ++i) origins[i] = gv_origin(a, team.world + i);
    if (a.drawn_actions) now.action = a.drawn_actions;
    for (gv_i32 step = 0; step < a.num_steps; ++step) {
        for (gv_i32 entry = 0; a.drawn_actions && entry < GV_BLOCK * GV_SOLO_HEADS; ++entry) {
            const gv_i32 i = entry / GV_SOLO_HEADS, head = entry - i * GV_SOLO_HEADS;
            if ((step & 3) == 0) words[entry] = gv_four_steps(origins[i], head, 0, step);
            const GvEntry drawn = gv_random_entry(a, gv_range(a, head), words[entry].word[step & 3]);
            gv_put_entry(a, (void*)now.action, (gv_i64)team.world * GV_SOLO_HEADS + entry, drawn);
        }
        gv_step_block(now, team);
        now.previous_obs = now.obs;
        gv_next_slot(now, strides);
        now.action = (const char*)now.action + a.action_stride;
    }
}
