// Worlds of one agent, stepped in blocks on the host. The common case, a step without a beginning or an end of an episode, is
// one loop over a block's worlds in which all is local, so that the compiler may step several at once in vector registers.
// Each world goes through the same functions as it would alone.
#pragma once
#include "gv_env.h"

// Step the block's worlds, as if none had ended. BYTES is the size of an action.
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

GV_FN bool gv_has_marks(const GvArgs& a, gv_i64 first) {
    gv_u8 marks = 0;
    for (gv_i32 i = 0; i < GV_BLOCK; ++i) marks |= a.terminated[first + i] | a.truncated[first + i];
    return marks != 0;
}

// Worlds of some blocks that begin anew in a step. They do so one right after the other, so that a processor has the work of
// several at hand.
#define GV_BLOCKS 16
struct GvBeginners {
    gv_i32 world[GV_BLOCKS * GV_BLOCK], count;
};

// Add the marked worlds of a block.
GV_FN void gv_add_marked(const GvArgs& a, gv_i32 first, GvBeginners& beginners) {
    for (gv_i32 i = first; i < first + GV_BLOCK; i += 8) {
        gv_u64 terminated, truncated;  // of eight worlds, a byte each
        __builtin_memcpy(&terminated, a.terminated + i, 8);
        __builtin_memcpy(&truncated, a.truncated + i, 8);
        for (gv_u64 marks = terminated | truncated; marks != 0; marks &= marks - 1)
            beginners.world[beginners.count++] = i + __builtin_ctzll(marks) / 8;
    }
}

GV_FN void gv_copy_row(const float* from, float* to) {
    for (gv_i32 f = 0; f < GV_SOLO_FEATURES; ++f) to[f] = from[f];
}

// Called from more than one place, and written out in none: compilers would take minutes.
#define GV_CALLED static __attribute__((noinline))
GV_CALLED void gv_step_alone(const GvArgs& a, const GvTeam& team) { gv_step_world(a, team); }
GV_CALLED void gv_rollout_alone(const GvArgs& a, const GvTeam& team) { gv_rollout_world(a, team); }

GV_CALLED void gv_begin_anew(const GvArgs& a, const GvTeam& team, const GvBeginners& beginners) {
    GvStart start;
    gv_load_start(a, start);
    for (gv_i32 i = 0; i < beginners.count; ++i) {
        const gv_i64 w = beginners.world[i], row = w * GV_SOLO_FEATURES;
        if (a.autoreset == GV_SAME_STEP) gv_copy_row(a.obs + row, a.final_obs + row);
        GvWorld held;
        gv_load(a, w, held);
        const GvTeam alone = {0, 0, 1, team.slots, team.scratch};
        GvArgs mine = gv_window(a, w, held);
        gv_at_row(a, mine, w);
        gv_begin_held(mine, alone, start, held);
        gv_store(a, w, held);
    }
}

// Step some blocks; adds the worlds that begin anew in the same step. Its arguments are copies, which no store to an output can
// change: else the loop is not vectorised.
GV_CALLED void gv_run_blocks(const GvArgs a, GvTeam team, gv_i32 blocks, GvBeginners& beginners) {
    for (; blocks > 0; --blocks, team.world += GV_BLOCK) {
        GvBlock block;
        gv_block_params(a, team.world, block);
        if (a.action_bytes == 8) gv_run_block<8>(a, team, block);
        else gv_run_block<4>(a, team, block);
        for (gv_i32 i = 0; a.autoreset == GV_NEXT_STEP && i < beginners.count; ++i)
            block.invalid[beginners.world[i] - team.world] = 0;  // theirs are not looked at
        for (gv_i32 i = 0; i < GV_BLOCK; ++i) *a.invalid_actions += block.invalid[i];
        if (a.autoreset == GV_SAME_STEP) gv_add_marked(a, team.world, beginners);
    }
}

GV_FN void gv_step_same(const GvArgs& a, const GvTeam& team, gv_i32 blocks) {
    GvBeginners beginners;
    beginners.count = 0;
    gv_run_blocks(a, team, blocks, beginners);
    gv_begin_anew(a, team, beginners);
}

