// Packs of single-agent worlds, which the host steps together: a step without a start or an end of an episode is one loop over the
// worlds of a pack in which everything is local, so that the compiler can step several worlds at once in vector registers.
// Each world passes through the same functions as it does without a pack.
#pragma once
#include "single/rollout.h"

struct GvPack {
    gv_i32 invalid[GV_PACK];
#define GV_PARAM(name) float name[GV_PACK];
    GV_PARAMS_BY_WORLD(GV_PARAM)
#undef GV_PARAM
};

// Outputs and parameters of one world of a pack.
struct GvPackOutput {
    float obs[GV_SINGLE_FEATURES], reward;
    gv_i32 invalid;
    gv_u8 terminated, truncated, finished;
#define GV_PARAM(name) float name;
    GV_PARAMS_BY_WORLD(GV_PARAM)
#undef GV_PARAM
};

GV_FN void gv_load_pack_params(const GvArgs& a, gv_i64 first, GvPack& pack) {
    (void)a, (void)first, (void)pack;
#define GV_PARAM(name) for (gv_i32 i = 0; i < GV_PACK; ++i) pack.name[i] = gv_of_world(a.name##_by_world, a.name, first + i);
    GV_PARAMS_BY_WORLD(GV_PARAM)
#undef GV_PARAM
}

// Arguments in which world i of a pack is world 0, loaded into `held`. BYTES is the size of an entry of an action. Hooks that draw
// in every step read the random key from memory.
template <gv_i32 BYTES>
GV_FN GvArgs gv_pack_args(const GvArgs& a, gv_i64 first, gv_i32 i, const GvPack& pack, GvHeld& held, GvPackOutput& out) {
    GvArgs local = a;
    const gv_i64 world = first + i;
    GV_STATE_FIELDS(GV_LOAD)
    held.t = a.t[world];
    held.terminated = held.truncated = 0;
    gv_point_at(local, held);
    local.seed += world;
    local.world_id += world;
    local.pool_entry += world;
    local.episode += world;
    out.invalid = 0;
    local.num_agents = 1;
    local.num_features = GV_SINGLE_FEATURES;
    GV_LAST_ROLE(GV_SET_ROW_0)
    local.obs = out.obs;
    local.agent_reward = &out.reward;
    local.invalid_actions = &out.invalid;
    local.out_terminated = &out.terminated;
    local.out_truncated = &out.truncated;
    local.out_finished = &out.finished;
    local.action = (const char*)a.action + world * (GV_SINGLE_HEADS * BYTES);
    local.action_bytes = BYTES;
    (void)pack;
#define GV_PARAM(name)                  \
    out.name = pack.name[i];            \
    local.name##_by_world = &out.name;
    GV_PARAMS_BY_WORLD(GV_PARAM)
#undef GV_PARAM
    return local;
}

GV_FN void gv_store_pack_world(const GvArgs& a, gv_i64 world, const GvHeld& held, const GvPackOutput& out) {
    GV_STATE_FIELDS(GV_STORE)
    a.t[world] = held.t;
    a.terminated[world] = held.terminated;
    a.truncated[world] = held.truncated;
    a.out_terminated[world] = out.terminated;
    a.out_truncated[world] = out.truncated;
    a.out_finished[world] = out.finished;
    a.agent_reward[world] = out.reward;
    for (gv_i32 f = 0; f < GV_SINGLE_FEATURES; ++f) a.obs[world * GV_SINGLE_FEATURES + f] = out.obs[f];
}

// Steps the worlds of a pack as if none were finished.
template <gv_i32 BYTES>
GV_FN void gv_step_pack(const GvArgs& a, const GvTeam& team, GvPack& pack) {
    GV_INDEPENDENT for (gv_i32 i = 0; i < GV_PACK; ++i) {
        GvHeld held;
        GvPackOutput out;
        GvArgs local = gv_pack_args<BYTES>(a, team.world, i, pack, held, out);
        local.autoreset = GV_DISABLED;  // episodes start later
        const GvTeam one_lane = {0, 0, 1, team.sums, team.scratch, false};
        gv_advance(local, one_lane);
        gv_store_pack_world(a, (gv_i64)team.world + i, held, out);
        pack.invalid[i] = out.invalid;
    }
}

