// Packs of 32 single-agent worlds, which the host steps together. A step is one loop over the worlds of a pack. Its body uses local
// variables and starts no episode, so the compiler can step several worlds at once in vector registers. It calls the same functions
// as a step without a pack.
//
// Episodes start outside this loop: after it in same-step mode, before it in next-step mode.
#pragma once
#include "single/rollout.h"

// Values of all worlds of a pack.
struct GvPack {
    gv_i32 invalid[GV_PACK];
#define GV_PARAM(name, type) type name[GV_PACK];
    GV_PARAMS_BY_WORLD(GV_PARAM)
#undef GV_PARAM
};

// Outputs and parameters of one world of a pack.
struct GvPackOutput {
    float obs[GV_SINGLE_FEATURES], reward;
    GvNumbers metrics;
    gv_i32 invalid;
    gv_u8 terminated, truncated, finished;
#define GV_PARAM(name, type) type name;
    GV_PARAMS_BY_WORLD(GV_PARAM)
#undef GV_PARAM
};

GV_FN void gv_load_pack_params(const GvArgs& a, gv_i64 first, GvPack& pack) {
    (void)a, (void)first, (void)pack;
#define GV_PARAM(name, type) for (gv_i32 i = 0; i < GV_PACK; ++i) pack.name[i] = gv_param_of_world(a.name##_by_world, a.name, first + i);
    GV_PARAMS_BY_WORLD(GV_PARAM)
#undef GV_PARAM
}

// The metrics that a world gives when its episode ends. A pack stores those of all its worlds, because a store under a condition
// keeps the compiler from stepping worlds in vector registers: a world whose episode goes on stores what was in memory.
GV_FN void gv_load_pack_metrics(const GvArgs& a, gv_i64 world, GvNumbers& metrics) {
    (void)a, (void)world, (void)metrics;
#define GV_METRIC(name, reduction) metrics.name = a.out_episode_##name[world];
    GV_METRICS(GV_METRIC)
#undef GV_METRIC
}

GV_FN void gv_store_pack_metrics(const GvArgs& a, gv_i64 world, const GvNumbers& metrics) {
    (void)a, (void)world, (void)metrics;
#define GV_METRIC(name, reduction) a.out_episode_##name[world] = metrics.name;
    GV_METRICS(GV_METRIC)
#undef GV_METRIC
}

// Choices of each entry of an action with default parameters, for which packs are compiled: a load from memory in the loop would keep
// the compiler from stepping worlds in vector registers.
static constexpr gv_i32 gv_single_choices[GV_SINGLE_ENTRIES] = {GV_SINGLE_CHOICES};

// Loads world i of a pack into `registers`, and returns arguments in which it is world 0. `actions` are those of the pack, of
// int32 or float32. The random key stays in memory.
GV_FN GvArgs gv_pack_args(const GvArgs& a, gv_i64 first, gv_i32 i, const void* actions, const GvPack& pack, GvRegisterWorld& registers,
                          GvPackOutput& out) {
    GvArgs local = a;
    const gv_i64 world = first + i;
    GV_STATE_FIELDS(GV_LOAD)
    registers.t = a.t[world];
    registers.terminated = registers.truncated = 0;
    gv_point_state(local, registers);
    local.seed += world;
    local.world_id += world;
    local.pool_entry += world;
    local.episode += world;
    out.invalid = 0;
    local.num_agents = 1;
    local.agents_view = 0;
    local.num_features = GV_SINGLE_FEATURES;
    GV_LAST_ROLE(GV_SET_ROW_0)
    local.obs = out.obs;
    local.agent_reward = &out.reward;
    local.invalid_actions = &out.invalid;
    local.out_terminated = &out.terminated;
    local.out_truncated = &out.truncated;
    local.out_finished = &out.finished;
    gv_load_pack_metrics(a, world, out.metrics);
#define GV_METRIC(name, reduction) local.out_episode_##name = &out.metrics.name;
    GV_METRICS(GV_METRIC)
#undef GV_METRIC
    local.action = (const char*)actions + i * (GV_SINGLE_ENTRIES * GV_INT32);
    local.action_type = GV_INT32;
    local.action_choices = const_cast<gv_i32*>(gv_single_choices);
    (void)pack;
#define GV_PARAM(name, type)                  \
    out.name = pack.name[i];            \
    local.name##_by_world = &out.name;
    GV_PARAMS_BY_WORLD(GV_PARAM)
#undef GV_PARAM
    return local;
}