// A block in next-step mode: worlds that begin anew are stepped like the others, and put back to what they were at their start.
GV_FN void gv_step_next(const GvArgs& a, const GvTeam& team) {
    GvBeginners beginners;
    beginners.count = 0;
    gv_add_marked(a, team.world, beginners);
    gv_begin_anew(a, team, beginners);
    GvWorld held[GV_BLOCK];
    float obs[GV_BLOCK][GV_SOLO_FEATURES];
    for (gv_i32 i = 0; i < beginners.count; ++i) {
        gv_load(a, beginners.world[i], held[i]);
        gv_load_marks(a, beginners.world[i], true, held[i]);
        gv_copy_row(a.obs + (gv_i64)beginners.world[i] * GV_SOLO_FEATURES, obs[i]);
    }
    gv_run_blocks(a, team, 1, beginners);
    for (gv_i32 i = 0; i < beginners.count; ++i) {
        const gv_i64 w = beginners.world[i];
        gv_store(a, w, held[i]);
        gv_copy_row(obs[i], a.obs + w * GV_SOLO_FEATURES);
        a.agent_reward[w] = 0.0f;
        a.out_terminated[w] = a.out_truncated[w] = a.out_finished[w] = 0;
    }
}

// Step whole blocks of worlds up to `end`; returns the first world that is left.
GV_FN gv_i32 gv_step_blocks(const GvArgs& a, const GvTeam& first, gv_i32 end) {
    const bool usual = a.num_features == GV_SOLO_FEATURES && a.num_heads == GV_SOLO_HEADS;
    GvTeam team = first;
    while (end - team.world >= GV_BLOCK) {
        const gv_i32 left = (end - team.world) / GV_BLOCK;
        gv_i32 blocks = 0;
        while (usual && blocks < left && blocks < GV_BLOCKS && !gv_has_marks(a, team.world + blocks * GV_BLOCK)) ++blocks;
        if (blocks > 0) {
            gv_step_same(a, team, blocks);
            team.world += blocks * GV_BLOCK;
        } else if (usual && a.autoreset == GV_NEXT_STEP) {
            gv_step_next(a, team);
            team.world += GV_BLOCK;
        } else {  // worlds that stand still among others
            for (const gv_i32 next = team.world + GV_BLOCK; team.world < next; ++team.world) gv_step_alone(a, team);
        }
    }
    return team.world;
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
    GvArgs now = a;
    GvOrigin origins[GV_BLOCK];
    GvDraw words[GV_BLOCK * GV_SOLO_HEADS];
    for (gv_i32 i = 0; i < GV_BLOCK; ++i) origins[i] = gv_origin(a, team.world + i);
    if (a.drawn_actions) now.action = a.drawn_actions;
    for (gv_i32 step = 0; step < a.num_steps; ++step) {
        const gv_i64 row = (gv_i64)step * a.num_worlds;
        if (step > 0) now.previous_obs = now.obs;
        gv_at_row(a, now, row);
        now.agent_reward = a.agent_reward + row;
        for (gv_i32 entry = 0; a.drawn_actions && entry < GV_BLOCK * GV_SOLO_HEADS; ++entry) {
            const gv_i32 i = entry / GV_SOLO_HEADS, head = entry - i * GV_SOLO_HEADS;
            if ((step & 3) == 0) words[entry] = gv_four_steps(origins[i], head, 0, step);
            const GvEntry drawn = gv_random_entry(a, gv_range(a, head), words[entry].word[step & 3]);
            gv_put_entry(a, (void*)now.action, (gv_i64)team.world * GV_SOLO_HEADS + entry, drawn);
        }
        gv_step_blocks(now, team, team.world + GV_BLOCK);
        now.action = (const char*)now.action + a.action_stride;
    }
}

GV_FN gv_i32 gv_rollout_blocks(const GvArgs& a, GvTeam team, gv_i32 end) {
    for (; end - team.world >= GV_BLOCK; team.world += GV_BLOCK) gv_rollout_block(a, team);
    return team.world;
}