// ---- finished worlds ------------------------------------------------------------------------------------------

GV_FN bool gv_has_finished(const GvArgs& a, gv_i64 first) {
    gv_u8 flags = 0;
    for (gv_i32 i = 0; i < GV_PACK; ++i) flags |= a.terminated[first + i] | a.truncated[first + i];
    return flags != 0;
}

// Finished worlds of some packs. Their episodes start one right after the other, so that the processor overlaps several.
#define GV_MAX_PACKS 16
struct GvFinished {
    gv_i32 world[GV_MAX_PACKS * GV_PACK], count;
};

GV_FN void gv_add_finished(const GvArgs& a, gv_i32 first, GvFinished& finished) {
    for (gv_i32 i = first; i < first + GV_PACK; i += 8) {
        gv_u64 terminated, truncated;  // of eight worlds, a byte each
        __builtin_memcpy(&terminated, a.terminated + i, 8);
        __builtin_memcpy(&truncated, a.truncated + i, 8);
        for (gv_u64 flags = terminated | truncated; flags != 0; flags &= flags - 1)
            finished.world[finished.count++] = i + __builtin_ctzll(flags) / 8;
    }
}

GV_FN void gv_copy_row(const float* from, float* to) {
    for (gv_i32 f = 0; f < GV_SINGLE_FEATURES; ++f) to[f] = from[f];
}

// Called from several places and inlined in none: compilers would take minutes.
#define GV_CALLED static __attribute__((noinline))
GV_CALLED void gv_step_one(const GvArgs& a, const GvTeam& team) { gv_step_held(a, team); }
GV_CALLED void gv_rollout_one(const GvArgs& a, const GvTeam& team) { gv_rollout_single(a, team); }

GV_CALLED void gv_restart_finished(const GvArgs& a, const GvTeam& team, const GvFinished& finished) {
    GvStart start;
    gv_load_start(a, start);
    for (gv_i32 i = 0; i < finished.count; ++i) {
        const gv_i64 w = finished.world[i], row = w * GV_SINGLE_FEATURES;
        if (a.autoreset == GV_SAME_STEP) gv_copy_row(a.obs + row, a.final_obs + row);
        GvHeld held;
        gv_load(a, w, held);
        const GvTeam one_lane = {0, 0, 1, team.sums, team.scratch, false};
        GvArgs local = gv_local_args(a, w, held);
        gv_at_row(a, local, w);
        gv_autoreset_held(local, one_lane, start, held);
        gv_store(a, w, held);
    }
}

// ---- steps ----------------------------------------------------------------------------------------------------

// Steps some packs, and adds the worlds that finish. The arguments are copies, which no store to an output can change; the loop
// is not vectorised otherwise.
GV_CALLED void gv_run_packs(const GvArgs a, GvTeam team, gv_i32 packs, GvFinished& finished) {
    for (; packs > 0; --packs, team.world += GV_PACK) {
        GvPack pack;
        gv_load_pack_params(a, team.world, pack);
        if (a.action_bytes == 8) gv_step_pack<8>(a, team, pack);
        else gv_step_pack<4>(a, team, pack);
        for (gv_i32 i = 0; a.autoreset == GV_NEXT_STEP && i < finished.count; ++i)
            pack.invalid[finished.world[i] - team.world] = 0;  // a finished world ignores its action
        for (gv_i32 i = 0; i < GV_PACK; ++i) *a.invalid_actions += pack.invalid[i];
        if (a.autoreset == GV_SAME_STEP) gv_add_finished(a, team.world, finished);
    }
}

GV_FN void gv_step_same(const GvArgs& a, const GvTeam& team, gv_i32 packs) {
    GvFinished finished;
    finished.count = 0;
    gv_run_packs(a, team, packs, finished);
    gv_restart_finished(a, team, finished);
}

