// Walker: one agent that steps to the left or to the right. Test env for metrics of single-agent worlds.
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    if (w.once) w.state.x = w.draw(0).uniform();
}

GV_FN void env_step(GvWorld& w) {
    float& x = w.state.x;
    for (auto me : w.agents) {
        x += me.action.index() == 1 ? 0.25f : -0.25f;
        w.record.farthest(x);
        w.record.mean_x(x);
        if (x < 0.0f) w.record.below(x);
        me.reward = x;
        w.terminate(x > 1.0f);
        w.truncate_at(w.params.max_episode_steps);
    }
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {w.state.x};
}
