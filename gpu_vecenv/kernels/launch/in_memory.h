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
    const gv_i32 features = gv_num_features(a), action_row_bytes = gv_num_entries(a) * (a.drawn_actions ? 4 : a.action_bytes);
    const gv_i64 rows = (gv_i64)a.num_worlds * gv_num_agents(a);
    GV_LOOP for (gv_i32 step = 0; step < a.num_steps; ++step) {
        const gv_i64 row_shift = step * rows, world_shift = a.agents_view ? 0 : (gv_i64)step * a.num_worlds;
        GvArgs now = a;
        gv_shift_rows(now, row_shift);
        now.action = (const char*)(a.drawn_actions ? a.drawn_actions : a.action)
                     + (step * a.action_stride - row_shift * action_row_bytes);
        if (step > 0) now.previous_obs = a.obs - rows * features;
        now.reward += world_shift;
        now.out_terminated += world_shift;
        now.out_truncated += world_shift;
        now.out_finished += world_shift;
        gv_block_barrier(team);  // the previous step is finished, and the worlds of a block store at the same time
        if (a.drawn_actions) {
            gv_draw_actions(now, team, origin, step);
            gv_barrier(team);
        }
        gv_step_in_memory(now, team);
    }
}
