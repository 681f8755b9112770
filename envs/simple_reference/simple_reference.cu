// Reference: each of two agents knows where the other one should go, and speaks in each step.
#include "../mpe/physics.h"

constexpr int AGENTS = 2, LANDMARKS = 3, WORDS = 10, MOVES = 5;
constexpr float GREY = 0.25f, BRIGHT = 0.75f;  // a landmark's colour is bright in one of three channels

GV_FN void env_reset(GvWorld& w) {
    scatter(w, LANDMARKS, 1.0f);
    for (auto me : w.agents) {
        w.state.goal[me.index] = w.draw(2, me.index).below(LANDMARKS);
        for (int word = 0; word < WORDS; ++word) w.at.comm(me.index, word) = 0.0f;
    }
}

// Minus the distance of the other agent from the landmark that agent `i` knows.
GV_FN float success(const GvWorld& w, int i) { return -distance(agent_at(w, 1 - i), landmark_at(w, w.state.goal[i])); }

GV_FN void env_step(GvWorld& w) {
    const float local = w.params.local_ratio;
    for (auto me : w.agents) {
        const int index = index_of(w, me);
        push(w, me, index % MOVES, USUAL_PUSH);
        for (int word = 0; word < WORDS; ++word) {
            float& said = w.at.comm(me.index, word);
            said = w.params.continuous_actions ? share(me, MOVES + word) : index / MOVES == word ? 1.0f : 0.0f;
        }
        move(w, me, NO_LIMIT);
    }
    w.barrier();
    for (auto me : w.agents) {
        const float mean = (success(w, 0) + success(w, 1)) / (float)AGENTS;
        me.reward = mean * (1.0f - local) + success(w, me.index) * local;
    }
    if (w.once) w.truncate_at(w.params.max_cycles);
}

// Points of a row: velocity and landmarks. Then come the colour of the landmark that the agent knows, and what the other one said.
GV_FN void env_observe(GvWorld& w) {
    constexpr int first_colour = 2 + 2 * LANDMARKS, first_word = first_colour + 3;
    GV_LOOP for (auto [me, k] : w.pairs(w.agents, w.each(1 + LANDMARKS + 3 + WORDS))) {
        const int channel = k - 1 - LANDMARKS, word = channel - 3;
        if (k == 0) write(me.obs, 0, velocity_of(w, me.index));
        else if (channel < 0) write(me.obs, k, apart(landmark_at(w, k - 1), agent_at(w, me.index)));
        else if (word < 0) me.obs[first_colour + channel] = w.state.goal[me.index] == channel ? BRIGHT : GREY;
        else me.obs[first_word + word] = w.at.comm(1 - me.index, word);
    }
}
