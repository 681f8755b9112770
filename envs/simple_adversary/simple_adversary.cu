// Adversary: good agents know which landmark is the target, and the adversary does not. Nothing collides.
#include "../mpe/neighbours.h"

GV_FN void env_reset(GvWorld& w) {
    const int landmarks = w.sizes.num_landmarks;
    scatter(w, landmarks, 1.0f);
    if (w.once) w.state.goal = w.draw(2).below(landmarks);
}

GV_FN float from_target(const GvWorld& w, int i) { return distance(agent_at(w, i), landmark_at(w, w.state.goal)); }

GV_FN void env_step(GvWorld& w) {
    for (auto me : w.role.adversary) push(w, me, index_of(w, me), USUAL_PUSH);
    for (auto me : w.role.agent) push(w, me, index_of(w, me), USUAL_PUSH);
    w.barrier();
    for (auto me : w.agents) move(w, me, NO_LIMIT);
    w.barrier();
    const float adversary = from_target(w, 0);
    float least = GV_INFINITY;
    GV_LOOP for (int i = 1; i < w.agents.count(); ++i) least = gv_min(least, from_target(w, i));
    for (auto me : w.agents) me.reward = me.index == 0 ? -adversary : adversary - least;
    if (w.once) w.truncate_at(w.params.max_cycles);
}

// Point `k` of landmarks, then other agents, seen from agent `i`.
GV_FN Point seen_by(const GvWorld& w, int i, int k) {
    const int landmarks = w.sizes.num_landmarks, first_agent = slots(w.sizes.num_landmark_neighbors, landmarks);
    return k < first_agent ? landmark_seen(w, i, k, landmarks) : agent_seen(w, i, k - first_agent);
}

GV_FN void env_observe(GvWorld& w) {
    const int points = w.role.adversary.num_features() / 2;
    GV_LOOP for (auto [me, k] : w.pairs(w.role.adversary, w.each(points))) write(me.obs, k, seen_by(w, me.index, k));
    w.barrier();
    GV_LOOP for (auto [me, k] : w.pairs(w.role.agent, w.each(points + 1))) {
        const Point target = apart(landmark_at(w, w.state.goal), agent_at(w, me.index));
        write(me.obs, k, k == 0 ? target : seen_by(w, me.index, k - 1));
    }
}
