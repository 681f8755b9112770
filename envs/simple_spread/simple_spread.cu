// Spread: agents cover landmarks, and lose reward when they touch each other. Landmarks are no obstacles.
#include "../mpe/neighbours.h"

constexpr float RADIUS = 0.15f, COVERS = 0.1f;  // of an agent; distance at which it covers a landmark

GV_FN void env_reset(GvWorld& w) { scatter(w, w.sizes.num_landmarks, 1.0f); }

// Distance of a landmark from the agent nearest to it.
GV_FN float uncovered(const GvWorld& w, int landmark) {
    float least = GV_INFINITY;
    GV_LOOP for (int i = 0; i < w.agents.count(); ++i) least = gv_min(least, square(apart(agent_at(w, i), landmark_at(w, landmark))));
    return gv_sqrt(least);
}

GV_FN int touched_by(const GvWorld& w, int i) {
    int touched = 0;
    GV_LOOP for (int slot = 0; slot < w.agents.count() - 1; ++slot) {
        touched += distance(agent_at(w, i), agent_at(w, other_of(i, slot))) < RADIUS + RADIUS;
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

// Point of a row of agent `i`: velocity, place, landmarks, other agents, and what these said, which are zeros because none can speak.
GV_FN Point seen_by(const GvWorld& w, int i, int k) {
    const int landmarks = w.sizes.num_landmarks;
    const int first_agent = 2 + slots(w.sizes.num_landmark_neighbors, landmarks);
    const int first_word = first_agent + slots(w.sizes.num_agent_neighbors, landmarks - 1);
    if (k == 0) return velocity_of(w, i);
    if (k == 1) return agent_at(w, i);
    if (k < first_agent) return landmark_seen(w, i, k - 2, landmarks);
    if (k < first_word) return agent_seen(w, i, k - first_agent);
    return {0.0f, 0.0f};
}

// With few agents, whose rows fit in scratch, a lane writes a whole row: lanes at different points of a row would go through the
// branches of all of them.
GV_FN void env_observe(GvWorld& w) {
    const int points = w.agents.num_features() / 2;
    const bool whole = w.agents.count() <= 16;
    GV_LOOP for (auto [me, part] : w.pairs(w.agents, w.each(whole ? 1 : points))) {
        if (whole) {
            for (int k = 0; k < points; ++k) write(me.obs, k, seen_by(w, me.index, k));
        } else {
            write(me.obs, part, seen_by(w, me.index, part));
        }
    }
}
