// A single-agent world held in variables of one lane. Its state is loaded and stored as a whole, so that its loads overlap.
#pragma once
#include "protocol.h"

// State of a register world. `seed`, `world_id` and `pool_entry` are loaded only when an episode starts, because most steps do
// not need them.
struct GvRegisterWorld {
#define GV_MEMBER(name, type, length) GvVec<type, length> name;
    GV_STATE_FIELDS(GV_MEMBER)
#undef GV_MEMBER
    gv_i32 t;
    gv_u64 seed;
    gv_i32 world_id, episode;
    gv_u8 terminated, truncated;
    gv_i32 pool_entry;
    gv_i32 world_number;  // number of the world in this launch
};

// Inputs of the start of an episode that are the same for all worlds. A step loads them together with the state, because a load at
// the start of an episode would make the warp wait. If all worlds share a seed, `seed` is that seed and `first_id` the world_id of
// world 0; otherwise `first_id` is 2^31 or more and each world has its own.
struct GvStart {
    gv_u64 seed, first_id;
    gv_i32 pool_size;
    float bounds[GV_NUM_RESET_OPTIONS > 0 ? GV_NUM_RESET_OPTIONS : 1];
};

GV_FN void gv_load_start(const GvArgs& a, GvStart& start) {
    start.seed = a.shared_key[0];
    start.first_id = a.shared_key[1];
    start.pool_size = a.pool_size[0];
    GV_UNROLL for (gv_i32 i = 0; i < GV_NUM_RESET_OPTIONS; ++i) start.bounds[i] = a.reset_bounds[i];
}

// ---- loads and stores -----------------------------------------------------------------------------------------

#define GV_LOAD(name, type, length) registers.name = ((GvVec<type, length>*)a.name)[world];
#define GV_STORE(name, type, length) ((GvVec<type, length>*)a.name)[world] = registers.name;

GV_FN void gv_load_world(const GvArgs& a, gv_i64 world, GvRegisterWorld& registers) {
    GV_STATE_FIELDS(GV_LOAD)
    registers.t = a.t[world];
    registers.episode = a.episode[world];
}

// True if a world may be finished when a step starts. In same-step mode this needs a state that the caller set.
GV_FN bool gv_may_be_finished(const GvArgs& a) { return a.autoreset != GV_SAME_STEP || a.may_be_finished[0] != 0; }

GV_FN void gv_load_flags(const GvArgs& a, gv_i64 world, bool may_be_finished, GvRegisterWorld& registers) {
    registers.terminated = may_be_finished ? a.terminated[world] : 0;
    registers.truncated = may_be_finished ? a.truncated[world] : 0;
}

GV_FN void gv_store_world(const GvArgs& a, gv_i64 world, const GvRegisterWorld& registers) {
    GV_STATE_FIELDS(GV_STORE)
    a.t[world] = registers.t;
    a.episode[world] = registers.episode;
    a.terminated[world] = registers.terminated;
    a.truncated[world] = registers.truncated;
}

// Stores a world after one step. Fields that rarely change are stored only if they changed.
GV_FN void gv_store_changes(const GvArgs& a, gv_i64 world, const GvRegisterWorld& before, const GvRegisterWorld& registers) {
    GV_STATE_FIELDS(GV_STORE)
    a.t[world] = registers.t;
    if (registers.episode != before.episode) a.episode[world] = registers.episode;
    if (a.autoreset == GV_SAME_STEP) return;  // no world stays finished, so the flags in memory do not change
    if (registers.terminated != before.terminated) a.terminated[world] = registers.terminated;
    if (registers.truncated != before.truncated) a.truncated[world] = registers.truncated;
}

// ---- arguments for hooks --------------------------------------------------------------------------------------

// Points the state in the arguments at a register world, except for its random key and pool entry.
GV_FN void gv_point_state(GvArgs& local, GvRegisterWorld& registers) {
#define GV_POINT(name, type, length) local.name = registers.name.value;
    GV_STATE_FIELDS(GV_POINT)
#undef GV_POINT
    local.t = &registers.t;
    local.terminated = &registers.terminated;
    local.truncated = &registers.truncated;
}

// Points the seed, the world_id and the pool entry in the arguments at a register world.
GV_FN void gv_point_key(GvArgs& local, GvRegisterWorld& registers) {
    local.seed = &registers.seed;
    local.world_id = &registers.world_id;
    local.pool_entry = &registers.pool_entry;
}

