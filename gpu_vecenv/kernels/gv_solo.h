// A world of one agent, stepped in variables of one lane: its state is read and written as a whole.
// gv_env.h includes this file behind the protocol; GvWorld and GvStart are generated from the env's spec.
#pragma once

// An entry of an action, and how many a lane has room for.
#ifdef GV_num_heads
#define GV_HEADS GV_num_heads
#else
#define GV_HEADS 64  // as many as an action may have
#endif

union GvEntry {
    gv_i32 index;
    float value;
};

#if defined(GV_SOLO) && GV_ONE_LANE

// An entry of the action given for this step.
GV_FN GvEntry gv_given_entry(const GvArgs& a, const char* actions, gv_i32 head, bool wide) {
    GvEntry entry;
    if (gv_continuous(a)) entry.value = ((const float*)actions)[head];
    else entry.index = gv_index_at(actions, head, wide);
    return entry;
}

// Outputs of a world of one agent: with one agent a world, rows are worlds in either view.
template <class Row>
GV_FN void gv_at_row(const GvArgs& a, GvArgs& mine, Row row) {
    const gv_i64 features = (gv_i64)row * gv_num_features(a);
    mine.agents_view = 0;
    mine.obs = a.obs + features;
    mine.final_obs = a.final_obs ? a.final_obs + features : nullptr;
    mine.out_terminated = a.out_terminated + row;
    mine.out_truncated = a.out_truncated + row;
    mine.out_finished = a.out_finished + row;
}

// An observation that is not written before it is known whether it is the last: all lanes of a warp then write at once, where
// sectors of memory that are written in parts cost more. One too long for registers, or whose length is not known (on the
// host), is written in place.
#if defined(GV_num_features) && GV_num_features <= 32
struct GvSeen {
    float value[GV_num_features];
};
GV_FN void gv_hold_obs(GvArgs& mine, GvSeen& seen) { mine.obs = mine.final_obs = seen.value; }
GV_FN void gv_put_obs(float* obs, gv_i64 row, const GvSeen& seen) { gv_stream_row<GV_num_features>(obs, row, seen.value); }
#else
struct GvSeen {};
GV_FN void gv_hold_obs(GvArgs&, GvSeen&) {}
GV_FN void gv_put_obs(float*, gv_i64, const GvSeen&) {}
#endif

GV_FN void gv_begin_held(const GvArgs& mine, const GvTeam& alone, GvStart& start, GvWorld& held) {
    gv_begin(gv_with_stream(mine, start, held), alone);
    gv_store_stream(mine, start, held);
}

// Step a world of one agent in variables of its lane, which are read and written as a whole: memory is waited for once.
GV_FN void gv_step_held(const GvArgs& a, const GvTeam& team) {
    GvWorld held;
    gv_load(a, team.world, held);
    GvWorld before = held;
    GvStart start;
    gv_load_start(a, start);
    GvEntry action[GV_HEADS];
    const char* given = (const char*)a.action + team.world * (gv_i64)gv_num_heads(a) * a.action_bytes;
    for (gv_i32 head = 0; head < gv_num_heads(a); ++head) action[head] = gv_given_entry(a, given, head, a.action_bytes == 8);
    GvArgs mine = gv_window(a, team.world, held);
    gv_own_params(mine);
    gv_at_row(a, mine, team.world);
    mine.previous_obs = a.previous_obs + team.world * (gv_i64)gv_num_features(a);
    mine.action = action;
    mine.action_bytes = 4;
    float reward = 0.0f;
    mine.agent_reward = &reward;
    const GvTeam alone = {0, 0, 1, team.slots, team.scratch};
    GvSeen seen;
    gv_hold_obs(mine, seen);
    if (gv_advance(mine, alone)) {
        if (a.autoreset == GV_SAME_STEP) gv_put_obs(a.final_obs, team.world, seen);
        gv_begin_held(mine, alone, start, held);
    }
    gv_put_obs(a.obs, team.world, seen);
    gv_store_changes(a, team.world, before, held);
    gv_put(a.agent_reward + team.world, reward);
}

#endif
