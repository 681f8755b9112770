// Tag among obstacles: adversaries are rewarded for touching good agents, which are faster.
#include "../mpe/neighbours.h"

constexpr float ADVERSARY_RADIUS = 0.075f, GOOD_RADIUS = 0.05f, TOUCH = 10.0f;
constexpr float ADVERSARY_PUSH = 3.0f, GOOD_PUSH = 4.0f, ADVERSARY_SPEED = 1.0f, GOOD_SPEED = 1.3f;

GV_FN void env_reset(GvWorld& w) { scatter(w, w.sizes.num_obstacles, 0.9f); }

// Adversaries that touch a good agent.
GV_FN float touching(const GvWorld& w, int good) {
    int touched = 0;
    GV_LOOP for (int j = 0; j < w.role.adversary.count(); ++j) {
        touched += distance(agent_at(w, good), agent_at(w, j)) < ADVERSARY_RADIUS + GOOD_RADIUS;
    }
    return (float)touched;
}

GV_FN void env_step(GvWorld& w) {
    const int adversaries = w.role.adversary.count(), obstacles = w.sizes.num_obstacles;
    const auto radius = [&](int i) { return i < adversaries ? ADVERSARY_RADIUS : GOOD_RADIUS; };
    for (auto me : w.role.adversary) push(w, me, index_of(w, me), ADVERSARY_PUSH, contacts(w, me, radius, obstacles));
    for (auto me : w.role.agent) push(w, me, index_of(w, me), GOOD_PUSH, contacts(w, me, radius, obstacles));
    w.barrier();
    for (auto me : w.agents) move(w, me, me.index < adversaries ? ADVERSARY_SPEED : GOOD_SPEED);
    w.barrier();
    const float touches = w.sum(w.role.agent, [&](auto it) { return touching(w, it.index); });
    for (auto me : w.role.adversary) me.reward = TOUCH * touches;
    for (auto me : w.role.agent) {
        me.reward = -TOUCH * touching(w, me.index) - outside(me.agent_pos[0]) - outside(me.agent_pos[1]);
    }
    if (w.params.terminate_on_success) {
        const bool free = w.any(w.role.agent, [&](auto it) { return touching(w, it.index) == 0.0f; });
        if (w.once) w.terminate(!free && w.t < w.params.max_cycles);
    }
    if (w.once) w.truncate_at(w.params.max_cycles);
}

// Point `k` of an observation: velocity, place, obstacles, other agents, and velocities of those that are good. If an agent sees
// a number of neighbours, these have a velocity each, and that of an adversary is 0.
GV_FN Point seen_by(const GvWorld& w, int i, int k) {
    const int adversaries = w.role.adversary.count(), obstacles = w.sizes.num_obstacles;
    const int first_agent = 2 + slots(w.sizes.num_landmark_neighbors, obstacles);
    const int first_velocity = first_agent + slots(w.sizes.num_agent_neighbors, w.agents.count() - 1);
    if (k == 0) return velocity_of(w, i);
    if (k == 1) return agent_at(w, i);
    if (k < first_agent) return landmark_seen(w, i, k - 2, obstacles);
    if (k < first_velocity) return agent_seen(w, i, k - first_agent);
    const int slot = k - first_velocity;
    if (w.sizes.num_agent_neighbors == 0) {
        const int good = i < adversaries ? slot : other_of(i - adversaries, slot);
        return velocity_of(w, adversaries + good);
    }
    const int j = agent_in(w, i, slot);
    return j < adversaries ? Point{0.0f, 0.0f} : velocity_of(w, j);  // NOBODY is below 0
}

GV_FN void env_observe(GvWorld& w) {
    const auto& of = w.role;
    GV_LOOP for (auto [me, k] : w.pairs(of.adversary, w.each(of.adversary.num_features() / 2))) write(me.obs, k, seen_by(w, me.index, k));
    w.barrier();
    GV_LOOP for (auto [me, k] : w.pairs(of.agent, w.each(of.agent.num_features() / 2))) write(me.obs, k, seen_by(w, me.index, k));
}
