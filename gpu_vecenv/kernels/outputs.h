// Parts that every step has: defaults of the optional hooks, flags and rewards of worlds.
#pragma once
#include "autoreset.h"
#include "hooks.h"

// Defaults of the optional hooks. A hook that the env defines is not a template, so the compiler prefers it.
template <class Team>
GV_FN void env_settle(const GvArgs&, const Team&) {}
template <class Team>
GV_FN void env_observe_step(const GvArgs& a, const Team& team, GvObs obs) {
    env_observe(a, team, obs);
}

// ---- flags ----------------------------------------------------------------------------------------------------

GV_FN void gv_store_flags(const GvArgs& a, gv_i64 row, GvOutcome outcome) {
    gv_store_once(a.out_terminated + row, (gv_u8)outcome.terminated);
    gv_store_once(a.out_truncated + row, (gv_u8)outcome.truncated);
    gv_store_once(a.out_finished + row, (gv_u8)outcome.finished);
}

// Writes flags, and agent_alive if a world has several agents. The outcome is passed by value: gcc then keeps it out of memory, and
// can step packs in vector registers.
GV_FN void gv_write_flags(const GvArgs& a, const GvTeam& team, GvOutcome outcome) {
    const gv_i32 w = team.world, agents = gv_num_agents(a);
    if (agents > 1) {
        GV_FOR(agent, agents) {
            const gv_i64 row = gv_row(a, w, agent);
            const gv_u8 alive = gv_alive(a, w, agent);
            if (gv_agents_view(a)) gv_store_flags(a, row, outcome);
            a.agent_alive[row] = alive;
        }
    }
    if (agents == 1 || !gv_agents_view(a)) {  // with one agent, rows are worlds in either view
        GV_ONCE gv_store_flags(a, w, outcome);
    }
}

// ---- the reward of a world ------------------------------------------------------------------------------------

// True if the view has a reward of each world: the mean of agent_reward, over all agents or over those of the role that the spec names.
GV_FN bool gv_has_world_reward(const GvArgs& a) { return gv_num_agents(a) > 1 && !gv_agents_view(a); }

// Rewards that a lane loads: the first addend of each of its partial sums, of which a world has at most 32.
struct GvRewards {
    float first[32];
};

// Loads the first addend of each partial sum. A barrier must follow the last write of agent_reward. A team of one lane loads them
// when it adds them.
GV_FN void gv_load_rewards(const GvArgs& a, const GvTeam& team, GvRewards& rewards) {
    const gv_i32 agents = gv_num_agents(a), n = GV_REWARD_COUNT, sums = n < 32 ? n : 32;
    (void)agents;
    if (GV_ONE_LANE || !gv_has_world_reward(a)) return;
    GV_UNROLL for (gv_i32 k = 0; k * team.lanes < sums; ++k) {
        const gv_i32 p = k * team.lanes + team.lane;
        if (p < sums) rewards.first[k] = a.agent_reward[gv_row(a, team.world, GV_REWARD_AGENT(p))];
    }
}

// Adds the rewards in the order of gv_sum, and writes the reward of the world.
GV_FN void gv_write_reward(const GvArgs& a, const GvTeam& team, const GvRewards& rewards) {
    const gv_i32 agents = gv_num_agents(a), n = GV_REWARD_COUNT, sums = n < 32 ? n : 32;
    (void)agents;
    if (!gv_has_world_reward(a)) return;
    GV_UNROLL for (gv_i32 k = 0; k * team.lanes < sums; ++k) {
        const gv_i32 p = k * team.lanes + team.lane;
        if (p >= sums) continue;
        const auto reward = [&](gv_i32 i) { return a.agent_reward[gv_row(a, team.world, GV_REWARD_AGENT(i))]; };
        float partial = 0.0f + (GV_ONE_LANE ? reward(p) : rewards.first[k]);
        GV_UNROLL_BY_4 for (gv_i32 i = p + 32; i < n; i += 32) partial += reward(i);
        team.sums[p] = partial;
    }
    gv_barrier_sums(team);
    GV_ONCE a.reward[team.world] = gv_add_partial_sums(team, n) / (float)n;
}

// The same, at once.
GV_FN void gv_write_reward(const GvArgs& a, const GvTeam& team) {
    GvRewards rewards;
    gv_load_rewards(a, team, rewards);
    gv_write_reward(a, team, rewards);
}