GV_FN void gv_store_pack_world(const GvArgs& a, gv_i64 world, const GvRegisterWorld& registers, const GvPackOutput& out) {
    GV_STATE_FIELDS(GV_STORE)
    a.t[world] = registers.t;
    a.terminated[world] = registers.terminated;
    a.truncated[world] = registers.truncated;
    a.out_terminated[world] = out.terminated;
    a.out_truncated[world] = out.truncated;
    a.out_finished[world] = out.finished;
    a.agent_reward[world] = out.reward;
    gv_store_pack_metrics(a, world, out.metrics);
    for (gv_i32 f = 0; f < GV_SINGLE_FEATURES; ++f) a.obs[world * GV_SINGLE_FEATURES + f] = out.obs[f];
}

// Steps the worlds of a pack as if none were finished.
GV_FN void gv_step_pack(const GvArgs& a, const GvTeam& team, const void* actions, GvPack& pack) {
    GV_INDEPENDENT for (gv_i32 i = 0; i < GV_PACK; ++i) {
        GvRegisterWorld registers;
        GvPackOutput out;
        GvArgs local = gv_pack_args(a, team.world, i, actions, pack, registers, out);
        local.autoreset = GV_DISABLED;  // no episode starts here
        const GvTeam one_lane = gv_one_lane(team, team.world + i);
        gv_advance_in_registers(local, one_lane);
        gv_store_pack_world(a, (gv_i64)team.world + i, registers, out);
        pack.invalid[i] = out.invalid;
    }
}

// Actions of a pack as int32 or float32. Those of other types are copied to `copies`, so that the step is compiled once.
GV_FN const void* gv_pack_actions(const GvArgs& a, gv_i64 first, gv_i32* copies) {
    const char* actions = (const char*)a.action + first * (GV_SINGLE_ENTRIES * gv_entry_bytes(a.action_type));
    if (a.action_type == GV_INT32) return actions;
    for (gv_i32 i = 0; i < GV_PACK * GV_SINGLE_ENTRIES; ++i) copies[i] = gv_read_index(actions, i, a.action_type);
    return copies;
}

// ---- finished worlds ------------------------------------------------------------------------------------------

GV_FN bool gv_has_finished(const GvArgs& a, gv_i64 first) {
    gv_u8 flags = 0;
    for (gv_i32 i = 0; i < GV_PACK; ++i) flags |= a.terminated[first + i] | a.truncated[first + i];
    return flags != 0;
}

// Finished worlds of up to GV_MAX_PACKS packs. Their episodes start in one loop, so that the processor overlaps several starts.
#define GV_MAX_PACKS 16
struct GvFinished {
    gv_i32 world[GV_MAX_PACKS * GV_PACK], count;
};

// Adds the finished worlds of the pack whose first world is `first`.
GV_FN void gv_add_finished(const GvArgs& a, gv_i32 first, GvFinished& finished) {
    gv_u32 flags = 0;  // a bit for each world. A processor cannot predict the end of a loop over them, so all have one loop
    for (gv_i32 i = 0; i < GV_PACK; ++i) flags |= (gv_u32)((a.terminated[first + i] | a.truncated[first + i]) != 0) << i;
    for (; flags != 0; flags &= flags - 1) finished.world[finished.count++] = first + gv_lowest_bit(flags);
}

GV_FN void gv_copy_row(const float* from, float* to) {
    for (gv_i32 f = 0; f < GV_SINGLE_FEATURES; ++f) to[f] = from[f];
}

// For functions with several callers. If they were inlined, compilation would take minutes.
#define GV_NOINLINE static __attribute__((noinline))
GV_NOINLINE void gv_step_one(const GvArgs& a, const GvTeam& team) { gv_step_in_registers(a, team); }
GV_NOINLINE void gv_rollout_one(const GvArgs& a, const GvTeam& team) { gv_rollout_single(a, team); }

