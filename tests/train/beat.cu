// Agents observe nothing of the time, and are paid for the action that is the number of steps that the episode has had, modulo 5.
// Some are absent from an episode, some leave during it, and some come back.
#include "hooks.h"

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) {
        s.score[i] = 0;
        s.level[i] = gv_uniform(gv_draw(a, team, 0, i).word[0]);
        s.present[i] = gv_uniform(gv_draw(a, team, 0, i).word[1]) >= a.absent ? 1 : 0;
    }
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) {
        const gv_i64 row = gv_row(a, team.world, i);
        const bool hit = s.present[i] != 0 && gv_action_index(a, row, 0, 1, 5) == (s.t - 1) % 5;
        a.agent_reward[row] = hit ? 1.0f : 0.0f;
        s.score[i] += hit ? 1 : 0;
        s.level[i] = 0.5f * s.level[i] + (float)s.t;
        const float chance = gv_uniform(gv_draw(a, team, 1, i).word[0]);
        s.present[i] = s.present[i] != 0 ? chance >= a.leave : chance < a.back;
    }
    GV_ONCE {
        s.terminated = gv_uniform(gv_draw(a, team, 2, 0).word[0]) < a.end;
        s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const auto s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) {
        float* const features = gv_obs_row(a, obs, team.world, i);
        features[0] = a.show != 0 ? s.level[i] : 1.0f;
        features[1] = s.present[i] != 0 ? 1.0f : 0.0f;
    }
}
