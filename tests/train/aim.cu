// Aim: an agent sees a mark in [-1, 1] and aims at it; an episode has two marks. Test env for learning of numbers and choices.
// With choices, the right one is the third of [-1, 1] in which the mark lies.
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    if (w.once) w.state.mark = 2.0f * w.draw(0).uniform() - 1.0f;
}

GV_FN void env_step(GvWorld& w) {
    float& mark = w.state.mark;
    for (auto me : w.agents) {
        if (w.params.choices != 0) {
            const int third = mark < -1.0f / 3.0f ? 0 : mark < 1.0f / 3.0f ? 1 : 2;
            me.reward = me.action.index() == third ? 0.0f : -1.0f;
        } else {
            const float miss = me.action.value() - mark;
            me.reward = -miss * miss;
        }
        w.terminate(w.t >= 2);
        mark = 2.0f * w.draw(1).uniform() - 1.0f;
    }
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {w.state.mark};
}
