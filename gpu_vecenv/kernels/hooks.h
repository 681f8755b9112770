// Interface between an env's kernel and the protocol; read this header first. The .cu of an env includes it and defines the hooks,
// which protocol.h calls.
//
// hook                              reads                             writes
// env_reset(a, team)                parameters, random draws          every field of the state
// env_step(a, team)                 state, actions, random draws      state, agent_reward of every row, terminated, truncated
// env_observe(a, team, obs)         state                             observation and mask of every agent (groups.h)
// env_observe_step(a, team, obs)    state, scratch of env_step        the same, after env_step; optional, default env_observe
// env_settle(a, team)               state                             state, after the observation of a step; optional
//
// All lanes of a team call each hook. Work of agents goes under GV_FOR, work of the world under GV_ONCE (CONTRIBUTING.md, "Rules
// for kernels"). When env_step starts, `t` counts the present step already, and `terminated` and `truncated` are 0.
// env_reset may not read the state of the previous episode: a rollout may draw a start before that episode has ended.
// env_settle applies a change that the observation does not show yet, such as an agent that leaves the game.
#pragma once
#include "groups.h"
#include "lib/math.h"
#include "lib/reduce.h"
#include "lib/rng.h"
#include "lib/rows.h"
#include "metrics.h"

GV_FN void env_reset(const GvArgs& a, const GvTeam& team);
GV_FN void env_step(const GvArgs& a, const GvTeam& team);
GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs);

// ---- random numbers -------------------------------------------------------------------------------------------

// Draws four random words for this world, episode and step. Purposes (0, 1, ...) keep the draws of one env apart; purposes from
// 0xFAFE to 0xFFFF are not an env's (lib/purposes.h). The agent may be any index, such as that of a cell.
GV_INLINE GvDraw gv_draw(const GvArgs& a, const GvTeam& team, gv_u32 purpose, gv_u32 agent) {
    const gv_i32 w = team.world;
    const gv_u64 key = gv_agent_key(a.seed[w], agent);
    return gv_philox(key, (gv_u32)a.world_id[w], (gv_u32)a.episode[w], (gv_u32)a.t[w], purpose << 16 | (agent & 0xffffu));
}

// ---- ends -----------------------------------------------------------------------------------------------------

// True if step t reaches a time limit; a limit of 0 means no limit.
GV_INLINE bool gv_time_is_up(gv_i32 t, gv_i32 limit) { return limit > 0 && t >= limit; }

// ---- actions --------------------------------------------------------------------------------------------------

GV_INLINE bool gv_is_choice(gv_i32 index, gv_i32 n) { return (gv_u32)index < (gv_u32)n; }

// Returns the index if it lies in [0, n); otherwise counts an invalid action and returns 0.
GV_INLINE gv_i32 gv_checked_index(const GvArgs& a, gv_i32 index, gv_i32 n) {
    if (gv_is_choice(index, n)) return index;
    gv_fetch_add(a.invalid_actions);
    return 0;
}

// The same for an index that all lanes of a team read, which counts once.
GV_INLINE gv_i32 gv_checked_index(const GvArgs& a, const GvTeam& team, gv_i32 index, gv_i32 n) {
    if (gv_is_choice(index, n)) return index;
    GV_ONCE gv_fetch_add(a.invalid_actions);
    return 0;
}

// Returns a number of a continuous action; NaN acts as 0 and is counted as invalid.
GV_INLINE float gv_checked_value(const GvArgs& a, float value) {
    if (value == value) return value;
    gv_fetch_add(a.invalid_actions);
    return 0.0f;
}

// The same in two parts, so that the count may come after all loads: the number that acts, and the count, for one lane.
GV_INLINE float gv_acting_value(float value) { return value == value ? value : 0.0f; }
GV_INLINE void gv_count_invalid(const GvArgs& a, float value) {
    if (value != value) gv_fetch_add(a.invalid_actions);
}

