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

// An entry of a given action as it lies in memory. Who looks at it waits for it.
union GvRaw {
    gv_i32 narrow;
    gv_i64 wide;
};

GV_FN GvRaw gv_raw_entry(const char* actions, gv_i32 head, bool wide) {
    GvRaw raw;
    if (wide) raw.wide = ((const gv_i64*)actions)[head];
    else raw.narrow = ((const gv_i32*)actions)[head];
    return raw;
}

GV_FN GvEntry gv_entry_of(const GvRaw& raw, bool wide) {
    GvEntry entry;
    entry.index = wide ? gv_narrow(raw.wide) : raw.narrow;  // or the bits of a number
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
GV_FN bool gv_obs_lie_well(const float* obs) { return gv_lies_well<GV_num_features>(obs); }
GV_FN void gv_put_obs(float* obs, gv_i64 row, const GvSeen& seen, bool lies_well) {
    gv_stream_row<GV_num_features>(obs, row, seen.value, lies_well);
}
#else
struct GvSeen {};
GV_FN void gv_hold_obs(GvArgs&, GvSeen&) {}
GV_FN bool gv_obs_lie_well(const float*) { return true; }
GV_FN void gv_put_obs(float*, gv_i64, const GvSeen&, bool) {}
#endif

// Write the last observation of an episode, in the worlds for which it is that. To write a part of a sector costs a GPU more
// than the whole of it, so worlds beside them, as far as they have a part in these sectors, write along; what they write says
// nothing. Every lane of a warp comes along.
GV_FN void gv_put_last(const GvArgs& a, gv_i64 row, const GvSeen& seen, bool last, bool lies_well) {
    const gv_i32 features = gv_num_features(a), worlds = features % 8 == 0 ? 1 : features % 4 == 0 ? 2 : features % 2 == 0 ? 4 : 8;
    if (GV_BESIDE(worlds, last)) gv_put_obs(a.final_obs, row, seen, lies_well);
}

GV_FN void gv_begin_held(const GvArgs& mine, const GvTeam& alone, GvStart& start, GvWorld& held) {
    gv_begin(gv_with_stream(mine, start, held), alone);
    gv_store_stream(mine, start, held);
}

// Whether a world may be marked as finished: in same-step mode no mark outlives its step, but marks may be given.
GV_FN bool gv_may_be_marked(const GvArgs& a) { return a.autoreset != GV_SAME_STEP || a.marked[0] != 0; }

// Step a world of one agent in variables of its lane, which are read and written as a whole: memory is waited for once.
GV_FN void gv_step_held(const GvArgs& a, const GvTeam& team) {
    GvWorld held;
    gv_load(a, team.world, held);
    GvRaw given[GV_HEADS];
    GvEntry action[GV_HEADS];
    const bool wide = a.action_bytes == 8;
    const char* from = (const char*)a.action + team.world * (gv_i64)gv_num_heads(a) * a.action_bytes;
    for (gv_i32 head = 0; head < gv_num_heads(a); ++head) given[head] = gv_raw_entry(from, head, wide);
    GvStart start;
    gv_load_start(a, start);
    GV_ASKED();
    gv_load_marks(a, team.world, gv_may_be_marked(a), held);
    const GvWorld before = held;
    for (gv_i32 head = 0; head < gv_num_heads(a); ++head) action[head] = gv_entry_of(given[head], wide);
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
    const bool begins = gv_advance(mine, alone);
    if (a.autoreset == GV_SAME_STEP) gv_put_last(a, team.world, seen, begins, gv_obs_lie_well(a.final_obs));
    if (begins) gv_begin_held(mine, alone, start, held);
    gv_put_obs(a.obs, team.world, seen, gv_obs_lie_well(a.obs));
    gv_store_changes(a, team.world, before, held);
    gv_put(a.agent_reward + team.world, reward);
}

#endif