// Starts episodes of finished worlds. `was_finished` says if an earlier step has ended their episodes. If this step has, their
// observations are first copied to final_obs. Observations have the length that packs are compiled for.
GV_NOINLINE void gv_restart_finished(const GvArgs& a, const GvTeam& team, const GvFinished& finished, bool was_finished) {
    GvStart start;
    gv_load_start(a, start);
    for (gv_i32 i = 0; i < finished.count; ++i) {
        const gv_i64 w = finished.world[i], row = w * GV_SINGLE_FEATURES;
        if (!was_finished) gv_copy_row(a.obs + row, a.final_obs + row);
        GvRegisterWorld registers;
        gv_load_world(a, w, registers);
        const GvTeam one_lane = gv_one_lane(team, w);
        GvArgs local = gv_local_args(a, w, registers);
        gv_point_outputs(a, local, w);
        local.num_features = GV_SINGLE_FEATURES;
        gv_autoreset_in_registers(local, one_lane, start, registers);
        gv_store_world(a, w, registers);
    }
}

// ---- steps ----------------------------------------------------------------------------------------------------

// Steps `packs` packs. In same-step mode it adds worlds that finish to `finished`; in next-step mode `finished` holds worlds that
// ignore their actions. `a` and `team` are passed by value: stores to outputs cannot change them, so the loop can be vectorised.
GV_NOINLINE void gv_run_packs(const GvArgs a, GvTeam team, gv_i32 packs, GvFinished& finished) {
    for (; packs > 0; --packs, team.world += GV_PACK) {
        GvPack pack;
        gv_load_pack_params(a, team.world, pack);
        gv_i32 copies[GV_PACK * GV_SINGLE_ENTRIES];
        const void* actions = gv_pack_actions(a, team.world, copies);
        gv_step_pack(a, team, actions, pack);
        for (gv_i32 i = 0; a.autoreset == GV_NEXT_STEP && i < finished.count; ++i)
            pack.invalid[finished.world[i] - team.world] = 0;  // an invalid action of such a world is not counted
        for (gv_i32 i = 0; i < GV_PACK; ++i) *a.invalid_actions += pack.invalid[i];
        if (a.autoreset == GV_SAME_STEP) gv_add_finished(a, team.world, finished);
    }
}

// Steps packs without finished worlds, in every mode. In same-step mode it then starts the next episodes of worlds that finish.
GV_FN void gv_step_unfinished_packs(const GvArgs& a, const GvTeam& team, gv_i32 packs) {
    GvFinished finished;
    finished.count = 0;
    gv_run_packs(a, team, packs, finished);
    gv_restart_finished(a, team, finished, false);
}

// Steps a pack with finished worlds in next-step mode. These worlds start an episode, are stepped with the others, because an
// element of a vector cannot be left out, and are then set back to their start. Their metrics in memory stay, too.
GV_FN void gv_step_pack_next_step(const GvArgs& a, const GvTeam& team) {
    GvFinished finished;
    finished.count = 0;
    gv_add_finished(a, team.world, finished);
    gv_restart_finished(a, team, finished, true);
    GvRegisterWorld registers[GV_PACK];
    GvNumbers metrics[GV_PACK];
    float obs[GV_PACK][GV_SINGLE_FEATURES];
    for (gv_i32 i = 0; i < finished.count; ++i) {
        gv_load_world(a, finished.world[i], registers[i]);
        gv_load_flags(a, finished.world[i], true, registers[i]);
        gv_copy_row(a.obs + (gv_i64)finished.world[i] * GV_SINGLE_FEATURES, obs[i]);
        gv_load_pack_metrics(a, finished.world[i], metrics[i]);
    }
    gv_run_packs(a, team, 1, finished);
    const GvOutcome start = gv_outcome(a.autoreset, true, true, true);  // the same for all flags of the episode before
    for (gv_i32 i = 0; i < finished.count; ++i) {
        const gv_i64 w = finished.world[i];
        gv_store_world(a, w, registers[i]);
        gv_copy_row(obs[i], a.obs + w * GV_SINGLE_FEATURES);
        gv_store_pack_metrics(a, w, metrics[i]);
        a.agent_reward[w] = 0.0f;
        gv_store_flags(a, w, start);
    }
}

