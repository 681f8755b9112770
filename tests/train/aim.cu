// Aim: an agent sees a mark in [-1, 1] and aims at it; an episode has two marks. Test env for learning of numbers and choices.
// With choices, the right one is the third of [-1, 1] in which the mark lies.
#include "hooks.h"

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_ONCE s.mark = 2.0f * gv_uniform(gv_draw(a, team, 0, 0).word[0]) - 1.0f;
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        const gv_i64 row = gv_row(a, team.world, 0);
        if (a.choices != 0) {
            const int third = s.mark < -1.0f / 3.0f ? 0 : s.mark < 1.0f / 3.0f ? 1 : 2;
            a.agent_reward[row] = gv_action_index(a, row, 0, 1, 3) == third ? 0.0f : -1.0f;
        } else {
            const float miss = gv_action_value(a, row, 0, 1) - s.mark;
            a.agent_reward[row] = -miss * miss;
        }
        s.terminated = s.t >= 2;
        s.mark = 2.0f * gv_uniform(gv_draw(a, team, 1, 0).word[0]) - 1.0f;
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    const auto s = gv_state(a, team);
    GV_ONCE gv_obs_row(a, obs, team.world, 0)[0] = s.mark;
}
