// Agents spread over landmarks and push one another apart, after MPE's simple_spread. ports/spread.py has the same hooks.
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    for (auto me : w.agents) {
        const auto draw = w.draw(0, me.index);
        me.x = 2.0f * draw.uniform(0) - 1.0f;
        me.y = 2.0f * draw.uniform(1) - 1.0f;
        me.goal_x = 2.0f * draw.uniform(2) - 1.0f;
        me.goal_y = 2.0f * draw.uniform(3) - 1.0f;
        me.vx = me.vy = me.near_by = 0.0f;
    }
}

GV_FN float distance_between(const GvAgent& me, const GvAgent& it) {
    const float dx = me.x - it.x, dy = me.y - it.y;
    return gv_sqrt(dx * dx + dy * dy);
}

GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) {  // forces from places before the step
        const int move = me.action.index();
        float fx = 5.0f * (float)((move == 2) - (move == 1)), fy = 5.0f * (float)((move == 4) - (move == 3));
        for (int j = 0; j < w.agents.count(); ++j) {
            if (j == me.index) continue;
            const auto it = w.agents[j];
            const float apart = gv_max(distance_between(me, it), 0.001f), overlap = gv_max(2.0f * 0.15f - apart, 0.0f);
            fx += 100.0f * overlap * (me.x - it.x) / apart;
            fy += 100.0f * overlap * (me.y - it.y) / apart;
        }
        me.vx = me.vx * (1.0f - 0.25f) + fx * 0.1f;
        me.vy = me.vy * (1.0f - 0.25f) + fy * 0.1f;
    }
    w.barrier();
    for (auto me : w.agents) {
        me.x += me.vx * 0.1f;
        me.y += me.vy * 0.1f;
    }
    w.barrier();
    for (auto me : w.agents) {  // the landmark of the same number
        me.near_by = 1.0e6f;
        for (int j = 0; j < w.agents.count(); ++j) {
            const float dx = w.agents[j].x - me.goal_x, dy = w.agents[j].y - me.goal_y;
            me.near_by = gv_min(me.near_by, gv_sqrt(dx * dx + dy * dy));
        }
    }
    const float cover = w.sum(w.agents, [&](auto it) { return -it.near_by; });
    for (auto me : w.agents) {
        int hits = 0;
        for (int j = 0; j < w.agents.count(); ++j) hits += j != me.index && distance_between(me, w.agents[j]) < 2.0f * 0.15f;
        me.reward = 0.5f * cover - 0.5f * (float)hits;
    }
    if (w.once) w.truncate_at(w.params.max_episode_steps);
}

// Speed, place, landmarks and others from here.
GV_FN void env_observe(GvWorld& w) {
    const int n = w.agents.count();
    for (auto me : w.agents) {
        me.obs[0] = me.vx;
        me.obs[1] = me.vy;
        me.obs[2] = me.x;
        me.obs[3] = me.y;
        int at = 4 + 2 * n;
        for (int j = 0; j < n; ++j) {
            const auto it = w.agents[j];
            me.obs[4 + 2 * j] = it.goal_x - me.x;
            me.obs[5 + 2 * j] = it.goal_y - me.y;
            if (j == me.index) continue;
            me.obs[at] = it.x - me.x;
            me.obs[at + 1] = it.y - me.y;
            at += 2;
        }
    }
}
