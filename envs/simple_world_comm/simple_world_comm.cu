// World comm: a leader directs adversaries that hunt good agents. Food lures these, and forests hide who is inside.
// Agent 0 is the leader. Landmarks are obstacles, then food, then forests.
#include "../mpe/physics.h"

constexpr float ADVERSARY_RADIUS = 0.075f, GOOD_RADIUS = 0.045f, FOOD_RADIUS = 0.03f, FOREST_RADIUS = 0.3f;
constexpr float ADVERSARY_PUSH = 3.0f, GOOD_PUSH = 4.0f, ADVERSARY_SPEED = 1.0f, GOOD_SPEED = 1.3f;
constexpr float TOUCH = 5.0f, HUNT = 0.1f, FOOD = 2.0f, HUNGER = 0.05f, OUTSIDE = 2.0f;
constexpr int MOVES = 5, WORDS = 4;

GV_FN void env_reset(GvWorld& w) {
    scatter(w, w.sizes.landmark_pos_axis0, 0.9f);
    for (int word : w.each(WORDS)) w.state.comm[word] = 0.0f;
}

GV_FN float radius_of(const GvWorld& w, int i) { return i < w.sizes.num_adversaries ? ADVERSARY_RADIUS : GOOD_RADIUS; }

// Adversaries that touch a good agent.
GV_FN float touching(const GvWorld& w, int good) {
    int touched = 0;
    GV_LOOP for (int j = 0; j < w.sizes.num_adversaries; ++j) {
        touched += distance(agent_at(w, good), agent_at(w, j)) < ADVERSARY_RADIUS + GOOD_RADIUS;
    }
    return (float)touched;
}

// Distance of an adversary from the nearest good agent.
GV_FN float to_prey(const GvWorld& w, int i) {
    float least = GV_INFINITY;
    GV_LOOP for (int j = w.sizes.num_adversaries; j < w.agents.count(); ++j) {
        least = gv_min(least, distance(agent_at(w, i), agent_at(w, j)));
    }
    return least;
}

// Reward of a good agent for food.
GV_FN float fed(const GvWorld& w, int i) {
    float least = GV_INFINITY, reward = 0.0f;
    GV_LOOP for (int k = w.sizes.num_obstacles; k < w.sizes.num_obstacles + w.sizes.num_food; ++k) {
        const float far = distance(agent_at(w, i), landmark_at(w, k));
        if (far < GOOD_RADIUS + FOOD_RADIUS) reward += FOOD;
        least = gv_min(least, far);
    }
    return reward - HUNGER * least;
}

GV_FN void env_step(GvWorld& w) {
    const int obstacles = w.sizes.num_obstacles;
    const auto radius = [&](int i) { return radius_of(w, i); };
    for (auto me : w.role.leadadversary) {
        const int index = index_of(w, me);
        for (int word = 0; word < WORDS; ++word) {
            float& said = w.at.comm(me.in_role, word);
            said = w.params.continuous_actions ? share(me, MOVES + word) : index / MOVES == word ? 1.0f : 0.0f;
        }
        push(w, me, index % MOVES, ADVERSARY_PUSH, contacts(w, me, radius, obstacles));
    }
    for (auto me : w.role.adversary) push(w, me, index_of(w, me), ADVERSARY_PUSH, contacts(w, me, radius, obstacles));
    for (auto me : w.role.agent) push(w, me, index_of(w, me), GOOD_PUSH, contacts(w, me, radius, obstacles));
    w.barrier();
    for (auto me : w.agents) move(w, me, me.index < w.sizes.num_adversaries ? ADVERSARY_SPEED : GOOD_SPEED);
    w.barrier();
    const float touches = w.sum(w.role.agent, [&](auto it) { return touching(w, it.index); });
    for (auto me : w.agents) {
        const float price = outside(me.agent_pos[0]) + outside(me.agent_pos[1]);
        me.reward = me.index < w.sizes.num_adversaries
                        ? TOUCH * touches - HUNT * to_prey(w, me.index)
                        : fed(w, me.index) - TOUCH * touching(w, me.index) - OUTSIDE * price;
    }
    if (w.once) w.truncate_at(w.params.max_cycles);
}

GV_FN bool is_in(const GvWorld& w, int i, int forest) {
    const int k = w.sizes.num_obstacles + w.sizes.num_food + forest;
    return distance(agent_at(w, i), landmark_at(w, k)) < radius_of(w, i) + FOREST_RADIUS;
}

// The leader sees all. Others see agents in a forest where they are themselves, and, from outside of all, those outside of all.
GV_FN bool sees(const GvWorld& w, int i, int j) {
    bool same = false, outside_all = true;
    GV_LOOP for (int forest = 0; forest < w.sizes.num_forests; ++forest) {
        const bool mine = is_in(w, i, forest), other = is_in(w, j, forest);
        same |= mine && other;
        outside_all &= !mine && !other;
    }
    return same || outside_all || i == 0;
}

// Places of the parts of a row, in floats.
struct Row {
    int points, velocities, forests, words;
};

// Writes part `k` of a row: points, of which others come last, then velocities of good agents, forests and words.
GV_FN void write_part(const GvWorld& w, const GvObsRow& row, int i, int k, const Row& at, int seen_good) {
    const int adversaries = w.sizes.num_adversaries, first_other = 2 + w.sizes.landmark_pos_axis0;
    const int velocity = k - at.points, forest = velocity - seen_good, word = forest - w.sizes.num_forests;
    Point seen = {0.0f, 0.0f};
    if (k == 0) {
        seen = velocity_of(w, i);
    } else if (k == 1) {
        seen = agent_at(w, i);
    } else if (k < first_other) {
        seen = apart(landmark_at(w, k - 2), agent_at(w, i));
    } else if (velocity < 0) {
        const int j = other_of(i, k - first_other);
        if (sees(w, i, j)) seen = apart(agent_at(w, j), agent_at(w, i));
    } else if (forest < 0) {
        const int j = adversaries + (i < adversaries ? velocity : other_of(i - adversaries, velocity));
        if (sees(w, i, j)) seen = velocity_of(w, j);
    } else {
        if (word < 0) row[at.forests + forest] = is_in(w, i, forest) ? 1.0f : -1.0f;
        else row[at.words + word] = w.state.comm[word];
        return;
    }
    const int place = velocity < 0 ? 2 * k : at.velocities + 2 * velocity;
    row[place] = seen.x;
    row[place + 1] = seen.y;
}

GV_FN void env_observe(GvWorld& w) {
    const int good = w.sizes.num_good, forests = w.sizes.num_forests;
    const int points = 1 + w.sizes.landmark_pos_axis0 + w.agents.count(), hunter_parts = points + good + forests + WORDS;
    const Row of_hunter = {points, 2 * points, 2 * (points + good), 2 * (points + good) + forests};
    const Row of_good = {points, 2 * points + forests, 2 * points, 0};
    GV_LOOP for (auto [me, k] : w.pairs(w.role.leadadversary, w.each(hunter_parts))) {
        write_part(w, me.obs, me.index, k, of_hunter, good);
    }
    w.barrier();
    GV_LOOP for (auto [me, k] : w.pairs(w.role.adversary, w.each(hunter_parts))) write_part(w, me.obs, me.index, k, of_hunter, good);
    w.barrier();
    GV_LOOP for (auto [me, k] : w.pairs(w.role.agent, w.each(points + good - 1 + forests))) {
        write_part(w, me.obs, me.index, k, of_good, good - 1);
    }
}
