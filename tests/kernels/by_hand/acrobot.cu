// Hooks of envs/acrobot that take (a, team) and do without GvWorld; see test_world_cost.py.
#include "hooks.h"

#define THETA1 0  // indices in Joints
#define THETA2 1
#define SPEED1 2
#define SPEED2 3

struct Joints {
    float value[4];  // angles of both links, then their angular velocities
};

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    const float low = a.reset_bounds[0], width = a.reset_bounds[1] - a.reset_bounds[0];
    GV_ONCE {
        const GvDraw draw = gv_draw(a, team, 0, 0);
        s.theta1 = low + width * gv_uniform(draw.word[0]);
        s.theta2 = low + width * gv_uniform(draw.word[1]);
        s.speed1 = low + width * gv_uniform(draw.word[2]);
        s.speed2 = low + width * gv_uniform(draw.word[3]);
    }
}

GV_FN Joints rates(const GvArgs& a, const GvParams& p, const Joints& joints, float torque) {
    const float speed1 = joints.value[SPEED1], speed2 = joints.value[SPEED2];
    float sine2, cosine2, sine1, sine12, unused;
    gv_sincos(joints.value[THETA2], &sine2, &cosine2);
    gv_sincos(joints.value[THETA1], &sine1, &unused);  // cos(x - pi / 2) is sin(x)
    gv_sincos(joints.value[THETA1] + joints.value[THETA2], &sine12, &unused);
    const float mass1 = p.link_mass_1, mass2 = p.link_mass_2, length1 = p.link_length_1;
    const float centre1 = p.link_com_pos_1, centre2 = p.link_com_pos_2, inertia = p.link_moi;
    const float coupling = mass2 * length1 * centre2;
    const float own2 = mass2 * centre2 * centre2 + inertia;
    const float d1 = mass1 * centre1 * centre1 + mass2 * length1 * length1 + inertia + own2 + 2.0f * coupling * cosine2;
    const float d2 = own2 + coupling * cosine2;
    const float phi2 = mass2 * centre2 * p.gravity * sine12;
    const float phi1 = -coupling * speed2 * speed2 * sine2 - 2.0f * coupling * speed2 * speed1 * sine2
                       + (mass1 * centre1 + mass2 * length1) * p.gravity * sine1 + phi2;
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

// x minus whole turns, in [-pi, pi]. The clamp is needed because the result for a large x is rounded.
GV_FN float wrapped(const GvArgs& a, float x) {
    return gv_clamp(x - gv_floor((x + a.pi) / a.two_pi) * a.two_pi, -a.pi, a.pi);
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    const auto p = gv_params(a, team);
    GV_ONCE {
        const gv_i64 row = gv_row(a, team.world, 0);
        const float torque = (float)(gv_action_index(a, row, 0, 1, 3) - 1);
        const Joints start = {{s.theta1, s.theta2, s.speed1, s.speed2}};
        const Joints k1 = rates(a, p, start, torque);
        const Joints k2 = rates(a, p, moved(start, k1, 0.5f * a.dt), torque);
        const Joints k3 = rates(a, p, moved(start, k2, 0.5f * a.dt), torque);
        const Joints k4 = rates(a, p, moved(start, k3, a.dt), torque);
        Joints end;
        for (gv_i32 i = 0; i < 4; ++i)
            end.value[i] = start.value[i] + a.dt_sixth * (k1.value[i] + 2.0f * k2.value[i] + 2.0f * k3.value[i] + k4.value[i]);
        s.theta1 = wrapped(a, end.value[THETA1]);
        s.theta2 = wrapped(a, end.value[THETA2]);
        s.speed1 = gv_clamp(end.value[SPEED1], -a.max_vel_1, a.max_vel_1);
        s.speed2 = gv_clamp(end.value[SPEED2], -a.max_vel_2, a.max_vel_2);
        float unused, cosine1, cosine12;
        gv_sincos(s.theta1, &unused, &cosine1);
        gv_sincos(s.theta1 + s.theta2, &unused, &cosine12);
        const bool up = -cosine1 - cosine12 > 1.0f;
        a.agent_reward[row] = up ? 0.0f : -1.0f;
        s.terminated = up;
        s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        float sine1, cosine1, sine2, cosine2;
        gv_sincos(s.theta1, &sine1, &cosine1);
        gv_sincos(s.theta2, &sine2, &cosine2);
        gv_write_row<6>(gv_obs_row(a, obs, team.world, 0), {cosine1, sine1, cosine2, sine2, s.speed1, s.speed2});
    }
}
