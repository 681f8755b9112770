// Neighbours by a team of one lane, as on the CPU: the scan of nearest_scan.h in loops that compilers turn into vector
// instructions, with few branches that a processor cannot predict. Same results, bit by bit.
#pragma once
#include "lib/nearest.h"
#include "lib/sort.h"

#define GV_VECTOR 32        // distances measured at a time
#define GV_MAX_SERIAL 1024  // most agents, a multiple of GV_VECTOR
#define GV_MAX_SPARE 64     // if more agents than this and k are picked, all but the k nearest are dropped

// Places of all agents, coordinate by coordinate, with GV_FAR up to a multiple of GV_VECTOR.
struct GvColumns {
    float x[GV_MAX_SERIAL], y[GV_MAX_SERIAL];
};

GV_FN void gv_split(const GvCrowd& crowd, GvColumns& columns) {
    const gv_i32 last = (crowd.agents - 1) / GV_VECTOR * GV_VECTOR;  // filled as a whole, which takes fewer stores
    for (gv_i32 i = last; i < last + GV_VECTOR; ++i) columns.x[i] = columns.y[i] = GV_FAR;
    for (gv_i32 i = 0; i < crowd.agents; ++i) {
        columns.x[i] = crowd.place[i].value[0];
        columns.y[i] = crowd.place[i].value[1];
    }
}

// Keys of agents: bits of the squared distance, which sort as the float does, in the upper half; the index in the lower.
struct GvPicked {
    gv_i64 key[GV_MAX_SERIAL];
    gv_i32 count;
};

GV_FN void gv_pick(GvPicked& picked, const float* distance, gv_i32 j) {
    picked.key[picked.count++] = (gv_i64)gv_bits(distance[j]) << 32 | j;
}

// Writes the first k of the picked agents, sorted. Returns their number, which is less than k if fewer are picked.
GV_FN gv_i32 gv_sort_picked(GvPicked& picked, gv_i32 k, gv_u16* nearest) {
    gv_u16 sorted[GV_MAX_SERIAL + 1];
    gv_rank_sort(picked.key, picked.count, sorted);
    const gv_i32 count = picked.count < k ? picked.count : k;
    for (gv_i32 rank = 0; rank < count; ++rank) nearest[rank] = sorted[rank];
    return count;
}

// Measures the squared distances of all agents from agent i; that of i itself is GV_FAR.
GV_FN void gv_measure(const GvCrowd& crowd, const GvColumns& columns, gv_i32 i, float* distance) {
    const float x = columns.x[i], y = columns.y[i];
    for (gv_i32 first = 0; first < crowd.agents; first += GV_VECTOR) {
        for (gv_i32 j = first; j < first + GV_VECTOR; ++j) {
            const float dx = x - columns.x[j], dy = y - columns.y[j];
            distance[j] = dx * dx + dy * dy;
        }
    }
    distance[i] = GV_FAR;
}

// A bound on the distances of the neighbours, as gv_bound_of_last returns it.
GV_FN float gv_measured_bound(const GvCrowd& crowd, const float* distance, const gv_u16* last) {
    float bound = 0.0f;
    for (gv_i32 rank = 0; rank < crowd.k; ++rank) {
        bound = gv_max(bound, last[rank] < crowd.agents ? distance[last[rank]] : GV_FAR);
    }
    return bound < GV_FAR ? gv_above(bound) : GV_FAR;
}

// Bit j is 1 if distance[j] is below the bound, for GV_VECTOR distances.
GV_FN gv_u32 gv_below(const float* distance, float bound) {
    gv_u32 below = 0;
    for (gv_i32 j = 0; j < GV_VECTOR; ++j) below |= distance[j] < bound ? 1u << j : 0u;
    return below;
}

// Picks the agents within a bound. If they are many, the k nearest of them give a tighter bound; `nearest` has room for these.
// A processor cannot predict the end of the loop over bits, so one loop goes through those of two vectors.
GV_FN void gv_pick_nearer(const GvCrowd& crowd, const float* distance, float bound, GvPicked& picked, gv_u16* nearest) {
    for (gv_i32 first = 0; first < crowd.agents; first += 2 * GV_VECTOR) {
        gv_u64 nearer = gv_below(distance + first, bound);
        if (first + GV_VECTOR < crowd.agents) nearer |= (gv_u64)gv_below(distance + first + GV_VECTOR, bound) << GV_VECTOR;
        for (; nearer != 0; nearer &= nearer - 1) gv_pick(picked, distance, first + gv_lowest_bit(nearer));
        if (picked.count > crowd.k + GV_MAX_SPARE) {
            gv_sort_picked(picked, crowd.k, nearest);
            bound = gv_above(distance[nearest[crowd.k - 1]]);
            picked.count = 0;
            for (gv_i32 rank = 0; rank < crowd.k; ++rank) gv_pick(picked, distance, nearest[rank]);
        }
    }
}

// Replaces `nearest`, the k neighbours of the last search, by those of agent i, sorted. Returns their number; GV_NOBODY follows.
GV_FN gv_i32 gv_search_serially(const GvCrowd& crowd, const GvColumns& columns, gv_i32 i, gv_u16* nearest) {
    float distance[GV_MAX_SERIAL];
    GvPicked picked;
    picked.count = 0;
    if (columns.x[i] < GV_FAR) {
        gv_measure(crowd, columns, i, distance);
        gv_pick_nearer(crowd, distance, gv_measured_bound(crowd, distance, nearest), picked, nearest);
    }
    const gv_i32 count = gv_sort_picked(picked, crowd.k, nearest);
    for (gv_i32 rank = count; rank < crowd.k; ++rank) nearest[rank] = GV_NOBODY;
    return count;
}
