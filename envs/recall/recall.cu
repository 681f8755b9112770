// Recall: one lane a world. The first observation shows a cue, and the action of step `delay` is compared with it.
#include "hooks.h"

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        s.cue = gv_below(gv_draw(a, team, 0, 0).word[0], gv_num_cues(a));
        s.choice = -1;
    }
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        const gv_i64 row = gv_row(a, team.world, 0);
        s.choice = gv_action_index(a, row, 0, 1, gv_num_cues(a));
        const bool answered = s.t > a.delay;  // t counts this step, too
        a.agent_reward[row] = answered && s.choice == s.cue ? 1.0f : 0.0f;
        s.terminated = answered;
        s.truncated = 0;
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    const auto s = gv_state(a, team);
    float* const row = gv_obs_row(a, obs, team.world, 0);
    GV_ONCE {
        const gv_i32 cues = gv_num_features(a) - 1, shown = s.t == 0 ? s.cue : -1;
        for (gv_i32 i = 0; i < cues; ++i) row[i] = i == shown ? 1.0f : 0.0f;
        row[cues] = s.t >= a.delay ? 1.0f : 0.0f;
    }
}