// gv_given_index returns entry `entry` of an action, unchecked, gv_action_index the same index if it lies in [0, n), gv_action_value
// a number of a continuous action, not clipped. If an action has several entries, read all of them with gv_given_index before the
// first check, which waits for its load. With the team after `a`, gv_action_index is for an entry that all lanes of the team read:
// an invalid one counts once, not once a lane.
#ifdef GV_BY_ROLE
GV_INLINE gv_i32 gv_given_index(const GvAction& action, GvIndex entry) {
    GV_CHECK_ACTION(action.entries, entry)
    return gv_read_index(action.entries, action.first + entry, action.type);
}
GV_INLINE gv_i32 gv_action_index(const GvArgs& a, const GvAction& action, gv_i32 entry, gv_i32 n) {
    return gv_checked_index(a, gv_given_index(action, entry), n);
}
GV_INLINE gv_i32 gv_action_index(const GvArgs& a, const GvTeam& team, const GvAction& action, gv_i32 entry, gv_i32 n) {
    return gv_checked_index(a, team, gv_given_index(action, entry), n);
}
// Runs store(k, index) for k = 0 .. n - 1 with unchecked entries of actions. place(k) is the place of one, counted in entries from the
// first of `action` on, and agents of a role follow one another. The type is chosen once, and a lane has up to `batch` loads in flight.
template <gv_i32 batch, class Place, class Store>
GV_FN void gv_for_indices(const GvTeam& team, const GvAction& action, gv_i32 n, Place place, Store store) {
    const auto each = [&](auto* entries) {
        const auto* const from = entries + action.first;
        gv_for_batches<batch>(
            team, n, [&](gv_i32 k) { return from[place(k)]; }, [&](gv_i32 k, auto index) { store(k, gv_narrow(index)); });
    };
    if (action.type == GV_INT32) each((const gv_i32*)action.entries);
    else if (action.type == GV_INT64) each((const gv_i64*)action.entries);
    else if (action.type == GV_UINT8) each((const gv_u8*)action.entries);
    else if (action.type == GV_INT16) each((const gv_i16*)action.entries);
    else each((const gv_i8*)action.entries);
}
// Stages n entries of actions that follow one another as bytes in scratch, where `to` has room for 3 more. Indices that are not below
// `choices`, at most 256, are counted and become 0.
GV_FN void gv_stage_indices(const GvArgs& a, const GvTeam& team, const GvAction& action, gv_i32 n, gv_i32 choices, gv_u8* to) {
    gv_i32 invalid = 0;
    if (GV_VECTOR_STORES && action.type == GV_UINT8 && choices <= 128) {  // in words, four indices at once
        const gv_u8* const from = (const gv_u8*)action.entries + action.first;
        gv_u32* const words = (gv_u32*)to;
        const gv_u32 margin = (gv_u32)(128 - choices) * 0x01010101u;  // carries an index that is too large into its highest bit
        gv_for_batches<8>(
            team, (n + 3) / 4, [&](gv_i32 k) { return gv_load_word(from + 4 * k); },
            [&](gv_i32 k, gv_u32 word) {
                if ((((word & 0x7f7f7f7fu) + margin) | word) & 0x80808080u) {
                    GV_LOOP for (gv_i32 b = 0; b < 4; ++b) {
                        if (gv_is_choice((gv_i32)(word >> 8 * b & 255u), choices)) continue;
                        invalid += 4 * k + b < n;
                        word &= ~(255u << 8 * b);
                    }
                }
                words[k] = word;
            });
    } else {
        gv_for_indices<8>(
            team, action, n, [](gv_i32 k) { return k; },
            [&](gv_i32 k, gv_i32 index) {
                const bool valid = gv_is_choice(index, choices);
                invalid += !valid;
                to[k] = valid ? (gv_u8)index : 0;
            });
    }
    for (; invalid > 0; --invalid) gv_fetch_add(a.invalid_actions);
}
GV_INLINE float gv_given_value(const GvAction& action, GvIndex entry) {
    GV_CHECK_ACTION(action.entries, entry)
    return ((const float*)action.entries)[action.first + entry];
}
GV_INLINE float gv_action_value(const GvArgs& a, const GvAction& action, gv_i32 entry) {
    return gv_checked_value(a, gv_given_value(action, entry));
}
#else
// The action of a row has `entries` entries.
GV_INLINE gv_i32 gv_given_index(const GvArgs& a, gv_i64 row, GvIndex entry, gv_i32 entries) {
    GV_CHECK_ACTION(a.action, entry)
    return gv_read_index(a.action, row * entries + entry, a.action_type);
}
GV_INLINE gv_i32 gv_action_index(const GvArgs& a, gv_i64 row, gv_i32 entry, gv_i32 entries, gv_i32 n) {
    return gv_checked_index(a, gv_given_index(a, row, entry, entries), n);
}
GV_INLINE gv_i32 gv_action_index(const GvArgs& a, const GvTeam& team, gv_i64 row, gv_i32 entry, gv_i32 entries, gv_i32 n) {
    return gv_checked_index(a, team, gv_given_index(a, row, entry, entries), n);
}

GV_INLINE float gv_given_value(const GvArgs& a, gv_i64 row, GvIndex entry, gv_i32 entries) {
    GV_CHECK_ACTION(a.action, entry)
    return ((const float*)a.action)[row * entries + entry];
}
GV_INLINE float gv_action_value(const GvArgs& a, gv_i64 row, gv_i32 entry, gv_i32 entries) {
    return gv_checked_value(a, gv_given_value(a, row, entry, entries));
}
#endif
