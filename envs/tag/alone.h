// Observation of the nearest by a lane that is alone with its world: what neighbours.h says of few agents, in loops that
// compilers turn into vector instructions and with few branches that a processor cannot guess. Same results, bit by bit.
#pragma once
#include "lib/sort.h"
#include "neighbours.h"

#define SIDE_BY_SIDE 32  // distances at a time; MAX_ALONE is a multiple
#define MAX_UNORDERED 96 // agents picked before all but the nearest of them are dropped

// Agents of a world by increasing keys: the bits of a squared distance, which order as it does, above the index.
struct Picked {
    gv_i64 key[MAX_UNORDERED + SIDE_BY_SIDE];
    gv_i32 count;
};

// Squared distances of all places, which are rounded up to whole turns of the loop.
GV_FN void measure(const float* x, const float* y, gv_i32 agents, gv_i32 i, float* distance) {
    const float here_x = x[i], here_y = y[i];
    for (gv_i32 first = 0; first < agents; first += SIDE_BY_SIDE) {
        for (gv_i32 j = first; j < first + SIDE_BY_SIDE; ++j) {
            const float dx = here_x - x[j], dy = here_y - y[j];
            distance[j] = dx * dx + dy * dy;
        }
    }
    distance[i] = FAR;  // nobody is among its own neighbours
}

GV_FN float bound_of(const float* distance, gv_i32 agents, const gv_u16* last, gv_i32 k) {
    float bound = 0.0f;
    for (gv_i32 slot = 0; slot < k; ++slot) bound = gv_max(bound, last[slot] < agents ? distance[last[slot]] : FAR);
    return bound < FAR ? above(bound) : FAR;
}

// Puts the first k of those picked, or as many as there are, into order. Returns how many.
GV_FN gv_i32 order(Picked& picked, gv_i32 k, gv_u16* nearest) {
    gv_u16 ordered[MAX_UNORDERED + SIDE_BY_SIDE + 1];
    gv_rank_sort(picked.key, picked.count, ordered);
    const gv_i32 found = picked.count < k ? picked.count : k;
    for (gv_i32 slot = 0; slot < found; ++slot) nearest[slot] = ordered[slot];
    return found;
}

GV_FN void add(Picked& picked, const float* distance, gv_i32 j) {
    picked.key[picked.count++] = (gv_i64)gv_bits(distance[j]) << 32 | j;
}

// Adds agents within a bound, which shrinks where it was so wide that they would be many.
GV_FN void pick(const float* distance, gv_i32 agents, float bound, gv_i32 k, Picked& picked) {
    for (gv_i32 first = 0; first < agents; first += SIDE_BY_SIDE) {
        gv_u32 closer = 0;
        for (gv_i32 j = 0; j < SIDE_BY_SIDE; ++j) closer |= distance[first + j] < bound ? 1u << j : 0u;
        for (; closer != 0; closer &= closer - 1) add(picked, distance, first + gv_lowest_bit(closer));
        if (picked.count > MAX_UNORDERED) {
            gv_u16 nearest[MAX_SORTED];
            order(picked, k, nearest);
            bound = above(distance[nearest[k - 1]]);
            picked.count = 0;
            for (gv_i32 slot = 0; slot < k; ++slot) add(picked, distance, nearest[slot]);
        }
    }
}

GV_FN void observe_alone(const GvArgs& a, const GvTeam& team, float* obs) {
    const gv_i32 w = team.world, agents = gv_num_agents(a), taggers = gv_num_taggers(a), k = gv_num_other_agents_observed(a);
    const gv_i64 first = at(a, w, 0);
    const float *speed = a.speed + first, *acceleration = a.acceleration + first, *direction = a.direction + first;
    const float per_diagonal = a.per_diagonal, per_max_speed = a.per_max_speed, per_turn = a.per_turn;
    const Rows rows = rows_of(a, w, obs);
    float x[MAX_ALONE], y[MAX_ALONE], type[MAX_ALONE], distance[MAX_ALONE];
    for (gv_i32 i = 0; i < (agents + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE * SIDE_BY_SIDE; ++i) {
        const gv_i64 me = first + (i < agents ? i : 0);
        const bool seen = i < agents && a.alive[me] && a.loc_x[me] == a.loc_x[me] && a.loc_y[me] == a.loc_y[me];
        x[i] = seen ? a.loc_x[me] : FAR;  // the squared distance to there is infinite
        y[i] = seen ? a.loc_y[me] : FAR;
        type[i] = i < taggers ? 1.0f : 0.0f;
    }
    for (gv_i32 i = 0; i < agents; ++i) {
        gv_u16* nearest = a.nearest + (first + i) * k;
        Picked picked;
        picked.count = 0;
        if (x[i] < FAR) {
            measure(x, y, agents, i, distance);
            pick(distance, agents, bound_of(distance, agents, nearest, k), k, picked);
        }
        const gv_i32 found = order(picked, k, nearest);
        for (gv_i32 slot = found; slot < k; ++slot) nearest[slot] = NOBODY;
        float* row = &entry(rows, i, 0);
        const float my_x = x[i], my_y = y[i], my_speed = speed[i], my_acceleration = acceleration[i], my_direction = direction[i];
        for (gv_i32 slot = 0; slot < found; ++slot) {
            const gv_i32 j = nearest[slot];
            float* entry = row + slot;
            entry[0] = (x[j] - my_x) * per_diagonal;
            entry[k] = (y[j] - my_y) * per_diagonal;
            entry[2 * k] = (speed[j] - my_speed) * per_max_speed;
            entry[3 * k] = (acceleration[j] - my_acceleration) * per_max_speed;
            entry[4 * k] = (direction[j] - my_direction) * per_turn;
            entry[5 * k] = type[j];
            entry[6 * k] = 1.0f;
        }
        for (gv_i32 block = 0; block < 7; ++block)
            for (gv_i32 slot = found; slot < k; ++slot) row[slot + block * k] = 0.0f;
        observe_end(a, w, i, a.alive[first + i] ? observed_time(a, a.t[w]) : 0.0f, row);
    }
}
