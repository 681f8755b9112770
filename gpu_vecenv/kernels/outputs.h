// Parts that every step has: autoreset modes, defaults of the optional hooks, flags and rewards of worlds.
#pragma once
#include "hooks.h"

#define GV_NEXT_STEP 0
#define GV_SAME_STEP 1
#define GV_DISABLED 2

// Defaults of the optional hooks. A hook that the env defines is not a template, so the compiler prefers it.
template <class Team>
GV_FN void env_settle(const GvArgs&, const Team&) {}
template <class Team>
GV_FN void env_observe_step(const GvArgs& a, const Team& team, GvObs obs) {
    env_observe(a, team, obs);
}

// ---- outputs of a step ----------------------------------------------------------------------------------------

GV_FN void gv_store_flags(const GvArgs& a, gv_i64 row, bool terminated, bool truncated, bool finished) {
    gv_store_once(a.out_terminated + row, (gv_u8)terminated);
    gv_store_once(a.out_truncated + row, (gv_u8)truncated);
    gv_store_once(a.out_finished + row, (gv_u8)finished);
}

// Writes flags, and agent_alive if a world has several agents. `finished` is true in the step that ends the episode.
GV_FN void gv_write_flags(const GvArgs& a, const GvTeam& team, bool terminated, bool truncated, bool finished) {
    const gv_i32 w = team.world, agents = gv_num_agents(a);
    if (agents > 1) {
        GV_FOR(agent, agents) {
            const gv_i64 row = gv_row(a, w, agent);
            const gv_u8 alive = gv_alive(a, w, agent);
            if (gv_agents_view(a)) gv_store_flags(a, row, terminated, truncated, finished);
            a.agent_alive[row] = alive;
        }
    }
    if (agents == 1 || !gv_agents_view(a)) {  // with one agent, rows are worlds in either view
        GV_ONCE gv_store_flags(a, w, terminated, truncated, finished);
    }
}

// Writes the reward of the world in the worlds view: the mean of agent_reward, over all agents or over those of the role that the
// spec names. A barrier must follow the last write of agent_reward.
GV_FN void gv_write_mean_reward(const GvArgs& a, const GvTeam& team) {
    const gv_i32 w = team.world, agents = gv_num_agents(a);
    if (agents == 1 || gv_agents_view(a)) return;
    gv_partial_sums(team, GV_REWARD_COUNT, [&](gv_i32 i) { return a.agent_reward[gv_row(a, w, GV_REWARD_AGENT(i))]; });
    gv_barrier_sums(team);
    GV_ONCE a.reward[w] = gv_add_partial_sums(team, GV_REWARD_COUNT) / (float)GV_REWARD_COUNT;
}
