// Steps and rollouts of worlds whose state stays in memory.
#pragma once
#include "random_actions.h"
#include "protocol.h"

// A step takes as long as loads that wait for one another, since a GPU has few of them in flight if worlds have few agents. If
// everything is read from the memory of the device when it is needed, seven loads wait one after the other. Here two do: the flags
// and time of the world, then all that env_step reads. During a step,
//
// - time and flags are in memory of the team, because one lane writes them and all lanes read them behind a barrier;
// - metrics of the episode are in variables of the lane that runs GV_ONCE. They are loaded together with what env_step reads.
//
// The arguments and the team that hooks get point at these places.

// Sets time and flags in memory of the team for step t, and points the arguments at them. Hooks index them by world, so each
// address is that of an array whose entry of this world is there. A barrier must follow.
GV_FN void gv_point_progress(const GvTeam& team, GvArgs& local, gv_i32 t) {
    const gv_i64 w = team.world;
    GV_ONCE *team.progress = {t, 0, 0};
    local.t = &team.progress->t - w;
    local.terminated = &team.progress->terminated - w;
    local.truncated = &team.progress->truncated - w;
}

// Step t of a world that is not finished. Returns true if a new episode must start in the same step.
GV_FN bool gv_run_in_memory(const GvArgs& a, const GvTeam& given_team, gv_i32 t) {
    const gv_i32 w = given_team.world;
    GvTeam team = gv_with_kept_memory(given_team);
    GvArgs local = a;
    GvNumbers numbers;
    gv_load_metrics(a, team, numbers);
    team.numbers = &numbers;
    gv_point_progress(team, local, t);
    GV_ONCE a.t[w] = t;
    gv_barrier(team);
    const GvOutcome outcome = gv_step_running(local, team);
    if (outcome.finished) {
        GV_ONCE {  // in memory the flags are 0 until the episode ends
            a.terminated[w] = outcome.terminated;
            a.truncated[w] = outcome.truncated;
        }
    }
    gv_store_metrics(a, team, numbers);
    return outcome.restarts;
}

// One step. If teams share a warp and none of its worlds is finished, the warp steps without divergence; in all other cases, which on
// the host and for more than 16 lanes are all of them, each team looks at the flags of its world.
GV_CALLED void gv_step_in_memory(const GvArgs& a, const GvTeam& team) {
    const bool finished = (a.terminated[team.world] | a.truncated[team.world]) != 0;
    gv_i32 t = 0;
    GV_ONCE t = a.t[team.world] + 1;  // other lanes do not use it
    bool restarts;
    if (GV_WHOLE_WARP(!finished)) restarts = gv_run_in_memory(a, team, t);
    else if (finished) restarts = gv_step_finished(a, gv_diverged(team));
    else restarts = gv_run_in_memory(a, gv_diverged(team), t);
    if (restarts) gv_autoreset(a, gv_diverged(team));
}

// A rollout of num_steps steps.
GV_FN void gv_rollout_in_memory(const GvArgs& a, const GvTeam& team) {
    const GvOrigin origin = gv_origin(a, team.world);
    const GvStepSizes sizes = gv_step_sizes(a);
    GV_LOOP for (gv_i32 step = 0; step < a.num_steps; ++step) {
        const gv_i64 row_shift = step * sizes.rows, world_shift = gv_agents_view(a) ? 0 : (gv_i64)step * a.num_worlds;
        GvArgs now = a;
        gv_point_step(a, now, sizes, row_shift, step);
        now.reward += world_shift;
        now.out_terminated += world_shift;
        now.out_truncated += world_shift;
        now.out_finished += world_shift;
#define GV_METRIC(name, reduction) now.out_episode_##name += world_shift;
        GV_METRICS(GV_METRIC)
#undef GV_METRIC
        gv_block_barrier(team);  // the previous step is finished, and the worlds of a block store at the same time
        if (gv_draws_actions(a)) {
            gv_draw_actions(now, team, origin, step);
            gv_barrier(team);
        }
        gv_step_in_memory(now, team);
    }
}
