// Agents move on a line and are paid to stay near its middle. Some are absent from an episode, and some leave during it; both get
// a reward that must not count.
#include "hooks.h"

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) {
        const GvDraw d = gv_draw(a, team, 0, i);
        s.pos[i] = gv_uniform(d.word[0]);
        s.present[i] = gv_uniform(d.word[1]) >= a.absent ? 1 : 0;
    }
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) {
        const gv_i64 row = gv_row(a, team.world, i);
        const gv_i32 move = gv_action_index(a, row, 0, 2, 3), kind = gv_action_index(a, row, 1, 2, 4);
        s.pos[i] += 0.2f * (float)(move - 1) + 0.01f * (float)kind;
        const bool here = s.present[i] != 0;
        a.agent_reward[row] = here ? 0.5f - gv_abs(s.pos[i]) + 0.1f * (float)(kind == 2) : a.ghost;
        if (here && gv_uniform(gv_draw(a, team, 1, i).word[0]) < a.leave) s.present[i] = 0;
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
        features[0] = s.pos[i];
        features[1] = (float)s.t * 0.1f;
        features[2] = (float)i;
        for (gv_i32 choice = 0; choice < 4; ++choice)
            gv_mask_row(a, obs, team.world, i)[choice] = (s.t + i + choice) % 5 != 0 && (s.t + i) % 7 != 0;
    }
}
