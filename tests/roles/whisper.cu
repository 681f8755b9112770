// Whisper: whisperers send words to the next whisperer and guess a secret. In some steps nobody hears them, and in some nobody guesses.
// Test env for groups of entries without effect, with roles that have spaces of their own and without.
#include "world.h"

#define SPOKEN 0  // groups of entries: the words of a message are entries 0 and 2
#define GUESSED 1

GV_FN bool has_effect(const GvWorld& w, int t, int group) {
    return !w.params.noise || (group == SPOKEN ? t % 3 == 0 : t % 3 != 1);
}

GV_FN void env_reset(GvWorld& w) {
    for (auto me : w.agents) me.heard = 0;
    if (w.once) w.state.secret = w.draw(0).below(4);
}

GV_FN void env_step(GvWorld& w) {
    const int whisperers = w.role.whisperer.count(), t = w.t - 1;
    const bool spoken = has_effect(w, t, SPOKEN), guessed = has_effect(w, t, GUESSED);
    for (auto me : w.role.whisperer) {
        const auto before = w.role.whisperer.of_lane(me.index == 0 ? whisperers - 1 : me.index - 1);
        if (spoken) me.heard = before.action.index(0) + before.action.index(2);
        me.reward = guessed && me.action.index(1) == w.state.secret ? 1.0f : 0.0f;
    }
#ifdef GV_BY_ROLE
    for (auto me : w.role.listener) me.reward = (float)me.action.index();
#endif
    w.barrier();
    w.record.words(w.sum(w.role.whisperer, [&](auto it) { return spoken ? (float)it.heard : 0.0f; }));
    if (w.once) w.truncate_at(w.params.max_episode_steps);
}

// A whisperer observes what it heard, the secret and the time; the listener the time.
GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.role.whisperer) {
        me.obs[0] = (float)me.heard;
        me.obs[1] = (float)w.state.secret;
        me.obs[2] = (float)w.t;
        for (int choice = 0; choice < w.role.whisperer.num_choices(); ++choice) me.mask[choice] = choice < 4;
        for (int group = 0; group < w.role.whisperer.num_effects(); ++group) me.effects[group] = has_effect(w, w.t, group);
    }
#ifdef GV_BY_ROLE
    for (auto me : w.role.listener) me.obs[0] = (float)w.t;
#endif
}
