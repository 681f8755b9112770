// Steps and rollouts of worlds whose state stays in memory.
#pragma once
#include "random_actions.h"
#include "protocol.h"

GV_FN void gv_step_in_memory(const GvArgs& a, const GvTeam& team) {
    const bool finished = (a.terminated[team.world] | a.truncated[team.world]) != 0;
    const gv_i32 t = gv_next_t(a, team);
    bool restarts;
    if (GV_WHOLE_WARP(!finished)) restarts = gv_step_running(a, team, t);
    else restarts = gv_advance(a, gv_diverged(team));
    if (restarts) gv_autoreset(a, gv_diverged(team));
}

GV_FN void gv_draw_actions(const GvArgs& a, const GvTeam& team, const GvOrigin& origin, void* actions, gv_i32 step) {
    const gv_i32 heads = gv_num_heads(a);
    GV_FOR(agent, gv_num_agents(a)) {
        const gv_i64 row = gv_row(a, team.world, agent);
        for (gv_i32 head = 0; head < heads; ++head) {
            const GvDraw draw = gv_draw_four_steps(origin, head, agent, step & ~3);
            // Indexing by step would put the words into memory.
            const gv_u32 early = step & 1 ? draw.word[1] : draw.word[0], late = step & 1 ? draw.word[3] : draw.word[2];
            gv_store_entry(a, actions, row * heads + head, gv_random_entry(a, gv_range(a, head), step & 2 ? late : early));
        }
    }
}

// num_steps steps. The outputs of a step lie behind those of the previous step, so one shift moves all that have rows of agents.
GV_FN void gv_rollout_in_memory(const GvArgs& a, const GvTeam& team) {
    const GvOrigin origin = gv_origin(a, team.world);
    const gv_i32 features = gv_num_features(a), entry_bytes = gv_num_heads(a) * (a.drawn_actions ? 4 : a.action_bytes);
    const gv_i64 rows = (gv_i64)a.num_worlds * gv_num_agents(a);
    GV_LOOP for (gv_i32 step = 0; step < a.num_steps; ++step) {
        const gv_i64 shift = step * rows, envs = a.agents_view ? 0 : (gv_i64)step * a.num_worlds;
        GvArgs now = a;
        gv_shift_rows(now, shift);
        now.action = (const char*)(a.drawn_actions ? a.drawn_actions : a.action) + (step * a.action_stride - shift * entry_bytes);
        if (step > 0) now.previous_obs = a.obs - rows * features;
        now.reward += envs;
        now.out_terminated += envs;
        now.out_truncated += envs;
        now.out_finished += envs;
        gv_block_barrier(team);  // every lane has finished the previous step, and small worlds store side by side
        if (a.drawn_actions) {
            gv_draw_actions(now, team, origin, (void*)now.action, step);
            gv_barrier(team);
        }
        gv_step_in_memory(now, team);
    }
}
