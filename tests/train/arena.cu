// Two roles whose agents may be absent from an episode and may leave it; one observes a shared part, and both have masks.
#include "hooks.h"

#define CHOICES 4

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) {
        const GvDraw draw = gv_draw(a, team, 0, i);
        s.place[i] = gv_uniform(draw.word[0]);
        s.present[i] = gv_uniform(draw.word[1]) >= a.absent;
    }
}

// Returns the reward, which is better near 0 and with the choice 2.
GV_FN float arena_move(const GvArgs& a, const GvTeam& team, const GvAction& action, gv_i32 i) {
    const GvState s = gv_state(a, team);
    const gv_i32 kind = gv_action_index(a, action, 1, CHOICES);
    s.place[i] += 0.2f * (float)(gv_action_index(a, action, 0, 3) - 1) + 0.01f * (float)kind;
    const bool here = s.present[i] != 0;
    if (here && gv_uniform(gv_draw(a, team, 1, i).word[0]) < a.leaves) s.present[i] = 0;
    return here ? 0.5f - gv_abs(s.place[i]) + (kind == 2 ? 0.1f : 0.0f) : a.ghost;
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world, reds = gv_red_count(a);
    GV_FOR_ROLE(red, i) a.agent_reward[gv_red_row(a, w, i)] = arena_move(a, team, gv_red_action(a, w, i), i);
    GV_FOR_ROLE(blue, i) a.agent_reward[gv_blue_row(a, w, i)] = arena_move(a, team, gv_blue_action(a, w, i), reds + i);
    GV_ONCE {
        s.terminated = gv_uniform(gv_draw(a, team, 2, 0).word[0]) < a.ends;
        s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
    }
}

// In some steps one choice is forbidden, in some all are. With `shut` both entries have masks, which allow one choice in most steps.
GV_FN void arena_observe(const GvArgs& a, const GvState& s, float* own, gv_u8* mask, gv_i32 i) {
    own[0] = s.place[i];
    own[1] = (float)i;
    const bool free = a.shut == 0 || (s.t + i) % 4 == 0;
    if (a.shut != 0) {
        for (gv_i32 choice = 0; choice < 3; ++choice) *mask++ = free || choice == s.t % 3;
    }
    for (gv_i32 choice = 0; choice < CHOICES; ++choice) {
        mask[choice] = (s.t + i + choice) % 5 != 0 && (s.t + i) % 7 != 0 && (free || choice == i % CHOICES);
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world, reds = gv_red_count(a);
    GV_FOR_ROLE(red, i) {
        float* own = gv_red_obs(a, obs, w, i);
        arena_observe(a, s, own, gv_red_mask(a, obs, w, i), i);
        own[2] = 0.1f * (float)s.t;
    }
    GV_FOR_ROLE(blue, i) arena_observe(a, s, gv_blue_obs(a, obs, w, i), gv_blue_mask(a, obs, w, i), reds + i);
    GV_ONCE gv_blue_shared(a, obs, w)[0] = 0.1f * (float)s.t;
}