#define GV_SET_ROW_0(role) local.role##_row = 0;

// Arguments in which the register world is world 0. Its seed, world_id and pool entry stay in memory.
GV_FN GvArgs gv_local_args(const GvArgs& a, gv_i64 world, GvRegisterWorld& registers) {
    GvArgs local = a;
    local.num_agents = 1;
    registers.world_number = (gv_i32)world;
    gv_point_state(local, registers);
    local.episode = &registers.episode;
    local.seed += world;
    local.world_id += world;
    local.pool_entry += world;
#define GV_PARAM(name, type) if (GV_BY_WORLD && local.name##_by_world) local.name##_by_world += world;
    GV_PARAMS_BY_WORLD(GV_PARAM)
#undef GV_PARAM
    GV_LAST_ROLE(GV_SET_ROW_0)
    return local;
}

// Team of one lane for hooks that step a register world.
GV_FN GvTeam gv_one_lane(const GvTeam& team, gv_i64 world) {
    return {{0, 1, team.sums, team.scratch}, 0, nullptr, nullptr, (gv_i32)world};
}

// Loads the world's values of parameters, and sets them as values that all worlds share, so that hooks do not load them again.
GV_FN void gv_load_params(GvArgs& local) {
    (void)local;
#define GV_PARAM(name, type) local.name = gv_param_of_world(local.name##_by_world, local.name, 0);
    GV_PARAMS_BY_WORLD(GV_PARAM)
#undef GV_PARAM
#define GV_PARAM(name, type) local.name##_by_world = nullptr;
    GV_PARAMS_BY_WORLD(GV_PARAM)
#undef GV_PARAM
}

// ---- a step ---------------------------------------------------------------------------------------------------

// A step of a register world without the start of a new episode. Returns true if the caller must start one.
GV_FN bool gv_advance_in_registers(const GvArgs& local, const GvTeam& one_lane) {
    const gv_i32 t = local.t[0] + 1;
    if (local.terminated[0] != 0 || local.truncated[0] != 0) return gv_step_finished(local, one_lane);
    local.t[0] = t;
    return gv_step_running(local, one_lane).restarts;
}

// ---- starts ---------------------------------------------------------------------------------------------------

// Arguments for the start of an episode: the random key and all members of GvStart are in variables, too.
GV_FN GvArgs gv_args_with_key(const GvArgs& local, GvStart& start, GvRegisterWorld& registers) {
    GvArgs whole = local;
    const bool shared = start.first_id <= 0x7fffffff;
    registers.seed = shared ? start.seed : *local.seed;
    registers.world_id = shared ? (gv_i32)start.first_id + registers.world_number : *local.world_id;
    registers.pool_entry = start.pool_size == 0 ? -1 : *local.pool_entry;
    gv_point_key(whole, registers);
    whole.pool_size = &start.pool_size;
    whole.reset_bounds = start.bounds;
    return whole;
}

// Stores the pool entry, unless no world ever started from a pool.
GV_FN void gv_store_pool_entry(const GvArgs& local, const GvStart& start, const GvRegisterWorld& registers) {
    if (start.pool_size != 0) *local.pool_entry = registers.pool_entry;
}

// Starts an episode of a register world.
GV_FN void gv_autoreset_in_registers(const GvArgs& local, const GvTeam& one_lane, GvStart& start, GvRegisterWorld& registers) {
    gv_autoreset(gv_args_with_key(local, start, registers), one_lane);
    gv_store_pool_entry(local, start, registers);
}

// The same arguments with the state and the random key of another register world.
GV_FN GvArgs gv_args_with_world(const GvArgs& local, GvRegisterWorld& registers) {
    GvArgs other = local;
    gv_point_state(other, registers);
    other.episode = &registers.episode;
    gv_point_key(other, registers);
    return other;
}

GV_FN void gv_copy_key(GvRegisterWorld& to, const GvRegisterWorld& from) {
    to.seed = from.seed;
    to.world_id = from.world_id;
    to.episode = from.episode;
}

// Overwrites the state of the world by `next`, a start that was drawn early.
GV_FN void gv_take_start(GvRegisterWorld& registers, const GvRegisterWorld& next) {
#define GV_COPY(name, type, length) registers.name = next.name;
    GV_STATE_FIELDS(GV_COPY)
#undef GV_COPY
    registers.pool_entry = next.pool_entry;
    registers.episode += 1;
    registers.t = 0;
    registers.terminated = registers.truncated = 0;
}
