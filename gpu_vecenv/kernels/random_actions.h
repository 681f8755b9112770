// Random actions of rollouts, which the kernel draws.
#pragma once
#include "hooks.h"

#define GV_PURPOSE_ACTIONS 0xFFFEu  // purpose of entry 0; entry n has this purpose minus n

// One entry of an action: an index or a number.
union GvEntry {
    gv_i32 index;
    float value;
};

// Random key and step of a world when its rollout starts. No two rollouts of a world start at the same step of the same
// episode, so their actions differ.
struct GvOrigin {
    gv_u64 seed;
    gv_u32 world_id, episode, t;
};

GV_FN GvOrigin gv_origin(const GvArgs& a, gv_i32 world) {
    return {a.seed[world], (gv_u32)a.world_id[world], (gv_u32)a.episode[world], (gv_u32)a.t[world]};
}

// Values of an entry: indices below `choices`, or numbers from `low` to `low` + `span`.
struct GvRange {
    gv_i32 choices;
    float low, span;
};

GV_FN GvRange gv_range(const GvArgs& a, gv_i32 entry) {
    return {a.action_choices[entry], a.action_bounds[2 * entry], a.action_bounds[2 * entry + 1]};
}

// Random words for one entry of an agent's actions in four steps from `step` on, one word a step.
GV_FN GvDraw gv_draw_four_steps(const GvOrigin& from, gv_i32 entry, gv_i32 agent, gv_i32 step) {
    const gv_u32 purpose = GV_PURPOSE_ACTIONS - (gv_u32)entry;
    return gv_philox(from.seed, from.world_id, from.episode, from.t + (gv_u32)step, purpose << 16 | (gv_u32)agent);
}

// Turns a random word into an entry.
GV_FN GvEntry gv_random_entry(const GvArgs& a, const GvRange& range, gv_u32 word) {
    GvEntry entry;
    if (gv_continuous(a)) entry.value = range.low + range.span * gv_uniform(word);
    else entry.index = gv_below(word, range.choices);
    return entry;
}

GV_FN void gv_store_entry(const GvArgs& a, void* actions, gv_i64 at, const GvEntry& entry) {
    if (gv_continuous(a)) gv_store_once((float*)actions + at, entry.value);
    else gv_store_once((gv_i32*)actions + at, entry.index);
}
