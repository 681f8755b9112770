// Neighbours by the plainest search: for each rank, the nearest of the agents that come after the one found before.
// It needs no memory, and takes agents * k distances for each agent. neighbours.h uses it for k above GV_MAX_SORTED,
// unless the serial search is used; its order is the definition that the faster searches are compared with.
#pragma once
#include "lib/nearest.h"

// The first agent after (distance, agent) in the order of neighbours of i, or GV_NOBODY. `distance` becomes that agent's.
GV_FN gv_i32 gv_next_nearest(const GvCrowd& crowd, gv_i32 i, float* distance, gv_i32 agent) {
    const GvPlace me = crowd.place[i];
    const float previous = *distance;
    float least = GV_FAR;
    gv_i32 found = GV_NOBODY;
    for (gv_i32 j = 0; j < crowd.agents; ++j) {
        const float here = gv_squared_distance(me, crowd.place[j]);
        const bool after = (here > previous) | ((here == previous) & (j > agent));
        if ((j != i) & after & (here < least)) {
            least = here;
            found = j;
        }
    }
    *distance = least;
    return found;
}

// Calls body(rank, j) for the k neighbours j of agent i; j is GV_NOBODY for missing ones.
template <class Body>
GV_FN void gv_search_naively(const GvCrowd& crowd, gv_i32 i, Body body) {
    float distance = -1.0f;
    gv_i32 j = gv_is_seen(crowd.place[i]) ? -1 : GV_NOBODY;
    for (gv_i32 rank = 0; rank < crowd.k; ++rank) {
        if (j != GV_NOBODY) j = gv_next_nearest(crowd, i, &distance, j);
        body(rank, j);
    }
}
