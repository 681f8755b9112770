// The page to read first. An env's .cu includes this header and defines hooks, which protocol.h calls.
//
// hook                              reads                             writes
// env_reset(a, team)                parameters, random draws          every field of the state
// env_step(a, team)                 state, actions, random draws      state, agent_reward of every row, terminated, truncated
// env_observe(a, team, obs)         state                             obs, the row of every agent
// env_observe_step(a, team, obs)    state, scratch of env_step        the same, behind a step; optional, env_observe by default
// env_settle(a, team)               state                             state, behind the observation of a step; optional
//
// Every lane of the team calls a hook. Work of an agent stands under GV_FOR, work of a world under GV_ONCE (CONTRIBUTING.md, "Rules
// for kernels"). When env_step starts, `t` counts the present step already, and `terminated` and `truncated` are 0.
// env_reset may not read the state of the previous episode: a rollout draws a start before that episode has ended.
// env_settle applies a change that the observation does not show yet, such as an agent that leaves the game.
#pragma once
#include "lib/math.h"
#include "lib/reduce.h"
#include "lib/rng.h"
#include "lib/rows.h"
#include "state.h"

GV_FN void env_reset(const GvArgs& a, const GvTeam& team);
GV_FN void env_step(const GvArgs& a, const GvTeam& team);
GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs);

// ---- random numbers -------------------------------------------------------------------------------------------

// Four random words of this world's episode and step. A purpose (0, 1, ...) keeps the draws of one env apart.
GV_FN GvDraw gv_draw(const GvArgs& a, const GvTeam& team, gv_u32 purpose, gv_u32 agent) {
    const gv_i32 w = team.world;
    return gv_philox(a.seed[w], (gv_u32)a.world_id[w], (gv_u32)a.episode[w], (gv_u32)a.t[w], purpose << 16 | agent);
}

// ---- observations and ends ------------------------------------------------------------------------------------

// Observation row of an agent.
GV_FN float* gv_obs_row(const GvArgs& a, float* obs, gv_i32 world, gv_i32 agent) {
    return obs + gv_row(a, world, agent) * gv_num_features(a);
}

// True if step t reaches a time limit; a limit of 0 is none.
GV_FN bool gv_time_is_up(gv_i32 t, gv_i32 limit) { return limit > 0 && t >= limit; }

// ---- actions --------------------------------------------------------------------------------------------------

// A 64-bit index as 32 bits; -1, which is no index, if it does not fit.
GV_FN gv_i32 gv_narrow(gv_i64 index) { return index == (gv_i32)index ? (gv_i32)index : -1; }

// Entry `head` of the `heads` entries of a row's action, unchecked.
GV_FN gv_i32 gv_given_index(const GvArgs& a, gv_i64 row, gv_i32 head, gv_i32 heads) {
    const gv_i64 at = row * heads + head;
    return a.action_bytes == 8 ? gv_narrow(((const gv_i64*)a.action)[at]) : ((const gv_i32*)a.action)[at];
}

// The index if it lies in [0, n); else 0, and the action is counted as invalid.
GV_FN gv_i32 gv_checked_index(const GvArgs& a, gv_i32 index, gv_i32 n) {
    if (index >= 0 && index < n) return index;
    gv_fetch_add(a.invalid_actions);
    return 0;
}

// Checked entry of an action. With several entries it is faster to read all of them before the first check, which waits for
// memory.
GV_FN gv_i32 gv_action_index(const GvArgs& a, gv_i64 row, gv_i32 head, gv_i32 heads, gv_i32 n) {
    return gv_checked_index(a, gv_given_index(a, row, head, heads), n);
}

// Entry of a continuous action, which the env clips. NaN acts as 0 and is counted as invalid.
GV_FN float gv_action_value(const GvArgs& a, gv_i64 row, gv_i32 head, gv_i32 heads) {
    const float value = ((const float*)a.action)[row * heads + head];
    if (value == value) return value;
    gv_fetch_add(a.invalid_actions);
    return 0.0f;
}
