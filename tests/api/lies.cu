// Hooks that fit every spec, for specs that lie: they read sizes and roles from the generated header, and no names.
#include "hooks.h"

GV_FN void env_reset(const GvArgs&, const GvTeam&) {}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) a.agent_reward[gv_row(a, team.world, i)] = (float)(s.t + i);
    GV_ONCE s.truncated = s.t == 3;
}

// Number f of an observation, the same for all agents.
GV_FN float feature(const GvArgs& a, const GvTeam& team, gv_i32 f) { return gv_uniform(gv_draw(a, team, 0, f).word[0]); }

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const gv_i32 w = team.world;
#ifdef GV_BY_ROLE
#define GV_WRITE(role, count, first)                           \
    for (gv_i32 i = 0; i < (count); ++i)                       \
        GV_FOR(f, gv_##role##_num_features(a)) gv_##role##_obs(a, obs, w, i)[f] = feature(a, team, f);
    GV_ROLES(GV_WRITE)
#undef GV_WRITE
#define GV_WRITE(role, count, first) \
    GV_FOR(f, (count) * gv_##role##_num_choices(a)) gv_##role##_mask(a, obs, w, 0)[f] = 1;
    GV_MASKED_ROLES(GV_WRITE)
#undef GV_WRITE
#define GV_WRITE(role, count, first) \
    GV_FOR(f, gv_##role##_num_shared(a)) gv_##role##_shared(a, obs, w)[f] = feature(a, team, f);
    GV_SHARED_ROLES(GV_WRITE)
#undef GV_WRITE
#define GV_WRITE(role, count, first) \
    GV_FOR(f, (count) * gv_##role##_num_effects(a)) gv_##role##_effects(a, obs, w, 0)[f] = 1;
    GV_EFFECT_ROLES(GV_WRITE)
#undef GV_WRITE
#else
    for (gv_i32 i = 0; i < gv_num_agents(a); ++i)
        GV_FOR(f, gv_num_features(a)) gv_obs_row(a, obs, w, i)[f] = feature(a, team, f);
#ifdef GV_MASKED
    for (gv_i32 i = 0; i < gv_num_agents(a); ++i) GV_FOR(f, gv_num_choices(a)) gv_mask_row(a, obs, w, i)[f] = 1;
#endif
#ifdef GV_EFFECTS
    for (gv_i32 i = 0; i < gv_num_agents(a); ++i) GV_FOR(f, gv_num_effects(a)) gv_effects_row(a, obs, w, i)[f] = 1;
#endif
#endif
}
