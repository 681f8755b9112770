// Arrays of observations, masks and actions: one of each for all agents, or one for each role if roles have spaces of their own
// (GV_BY_ROLE). Hooks get addresses of agents from here.
//
// all agents alike                              by role, here a role `citizen`; i counts the agents of the role
// gv_obs_row(a, obs, world, agent)              gv_citizen_obs(a, obs, world, i)      observation of an agent
// gv_mask_row(a, obs, world, agent)             gv_citizen_mask(a, obs, world, i)     mask of its action, if the spec has one
// gv_effects_row(a, obs, world, agent)          gv_citizen_effects(a, obs, world, i)  flags of its groups of entries, the same
//                                               gv_citizen_shared(a, obs, world)      shared part of the role's observations
// gv_action_index(a, row, entry, ...)           gv_citizen_action(a, world, i)        its action, for gv_action_index
#pragma once
#include "lib/indices.h"
#include "state.h"

#ifdef GV_BY_ROLE

// Addresses that env_observe writes to: `citizen`, `citizen_mask`, `citizen_shared`, `citizen_effects`.
struct GvObs {
#define GV_ROLE(role, count, first) float* role;
    GV_ROLES(GV_ROLE)
#undef GV_ROLE
#define GV_ROLE(role, count, first) gv_u8* role##_mask;
    GV_MASKED_ROLES(GV_ROLE)
#undef GV_ROLE
#define GV_ROLE(role, count, first) float* role##_shared;
    GV_SHARED_ROLES(GV_ROLE)
#undef GV_ROLE
#define GV_ROLE(role, count, first) gv_u8* role##_effects;
    GV_EFFECT_ROLES(GV_ROLE)
#undef GV_ROLE
};

#define GV_OBS_OF(role, count, first) a.role##_obs,
#define GV_MASK_OF(role, count, first) a.role##_action_mask,
#define GV_SHARED_OF(role, count, first) a.role##_shared_obs,
#define GV_EFFECTS_OF(role, count, first) a.role##_action_effects,
GV_INLINE GvObs gv_obs(const GvArgs& a) {
    return {GV_ROLES(GV_OBS_OF) GV_MASKED_ROLES(GV_MASK_OF) GV_SHARED_ROLES(GV_SHARED_OF) GV_EFFECT_ROLES(GV_EFFECTS_OF)};
}

#define GV_FINAL_OBS_OF(role, count, first) a.role##_final_obs,
#define GV_FINAL_MASK_OF(role, count, first) a.role##_final_action_mask,
#define GV_FINAL_SHARED_OF(role, count, first) a.role##_final_shared_obs,
#define GV_FINAL_EFFECTS_OF(role, count, first) a.role##_final_action_effects,
GV_INLINE GvObs gv_final_obs(const GvArgs& a) {
    return {GV_ROLES(GV_FINAL_OBS_OF) GV_MASKED_ROLES(GV_FINAL_MASK_OF) GV_SHARED_ROLES(GV_FINAL_SHARED_OF)
            GV_EFFECT_ROLES(GV_FINAL_EFFECTS_OF)};
}

// Action of one agent: entries from number `first` on.
struct GvAction {
    const void* entries;
    gv_i64 first;
    gv_i32 type;
};

#define GV_ROLE(role, count, first)                                                                                      \
    GV_INLINE float* gv_##role##_obs(const GvArgs& a, const GvObs& obs, gv_i64 world, gv_i32 i) {                             \
        return obs.role + (world * (count) + i) * gv_##role##_num_features(a);                                            \
    }                                                                                                                     \
    GV_INLINE GvAction gv_##role##_action(const GvArgs& a, gv_i64 world, gv_i32 i) {                                          \
        return {a.role##_action, (world * (count) + i) * gv_##role##_num_entries(a), a.role##_action_type};               \
    }
GV_ROLES(GV_ROLE)
#undef GV_ROLE
#define GV_ROLE(role, count, first)                                                                                      \
    GV_INLINE gv_u8* gv_##role##_mask(const GvArgs& a, const GvObs& obs, gv_i64 world, gv_i32 i) {                            \
        return obs.role##_mask + (world * (count) + i) * gv_##role##_num_choices(a);                                      \
    }
GV_MASKED_ROLES(GV_ROLE)
#undef GV_ROLE
#define GV_ROLE(role, count, first)                                                                                      \
    GV_INLINE float* gv_##role##_shared(const GvArgs& a, const GvObs& obs, gv_i64 world) {                                    \
        return obs.role##_shared + world * gv_##role##_num_shared(a);                                                     \
    }
