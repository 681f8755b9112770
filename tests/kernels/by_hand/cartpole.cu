// Hooks of envs/cartpole that take (a, team) and do without GvWorld; see test_world_cost.py.
#include "hooks.h"

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    const float low = a.reset_bounds[0], width = a.reset_bounds[1] - a.reset_bounds[0];
    GV_ONCE {
        const GvDraw draw = gv_draw(a, team, 0, 0);
        s.x = low + width * gv_uniform(draw.word[0]);
        s.x_dot = low + width * gv_uniform(draw.word[1]);
        s.theta = low + width * gv_uniform(draw.word[2]);
        s.theta_dot = low + width * gv_uniform(draw.word[3]);
    }
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    const auto p = gv_params(a, team);
    GV_ONCE {
        const gv_i64 row = gv_row(a, team.world, 0);
        const float total_mass = p.masscart + p.masspole, polemass_length = p.masspole * p.length;
        const float force = gv_action_index(a, row, 0, 1, 2) == 1 ? p.force_mag : -p.force_mag;
        float sine, cosine;
        gv_sincos_small(s.theta, &sine, &cosine);
        // R. Florian, "Correct equations for the dynamics of the cart-pole system" (2005), without friction.
        const auto acc = gv_dividing([&](auto by) {
            const auto mass = by(total_mass);
            const float push = (force + polemass_length * s.theta_dot * s.theta_dot * sine) / mass;
            const float theta_acc = (p.gravity * sine - cosine * push)
                                    / by(p.length * (a.four_thirds - p.masspole * cosine * cosine / mass));
            return GvVec<float, 2>{push - polemass_length * theta_acc * cosine / mass, theta_acc};
        });
        s.x += p.tau * s.x_dot;
        s.x_dot += p.tau * acc.value[0];
        s.theta += p.tau * s.theta_dot;
        s.theta_dot += p.tau * acc.value[1];
        const bool inside = gv_abs(s.x) <= a.x_threshold && gv_abs(s.theta) <= a.theta_threshold;  // false for NaN
        a.agent_reward[row] = a.sutton_barto_reward ? (inside ? 0.0f : -1.0f) : 1.0f;
        s.terminated = !inside;
        s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        float* const row = gv_obs_row(a, obs, team.world, 0);
        if (gv_num_features(a) == 4) gv_write_row<4>(row, {s.x, s.x_dot, s.theta, s.theta_dot});
        else gv_write_row<2>(row, {s.x, s.theta});
    }
}
