// One step of a single-agent world that is held in variables of one lane.
#pragma once
#include "random_actions.h"
#include "single/register_world.h"

// Room for the entries of an action, in variables of a lane.
#ifdef GV_ENTRIES  // a program of the learner has set it
#elif defined(GV_num_entries)
#define GV_ENTRIES GV_num_entries
#else
#define GV_ENTRIES 64  // MAX_ENTRIES in spec/layout.py
#endif

// ---- outputs --------------------------------------------------------------------------------------------------

// Points the outputs in the arguments at a row. With one agent a world, rows are worlds in both views.
template <class Row>
GV_FN void gv_point_outputs(const GvArgs& a, GvArgs& local, Row row) {
    const gv_i64 features = (gv_i64)row * gv_num_features(a);
    local.agents_view = 0;
    local.obs = a.obs + features;
    local.final_obs = a.final_obs ? a.final_obs + features : nullptr;
    local.out_terminated = a.out_terminated + row;
    local.out_truncated = a.out_truncated + row;
    local.out_finished = a.out_finished + row;
#define GV_METRIC(name, reduction) local.out_episode_##name = a.out_episode_##name + row;
    GV_METRICS(GV_METRIC)
#undef GV_METRIC
}

// Observation of a step, held until the lane knows if it is the last one of the episode. All lanes of a warp then store at the same
// time, in whole sectors. If observations are long, or their length is not a constant (host), hooks write to memory directly.
#if defined(GV_num_features) && GV_num_features <= 32
struct GvRegisterObs {
    float value[GV_num_features];
};
GV_FN void gv_point_obs(GvArgs& local, GvRegisterObs& registers) { local.obs = local.final_obs = registers.value; }
GV_FN bool gv_obs_aligned(const float* obs) { return gv_is_aligned<GV_num_features>(obs); }
GV_FN void gv_store_obs(float* obs, gv_i64 row, const GvRegisterObs& registers, bool aligned) {
    gv_store_row_once<GV_num_features>(obs, row, registers.value, aligned);
}
#else
struct GvRegisterObs {};
GV_FN void gv_point_obs(GvArgs&, GvRegisterObs&) {}
GV_FN bool gv_obs_aligned(const float*) { return true; }
GV_FN void gv_store_obs(float*, gv_i64, const GvRegisterObs&, bool) {}
#endif

// Stores the last observation of an episode, if `last`. A partly written sector costs a GPU more than a whole one, so worlds whose
// rows are in the same sector store theirs as well; final_obs is not valid in those rows. All lanes of a warp must call this.
GV_FN void gv_store_final_obs(const GvArgs& a, gv_i64 row, const GvRegisterObs& registers, bool last, bool aligned) {
    const gv_i32 features = gv_num_features(a), worlds = features % 8 == 0 ? 1 : features % 4 == 0 ? 2 : features % 2 == 0 ? 4 : 8;
    if (gv_any_in_group(worlds, last)) gv_store_obs(a.final_obs, row, registers, aligned);
}

// ---- the step -------------------------------------------------------------------------------------------------

GV_FN void gv_step_in_registers(const GvArgs& a, const GvTeam& team) {
    GvRegisterWorld registers;
    gv_load_world(a, team.world, registers);
    GvStart start;
    gv_load_start(a, start);
    gv_load_fence();  // loads of actions come last, as a branch for each of their types delays the loads behind it
    gv_i32 index[GV_ENTRIES];
    GvEntry action[GV_ENTRIES];
    const gv_i64 first = (gv_i64)team.world * gv_num_entries(a);
    const gv_i32 type = a.action_type;
    for (gv_i32 entry = 0; entry < gv_num_entries(a); ++entry) index[entry] = gv_typed_index(a.action, first + entry, type);
    gv_load_fence();
    gv_load_flags(a, team.world, gv_may_be_finished(a), registers);
    const GvRegisterWorld before = registers;
    for (gv_i32 entry = 0; entry < gv_num_entries(a); ++entry) action[entry].index = index[entry];
    GvArgs local = gv_local_args(a, team.world, registers);
    gv_load_params(local);
    gv_point_outputs(a, local, team.world);
    local.previous_obs = a.previous_obs + team.world * (gv_i64)gv_num_features(a);
    local.action = action;
    local.action_type = GV_INT32;
    float reward = 0.0f;
    local.agent_reward = &reward;
    const GvTeam one_lane = gv_one_lane(team, team.world);
    GvRegisterObs obs;
    gv_point_obs(local, obs);
    const bool restarts = gv_advance_in_registers(local, one_lane);
    if (a.autoreset == GV_SAME_STEP) gv_store_final_obs(a, team.world, obs, restarts, gv_obs_aligned(a.final_obs));
    if (restarts) gv_autoreset_in_registers(local, one_lane, start, registers);
    gv_store_obs(a.obs, team.world, obs, gv_obs_aligned(a.obs));
    gv_store_changes(a, team.world, before, registers);
    gv_store_once(a.agent_reward + team.world, reward);
}
