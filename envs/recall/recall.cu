// Recall: one lane a world. The first observation shows a cue, and the action of step `delay` is compared with it.
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    if (w.once) {
        w.state.cue = w.draw(0).below(w.params.num_cues);
        w.state.choice = -1;
    }
}

GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) {
        w.state.choice = me.action.index();
        const bool answered = w.t > w.params.delay;  // t counts this step, too
        me.reward = answered && w.state.choice == w.state.cue ? 1.0f : 0.0f;
        w.terminate(answered);
        w.truncate(false);
    }
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) {
        const int cues = w.sizes.num_features - 1, shown = w.t == 0 ? w.state.cue : -1;
        for (int i = 0; i < cues; ++i) me.obs[i] = i == shown ? 1.0f : 0.0f;
        me.obs[cues] = w.t >= w.params.delay ? 1.0f : 0.0f;
    }
}