// A pack in next-step mode: worlds that start an episode are stepped with the others, and then set back to their start.
GV_FN void gv_step_next(const GvArgs& a, const GvTeam& team) {
    GvFinished finished;
    finished.count = 0;
    gv_add_finished(a, team.world, finished);
    gv_restart_finished(a, team, finished);
    GvHeld held[GV_PACK];
    float obs[GV_PACK][GV_SINGLE_FEATURES];
    for (gv_i32 i = 0; i < finished.count; ++i) {
        gv_load(a, finished.world[i], held[i]);
        gv_load_flags(a, finished.world[i], true, held[i]);
        gv_copy_row(a.obs + (gv_i64)finished.world[i] * GV_SINGLE_FEATURES, obs[i]);
    }
    gv_run_packs(a, team, 1, finished);
    for (gv_i32 i = 0; i < finished.count; ++i) {
        const gv_i64 w = finished.world[i];
        gv_store(a, w, held[i]);
        gv_copy_row(obs[i], a.obs + w * GV_SINGLE_FEATURES);
        a.agent_reward[w] = 0.0f;
        a.out_terminated[w] = a.out_truncated[w] = a.out_finished[w] = 0;
    }
}

// Steps whole packs of worlds up to `end`; returns the first world that is left.
GV_FN gv_i32 gv_step_packs(const GvArgs& a, const GvTeam& first, gv_i32 end) {
    const bool default_sizes = a.num_features == GV_SINGLE_FEATURES && a.num_heads == GV_SINGLE_HEADS;
    GvTeam team = first;
    while (end - team.world >= GV_PACK) {
        const gv_i32 left = (end - team.world) / GV_PACK;
        gv_i32 packs = 0;
        while (default_sizes && packs < left && packs < GV_MAX_PACKS && !gv_has_finished(a, team.world + packs * GV_PACK)) ++packs;
        if (packs > 0) {
            gv_step_same(a, team, packs);
            team.world += packs * GV_PACK;
        } else if (default_sizes && a.autoreset == GV_NEXT_STEP) {
            gv_step_next(a, team);
            team.world += GV_PACK;
        } else {  // finished worlds that are not reset, among others
            for (const gv_i32 next = team.world + GV_PACK; team.world < next; ++team.world) gv_step_one(a, team);
        }
    }
    return team.world;
}

// ---- rollouts -------------------------------------------------------------------------------------------------

// A rollout of a pack. One draw of random words serves four steps.
GV_FN void gv_rollout_pack(const GvArgs& a, const GvTeam& team) {
    if (a.num_heads != GV_SINGLE_HEADS) {
        for (gv_i32 i = 0; i < GV_PACK; ++i) {
            const GvTeam one_lane = {team.world + i, 0, 1, team.sums, team.scratch, false};
            gv_rollout_one(a, one_lane);
        }
        return;
    }
    GvArgs now = a;
    GvOrigin origins[GV_PACK];
    GvDraw words[GV_PACK * GV_SINGLE_HEADS];
    for (gv_i32 i = 0; i < GV_PACK; ++i) origins[i] = gv_origin(a, team.world + i);
    if (a.drawn_actions) now.action = a.drawn_actions;
    for (gv_i32 step = 0; step < a.num_steps; ++step) {
        const gv_i64 row = (gv_i64)step * a.num_worlds;
        if (step > 0) now.previous_obs = now.obs;
        gv_at_row(a, now, row);
        now.agent_reward = a.agent_reward + row;
        for (gv_i32 entry = 0; a.drawn_actions && entry < GV_PACK * GV_SINGLE_HEADS; ++entry) {
            const gv_i32 i = entry / GV_SINGLE_HEADS, head = entry - i * GV_SINGLE_HEADS;
            if ((step & 3) == 0) words[entry] = gv_draw_four_steps(origins[i], head, 0, step);
            const GvEntry drawn = gv_random_entry(a, gv_range(a, head), words[entry].word[step & 3]);
            gv_store_entry(a, (void*)now.action, (gv_i64)team.world * GV_SINGLE_HEADS + entry, drawn);
        }
        gv_step_packs(now, team, team.world + GV_PACK);
        now.action = (const char*)now.action + a.action_stride;
    }
}

// Rollouts of whole packs of worlds up to `end`; returns the first world that is left.
GV_FN gv_i32 gv_rollout_packs(const GvArgs& a, GvTeam team, gv_i32 end) {
    for (; end - team.world >= GV_PACK; team.world += GV_PACK) gv_rollout_pack(a, team);
    return team.world;
}