GV_SHARED_ROLES(GV_ROLE)
#undef GV_ROLE
#define GV_ROLE(role, count, first)                                                                                      \
    GV_INLINE gv_u8* gv_##role##_effects(const GvArgs& a, const GvObs& obs, gv_i64 world, gv_i32 i) {                         \
        return obs.role##_effects + (world * (count) + i) * gv_##role##_num_effects(a);                                   \
    }
GV_EFFECT_ROLES(GV_ROLE)
#undef GV_ROLE

// True if the present observations have other addresses than the previous ones.
GV_INLINE bool gv_obs_moved(const GvArgs& a) {
#define GV_MOVED(role, count, first) a.role##_previous_obs != a.role##_obs ||
    return GV_ROLES(GV_MOVED) false;
}

#elif defined(GV_MASKED) || defined(GV_EFFECTS)

struct GvObs {
    float* obs;
    gv_u8 *mask, *effects;  // null if the spec has none
};

#ifdef GV_MASKED
#define GV_MASK_MEMBER(name) a.name
#else
#define GV_MASK_MEMBER(name) nullptr
#endif
#ifdef GV_EFFECTS
#define GV_EFFECTS_MEMBER(name) a.name
#else
#define GV_EFFECTS_MEMBER(name) nullptr
#endif
GV_INLINE GvObs gv_obs(const GvArgs& a) { return {a.obs, GV_MASK_MEMBER(action_mask), GV_EFFECTS_MEMBER(action_effects)}; }
GV_INLINE GvObs gv_final_obs(const GvArgs& a) {
    return {a.final_obs, GV_MASK_MEMBER(final_action_mask), GV_EFFECTS_MEMBER(final_action_effects)};
}
GV_INLINE bool gv_obs_moved(const GvArgs& a) { return a.previous_obs != a.obs; }
GV_INLINE float* gv_obs_row(const GvArgs& a, const GvObs& obs, gv_i64 world, gv_i32 agent) {
    return obs.obs + gv_row(a, world, agent) * gv_num_features(a);
}
#ifdef GV_MASKED
GV_INLINE gv_u8* gv_mask_row(const GvArgs& a, const GvObs& obs, gv_i64 world, gv_i32 agent) {
    return obs.mask + gv_row(a, world, agent) * gv_num_choices(a);
}
#endif
#ifdef GV_EFFECTS
GV_INLINE gv_u8* gv_effects_row(const GvArgs& a, const GvObs& obs, gv_i64 world, gv_i32 agent) {
    return obs.effects + gv_row(a, world, agent) * gv_num_effects(a);
}
#endif

#else

typedef float* GvObs;

GV_INLINE GvObs gv_obs(const GvArgs& a) { return a.obs; }
GV_INLINE GvObs gv_final_obs(const GvArgs& a) { return a.final_obs; }
GV_INLINE bool gv_obs_moved(const GvArgs& a) { return a.previous_obs != a.obs; }
GV_INLINE float* gv_obs_row(const GvArgs& a, float* obs, gv_i32 world, gv_i32 agent) {
    return obs + gv_row(a, world, agent) * gv_num_features(a);
}

#endif

// ---- the previous observation ---------------------------------------------------------------------------------

template <class T>
GV_FN void gv_repeat(const GvTeam& team, const T* from, T* to, gv_i32 n) {
    GV_FOR(i, n) to[i] = from[i];
}

// Copies the previous observation of the world to its present one.
GV_FN void gv_repeat_obs(const GvArgs& a, const GvTeam& team) {
    const gv_i64 w = team.world;
#ifdef GV_BY_ROLE
#define GV_REPEAT(role, n, name) gv_repeat(team, a.role##_previous_##name + w * (n), a.role##_##name + w * (n), n);
#define GV_REPEAT_OBS(role, count, first) GV_REPEAT(role, (count) * gv_##role##_num_features(a), obs)
#define GV_REPEAT_MASK(role, count, first) GV_REPEAT(role, (count) * gv_##role##_num_choices(a), action_mask)
#define GV_REPEAT_EFFECTS(role, count, first) GV_REPEAT(role, (count) * gv_##role##_num_effects(a), action_effects)
#define GV_REPEAT_SHARED(role, count, first) GV_REPEAT(role, gv_##role##_num_shared(a), shared_obs)
    GV_ROLES(GV_REPEAT_OBS)
    GV_MASKED_ROLES(GV_REPEAT_MASK)
    GV_SHARED_ROLES(GV_REPEAT_SHARED)
    GV_EFFECT_ROLES(GV_REPEAT_EFFECTS)
#else
    const gv_i32 features = gv_num_features(a);
    for (gv_i32 agent = 0; agent < gv_num_agents(a); ++agent) {
        const float* from = a.previous_obs + gv_row(a, team.world, agent) * features;
        float* to = a.obs + gv_row(a, team.world, agent) * features;
        GV_FOR(f, features) to[f] = from[f];
    }
#ifdef GV_MASKED
    const gv_i32 choices = gv_num_choices(a);
    for (gv_i32 agent = 0; agent < gv_num_agents(a); ++agent) {
        const gv_i64 first = gv_row(a, w, agent) * choices;
        gv_repeat(team, a.previous_action_mask + first, a.action_mask + first, choices);
    }
#endif
#ifdef GV_EFFECTS
    const gv_i32 effects = gv_num_effects(a);
    for (gv_i32 agent = 0; agent < gv_num_agents(a); ++agent) {
        const gv_i64 first = gv_row(a, w, agent) * effects;
        gv_repeat(team, a.previous_action_effects + first, a.action_effects + first, effects);
    }
#endif
#endif
}

