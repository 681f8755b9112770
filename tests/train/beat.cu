// Agents observe nothing of the time, and are paid for the action that is the number of steps that the episode has had, modulo 5.
// Some are absent from an episode, some leave during it, and some come back.
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    for (auto me : w.agents) {
        const auto draw = w.draw(0, me.index);
        me.score = 0;
        me.level = draw.uniform(0);
        me.present = draw.uniform(1) >= w.params.absent ? 1 : 0;
    }
}

GV_FN void env_step(GvWorld& w) {
    const auto& p = w.params;
    for (auto me : w.agents) {
        const bool hit = me.present != 0 && me.action.index() == (w.t - 1) % 5;
        me.reward = hit ? 1.0f : 0.0f;
        me.score += hit ? 1 : 0;
        me.level = 0.5f * me.level + (float)w.t;
        const float chance = w.draw(1, me.index).uniform();
        me.present = me.present != 0 ? chance >= p.leave : chance < p.back;
    }
    if (w.once) {
        w.terminate(w.draw(2).uniform() < p.end);
        w.truncate_at(p.max_episode_steps);
    }
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {w.params.show != 0 ? me.level : 1.0f, me.present != 0 ? 1.0f : 0.0f};
}
