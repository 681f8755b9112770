// Acrobot: one lane a world, one fourth-order Runge-Kutta step, as in Gymnasium's Acrobot-v1.
#include "gv_env.h"

#define THETA1 0
#define THETA2 1
#define SPEED1 2
#define SPEED2 3

struct Joints {
    float value[4];  // angles of both links, then their angular velocities
};

// Physical parameters of one world.
struct Links {
    float length1, mass1, mass2, centre1, centre2, inertia, gravity;
};

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const float low = a.reset_bounds[0], width = a.reset_bounds[1] - a.reset_bounds[0];
    GV_ONCE {
        const GvDraw draw = gv_draw(a, team, 0, 0);
        float* state = a.state + 4 * (gv_i64)team.world;
        for (gv_i32 i = 0; i < 4; ++i) state[i] = low + width * gv_uniform(draw.word[i]);
    }
}

// Equations of motion of the two-link pendulum, R. Sutton and A. Barto, "Reinforcement Learning" (1998), section 11.3;
// without the term in the square of the first velocity they are those of the 1996 paper.
GV_FN Joints rates(const GvArgs& a, const Links& p, const Joints& joints, float torque) {
    const float speed1 = joints.value[SPEED1], speed2 = joints.value[SPEED2];
    float sine2, cosine2, sine1, sine12, unused;
    gv_sincos(joints.value[THETA2], &sine2, &cosine2);
    gv_sincos(joints.value[THETA1], &sine1, &unused);  // cos(x - pi / 2) is sin(x)
    gv_sincos(joints.value[THETA1] + joints.value[THETA2], &sine12, &unused);
    const float coupling = p.mass2 * p.length1 * p.centre2;
    const float own2 = p.mass2 * p.centre2 * p.centre2 + p.inertia;
    const float d1 = p.mass1 * p.centre1 * p.centre1 + p.mass2 * p.length1 * p.length1 + p.inertia + own2 + 2.0f * coupling * cosine2;
    const float d2 = own2 + coupling * cosine2;
    const float phi2 = p.mass2 * p.centre2 * p.gravity * sine12;
    const float phi1 = -coupling * speed2 * speed2 * sine2 - 2.0f * coupling * speed2 * speed1 * sine2
                       + (p.mass1 * p.centre1 + p.mass2 * p.length1) * p.gravity * sine1 + phi2;
    const float centrifugal = a.book_dynamics ? coupling * speed1 * speed1 * sine2 : 0.0f;
    const float acceleration2 = (torque + d2 / d1 * phi1 - centrifugal - phi2) / (own2 - d2 * d2 / d1);
    const Joints rate = {{speed1, speed2, -(d2 * acceleration2 + phi1) / d1, acceleration2}};
    return rate;
}

GV_FN Joints moved(const Joints& from, const Joints& rate, float time) {
    Joints to;
    for (gv_i32 i = 0; i < 4; ++i) to.value[i] = from.value[i] + time * rate.value[i];
    return to;
}

// x brought into [-pi, pi] by whole turns; rounding of a large x is kept from passing the bounds.
GV_FN float wrapped(const GvArgs& a, float x) {
    return gv_clamp(x - gv_floor((x + a.pi) / a.two_pi) * a.two_pi, -a.pi, a.pi);
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    GV_ONCE {
        const gv_i32 w = team.world;
        const gv_i64 row = gv_row(a, w, 0);
        float* state = a.state + 4 * (gv_i64)w;
        const float torque = (float)(gv_action_index(a, row, 0, 1, 3) - 1);
        const Links p = {gv_link_length_1(a, w), gv_link_mass_1(a, w), gv_link_mass_2(a, w), gv_link_com_pos_1(a, w),
                         gv_link_com_pos_2(a, w), gv_link_moi(a, w), gv_gravity(a, w)};
        const Joints start = {{state[0], state[1], state[2], state[3]}};
        const Joints k1 = rates(a, p, start, torque);
        const Joints k2 = rates(a, p, moved(start, k1, 0.5f * a.dt), torque);
        const Joints k3 = rates(a, p, moved(start, k2, 0.5f * a.dt), torque);
        const Joints k4 = rates(a, p, moved(start, k3, a.dt), torque);
        for (gv_i32 i = 0; i < 4; ++i)
            state[i] += a.dt_sixth * (k1.value[i] + 2.0f * k2.value[i] + 2.0f * k3.value[i] + k4.value[i]);
        state[THETA1] = wrapped(a, state[THETA1]);
        state[THETA2] = wrapped(a, state[THETA2]);
        state[SPEED1] = gv_clamp(state[SPEED1], -a.max_vel_1, a.max_vel_1);
        state[SPEED2] = gv_clamp(state[SPEED2], -a.max_vel_2, a.max_vel_2);
        float unused, cosine1, cosine12;
        gv_sincos(state[THETA1], &unused, &cosine1);
        gv_sincos(state[THETA1] + state[THETA2], &unused, &cosine12);
        const bool up = -cosine1 - cosine12 > 1.0f;
        a.agent_reward[row] = up ? 0.0f : -1.0f;
        a.terminated[w] = up;
        a.truncated[w] = a.max_episode_steps > 0 && a.t[w] >= a.max_episode_steps;
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    GV_ONCE {
        const float* state = a.state + 4 * (gv_i64)team.world;
        float sine1, cosine1, sine2, cosine2;
        gv_sincos(state[THETA1], &sine1, &cosine1);
        gv_sincos(state[THETA2], &sine2, &cosine2);
        gv_put_row<6>(gv_obs_row(a, obs, team.world, 0), {cosine1, sine1, cosine2, sine2, state[SPEED1], state[SPEED2]});
    }
}

GV_FN void env_settle(const GvArgs&, const GvTeam&) {}
