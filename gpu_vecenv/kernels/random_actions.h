// Random actions of rollouts, which the kernel draws.
#pragma once
#include "hooks.h"
#include "lib/purposes.h"

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

GV_FN GvRange gv_range(const gv_i32* choices, const float* bounds, gv_i32 entry) {
    return {choices[entry], bounds[2 * entry], bounds[2 * entry + 1]};
}

// Random words for one entry of an agent's actions in four steps from `step` on, one word a step.
GV_FN GvDraw gv_draw_four_steps(const GvOrigin& from, gv_i32 entry, gv_i32 agent, gv_i32 step) {
    const gv_u32 purpose = GV_PURPOSE_ACTIONS - (gv_u32)entry;
    return gv_philox(from.seed, from.world_id, from.episode, from.t + (gv_u32)step, purpose << 16 | (gv_u32)agent);
}

// Random word for one entry of an agent's action in one step.
GV_FN gv_u32 gv_draw_step(const GvOrigin& from, gv_i32 entry, gv_i32 agent, gv_i32 step) {
    const GvDraw draw = gv_draw_four_steps(from, entry, agent, step & ~3);
    // An index that is not constant would move the words from registers to memory.
    const gv_u32 early = step & 1 ? draw.word[1] : draw.word[0], late = step & 1 ? draw.word[3] : draw.word[2];
    return step & 2 ? late : early;
}

// Turns a random word into an entry.
GV_FN GvEntry gv_random_entry(bool continuous, const GvRange& range, gv_u32 word) {
    GvEntry entry;
    if (continuous) entry.value = range.low + range.span * gv_uniform(word);
    else entry.index = gv_below(word, range.choices);
    return entry;
}

// Stores an entry. Indices have the smallest type that holds the choices of all entries: GV_UINT8, GV_INT16 or GV_INT32.
GV_FN void gv_store_entry(void* actions, gv_i64 at, gv_i32 type, const GvEntry& entry) {
    if (type == GV_UINT8) gv_store_once((gv_u8*)actions + at, (gv_u8)entry.index);
    if (type == GV_INT16) gv_store_once((gv_i16*)actions + at, (gv_i16)entry.index);
    if (type == GV_INT32) gv_store_once((gv_i32*)actions + at, entry.index);
}

// Turns a random word into an index that a mask allows, each with the same probability; 0 if it allows none.
GV_FN gv_i32 gv_allowed_below(gv_u32 word, const gv_u8* mask, gv_i32 choices) {
    gv_i32 allowed = 0;
    for (gv_i32 i = 0; i < choices; ++i) allowed += mask[i] != 0;
    gv_i32 skip = allowed > 0 ? gv_below(word, allowed) : 0;
    for (gv_i32 i = 0; i < choices; ++i) {
        if (mask[i] != 0 && skip-- == 0) return i;
    }
    return 0;
}

// Action array of a group of agents, and what its random actions are drawn from.
struct GvRandomActions {
    void* actions;
    gv_i32 type, entries;
    bool continuous;
    const gv_i32* choices;
    const float* bounds;
    const gv_u8* mask;          // masks of the previous observations; null if no entry has a mask
    const gv_i32* mask_starts;  // [entries]
    gv_i32 mask_length;
};

// Writes the random action of an agent. `row` is its row in the array, `agent` its number in the world.
GV_FN void gv_draw_action(const GvOrigin& origin, const GvRandomActions& group, gv_i64 row, gv_i32 agent, gv_i32 step) {
    for (gv_i32 entry = 0; entry < group.entries; ++entry) {
        const gv_u32 word = gv_draw_step(origin, entry, agent, step);
        const GvRange range = gv_range(group.choices, group.bounds, entry);
        GvEntry value = gv_random_entry(group.continuous, range, word);
        if (group.mask != nullptr && group.mask_starts[entry] >= 0) {
            value.index = gv_allowed_below(word, group.mask + row * group.mask_length + group.mask_starts[entry], range.choices);
        }
        gv_store_entry(group.actions, row * group.entries + entry, group.type, value);
    }
}

// True if the rollout draws its actions.
GV_FN bool gv_draws_actions(const GvArgs& a) {
#ifdef GV_BY_ROLE
#define GV_DRAWS(role, count, first) a.role##_drawn_actions != nullptr ||
    return GV_ROLES(GV_DRAWS) false;
#else
    return a.drawn_actions != nullptr;
#endif
}

// Writes the random actions of a world in step `step` of a rollout; `a` are the arguments of that step.
GV_FN void gv_draw_actions(const GvArgs& a, const GvTeam& team, const GvOrigin& origin, gv_i32 step) {
#define GV_RANDOM(prefix, mask, starts, length)                                                                        \
    {(void*)a.prefix##action, a.prefix##action_type, gv_##prefix##num_entries(a), gv_##prefix##continuous(a) != 0,     \
     a.prefix##action_choices, a.prefix##action_bounds, mask, starts, length}
#ifdef GV_BY_ROLE
#define GV_DRAW(role, count, first, mask, starts, length)                                                              \
    {                                                                                                                  \
        const GvRandomActions group = GV_RANDOM(role##_, mask, starts, length);                                        \
        GV_FOR(i, count) gv_draw_action(origin, group, (gv_i64)team.world * (count) + i, first + i, step);             \
    }
#define GV_DRAW_UNMASKED(role, count, first) GV_DRAW(role, count, first, nullptr, nullptr, 0)
#define GV_DRAW_MASKED(role, count, first) \
    GV_DRAW(role, count, first, a.role##_previous_action_mask, a.role##_mask_starts, gv_##role##_num_choices(a))
    GV_UNMASKED_ROLES(GV_DRAW_UNMASKED)
    GV_MASKED_ROLES(GV_DRAW_MASKED)
#else
#ifdef GV_MASKED
    const GvRandomActions group = GV_RANDOM(, a.previous_action_mask, a.mask_starts, gv_num_choices(a));
#else
    const GvRandomActions group = GV_RANDOM(, nullptr, nullptr, 0);
#endif
    GV_FOR(agent, gv_num_agents(a)) gv_draw_action(origin, group, gv_row(a, team.world, agent), agent, step);
#endif
}
