// Pendulum: one lane a world, by the rules of Gymnasium's Pendulum-v1.
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    if (w.once) {
        const auto draw = w.draw(0);
        w.state.theta = w.options.x_init * (2.0f * draw.uniform(0) - 1.0f);
        w.state.theta_dot = w.options.y_init * (2.0f * draw.uniform(1) - 1.0f);
    }
}

GV_FN void env_step(GvWorld& w) {
    const auto& s = w.state;
    const auto& p = w.params;
    for (auto me : w.agents) {
        const float torque = gv_clamp(me.action.value(), -p.max_torque, p.max_torque);
        const float from_upright = gv_mod(s.theta + p.pi, p.two_pi) - p.pi;
        me.reward = -(from_upright * from_upright + 0.1f * s.theta_dot * s.theta_dot + 0.001f * (torque * torque));
        float sine, unused;
        gv_sincos(s.theta, &sine, &unused);
        const float acceleration = 3.0f * p.g / (2.0f * p.l) * sine + 3.0f / (p.m * p.l * p.l) * torque;
        s.theta_dot = gv_clamp(s.theta_dot + acceleration * p.dt, -p.max_speed, p.max_speed);
        s.theta = s.theta + s.theta_dot * p.dt;
        w.terminate(false);
        w.truncate_at(p.max_episode_steps);
    }
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) {
        float sine, cosine;
        gv_sincos(w.state.theta, &sine, &cosine);
        // The number of features, a constant in most builds, tells if the velocity is observed.
        if (w.sizes.num_features == 3) me.obs = {cosine, sine, w.state.theta_dot};
        else me.obs = {cosine, sine};
    }
}
