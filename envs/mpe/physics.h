// Physics of the multi-agent particle environments, by the rules of mpe2: docs/mpe.md. Agents are circles that actions push.
// Colliding circles push each other apart by a force that sets in softly. Positions follow the velocity before the step.
// A scenario has `force` of the shape (num_agents, 2) in scratch: one phase writes it, the next moves the agents.
#pragma once
#include "lib/powers.h"
#include "world.h"

constexpr float STEP_TIME = 0.1f, KEPT_SPEED = 0.75f;             // s; share of the velocity that damping leaves
constexpr float CONTACT_FORCE = 100.0f, CONTACT_MARGIN = 0.001f;  // force per length of penetration; length over which it sets in
constexpr float USUAL_PUSH = 5.0f, NO_LIMIT = 0.0f;
constexpr float OBSTACLE_RADIUS = 0.2f;

struct Point {
    float x, y;
};

GV_FN Point apart(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
GV_FN Point sum(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
GV_FN float square(Point a) { return a.x * a.x + a.y * a.y; }
GV_FN float distance(Point a, Point b) { return gv_sqrt(square(apart(a, b))); }

GV_FN Point agent_at(const GvWorld& w, int i) { return {w.state.agent_pos[2 * i], w.state.agent_pos[2 * i + 1]}; }
GV_FN Point velocity_of(const GvWorld& w, int i) { return {w.state.agent_vel[2 * i], w.state.agent_vel[2 * i + 1]}; }
GV_FN Point landmark_at(const GvWorld& w, int k) { return {w.state.landmark_pos[2 * k], w.state.landmark_pos[2 * k + 1]}; }

// Both numbers of a point of the state in one access: fields begin at a multiple of 8 bytes.
GV_FN Point loaded(const GvPointer<float>& field, int i) {
    const auto both = *(const GvVec<float, 2>*)&field[2 * i];
    return {both.value[0], both.value[1]};
}
GV_FN void store(const GvPointer<float>& field, int i, Point point) { *(GvVec<float, 2>*)&field[2 * i] = {{point.x, point.y}}; }

// Point of a square around the origin, uniformly drawn.
GV_FN Point drawn_in(const GvDrawn& draw, float half_side) {
    return {half_side * (2.0f * draw.uniform(0) - 1.0f), half_side * (2.0f * draw.uniform(1) - 1.0f)};
}

// Start of an episode: agents at rest. Purposes 0 and 1 of draws.
GV_FN void scatter(const GvWorld& w, int landmarks, float half_side) {
    for (auto me : w.agents) {
        const Point at = drawn_in(w.draw(0, me.index), 1.0f);
        me.agent_pos[0] = at.x;
        me.agent_pos[1] = at.y;
        me.agent_vel[0] = 0.0f;
        me.agent_vel[1] = 0.0f;
    }
    for (int k : w.each(landmarks)) {
        const Point at = drawn_in(w.draw(1, k), half_side);
        w.state.landmark_pos[2 * k] = at.x;
        w.state.landmark_pos[2 * k + 1] = at.y;
    }
}

// Entry of a continuous action, clipped to its box.
template <class Agent>
GV_FN float share(const Agent& me, int entry) {
    return gv_clamp(me.action.value(entry), 0.0f, 1.0f);
}

// Direction of the move of an agent: 0 none, 1 left, 2 right, 3 down, 4 up, or shares of these.
template <class Agent>
GV_FN Point direction(const GvWorld& w, const Agent& me, int move) {
    if (w.params.continuous_actions) return {share(me, 2) - share(me, 1), share(me, 4) - share(me, 3)};
    return {(float)(move == 2) - (float)(move == 1), (float)(move == 4) - (float)(move == 3)};
}

// Index of the action of an agent, 0 if actions are continuous.
template <class Agent>
GV_FN int index_of(const GvWorld& w, const Agent& me) {
    return w.params.continuous_actions ? 0 : me.action.index();
}

// Force of a circle on the one at `from` that it pushes along from - to; `reach` is the sum of their radii. It is 0 if both are at
// the same place. Beyond the margin it is below the smallest float.
GV_FN Point contact(Point from, Point to, float reach) {
    const Point along = apart(from, to);
    const float far = gv_sqrt(square(along)), depth = reach - far;
    if (!(far > 0.0f) || depth < -104.0f * CONTACT_MARGIN) return {0.0f, 0.0f};
    const float strength = CONTACT_FORCE * (gv_softplus(depth / CONTACT_MARGIN) * CONTACT_MARGIN);
    return {along.x / far * strength, along.y / far * strength};
}

// Number of the other agent in slot `slot` of agent `i`. Lanes that take slot by slot are in the same round of a loop; one over all
// agents that leaves out `i` would take a round more.
GV_FN int other_of(int i, int slot) { return slot + (slot >= i); }

// Force on agent `me` of all other agents and of obstacles, which are the first landmarks. `radius(i)` is that of agent i.
template <class Agent, class Radius>
GV_FN Point contacts(const GvWorld& w, const Agent& me, Radius radius, int obstacles = 0) {
    const Point here = agent_at(w, me.index);
    Point force = {0.0f, 0.0f};
    GV_LOOP for (int slot = 0; slot < w.agents.count() - 1; ++slot) {
        const int j = other_of(me.index, slot);
        force = sum(force, contact(here, agent_at(w, j), radius(me.index) + radius(j)));
    }
    GV_LOOP for (int k = 0; k < obstacles; ++k) {
        force = sum(force, contact(here, landmark_at(w, k), radius(me.index) + OBSTACLE_RADIUS));
    }
    return force;
}

// Pushes an agent: notes the force of its move, and of contacts.
template <class Agent>
GV_FN void push(const GvWorld& w, const Agent& me, int move, float strength, Point contacts = {0.0f, 0.0f}) {
    const Point to = direction(w, me, move);
    w.scratch.force[2 * me.index] = to.x * strength + contacts.x;
    w.scratch.force[2 * me.index + 1] = to.y * strength + contacts.y;
}

// Moves an agent by its velocity, and changes this by the force noted; NO_LIMIT stands for any speed.
GV_FN void move(const GvWorld& w, const GvAgent& me, float top_speed) {
    Point velocity = velocity_of(w, me.index);  // read before the writes, behind which it would be read again
    me.agent_pos[0] += velocity.x * STEP_TIME;
    me.agent_pos[1] += velocity.y * STEP_TIME;
    velocity = {velocity.x * KEPT_SPEED + w.scratch.force[2 * me.index] * STEP_TIME,
                velocity.y * KEPT_SPEED + w.scratch.force[2 * me.index + 1] * STEP_TIME};
    const float speed = gv_sqrt(square(velocity));
    if (top_speed > 0.0f && speed > top_speed) velocity = {velocity.x / speed * top_speed, velocity.y / speed * top_speed};
    me.agent_vel[0] = velocity.x;
    me.agent_vel[1] = velocity.y;
}

// Price of a place outside of the arena, by the axis: it sets in at 0.9, is 1 at 1, and grows to 10.
GV_FN float outside(float coordinate) {
    const float x = gv_abs(coordinate);
    if (x < 0.9f) return 0.0f;
    return x < 1.0f ? (x - 0.9f) * 10.0f : gv_min(gv_exp(2.0f * x - 2.0f), 10.0f);
}

// Writes number `k` of the points at the start of a row.
GV_FN void write(const GvObsRow& row, int k, Point point) {
    row[2 * k] = point.x;
    row[2 * k + 1] = point.y;
}
