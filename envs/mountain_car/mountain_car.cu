// MountainCar: one lane a world, the rules of Gymnasium's MountainCar-v0.
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
        const float push = (float)(gv_action_index(a, row, 0, 1, 3) - 1) * gv_force(a, w);
        float unused, slope;
        gv_sincos(3.0f * state[POSITION], &unused, &slope);
        float velocity = gv_clamp(state[VELOCITY] + (push - slope * gv_gravity(a, w)), -a.max_speed, a.max_speed);
        const float position = gv_clamp(state[POSITION] + velocity, a.min_position, a.max_position);
        if (position == a.min_position && velocity < 0.0f) velocity = 0.0f;  // the wall on the left stops the car
        state[POSITION] = position;
        state[VELOCITY] = velocity;
        a.agent_reward[row] = -1.0f;
        a.terminated[w] = position >= a.goal_position && velocity >= a.goal_velocity;
        a.truncated[w] = a.max_episode_steps > 0 && a.t[w] >= a.max_episode_steps;
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    float* row = gv_obs_row(a, obs, team.world, 0);
    GV_FOR(i, 2) row[i] = a.state[2 * (gv_i64)team.world + i];
}

GV_FN void env_settle(const GvArgs&, const GvTeam&) {}
