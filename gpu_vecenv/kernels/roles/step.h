// A step of a world whose roles have spaces of their own (GV_BY_ROLE), on every target. protocol.h includes this header for such
// worlds in place of its own gv_step_running, which would give the same results later.
//
// Such a world has few agents, so a GPU has few of its loads in flight, and a step takes as long as loads that wait for one
// another. If everything is read from the memory of the device when it is needed, seven loads wait one after the other. Here two
// do: the flags and time of the world, then all that env_step reads. During a step,
//
// - time and flags are in memory of the team, because one lane writes them and all lanes read them behind a barrier;
// - metrics of the episode are in variables of the lane that runs GV_ONCE. They are loaded together with what env_step reads;
// - rewards are loaded before the observation is written and added after it, so that their loads take no extra time.
//
// The arguments and the team that hooks get point at these places.
#pragma once
#include "outputs.h"

// Rewards that a lane loads: the first addend of each of its partial sums, of which a world has at most 32.
struct GvRewards {
    float first[32];
};

// Sets time and flags in memory of the team for step t, and points the arguments at them. Hooks index them by world, so each
// address is that of an array whose entry of this world is there. A barrier must follow.
GV_FN void gv_point_progress(const GvTeam& team, GvArgs& local, gv_i32 t) {
    const gv_i64 w = team.world;
    GV_ONCE *team.progress = {t, 0, 0};
    local.t = &team.progress->t - w;
    local.terminated = &team.progress->terminated - w;
    local.truncated = &team.progress->truncated - w;
}

// Loads the numbers of the episode into variables. Only those of the lane that runs GV_ONCE are used.
GV_FN void gv_load_metrics(const GvArgs& a, const GvTeam& team, GvNumbers& numbers) {
    (void)a, (void)team, (void)numbers;
#define GV_METRIC(name, reduction) \
    numbers.name = 0.0f;           \
    GV_ONCE numbers.name = a.episode_##name[team.world];
    GV_METRICS(GV_METRIC)
#undef GV_METRIC
}

GV_FN void gv_store_metrics(const GvArgs& a, const GvTeam& team, const GvNumbers& numbers) {
    (void)a, (void)team, (void)numbers;
#define GV_METRIC(name, reduction) GV_ONCE a.episode_##name[team.world] = numbers.name;
    GV_METRICS(GV_METRIC)
#undef GV_METRIC
}

// Loads the first addend of each partial sum of rewards.
GV_FN void gv_load_rewards(const GvArgs& a, const GvTeam& team, GvRewards& rewards) {
    const gv_i32 agents = gv_num_agents(a), n = GV_REWARD_COUNT;
    (void)agents;
    GV_UNROLL for (gv_i32 k = 0; k * team.lanes < 32; ++k) {
        const gv_i32 p = k * team.lanes + team.lane;
        if (p < 32 && p < n) rewards.first[k] = a.agent_reward[gv_row(a, team.world, GV_REWARD_AGENT(p))];
    }
}

// Writes the reward of the world, with the same sums as gv_write_mean_reward.
GV_FN void gv_write_loaded_reward(const GvArgs& a, const GvTeam& team, const GvRewards& rewards) {
    const gv_i32 agents = gv_num_agents(a), n = GV_REWARD_COUNT;
    if (agents == 1 || gv_agents_view(a)) return;
    GV_UNROLL for (gv_i32 k = 0; k * team.lanes < 32; ++k) {
        const gv_i32 p = k * team.lanes + team.lane;
        if (p >= 32 || p >= n) continue;
        float partial = 0.0f + rewards.first[k];
        for (gv_i32 i = p + 32; i < n; i += 32) partial += a.agent_reward[gv_row(a, team.world, GV_REWARD_AGENT(i))];
        team.sums[p] = partial;
    }
    gv_barrier_sums(team);
    GV_ONCE a.reward[team.world] = gv_add_partial_sums(team, n) / (float)n;
}

// Step t of a world that is not finished. Returns true if a new episode must start in the same step.
GV_FN bool gv_step_running(const GvArgs& a, const GvTeam& given_team, gv_i32 t) {
    const gv_i32 w = given_team.world;
    GvTeam team = gv_with_kept_memory(given_team);
    GvArgs local = a;
    GvNumbers numbers;
    GvRewards rewards;
    gv_load_metrics(a, team, numbers);
    team.numbers = &numbers;
    gv_point_progress(team, local, t);
    GV_ONCE a.t[w] = t;
    gv_barrier(team);
    env_step(local, team);
    gv_barrier(team);
    gv_load_rewards(a, team, rewards);
    const bool terminated = local.terminated[w] != 0, truncated = local.truncated[w] != 0, ended = terminated || truncated;
    const bool restart = ended && a.autoreset == GV_SAME_STEP;
    env_observe_step(local, team, restart ? gv_final_obs(a) : gv_obs(a));
    gv_barrier(team);
    gv_write_loaded_reward(a, team, rewards);  // before env_settle, which may use the partial sums
    env_settle(local, team);
    gv_write_flags(local, team, terminated, truncated, ended);
    if (ended) {
        gv_write_metrics(local, team, true);
        GV_ONCE {  // in memory the flags are 0 until the episode ends
            a.terminated[w] = terminated;
            a.truncated[w] = truncated;
        }
    }
    gv_store_metrics(a, team, numbers);
    return restart;
}
