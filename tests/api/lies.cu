// Hooks that fit every spec, for specs that lie: they read sizes and roles from the generated header, and no names.
#include "world.h"

GV_FN void env_reset(GvWorld&) {}

GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) me.reward = (float)(w.t + me.index);
    if (w.once) w.truncate(w.t == 3);
}

// Number f of an observation, the same for all agents.
GV_FN float feature(const GvWorld& w, int f) { return w.draw(0, f).uniform(); }

GV_FN void env_observe(GvWorld& w) {
#ifdef GV_BY_ROLE
#define GV_WRITE(NAME, count, first) \
    for (auto me : w.role.NAME)      \
        for (int f = 0; f < w.role.NAME.num_features(); ++f) me.obs[f] = feature(w, f);
    GV_ROLES(GV_WRITE)
#undef GV_WRITE
#define GV_WRITE(NAME, count, first) \
    for (auto me : w.role.NAME)      \
        for (int k = 0; k < w.role.NAME.num_choices(); ++k) me.mask[k] = 1;
    GV_MASKED_ROLES(GV_WRITE)
#undef GV_WRITE
#define GV_WRITE(NAME, count, first) \
    for (int f : w.each(w.role.NAME.num_shared())) w.role.NAME.shared()[f] = feature(w, f);
    GV_SHARED_ROLES(GV_WRITE)
#undef GV_WRITE
#define GV_WRITE(NAME, count, first) \
    for (auto me : w.role.NAME)      \
        for (int k = 0; k < w.role.NAME.num_effects(); ++k) me.effects[k] = 1;
    GV_EFFECT_ROLES(GV_WRITE)
#undef GV_WRITE
#else
    for (auto me : w.agents) {
        for (int f = 0; f < w.agents.num_features(); ++f) me.obs[f] = feature(w, f);
#ifdef GV_MASKED
        for (int k = 0; k < w.agents.num_choices(); ++k) me.mask[k] = 1;
#endif
#ifdef GV_EFFECTS
        for (int k = 0; k < w.agents.num_effects(); ++k) me.effects[k] = 1;
#endif
    }
#endif
}
