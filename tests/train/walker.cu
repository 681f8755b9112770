// Walker: one agent that steps to the left or to the right. Test env for metrics of single-agent worlds.
#include "hooks.h"

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_ONCE s.x = gv_uniform(gv_draw(a, team, 0, 0).word[0]);
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        const gv_i64 row = gv_row(a, team.world, 0);
        s.x += gv_action_index(a, row, 0, 1, 2) == 1 ? 0.25f : -0.25f;
        gv_record_farthest(a, team, s.x);
        gv_record_mean_x(a, team, s.x);
        if (s.x < 0.0f) gv_record_below(a, team, s.x);
        a.agent_reward[row] = s.x;
        s.terminated = s.x > 1.0f;
        s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    const auto s = gv_state(a, team);
    GV_ONCE gv_obs_row(a, obs, team.world, 0)[0] = s.x;
}
