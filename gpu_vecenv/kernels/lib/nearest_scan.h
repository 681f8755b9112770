// Neighbours of one agent among few: a scan of all agents.
//
// Sorting costs most, so only agents nearer than a bound are sorted. The farthest of any k agents is a bound of the k-th nearest;
// the neighbours of the last search, measured again, are k agents that give a tight bound. A loose bound costs time only.
#pragma once
#include "lib/nearest.h"

// Bit i is 1 if places[i] is nearer than the bound, for the first 32 of `count` places, an even number.
GV_FN gv_u32 gv_nearer_than(float bound, GvPlace me, const GvPlace* places, gv_i32 count) {
    return gv_signs(count < 32 ? count : 32, [&](gv_i32 i, float& first, float& second) {
        const GvVec<float, 4> two = *(const GvVec<float, 4>*)(places + i);
        const GvPlace one = {two.value[0], two.value[1]}, next = {two.value[2], two.value[3]};
        first = gv_squared_distance(me, one) - bound;
        second = gv_squared_distance(me, next) - bound;
    });
}

// A bound on the distances of the neighbours of an agent at `me`. `last` holds k different other agents, or GV_NOBODY.
GV_FN float gv_bound_of_last(const GvCrowd& crowd, GvPlace me, const gv_u16* last) {
#ifdef GV_NO_BOUND
    const bool unbounded = true;
#else
    const bool unbounded = gv_sees_all(crowd);
#endif
    float bound = unbounded ? GV_FAR : 0.0f;
    GV_UNROLL for (gv_i32 rank = 0; !unbounded && rank < crowd.k; ++rank) {
        const gv_i32 j = last[rank];
        bound = gv_max(bound, j < crowd.agents ? gv_squared_distance(me, crowd.place[j]) : GV_FAR);
    }
    return !gv_is_seen(me) ? 0.0f : bound < GV_FAR ? gv_above(bound) : GV_FAR;  // an unseen agent has no neighbours
}

// Finds the neighbours of agent i among fewer than 32 * words agents. `nearest` must be clear.
template <gv_i32 words>
GV_FN void gv_search_all(const GvCrowd& crowd, gv_i32 i, const gv_u16* last, GvNearest& nearest) {
    const gv_i32 agents = crowd.agents, k = crowd.k;
    const GvPlace me = crowd.place[i];
    const float bound = gv_bound_of_last(crowd, me, last);
    gv_u32 picked[words];  // a bit for each agent
    GV_UNROLL for (gv_i32 word = 0; word < words; ++word) {
        const gv_u32 others = i / 32 == word ? ~(1u << i % 32) : ~0u;
        picked[word] = gv_nearer_than(bound, me, crowd.place + word * 32, (agents + 1) / 2 * 2 - word * 32) & others;
    }
    const bool in_order = true;  // bits are taken from the lowest on
    gv_i32 first = 0;            // agent of bit 0 of picked[0]
    const auto take = [&](gv_i32 ranks) {  // inserts one agent into the first `ranks` ranks of the list
        if (picked[0] != 0) {
            const gv_i32 j = first + gv_lowest_bit(picked[0]);
            picked[0] &= picked[0] - 1;
            gv_insert(nearest, ranks, gv_squared_distance(me, crowd.place[j]), j, in_order);
        }
        // The next word, at once: lanes of a warp do not wait for each other after each word. It moves, as registers have no
        // index.
        if (picked[0] == 0) {
            GV_UNROLL for (gv_i32 word = 1; word < words; ++word) picked[word - 1] = picked[word];
            picked[words - 1] = 0;
            first += 32;
        }
    };
    if (k >= 8) {  // the first k / 2 turns insert into half of the list, at half the cost
        GV_LOOP for (gv_i32 turn = 0; turn < k / 2 && first < agents; ++turn) take(k / 2);
    }
    GV_LOOP while (first < agents) take(k);
}
