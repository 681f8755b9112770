// Meetings of agents of equal size: the force of a contact before a step, and touches after it.
// A scenario that includes this reads the state once a step, into scratch, because most of a step of a small world would be waits
// for memory. Its scratch has `before` and `place` of the shape (num_agents, 2), places of agents before and after the motion, and
// `rows`.
#pragma once
#include "../mpe/physics.h"

constexpr float RADIUS = 0.15f;  // of an agent

// Point of an array in scratch.
GV_FN Point at(const GvPointer<float>& points, int i) { return {points[2 * i], points[2 * i + 1]}; }
GV_FN void set(const GvPointer<float>& points, int i, Point point) {
    points[2 * i] = point.x;
    points[2 * i + 1] = point.y;
}

// Two agents: the force of their contact on the first before the step, and 1 if they touch after it, otherwise 0.
struct Meeting {
    Point force;
    float touches;
};
GV_FN Meeting meeting(const GvWorld& w, int i, int j) {
    const bool touch = distance(at(w.scratch.place, i), at(w.scratch.place, j)) < RADIUS + RADIUS;
    return {contact(at(w.scratch.before, i), at(w.scratch.before, j), RADIUS + RADIUS), touch ? 1.0f : 0.0f};
}

// Few agents meet once: the array of rows, which is free during a step, has the meetings. An agent is the first of those with the
// n / 2 agents after it, in a circle; if n is even, the agents below n / 2 are the first of those with the one opposite.
struct Meetings {
    const GvWorld& w;
    int agents, half;
    GV_METHOD Meetings(const GvWorld& w) : w(w), agents(w.agents.count()), half(agents / 2) {}
    GV_METHOD bool are_kept() const { return 3 * agents * half <= w.scratch.rows_room; }
    GV_METHOD float* record(int i, int ahead) const { return &w.scratch.rows[3 * (i * half + ahead - 1)]; }
    GV_METHOD void keep(int i) const {
        GV_LOOP for (int ahead = 1; ahead <= half; ++ahead) {
            if (2 * ahead == agents && i >= ahead) continue;
            const int j = i + ahead;
            const Meeting met = meeting(w, i, j < agents ? j : j - agents);
            float* const kept = record(i, ahead);
            kept[0] = met.force.x;
            kept[1] = met.force.y;
            kept[2] = met.touches;
        }
    }
    GV_METHOD Meeting meeting_of(int i, int j) const {
        const int ahead = j > i ? j - i : j - i + agents;
        const bool first = 2 * ahead < agents || (2 * ahead == agents && i < j);
        const float* const kept = first ? record(i, ahead) : record(j, agents - ahead);
        return {first ? Point{kept[0], kept[1]} : Point{-kept[0], -kept[1]}, kept[2]};
    }
    // Sum of the meetings of agent i, in the order of the others.
    GV_METHOD Meeting sum_of(int i) const {
        Meeting total = {{0.0f, 0.0f}, 0.0f};
        const auto add = [&](const Meeting& met) { total = {sum(total.force, met.force), total.touches + met.touches}; };
        if (are_kept()) {
            GV_UNROLL_BY_4 for (int slot = 0; slot < agents - 1; ++slot) add(meeting_of(i, other_of(i, slot)));
        } else {
            GV_LOOP for (int slot = 0; slot < agents - 1; ++slot) add(meeting(w, i, other_of(i, slot)));
        }
        return total;
    }
};
