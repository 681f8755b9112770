// Two roles with equal spaces, a shared part and one masked entry of two. Test env of the trainer.
#include "hooks.h"

// The right choice of the masked entry follows from the world's number and the step; the choice after it is forbidden.
GV_FN gv_i32 pairs_right(const GvState& s) { return (s.number + s.t) % 3; }

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    GV_ONCE s.number = (gv_i32)(gv_draw(a, team, 0, 0).word[0] % 3u);
}

GV_FN float pairs_reward(const GvArgs& a, const GvAction& action, gv_i32 right) {
    return gv_action_index(a, action, 1, 3) == right ? 1.0f : 0.0f;
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world, right = (s.number + s.t - 1) % 3;
    GV_FOR_ROLE(left, i) a.agent_reward[gv_left_row(a, w, i)] = pairs_reward(a, gv_left_action(a, w, i), right);
    GV_FOR_ROLE(right, i) a.agent_reward[gv_right_row(a, w, i)] = pairs_reward(a, gv_right_action(a, w, i), right);
    GV_ONCE s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
}

GV_FN void pairs_observe(float* own, gv_u8* mask, gv_i32 i, gv_i32 right) {
    own[0] = (float)i;
    own[1] = 1.0f;
    for (gv_i32 choice = 0; choice < 3; ++choice) mask[choice] = choice != (right + 1) % 3;
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world, right = pairs_right(s);
    GV_FOR_ROLE(left, i) pairs_observe(gv_left_obs(a, obs, w, i), gv_left_mask(a, obs, w, i), i, right);
    GV_FOR_ROLE(right, i) pairs_observe(gv_right_obs(a, obs, w, i), gv_right_mask(a, obs, w, i), i, right);
    GV_ONCE for (gv_i32 k = 0; k < 3; ++k) {
        gv_left_shared(a, obs, w)[k] = k == right ? 1.0f : 0.0f;
        gv_right_shared(a, obs, w)[k] = k == right ? 1.0f : 0.0f;
    }
}
