// Agents on a ring of cells are paid together for each step at whose end all of them are in one cell. An agent observes the next
// agent's place beside its own alone.
#include "hooks.h"

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) s.cell[i] = gv_below(gv_draw(a, team, 0, (gv_u32)i).word[0], a.num_cells);
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    const gv_i32 agents = gv_num_agents(a), cells = a.num_cells;
    GV_FOR(i, agents) s.cell[i] = (s.cell[i] + cells - 1 + gv_action_index(a, gv_row(a, team.world, i), 0, 1, 3)) % cells;
    gv_barrier(team);
    const gv_i32 together = gv_count(team, agents, [&](gv_i32 i) { return s.cell[i] == s.cell[0]; });
    GV_FOR(i, agents) a.agent_reward[gv_row(a, team.world, i)] = together == agents ? 1.0f : 0.0f;
    GV_ONCE s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    const gv_i32 agents = gv_num_agents(a), cells = a.num_cells;
    GV_FOR(i, agents) {
        const gv_i32 ahead = (s.cell[(i + 1) % agents] - s.cell[i] + cells) % cells;
        float* const row = gv_obs_row(a, obs, team.world, i);
        for (gv_i32 cell = 0; cell < cells; ++cell) row[cell] = cell == ahead ? 1.0f : 0.0f;
    }
}
