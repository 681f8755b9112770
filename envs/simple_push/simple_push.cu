// Push: a good agent goes to its target, and the adversary pushes it away. Landmarks are no obstacles.
#include "../mpe/physics.h"

constexpr int ADVERSARY = 0, GOOD = 1, LANDMARKS = 2, CHANNELS = 3;
constexpr float RADIUS = 0.05f;

GV_FN void env_reset(GvWorld& w) {
    scatter(w, LANDMARKS, 1.0f);
    if (w.once) w.state.goal = w.draw(2).below(LANDMARKS);
}

GV_FN float from_target(const GvWorld& w, int i) { return distance(agent_at(w, i), landmark_at(w, w.state.goal)); }

GV_FN void env_step(GvWorld& w) {
    const auto radius = [](int) { return RADIUS; };
    for (auto me : w.role.adversary) push(w, me, index_of(w, me), USUAL_PUSH, contacts(w, me, radius));
    for (auto me : w.role.agent) push(w, me, index_of(w, me), USUAL_PUSH, contacts(w, me, radius));
    w.barrier();
    for (auto me : w.agents) move(w, me, NO_LIMIT);
    w.barrier();
    const float good = from_target(w, GOOD);
    for (auto me : w.agents) me.reward = me.index == GOOD ? -good : good - from_target(w, ADVERSARY);
    if (w.once) w.truncate_at(w.params.max_cycles);
}

// Colour of a circle: `base`, and `more` in the channel after the number of a landmark.
GV_FN float colour(int landmark, int channel, float base, float more) { return channel == landmark + 1 ? base + more : base; }

GV_FN void env_observe(GvWorld& w) {
    const Point adversary = agent_at(w, ADVERSARY), good = agent_at(w, GOOD);
    for (auto me : w.role.adversary) {
        write(me.obs, 0, velocity_of(w, ADVERSARY));
        for (int k = 0; k < LANDMARKS; ++k) write(me.obs, 1 + k, apart(landmark_at(w, k), adversary));
        write(me.obs, 1 + LANDMARKS, apart(good, adversary));
    }
    for (auto me : w.role.agent) {
        write(me.obs, 0, velocity_of(w, GOOD));
        write(me.obs, 1, apart(landmark_at(w, w.state.goal), good));
        const Point other = apart(adversary, good);
        for (int channel = 0; channel < CHANNELS; ++channel) me.obs[4 + channel] = colour(w.state.goal, channel, 0.25f, 0.5f);
        for (int k = 0; k < LANDMARKS; ++k) {
            const Point seen = apart(landmark_at(w, k), good);
            me.obs[7 + 2 * k] = seen.x;
            me.obs[8 + 2 * k] = seen.y;
            for (int channel = 0; channel < CHANNELS; ++channel) me.obs[11 + 3 * k + channel] = colour(k, channel, 0.1f, 0.8f);
        }
        me.obs[17] = other.x;
        me.obs[18] = other.y;
    }
}
