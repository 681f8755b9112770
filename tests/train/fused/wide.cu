// One agent with more features than a lane holds in variables, and an action of two entries, and metrics. Test env of rollouts in one launch.
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    if (w.once) {
        const auto draw = w.draw(0);
        w.state.x = draw.uniform(0) - 0.5f;
        w.state.y = draw.uniform(1) - 0.5f;
    }
}

GV_FN void env_step(GvWorld& w) {
    const auto& s = w.state;
    for (auto me : w.agents) {
        s.x += 0.025f * (float)(me.action.index(0) - 4);
        s.y = 0.05f * (float)me.action.index(1) - s.y;
        me.reward = s.x;
        w.terminate(gv_abs(s.x) > 0.8f);
        w.truncate_at(w.params.max_episode_steps);
        w.record.speed(s.y);
        if (s.x > 0.0f) w.record.highest(s.x);
    }
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) {
        for (int i = 0; i < 40; ++i) me.obs[i] = w.state.x + 0.1f * (float)i * w.state.y;
    }
}
