// One agent with more features than a lane holds in variables, and an action of two entries, and metrics. Test env of rollouts in one launch.
#include "hooks.h"

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        const GvDraw draw = gv_draw(a, team, 0, 0);
        s.x = gv_uniform(draw.word[0]) - 0.5f;
        s.y = gv_uniform(draw.word[1]) - 0.5f;
    }
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        const gv_i64 row = gv_row(a, team.world, 0);
        s.x += 0.025f * (float)(gv_action_index(a, row, 0, 2, 9) - 4);
        s.y = 0.05f * (float)gv_action_index(a, row, 1, 2, 2) - s.y;
        a.agent_reward[row] = s.x;
        s.terminated = gv_abs(s.x) > 0.8f;
        s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
        gv_record_speed(a, team, s.y);
        if (s.x > 0.0f) gv_record_highest(a, team, s.x);
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        float* own = gv_obs_row(a, obs, team.world, 0);
        for (gv_i32 i = 0; i < 40; ++i) own[i] = s.x + 0.1f * (float)i * s.y;
    }
}
