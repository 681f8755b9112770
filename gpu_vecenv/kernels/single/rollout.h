// A rollout of a single-agent world, which is held in variables of one lane from the first step to the last.
#pragma once
#include "single/step.h"

#define GV_DRAW_EARLY 8  // steps from one early draw of starts to the next, a power of two

// Loads one entry of the given actions of four steps, or of the `left` steps that remain, and prefetches those of the next four.
// The four loads overlap.
GV_FN GvDraw gv_load_four_steps(const GvArgs& a, const char* actions, gv_i32 entry, gv_i32 left) {
    GvLoadedIndex loaded[4];
    for (gv_i32 i = 0; i < 4; ++i) loaded[i] = gv_load_index(actions + (i < left ? i : 0) * a.action_stride, entry, a.action_type);
    for (gv_i32 i = 4; i < 8; ++i)
        if (i < left) gv_prefetch(actions + i * a.action_stride + entry * gv_entry_bytes(a.action_type));
    GvDraw draw;
    for (gv_i32 i = 0; i < 4; ++i) draw.word[i] = (gv_u32)gv_loaded_index(loaded[i], a.action_type);
    return draw;
}

// Row is an unsigned integer type that can index the rows of all steps. One index takes fewer registers than a pointer to each
// output.
//
// Starts of episodes are drawn early, every GV_DRAW_EARLY steps, by all lanes that have no start in reserve. Lanes end their
// episodes at different times, and a draw by one lane takes a warp as long as a draw by all lanes.
//
// `never_finished` is the common case: same-step mode, no world finished at the start, and aligned observations.
template <class Row, bool never_finished>
GV_FN void gv_rollout_in_registers(const GvArgs& a, const GvTeam& team) {
    GvRegisterWorld registers, next;
    gv_load_world(a, team.world, registers);
    GvStart start;
    gv_load_start(a, start);
    gv_load_flags(a, team.world, !never_finished, registers);
    const GvArgs without_key = gv_local_args(a, team.world, registers);
    GvArgs local = gv_args_with_key(without_key, start, registers);
    const GvOrigin origin = gv_origin(local, 0);
    const GvTeam one_lane = gv_one_lane(team, team.world);
    const gv_i32 entries = gv_num_entries(a), features = gv_num_features(a);
    const bool given = a.drawn_actions == nullptr;
    const char* actions = (const char*)(given ? a.action : a.drawn_actions) +
                          team.world * (gv_i64)(entries * gv_entry_bytes(a.action_type));
    GvRange ranges[GV_ENTRIES];
    for (gv_i32 entry = 0; entry < entries; ++entry) ranges[entry] = gv_range(a.action_choices, a.action_bounds, entry);
    GvDraw words[GV_ENTRIES];
    GvEntry action[GV_ENTRIES];
    gv_load_params(local);
    local.action = action;
    local.action_type = GV_INT32;
    float reward = 0.0f;
    local.agent_reward = &reward;
    const GvArgs early = gv_args_with_world(local, next);
    bool drawn = false;  // true if `next` holds the start of the next episode
    Row row = (Row)team.world;
    GV_LOOP for (gv_i32 step = 0; step < a.num_steps; ++step) {
        gv_block_barrier(team);  // makes warps store their rows of a step at about the same time, in one long run of memory
        for (gv_i32 entry = 0; entry < entries; ++entry) {
            GvDraw& draw = words[entry];
            if ((step & 3) == 0) {
                if (given) draw = gv_load_four_steps(a, actions, entry, a.num_steps - step);
                else draw = gv_draw_four_steps(origin, entry, 0, step);
            }
            if (given) {
                action[entry].index = (gv_i32)draw.word[0];
            } else {
                action[entry] = gv_random_entry(gv_continuous(a) != 0, ranges[entry], draw.word[0]);
                gv_store_entry((void*)actions, entry, a.action_type, action[entry]);
            }
            draw = {{draw.word[1], draw.word[2], draw.word[3], 0}};
        }
        actions += a.action_stride;
        gv_point_outputs(a, local, row);
        if (never_finished) {
            registers.terminated = registers.truncated = 0;  // they are 0 already; the assignment tells the compiler
            local.autoreset = GV_SAME_STEP;
        }
        if (registers.terminated || registers.truncated)  // only finished worlds read previous_obs
            local.previous_obs =
                step == 0 ? a.previous_obs + (gv_i64)row * features : a.obs + (gv_i64)(row - a.num_worlds) * features;
        GvRegisterObs obs;
        gv_point_obs(local, obs);
        const bool restarts = gv_advance_in_registers(local, one_lane);
        if (never_finished) gv_store_final_obs(a, (gv_i64)row, obs, restarts, true);
        if (!drawn && (restarts || (step & (GV_DRAW_EARLY - 1)) == 0)) {
            gv_copy_key(next, registers);
            gv_reset_state(early, one_lane);
            drawn = true;
        }
        if (restarts) {
            gv_write_start(local, one_lane);
            if (local.autoreset == GV_SAME_STEP && !never_finished) gv_store_obs(a.final_obs, (gv_i64)row, obs, gv_obs_aligned(a.final_obs));
            gv_take_start(registers, next);
            drawn = false;
            env_observe(local, one_lane, local.obs);
        }
        gv_store_obs(a.obs, (gv_i64)row, obs, never_finished || gv_obs_aligned(a.obs));
        gv_store_once(a.agent_reward + row, reward);
        row += a.num_worlds;
    }
    gv_store_world(a, team.world, registers);
    gv_store_pool_entry(without_key, start, registers);
}

GV_FN void gv_rollout_single(const GvArgs& a, const GvTeam& team) {
    const bool never_finished = !gv_may_be_finished(a) && gv_obs_aligned(a.obs) && gv_obs_aligned(a.final_obs);
    if (never_finished && (gv_i64)a.num_steps * a.num_worlds <= 0xffffffffll) gv_rollout_in_registers<gv_u32, true>(a, team);
    else gv_rollout_in_registers<gv_u64, false>(a, team);
}
