// Roles alike, with masks: an agent's right choice is its observation, and the choice after it is forbidden.
#include "world.h"

GV_FN int masked_right(const GvWorld& w, int agent, int t) { return (w.state.shift + agent + t) % 3; }

GV_FN void env_reset(GvWorld& w) {
    if (w.once) w.state.shift = (int)(w.draw(0).word[0] % 3u);
}

GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) me.reward = me.action.index() == masked_right(w, me.index, w.t - 1) ? 1.0f : 0.0f;
    if (w.once) w.truncate_at(w.params.max_episode_steps);
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) {
        const int right = masked_right(w, me.index, w.t);
        for (int choice = 0; choice < 3; ++choice) {
            me.obs[choice] = choice == right ? 1.0f : 0.0f;
            me.mask[choice] = choice != (right + 1) % 3;
        }
    }
}
