// Stalls: agents set prices of a kind of goods in each step; the other prices have no effect. Test env for actions of many entries.
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    if (w.once) w.state.wanted = w.draw(0).below(2);
}

GV_FN void env_step(GvWorld& w) {
    const int kind = (w.t - 1) % 3;
    for (auto me : w.agents) {
        float right = 0.0f;
        for (int entry = 15 * kind; entry < 15 * kind + 15 && entry < 40; ++entry) {
            right += me.action.index(entry) == w.state.wanted ? 1.0f : 0.0f;
        }
        me.reward = right;
    }
    if (w.once) w.truncate_at(w.params.max_episode_steps);
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) {
        me.obs[0] = (float)w.state.wanted;
        me.obs[1] = (float)(w.t % 3);
        me.obs[2] = (float)me.index;
        for (int choice = 0; choice < w.agents.num_choices(); ++choice) me.mask[choice] = choice != 3;
        for (int kind = 0; kind < 3; ++kind) me.effects[kind] = w.t % 3 == kind;
    }
}