// ---- rollouts -------------------------------------------------------------------------------------------------

// Sizes of the arrays of a step.
struct GvStepSizes {
    gv_i32 features, action_row_bytes;
    gv_i64 rows;
};

#ifdef GV_BY_ROLE

GV_FN GvStepSizes gv_step_sizes(const GvArgs& a) { return {0, 0, (gv_i64)a.num_worlds * gv_num_agents(a)}; }

// Points the arrays of a group, n numbers a step, at those of a step. Arrays of final observations may be null.
#define GV_POINT(role, n, name)                                                       \
    now.role##_##name += step * (n);                                                  \
    if (a.role##_final_##name != nullptr) now.role##_final_##name += step * (n);      \
    if (step > 0) now.role##_previous_##name = now.role##_##name - (n);
#define GV_POINT_OBS(role, count, first)                                                                                \
    GV_POINT(role, (gv_i64)a.num_worlds * (count) * gv_##role##_num_features(a), obs)                                    \
    now.role##_action =                                                                                                  \
        (const char*)(a.role##_drawn_actions ? a.role##_drawn_actions : a.role##_action) + step * a.role##_action_stride;
#define GV_POINT_MASK(role, count, first) GV_POINT(role, (gv_i64)a.num_worlds * (count) * gv_##role##_num_choices(a), action_mask)
#define GV_POINT_EFFECTS(role, count, first) \
    GV_POINT(role, (gv_i64)a.num_worlds * (count) * gv_##role##_num_effects(a), action_effects)
#define GV_POINT_SHARED(role, count, first) GV_POINT(role, (gv_i64)a.num_worlds * gv_##role##_num_shared(a), shared_obs)

// Points `now`, the arguments of step `step` of a rollout, at the arrays with an entry for each agent in that step. In memory, the
// arrays of a step follow those of the previous step.
GV_FN void gv_point_step(const GvArgs& a, GvArgs& now, const GvStepSizes& sizes, gv_i64 row_shift, gv_i32 step) {
    (void)sizes;
    gv_shift_rows(now, row_shift);
    GV_ROLES(GV_POINT_OBS)
    GV_MASKED_ROLES(GV_POINT_MASK)
    GV_SHARED_ROLES(GV_POINT_SHARED)
    GV_EFFECT_ROLES(GV_POINT_EFFECTS)
}

#else

GV_FN GvStepSizes gv_step_sizes(const GvArgs& a) {
    const gv_i32 features = gv_num_features(a), action_row_bytes = gv_num_entries(a) * gv_entry_bytes(a.action_type);
    return {features, action_row_bytes, (gv_i64)a.num_worlds * gv_num_agents(a)};
}

// The same with one array for all agents. A shift of the rows moves all of these arrays. gv_row() then also shifts actions, which are
// action_stride apart; their address makes up for it.
GV_FN void gv_point_step(const GvArgs& a, GvArgs& now, const GvStepSizes& sizes, gv_i64 row_shift, gv_i32 step) {
    gv_shift_rows(now, row_shift);
    now.action = (const char*)(a.drawn_actions ? a.drawn_actions : a.action)
                 + (step * a.action_stride - row_shift * sizes.action_row_bytes);
    if (step > 0) now.previous_obs = a.obs - sizes.rows * sizes.features;
#ifdef GV_MASKED
    if (step > 0) now.previous_action_mask = a.action_mask - sizes.rows * gv_num_choices(a);
#endif
#ifdef GV_EFFECTS
    if (step > 0) now.previous_action_effects = a.action_effects - sizes.rows * gv_num_effects(a);
#endif
}

#endif
