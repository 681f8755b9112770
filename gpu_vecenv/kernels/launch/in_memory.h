// Steps and rollouts of worlds whose state stays in memory.
#pragma once
#include "random_actions.h"
#include "protocol.h"

// One step. If teams share a warp and none of its worlds is finished, the warp steps without divergence; in all other cases, which on
// the host and for more than 16 lanes are all of them, gv_advance looks at the flags of the world.
GV_FN void gv_step_in_memory(const GvArgs& a, const GvTeam& team) {
    const bool finished = (a.terminated[team.world] | a.truncated[team.world]) != 0;
    const gv_i32 t = gv_next_t(a, team);
    bool restarts;
    if (GV_WHOLE_WARP(!finished)) restarts = gv_step_running(a, team, t);
    else restarts = gv_advance(a, gv_diverged(team));
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
