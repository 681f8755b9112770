// MountainCarContinuous: one lane a world, the rules of Gymnasium's MountainCarContinuous-v0.
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

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    GV_ONCE {
        const gv_i32 w = team.world;
        const gv_i64 row = gv_row(a, w, 0);
        float* state = a.state + 2 * (gv_i64)w;
        const float action = gv_action_value(a, row, 0, 1);
        const float push = gv_clamp(action, -1.0f, 1.0f) * gv_power(a, w);
        float unused, slope;
        gv_sincos(3.0f * state[POSITION], &unused, &slope);
        float velocity = gv_clamp(state[VELOCITY] + (push - slope * gv_gravity(a, w)), -a.max_speed, a.max_speed);
        const float position = gv_clamp(state[POSITION] + velocity, a.min_position, a.max_position);
        if (position == a.min_position && velocity < 0.0f) velocity = 0.0f;  // the wall on the left stops the car
        state[POSITION] = position;
        state[VELOCITY] = velocity;
        const bool arrived = position >= a.goal_position && velocity >= a.goal_velocity;
        // The cost is that of the action as given, not as clipped: so does Gymnasium.
        a.agent_reward[row] = (arrived ? 100.0f : 0.0f) - 0.1f * action * action;
        a.terminated[w] = arrived;
        a.truncated[w] = a.max_episode_steps > 0 && a.t[w] >= a.max_episode_steps;
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    float* row = gv_obs_row(a, obs, team.world, 0);
    GV_FOR(i, 2) row[i] = a.state[2 * (gv_i64)team.world + i];
}

GV_FN void env_settle(const GvArgs&, const GvTeam&) {}
