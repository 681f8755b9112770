// Spread: agents cover landmarks, and lose reward when they touch each other. Landmarks are no obstacles.
#include "../mpe/meetings.h"
#include "../mpe/neighbours.h"

constexpr float COVERS = 0.1f;  // distance at which an agent covers a landmark

GV_FN void env_reset(GvWorld& w) { scatter(w, w.sizes.num_landmarks, 1.0f); }

// ---- a step ---------------------------------------------------------------------------------------------------

// Loads what belongs to an agent, notes the force of its push, and moves it by its velocity.
template <class Agent>
GV_FN void begin(const GvWorld& w, const Agent& me) {
    const int i = me.index;
    const int given = w.params.continuous_actions ? 0 : me.action.given_index();  // checked behind all loads: a check waits
    const Point before = loaded(w.state.agent_pos, i), velocity = loaded(w.state.agent_vel, i);
    const Point place = {before.x + velocity.x * STEP_TIME, before.y + velocity.y * STEP_TIME};
    set(w.scratch.landmark, i, loaded(w.state.landmark_pos, i));
    set(w.scratch.before, i, before);
    set(w.scratch.velocity, i, velocity);
    set(w.scratch.place, i, place);
    store(w.state.agent_pos, i, place);
    push(w, me, w.params.continuous_actions ? 0 : me.action.checked_index(given), USUAL_PUSH);
}

// Changes the velocity of an agent by a force besides its push.
GV_FN void speed_up(const GvWorld& w, int i, Point more) {
    const Point velocity = at(w.scratch.velocity, i), force = sum(at(w.scratch.force, i), more);
    const Point changed = {velocity.x * KEPT_SPEED + force.x * STEP_TIME, velocity.y * KEPT_SPEED + force.y * STEP_TIME};
    set(w.scratch.velocity, i, changed);
    store(w.state.agent_vel, i, changed);
}

// Distance of a landmark from the agent nearest to it.
GV_FN float uncovered(const GvWorld& w, int landmark) {
    const Point here = at(w.scratch.landmark, landmark);
    float least = GV_INFINITY;
    GV_UNROLL_BY_4 for (int i = 0; i < w.agents.count(); ++i) least = gv_min(least, square(apart(at(w.scratch.place, i), here)));
    return gv_sqrt(least);
}

// There are as many landmarks as agents, so w.agents stands for both.
GV_FN void env_step(GvWorld& w) {
    const auto& p = w.params;
    const Meetings meetings(w);
    for (auto me : w.agents) begin(w, me);
    w.barrier();
    if (meetings.are_kept()) {
        for (auto me : w.agents) meetings.keep(me.index);
    }
    bool open = false;  // a landmark of this lane is not covered
    const float distances = w.sum(w.agents, [&](auto it) {
        const float far = uncovered(w, it.index);
        open |= far >= COVERS;
        return far;
    });
    for (auto me : w.agents) {
        const Meeting met = meetings.sum_of(me.index);
        speed_up(w, me.index, met.force);
        me.reward = -distances * (1.0f - p.local_ratio) - met.touches * p.local_ratio;
    }
    if (p.terminate_on_success) {
        open = w.any(open);
        if (w.once) w.terminate(!open && w.t < p.max_cycles);
    }
    if (w.once) w.truncate_at(p.max_cycles);
}

// ---- observe --------------------------------------------------------------------------------------------------

// Point of a row of agent `i`: velocity, place, landmarks, other agents, and what these said: zeros, because none can speak.
GV_FN Point seen_by(const GvWorld& w, int i, int k) {
    const int landmarks = w.sizes.num_landmarks;
    const int first_agent = 2 + slots(w.sizes.num_landmark_neighbors, landmarks);
    const int first_word = first_agent + slots(w.sizes.num_agent_neighbors, landmarks - 1);
    const auto landmark = [&](int c) { return at(w.scratch.landmark, c); };
    const auto other = [&](int c) { return at(w.scratch.place, other_of(i, c)); };
    const Point here = at(w.scratch.place, i);
    if (k == 0) return at(w.scratch.velocity, i);
    if (k == 1) return here;
    if (k < first_agent) return seen(here, landmarks, k - 2, w.sizes.num_landmark_neighbors, landmark);
    if (k < first_word) return seen(here, landmarks - 1, k - first_agent, w.sizes.num_agent_neighbors, other);
    return {0.0f, 0.0f};
}

// Writes the points from `first` on of an agent's row, up to `batch` of them. All are known before the first is written: a write may
// change the scratch that the next one reads, as far as a compiler knows.
template <int batch, class Agent>
GV_FN void write_points(const GvWorld& w, const Agent& me, const GvObsRow& row, int first, int points) {
    Point known[batch];
    GV_UNROLL for (int k = 0; k < batch; ++k) if (first + k < points) known[k] = seen_by(w, me.index, first + k);
    GV_UNROLL for (int k = 0; k < batch; ++k) if (first + k < points) write(row, first + k, known[k]);
}

// With few agents, whose rows fit in scratch, a lane writes a whole row: lanes at different points of a row would go through the
// branches of all of them.
GV_FN void env_observe_step(GvWorld& w) {
    constexpr int batch = 10;
    const int points = w.agents.num_features() / 2;
    const bool whole = w.agents.count() <= 16;
    GV_LOOP for (auto [me, part] : w.pairs(w.agents, w.each(whole ? 1 : points))) {
        if (whole) {
            for (int first = 0; first < points; first += batch) write_points<batch>(w, me, me.obs, first, points);
        } else {
            write(me.obs, part, seen_by(w, me.index, part));
        }
    }
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) {
        set(w.scratch.place, me.index, loaded(w.state.agent_pos, me.index));
        set(w.scratch.velocity, me.index, loaded(w.state.agent_vel, me.index));
        set(w.scratch.landmark, me.index, loaded(w.state.landmark_pos, me.index));
    }
    w.barrier();
    env_observe_step(w);
}
