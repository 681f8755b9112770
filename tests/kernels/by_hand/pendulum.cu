// Hooks of envs/pendulum that take (a, team) and do without GvWorld; see test_world_cost.py.
#include "hooks.h"

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        const GvDraw draw = gv_draw(a, team, 0, 0);
        s.theta = a.reset_bounds[0] * (2.0f * gv_uniform(draw.word[0]) - 1.0f);
        s.theta_dot = a.reset_bounds[1] * (2.0f * gv_uniform(draw.word[1]) - 1.0f);
    }
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    const auto p = gv_params(a, team);
    GV_ONCE {
        const gv_i64 row = gv_row(a, team.world, 0);
        const float torque = gv_clamp(gv_action_value(a, row, 0, 1), -a.max_torque, a.max_torque);
        const float from_upright = gv_mod(s.theta + a.pi, a.two_pi) - a.pi;
        a.agent_reward[row] = -(from_upright * from_upright + 0.1f * s.theta_dot * s.theta_dot + 0.001f * (torque * torque));
        float sine, unused;
        gv_sincos(s.theta, &sine, &unused);
        const float acceleration = 3.0f * p.g / (2.0f * p.l) * sine + 3.0f / (p.m * p.l * p.l) * torque;
        s.theta_dot = gv_clamp(s.theta_dot + acceleration * a.dt, -a.max_speed, a.max_speed);
        s.theta = s.theta + s.theta_dot * a.dt;
        s.terminated = 0;
        s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        float sine, cosine;
        gv_sincos(s.theta, &sine, &cosine);
        float* const row = gv_obs_row(a, obs, team.world, 0);
        // The number of features, a constant in most builds, tells if the velocity is observed.
        if (gv_num_features(a) == 3) gv_write_row<3>(row, {cosine, sine, s.theta_dot});
        else gv_write_row<2>(row, {cosine, sine});
    }
}
