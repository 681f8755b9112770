// An agent observes all landmarks and other agents by number, or the nearest ones by rank. Slots beyond the last rank are zeros.
// This is for scenarios with the parameters num_agent_neighbors and num_landmark_neighbors, of which 0 means all.
#pragma once
#include "../mpe/physics.h"

constexpr int NOBODY = -1;

// The candidate of a rank by its distance from `from`; of equal ones, the one of lower number is nearer. `place(c)` gives places.
template <class Place>
GV_FN int ranked(Point from, int candidates, int rank, Place place) {
    GV_LOOP for (int c = 0; c < candidates; ++c) {
        const float mine = square(apart(place(c), from));
        int nearer = 0;
        GV_LOOP for (int j = 0; j < candidates; ++j) {
            const float other = square(apart(place(j), from));
            nearer += other < mine || (other == mine && j < c);
        }
        if (nearer == rank) return c;
    }
    return NOBODY;
}

// Number of slots for `all` others.
GV_FN int slots(int neighbours, int all) { return neighbours > 0 ? neighbours : all; }

// Number of the other agent in a slot of an observation of agent `i`, or NOBODY.
GV_FN int agent_in(const GvWorld& w, int i, int slot) {
    if (w.params.num_agent_neighbors == 0) return other_of(i, slot);
    const int found = ranked(agent_at(w, i), w.agents.count() - 1, slot, [&](int c) { return agent_at(w, other_of(i, c)); });
    return found == NOBODY ? NOBODY : other_of(i, found);
}

// Candidate of a slot seen from `here`, zeros beyond the last: by number if `neighbours` is 0, otherwise by rank.
template <class Place>
GV_FN Point seen(Point here, int candidates, int slot, int neighbours, Place place) {
    const int c = neighbours == 0 ? slot : ranked(here, candidates, slot, place);
    return c == NOBODY ? Point{0.0f, 0.0f} : apart(place(c), here);
}

// Landmark or other agent of a slot, seen from agent `i`.
GV_FN Point landmark_seen(const GvWorld& w, int i, int slot, int landmarks) {
    return seen(agent_at(w, i), landmarks, slot, w.params.num_landmark_neighbors, [&](int k) { return landmark_at(w, k); });
}
GV_FN Point agent_seen(const GvWorld& w, int i, int slot) {
    const auto other = [&](int c) { return agent_at(w, other_of(i, c)); };
    return seen(agent_at(w, i), w.agents.count() - 1, slot, w.params.num_agent_neighbors, other);
}
