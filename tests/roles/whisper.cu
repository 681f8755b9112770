// Whisper: whisperers send words to the next whisperer and guess a secret. In some steps nobody hears them, and in some nobody guesses.
// Test env for groups of entries without effect, with roles that have spaces of their own and without.
#include "hooks.h"

#define SPOKEN 0  // groups of entries: the words of a message are entries 0 and 2
#define GUESSED 1

GV_FN bool has_effect(const GvArgs& a, gv_i32 t, gv_i32 group) { return !a.noise || (group == SPOKEN ? t % 3 == 0 : t % 3 != 1); }

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) s.heard[i] = 0;
    GV_ONCE s.secret = gv_below(gv_draw(a, team, 0, 0).word[0], 4);
}

// Entry of a whisperer's action.
GV_FN gv_i32 entry_of(const GvArgs& a, gv_i32 world, gv_i32 i, gv_i32 entry) {
#ifdef GV_BY_ROLE
    return gv_action_index(a, gv_whisperer_action(a, world, i), entry, 3 + entry);
#else
    return gv_action_index(a, gv_row(a, world, i), entry, 3, 3 + entry);
#endif
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world, whisperers = gv_whisperer_count(a), t = s.t - 1;
    const bool spoken = has_effect(a, t, SPOKEN), guessed = has_effect(a, t, GUESSED);
    GV_FOR_ROLE(whisperer, i) {
        const gv_i32 before = i == 0 ? whisperers - 1 : i - 1;
        if (spoken) s.heard[i] = entry_of(a, w, before, 0) + entry_of(a, w, before, 2);
        a.agent_reward[gv_whisperer_row(a, w, i)] = guessed && entry_of(a, w, i, 1) == s.secret ? 1.0f : 0.0f;
    }
#ifdef GV_BY_ROLE
    GV_FOR_ROLE(listener, i) {
        a.agent_reward[gv_listener_row(a, w, i)] = (float)gv_action_index(a, gv_listener_action(a, w, i), 0, 2);
    }
#endif
    gv_barrier(team);
    const float words = gv_sum(team, whisperers, [&](gv_i32 i) { return spoken ? (float)s.heard[i] : 0.0f; });
    gv_record_words(a, team, words);
    GV_ONCE s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
}

// A whisperer observes what it heard, the secret and the time; the listener the time.
GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world;
    GV_FOR_ROLE(whisperer, i) {
#ifdef GV_BY_ROLE
        float* const own = gv_whisperer_obs(a, obs, w, i);
        gv_u8 *const mask = gv_whisperer_mask(a, obs, w, i), *const effects = gv_whisperer_effects(a, obs, w, i);
        const gv_i32 choices = gv_whisperer_num_choices(a), groups = gv_whisperer_num_effects(a);
#else
        float* const own = gv_obs_row(a, obs, w, i);
        gv_u8 *const mask = gv_mask_row(a, obs, w, i), *const effects = gv_effects_row(a, obs, w, i);
        const gv_i32 choices = gv_num_choices(a), groups = gv_num_effects(a);
#endif
        own[0] = (float)s.heard[i];
        own[1] = (float)s.secret;
        own[2] = (float)s.t;
        for (gv_i32 choice = 0; choice < choices; ++choice) mask[choice] = choice < 4;
        for (gv_i32 group = 0; group < groups; ++group) effects[group] = has_effect(a, s.t, group);
    }
#ifdef GV_BY_ROLE
    GV_FOR_ROLE(listener, i) gv_listener_obs(a, obs, w, i)[0] = (float)s.t;
#endif
}
