// Agents move on a line and are paid to stay near its middle. Some are absent from an episode, and some leave during it; both get
// a reward that must not count.
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    for (auto me : w.agents) {
        const auto draw = w.draw(0, me.index);
        me.pos = draw.uniform(0);
        me.present = draw.uniform(1) >= w.params.absent ? 1 : 0;
    }
}

GV_FN void env_step(GvWorld& w) {
    const auto& p = w.params;
    for (auto me : w.agents) {
        const auto [move, kind] = me.action.indices<2>().value;
        me.pos += 0.2f * (float)(move - 1) + 0.01f * (float)kind;
        const bool here = me.present != 0;
        me.reward = here ? 0.5f - gv_abs(me.pos) + 0.1f * (float)(kind == 2) : p.ghost;
        if (here && w.draw(1, me.index).uniform() < p.leave) me.present = 0;
    }
    if (w.once) {
        w.terminate(w.draw(2).uniform() < p.end);
        w.truncate_at(p.max_episode_steps);
    }
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) {
        me.obs[0] = me.pos;
        me.obs[1] = (float)w.t * 0.1f;
        me.obs[2] = (float)me.index;
        for (int choice = 0; choice < 4; ++choice)
            me.mask[choice] = (w.t + me.index + choice) % 5 != 0 && (w.t + me.index) % 7 != 0;
    }
}
