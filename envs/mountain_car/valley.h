// The valley that both MountainCar kernels drive in: start, motion, end of an episode and observation. One lane a world.
// Equations: README.md beside this file.
#pragma once
#include "gv_env.h"

#define POSITION 0
#define VELOCITY 1

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    GV_ONCE {
        float* state = a.state + 2 * (gv_i64)team.world;
        const float low = a.reset_bounds[0], width = a.reset_bounds[1] - a.reset_bounds[0];
        state[POSITION] = low + width * gv_uniform(gv_draw(a, team, 0, 0).word[0]);
        state[VELOCITY] = 0.0f;
    }
}

// Move one world's car by a step under the push of its engine and set the flags; true when it arrives at the flag.
GV_FN bool drive(const GvArgs& a, gv_i32 w, float push) {
    float* state = a.state + 2 * (gv_i64)w;
    float unused, slope;
    gv_sincos(3.0f * state[POSITION], &unused, &slope);
    float velocity = gv_clamp(state[VELOCITY] + (push - slope * gv_gravity(a, w)), -a.max_speed, a.max_speed);
    const float position = gv_clamp(state[POSITION] + velocity, a.min_position, a.max_position);
    if (position == a.min_position && velocity < 0.0f) velocity = 0.0f;  // the wall on the left stops the car
    state[POSITION] = position;
    state[VELOCITY] = velocity;
    const bool arrived = position >= a.goal_position && velocity >= a.goal_velocity;
    a.terminated[w] = arrived;
    a.truncated[w] = a.max_episode_steps > 0 && a.t[w] >= a.max_episode_steps;
    return arrived;
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    const float* state = a.state + 2 * (gv_i64)team.world;
    GV_ONCE gv_put_row<2>(gv_obs_row(a, obs, team.world, 0), {state[POSITION], state[VELOCITY]});
}

GV_FN void env_settle(const GvArgs&, const GvTeam&) {}
