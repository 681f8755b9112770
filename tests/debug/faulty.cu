// Faulty: an env with mistakes that its parameter `fault` chooses; see faulty.py.
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    for (auto me : w.agents) {
        me.x = me.index;
        me.v[0] = me.v[1] = 0.0f;
    }
    for (int k : w.each(w.params.width * w.params.height)) w.state.cells[k] = 0.0f;
}

GV_FN void env_step(GvWorld& w) {
    const int fault = w.params.fault, two = w.t == 2;
    for (auto me : w.agents) {
        me.reward = 0.0f;
        if (fault == 1) me.reward = w.at.cells(1, me.x - two);
        if (fault == 2) me.reward = w.state.cells[me.x - two];
        if (fault == 3) me.reward = w.agents[me.index + two].v[0];
        if (fault == 4) me.v[2 * two] = 1.0f;
        if (fault == 5) me.reward = w.scratch.sums[me.index + 7 * two];
        if (fault == 8 && two) GV_PRINT("half", 0.5f * (float)me.action.index());
        if (fault == 9) me.reward = w.tables.list[me.index + 2 * w.t];
        if (fault == 10) me.x = w.agents[(me.index + 1) % w.agents.count()].x;
        if (fault == 11) me.x = 2147483647 * (me.x + w.t);
    }
    if (fault == 8 && w.once && two) GV_PRINT("whole", w.t);
    if (w.once) w.truncate_at(w.params.max_episode_steps);
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) {
        if (w.params.fault == 6 && w.t == 2) me.obs = {1.0f, 2.0f, 3.0f};
        else if (w.params.fault == 12) me.obs = {(float)me.action.index(), 0.0f};
        else if (w.params.fault == 7) me.obs[w.t] = 0.0f;
        else me.obs = {(float)me.x, me.v[0]};
    }
}
