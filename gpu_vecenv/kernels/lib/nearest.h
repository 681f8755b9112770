// Places of agents, and a sorted list of the agents nearest to one of them. The searches of neighbours.h share these.
// `distance` and `bound` are squared. Order of neighbours: by float32 distance, then by index.
#pragma once
#include "lib/math.h"
#include "lib/vec.h"

#define GV_FAR 3.0e38f     // larger than any distance; also both coordinates of an unseen agent
#define GV_NOBODY 0xFFFF   // index in place of a missing neighbour
#define GV_MAX_SORTED 32   // longest sorted list
#define GV_MAX_CROWD 65535 // agents have indices of 16 bits

typedef GvVec<float, 2> GvPlace;  // x, y; read in one access

// The agents of a world. An unseen agent, at GV_FAR, has no neighbours and is nobody's.
struct GvCrowd {
    gv_i32 agents, k;      // k is the number of neighbours of each agent
    const GvPlace* place;  // [agents, rounded up to even] 16-byte aligned; GV_FAR behind the last agent
};

GV_FN float gv_squared_distance(GvPlace here, GvPlace there) {
    const float dx = there.value[0] - here.value[0], dy = there.value[1] - here.value[1];
    return dx * dx + dy * dy;  // infinite if exactly one is unseen, 0 if both are
}

GV_FN bool gv_is_seen(GvPlace place) { return place.value[0] < GV_FAR; }

// A bound slightly above `distance`, because an agent must be nearer than the bound.
GV_FN float gv_above(float distance) { return distance * 1.000001f + 1.0e-37f; }

// True if every agent has all others as neighbours.
GV_FN bool gv_sees_all(const GvCrowd& crowd) { return crowd.k >= crowd.agents - 1; }

// The k nearest agents found so far, sorted. On CUDA k is a constant and the list lies in registers.
struct GvNearest {
    float distance[GV_MAX_SORTED];
    gv_i32 agent[GV_MAX_SORTED];
};

GV_FN void gv_clear(GvNearest& nearest, gv_i32 k) {
    GV_UNROLL for (gv_i32 rank = 0; rank < k; ++rank) {
        nearest.distance[rank] = GV_FAR;
        nearest.agent[rank] = GV_NOBODY;
    }
}

// True if an agent comes before the one at `rank`. If agents are inserted in the order of their indices
// (`in_order`), equal distances need no comparison of indices.
GV_FN bool gv_precedes(const GvNearest& nearest, gv_i32 rank, float distance, gv_i32 agent, bool in_order) {
    const float there = nearest.distance[rank];
    return (distance < there) | (!in_order & (distance == there) & (agent < nearest.agent[rank]));
}

// Inserts an agent if it is among the first k. Every rank keeps its agent, or takes the new one or that of the rank before, without
// a branch.
GV_FN void gv_insert(GvNearest& nearest, gv_i32 k, float distance, gv_i32 agent, bool in_order) {
    bool here = gv_precedes(nearest, k - 1, distance, agent, in_order);
    GV_UNROLL for (gv_i32 rank = k - 1; rank >= 0; --rank) {
        const gv_i32 previous = rank > 0 ? rank - 1 : 0;
        const bool before = rank > 0 && gv_precedes(nearest, previous, distance, agent, in_order);
        const float moved_distance = before ? nearest.distance[previous] : distance;
        const gv_i32 moved_agent = before ? nearest.agent[previous] : agent;
        nearest.distance[rank] = here ? moved_distance : nearest.distance[rank];
        nearest.agent[rank] = here ? moved_agent : nearest.agent[rank];
        here = before;
    }
}

// Writes the agents of a list to memory, two in one access if k is even.
GV_FN void gv_keep(gv_u16* to, const GvNearest& nearest, gv_i32 k) {
    typedef GvVec<gv_u16, 2> Two;
    GV_UNROLL for (gv_i32 rank = 0; k % 2 == 0 && rank < k; rank += 2) {
        const Two two = {(gv_u16)nearest.agent[rank], (gv_u16)nearest.agent[rank + 1]};
        ((Two*)to)[rank / 2] = two;
    }
    GV_UNROLL for (gv_i32 rank = 0; k % 2 != 0 && rank < k; ++rank) to[rank] = (gv_u16)nearest.agent[rank];
}
