// Roles alike, with masks: an agent's right choice is its observation, and the choice after it is forbidden.
#include "hooks.h"

GV_FN gv_i32 masked_right(const GvState& s, gv_i32 agent, gv_i32 t) { return (s.shift + agent + t) % 3; }

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    GV_ONCE s.shift = (gv_i32)(gv_draw(a, team, 0, 0).word[0] % 3u);
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) {
        const gv_i64 row = gv_row(a, team.world, i);
        a.agent_reward[row] = gv_action_index(a, row, 0, 1, 3) == masked_right(s, i, s.t - 1) ? 1.0f : 0.0f;
    }
    GV_ONCE s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) {
        const gv_i32 right = masked_right(s, i, s.t);
        for (gv_i32 choice = 0; choice < 3; ++choice) {
            gv_obs_row(a, obs, team.world, i)[choice] = choice == right ? 1.0f : 0.0f;
            gv_mask_row(a, obs, team.world, i)[choice] = choice != (right + 1) % 3;
        }
    }
}