// Steps whole packs of worlds up to `end`. Returns the first world that is not stepped. `default_sizes` is true if observations and
// actions have the lengths that the loops are compiled for, those of the spec's default parameters.
GV_FN gv_i32 gv_step_packs(const GvArgs& a, const GvTeam& first, gv_i32 end) {
    bool default_sizes = a.num_features == GV_SINGLE_FEATURES && a.num_entries == GV_SINGLE_ENTRIES;
    for (gv_i32 k = 0; default_sizes && k < GV_SINGLE_ENTRIES; ++k) default_sizes = a.action_choices[k] == gv_single_choices[k];
    GvTeam team = first;
    while (end - team.world >= GV_PACK) {
        const gv_i32 left = (end - team.world) / GV_PACK;
        gv_i32 packs = 0;
        while (default_sizes && packs < left && packs < GV_MAX_PACKS && !gv_has_finished(a, team.world + packs * GV_PACK)) ++packs;
        if (packs > 0) {
            gv_step_unfinished_packs(a, team, packs);
            team.world += packs * GV_PACK;
        } else if (default_sizes && a.autoreset == GV_NEXT_STEP) {
            gv_step_pack_next_step(a, team);
            team.world += GV_PACK;
        } else {  // other sizes, or a finished world in disabled mode, or one in same-step mode that the caller set
            for (const gv_i32 next = team.world + GV_PACK; team.world < next; ++team.world) gv_step_one(a, team);
        }
    }
    return team.world;
}

// ---- rollouts -------------------------------------------------------------------------------------------------

// A rollout of a pack. One draw gives the random words of four steps.
GV_FN void gv_rollout_pack(const GvArgs& a, const GvTeam& team) {
    if (a.num_entries != GV_SINGLE_ENTRIES) {
        for (gv_i32 i = 0; i < GV_PACK; ++i) {
            const GvTeam one_lane = {{0, 1, team.sums, team.scratch}, team.world + i};
            gv_rollout_one(a, one_lane);
        }
        return;
    }
    GvArgs now = a;
    GvOrigin origins[GV_PACK];
    GvDraw words[GV_PACK * GV_SINGLE_ENTRIES];
    for (gv_i32 i = 0; i < GV_PACK; ++i) origins[i] = gv_origin(a, team.world + i);
    if (a.drawn_actions) now.action = a.drawn_actions;
    for (gv_i32 step = 0; step < a.num_steps; ++step) {
        const gv_i64 row = (gv_i64)step * a.num_worlds;
        if (step > 0) now.previous_obs = now.obs;
        gv_point_outputs(a, now, row);
        now.agent_reward = a.agent_reward + row;
        for (gv_i32 number = 0; a.drawn_actions && number < GV_PACK * GV_SINGLE_ENTRIES; ++number) {
            const gv_i32 i = number / GV_SINGLE_ENTRIES, entry = number - i * GV_SINGLE_ENTRIES;
            if ((step & 3) == 0) words[number] = gv_draw_four_steps(origins[i], entry, 0, step);
            const GvRange range = gv_range(a.action_choices, a.action_bounds, entry);
            const GvEntry drawn = gv_random_entry(gv_continuous(a) != 0, range, words[number].word[step & 3]);
            gv_store_entry((void*)now.action, (gv_i64)team.world * GV_SINGLE_ENTRIES + number, a.action_type, drawn);
        }
        gv_step_packs(now, team, team.world + GV_PACK);
        now.action = (const char*)now.action + a.action_stride;
    }
}

// Rollouts of whole packs of worlds up to `end`. Returns the first world that is not stepped.
GV_FN gv_i32 gv_rollout_packs(const GvArgs& a, GvTeam team, gv_i32 end) {
    for (; end - team.world >= GV_PACK; team.world += GV_PACK) gv_rollout_pack(a, team);
    return team.world;
}
