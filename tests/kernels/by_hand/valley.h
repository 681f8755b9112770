// Hooks by hand that both mountain cars share.
#pragma once
#include "hooks.h"

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        const float low = a.reset_bounds[0], width = a.reset_bounds[1] - a.reset_bounds[0];
        s.position = low + width * gv_uniform(gv_draw(a, team, 0, 0).word[0]);
        s.velocity = 0.0f;
    }
}

// Moves the car by one step and sets the flags. `push` is the engine's acceleration. Returns true if the car reaches the goal.
GV_FN bool drive(const GvArgs& a, const GvTeam& team, float push) {
    const auto s = gv_state(a, team);
    float unused, slope;
    gv_sincos(3.0f * s.position, &unused, &slope);
    float velocity = gv_clamp(s.velocity + (push - slope * gv_params(a, team).gravity), -a.max_speed, a.max_speed);
    const float position = gv_clamp(s.position + velocity, a.min_position, a.max_position);
    if (position == a.min_position && velocity < 0.0f) velocity = 0.0f;  // the wall on the left stops the car
    s.position = position;
    s.velocity = velocity;
    const bool arrived = position >= a.goal_position && velocity >= a.goal_velocity;
    s.terminated = arrived;
    s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
    return arrived;
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    const auto s = gv_state(a, team);
    GV_ONCE gv_write_row<2>(gv_obs_row(a, obs, team.world, 0), {s.position, s.velocity});
}
