// The stepping protocol, which is the same for every env: autoreset, flags, rewards of worlds, copies.
#pragma once
#include "lib/purposes.h"
#include "outputs.h"

// The same team for calls inside a branch that other teams of its warp may not take.
GV_FN GvTeam gv_diverged(const GvTeam& team) {
    GvTeam own = team;
    own.divergent = true;
    return own;
}

// ---- starts ---------------------------------------------------------------------------------------------------

// Overwrites the start that env_reset drew by a drawn entry of the reset pool. Does nothing without a pool.
GV_FN void gv_start_from_pool(const GvArgs& a, const GvTeam& team) {
    const gv_i32 size = a.pool_size[0];
    if (size == 0) return;  // no world ever started from a pool, so every pool_entry is -1 already
    const gv_i32 entry = size > 0 ? gv_below(gv_draw(a, team, GV_PURPOSE_POOL, 0).word[0], size) : -1;
    if (entry >= 0) gv_copy_fields(a, team, a.pool_fields, entry);
    GV_ONCE a.pool_entry[team.world] = entry;
}

// Overwrites the state by the start of the next episode. gv_take_start in single/register_world.h does the same with a start
// drawn early.
GV_FN void gv_reset_state(const GvArgs& a, const GvTeam& team) {
    const gv_i32 w = team.world;
    gv_barrier(team);  // lanes may still read the state of the previous episode
    GV_ONCE {
        a.episode[w] += 1;
        a.t[w] = 0;
        a.terminated[w] = 0;
        a.truncated[w] = 0;
    }
    gv_barrier(team);
    env_reset(a, team);
    gv_barrier(team);
    gv_start_from_pool(a, team);
    gv_clear_metrics(a, team);
    gv_barrier(team);
}

// ---- a step ---------------------------------------------------------------------------------------------------

// A step of a world that is not finished. `t` counts the step already, and a barrier has followed.
GV_FN GvOutcome gv_step_running(const GvArgs& a, const GvTeam& team) {
    env_step(a, team);
    gv_barrier(team);
    // Up to 32 rewards are used after the observation, so these loads take no extra time. More are added now, as their loads overlap
    // with those of the flags, and a sum that a lane keeps during the observation takes a register from it.
    GvRewards rewards;
    const gv_i32 w = team.world, agents = gv_num_agents(a);
    const bool few = GV_REWARD_COUNT <= 32;
    (void)agents;
    if (few) gv_load_rewards(a, team, rewards);
    else gv_write_reward(a, team);
    const bool terminated = a.terminated[w] != 0, truncated = a.truncated[w] != 0;
    const GvOutcome outcome = gv_outcome(a.autoreset, false, terminated, truncated);
    env_observe_step(a, team, outcome.restarts ? gv_final_obs(a) : gv_obs(a));
    gv_barrier(team);
    if (few) gv_write_reward(a, team, rewards);  // before env_settle, which may use the partial sums
    env_settle(a, team);
    gv_write_flags(a, team, outcome);
    gv_write_metrics(a, team, outcome.finished);
    return outcome;
}

// A step of a finished world, which repeats the world's observation and flags if no episode starts. Returns true if one must start.
GV_FN bool gv_step_finished(const GvArgs& a, const GvTeam& team) {
    const gv_i32 w = team.world;
    const GvOutcome outcome = gv_outcome(a.autoreset, true, a.terminated[w] != 0, a.truncated[w] != 0);
    gv_barrier(team);
    GV_FOR(agent, gv_num_agents(a)) a.agent_reward[gv_row(a, w, agent)] = 0.0f;
    if (outcome.restarts) return true;
    gv_repeat_obs(a, team);
    gv_barrier(team);  // the lanes that add up rewards are not those that wrote them
    gv_write_reward(a, team);
    gv_write_flags(a, team, outcome);
    return false;
}

// Starts an episode and observes it.
GV_CALLED void gv_start_episode(const GvArgs& a, const GvTeam& team) {
    gv_reset_state(a, team);
    env_observe(a, team, gv_obs(a));
}

// Outputs of a step of a finished world whose start of an episode is the whole step. Does nothing in other modes.
GV_FN void gv_write_start(const GvArgs& a, const GvTeam& team) {
    const GvOutcome start = gv_outcome(a.autoreset, true, false, false);
    if (!start.restarts) return;
    gv_write_reward(a, team);
    gv_write_flags(a, team, start);
}

// Start of an episode within a step.
GV_FN void gv_autoreset(const GvArgs& a, const GvTeam& team) {
    gv_start_episode(a, team);
    gv_write_start(a, team);
}

// ---- kernels other than steps, for one world ------------------------------------------------------------------

// Starts an episode in the worlds of reset_mask (null means all); other worlds repeat their last observation.
GV_FN void gv_reset_world(const GvArgs& a, const GvTeam& team) {
    if (a.reset_mask == nullptr || a.reset_mask[team.world]) gv_start_episode(a, gv_diverged(team));
    else if (gv_obs_moved(a)) gv_repeat_obs(a, team);
}

// Observes the present state.
GV_FN void gv_observe_world(const GvArgs& a, const GvTeam& team) { env_observe(a, team, gv_obs(a)); }

// Copies the state of world copy_source to this world, then observes. No source is overwritten in the same launch. If fork_world is
// not -1, the copy gets random numbers of its own.
GV_FN void gv_copy_world(const GvArgs& a, const GvTeam& team) {
    const gv_i32 w = team.world, source = a.copy_source[w];
    if (source >= 0) gv_copy_fields(a, team, a.copy_fields, source);
    gv_barrier(team);
    if (source >= 0 && a.fork_world >= 0) {
        GV_ONCE {
            a.seed[w] = a.fork_seed;
            a.world_id[w] = a.fork_world + w;
        }
    }
    gv_barrier(team);
    env_observe(a, team, gv_obs(a));
}
