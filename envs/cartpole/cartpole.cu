// CartPole: one lane a world, Euler integration as in Gymnasium's CartPole-v1.
#include "gv_env.h"

#define X 0
#define X_DOT 1
#define THETA 2
#define THETA_DOT 3

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const float low = a.reset_bounds[0], width = a.reset_bounds[1] - a.reset_bounds[0];
    GV_ONCE {
        const GvDraw draw = gv_draw(a, team, 0, 0);
        float* state = a.state + 4 * (gv_i64)team.world;
        for (gv_i32 i = 0; i < 4; ++i) state[i] = low + width * gv_uniform(draw.word[i]);
    }
}

struct Accelerations {
    float x, theta;
};

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    GV_ONCE {
        const gv_i32 w = team.world;
        const gv_i64 row = gv_row(a, w, 0);
        float* state = a.state + 4 * (gv_i64)w;
        const float x_dot = state[X_DOT], theta = state[THETA], theta_dot = state[THETA_DOT];
        const float masspole = gv_masspole(a, w), length = gv_length(a, w), tau = gv_tau(a, w);
        const float total_mass = gv_masscart(a, w) + masspole, polemass_length = masspole * length;
        const float gravity = gv_gravity(a, w), four_thirds = a.four_thirds;
        const float force = gv_action_index(a, row, 0, 1, 2) == 1 ? gv_force_mag(a, w) : -gv_force_mag(a, w);
        float sine, cosine;
        gv_sincos_upright(theta, &sine, &cosine);
        // Equations of motion after R. Florian, "Correct equations for the dynamics of the cart-pole system" (2005), without friction.
        const Accelerations acc = gv_dividing([=](auto by) {
            const auto mass = by(total_mass);
            const float push = (force + polemass_length * theta_dot * theta_dot * sine) / mass;
            const float theta_acc = (gravity * sine - cosine * push)
                                    / by(length * (four_thirds - masspole * cosine * cosine / mass));
            return Accelerations{push - polemass_length * theta_acc * cosine / mass, theta_acc};
        });
        state[X] += tau * x_dot;
        state[X_DOT] += tau * acc.x;
        state[THETA] += tau * theta_dot;
        state[THETA_DOT] += tau * acc.theta;
        // Written so that NaN ends the episode.
        const bool inside = gv_abs(state[X]) <= a.x_threshold && gv_abs(state[THETA]) <= a.theta_threshold;
        a.agent_reward[row] = a.sutton_barto_reward ? (inside ? 0.0f : -1.0f) : 1.0f;
        a.terminated[w] = !inside;
        a.truncated[w] = a.max_episode_steps > 0 && a.t[w] >= a.max_episode_steps;
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    const float* state = a.state + 4 * (gv_i64)team.world;
    GV_ONCE gv_put_row<4>(gv_obs_row(a, obs, team.world, 0), {state[0], state[1], state[2], state[3]});
}

GV_FN void env_settle(const GvArgs&, const GvTeam&) {}
