// Pendulum: one lane a world, the rules of Gymnasium's Pendulum-v1.
#include "gv_env.h"

#define THETA 0
#define SPEED 1

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    GV_ONCE {
        const GvDraw draw = gv_draw(a, team, 0, 0);
        float* state = a.state + 2 * (gv_i64)team.world;
        for (gv_i32 i = 0; i < 2; ++i) state[i] = a.reset_bounds[i] * (2.0f * gv_uniform(draw.word[i]) - 1.0f);
    }
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    GV_ONCE {
        const gv_i32 w = team.world;
        const gv_i64 row = gv_row(a, w, 0);
        float* state = a.state + 2 * (gv_i64)w;
        const float theta = state[THETA], speed = state[SPEED];
        const float torque = gv_clamp(gv_action_value(a, row, 0, 1), -a.max_torque, a.max_torque);
        const float mass = gv_m(a, w), length = gv_l(a, w), gravity = gv_g(a, w);
        const float off_top = gv_mod(theta + a.pi, a.two_pi) - a.pi;
        a.agent_reward[row] = -(off_top * off_top + 0.1f * speed * speed + 0.001f * (torque * torque));
        float sine, unused;
        gv_sincos(theta, &sine, &unused);
        const float acceleration = 3.0f * gravity / (2.0f * length) * sine + 3.0f / (mass * length * length) * torque;
        state[SPEED] = gv_clamp(speed + acceleration * a.dt, -a.max_speed, a.max_speed);
        state[THETA] = theta + state[SPEED] * a.dt;
        a.terminated[w] = 0;
        a.truncated[w] = a.max_episode_steps > 0 && a.t[w] >= a.max_episode_steps;
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    GV_ONCE {
        const float* state = a.state + 2 * (gv_i64)team.world;
        float sine, cosine;
        gv_sincos(state[THETA], &sine, &cosine);
        gv_put_row<3>(gv_obs_row(a, obs, team.world, 0), {cosine, sine, state[SPEED]});
    }
}

GV_FN void env_settle(const GvArgs&, const GvTeam&) {}
