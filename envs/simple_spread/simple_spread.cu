// Spread: agents cover landmarks, and lose reward when they touch each other. Landmarks are no obstacles.
#include "../mpe/neighbours.h"

constexpr float RADIUS = 0.15f, COVERS = 0.1f;  // of an agent; distance at which it covers a landmark

GV_FN void env_reset(GvWorld& w) { scatter(w, w.sizes.num_landmarks, 1.0f); }

// Distance of a landmark from the agent nearest to it.
GV_FN float uncovered(const GvWorld& w, int landmark) {
    float least = GV_INFINITY;
    GV_LOOP for (int i = 0; i < w.agents.count(); ++i) least = gv_min(least, distance(agent_at(w, i), landmark_at(w, landmark)));
    return least;
}

GV_FN int touched_by(const GvWorld& w, int i) {
    int touched = 0;
    GV_LOOP for (int j = 0; j < w.agents.count(); ++j) {
        touched += j != i && distance(agent_at(w, i), agent_at(w, j)) < RADIUS + RADIUS;
    }
    return touched;
}

// There are as many landmarks as agents, so w.agents stands for both.
GV_FN void env_step(GvWorld& w) {
    const auto& p = w.params;
    for (auto me : w.agents) push(w, me, index_of(w, me), USUAL_PUSH, contacts(w, me, [](int) { return RADIUS; }));
    w.barrier();
    for (auto me : w.agents) move(w, me, NO_LIMIT);
    w.barrier();
    const float distances = w.sum(w.agents, [&](auto it) { return uncovered(w, it.index); });
    for (auto me : w.agents) {
        me.reward = -distances * (1.0f - p.local_ratio) - (float)touched_by(w, me.index) * p.local_ratio;
    }
    if (p.terminate_on_success) {
        const bool open = w.any(w.agents, [&](auto it) { return uncovered(w, it.index) >= COVERS; });
        if (w.once) w.terminate(!open && w.t < p.max_cycles);
    }
    if (w.once) w.truncate_at(p.max_cycles);
}

// Points of a row: velocity, place, landmarks, other agents, and what these said, which are zeros because none can speak.
GV_FN void env_observe(GvWorld& w) {
    const int landmarks = w.sizes.num_landmarks, points = w.agents.num_features() / 2;
    const int first_agent = 2 + slots(w.sizes.num_landmark_neighbors, landmarks);
    const int first_word = first_agent + slots(w.sizes.num_agent_neighbors, landmarks - 1);
    GV_LOOP for (auto [me, k] : w.pairs(w.agents, w.each(points))) {
        Point seen = {0.0f, 0.0f};
        if (k == 0) seen = velocity_of(w, me.index);
        else if (k == 1) seen = agent_at(w, me.index);
        else if (k < first_agent) seen = landmark_seen(w, me.index, k - 2, landmarks);
        else if (k < first_word) seen = agent_seen(w, me.index, k - first_agent);
        write(me.obs, k, seen);
    }
}
