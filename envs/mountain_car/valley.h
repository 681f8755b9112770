// Rules that both MountainCar kernels share: start, motion, end of an episode and observation. One lane a world.
// Equations: README.md in this folder.
#pragma once
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    if (w.once) {
        const float low = w.options.low, width = w.options.high - low;
        w.state.position = low + width * w.draw(0).uniform();
        w.state.velocity = 0.0f;
    }
}

// Moves the car by one step and sets the flags. `push` is the engine's acceleration. Returns true if the car reaches the goal.
GV_FN bool drive(const GvWorld& w, float push) {
    const auto& s = w.state;
    const auto& p = w.params;
    float unused, slope;
    gv_sincos(3.0f * s.position, &unused, &slope);
    float velocity = gv_clamp(s.velocity + (push - slope * p.gravity), -p.max_speed, p.max_speed);
    const float position = gv_clamp(s.position + velocity, p.min_position, p.max_position);
    if (position == p.min_position && velocity < 0.0f) velocity = 0.0f;  // the wall on the left stops the car
    s.position = position;
    s.velocity = velocity;
    const bool arrived = position >= p.goal_position && velocity >= p.goal_velocity;
    w.terminate(arrived);
    w.truncate_at(p.max_episode_steps);
    return arrived;
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {w.state.position, w.state.velocity};
}
