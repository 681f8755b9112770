// The ring of a replay buffer: S + 1 slots of one step each. The slot after the newest step holds its next observations alone.
//
// Sums over the transitions that can be sampled form a tree, in which a node has up to GV_FAN children. Level 0 are transitions,
// and the last level is one node, the sum of all. Children are added in their order, so the sums have the same bits on every
// target. A tree of counts adds 1 for each transition, a tree of masses its priority.
#pragma once
#include "program_args.h"

#define GV_FAN_SHIFT 6
#define GV_FAN (1 << GV_FAN_SHIFT)

enum { GV_VALID = 1, GV_END = 2, GV_LIMIT = 4, GV_WORLD_END = 8 };  // bits of the flags of an agent in a step

// x / y for x >= 0 and y > 0; most operands fit 32 bits, whose division is several times faster.
GV_FN gv_i64 gv_over(gv_i64 x, gv_i64 y) {
    return (x | y) >> 32 == 0 ? (gv_i64)((gv_u32)x / (gv_u32)y) : x / y;
}

// The slot that lies a number of steps, which may be negative, after the newest one.
GV_FN gv_i64 gv_slot(const GvRing& ring, gv_i64 after_newest) {
    const gv_i64 slot = (*ring.steps - 1 + after_newest) % ring.slots;
    return slot < 0 ? slot + ring.slots : slot;
}

// True if a slot has a step, and all that follows from it is in the ring.
GV_FN bool gv_is_known(const GvRing& ring, gv_i64 steps, gv_i64 slot) {
    gv_i64 age = (steps - 1 - slot) % ring.slots;
    if (age < 0) age += ring.slots;
    return age < steps && age < ring.slots - 1 && age >= ring.newest;
}

// True if an agent of a transition counts.
GV_FN bool gv_counts(const GvRing& ring, gv_i64 place) {
    for (gv_i32 agent = 0; agent < ring.agents; ++agent)
        if ((ring.flags[place * ring.agents + agent] & GV_VALID) != 0) return true;
    return false;
}

// Calls take(child, number) for the children of a node in their order, at least until it returns true: a warp goes on until all
// its lanes are done, so there the loop has no exit. Numbers of level 0 are those of transitions: 1 or the priority if they can be
// sampled, else 0.
template <class Take>
// double: counts beyond 2^24, and sums of many priorities.
GV_FN void gv_each_child(const GvRing& ring, const double* tree, bool is_mass, gv_i32 level, gv_i64 node, const Take& take) {
    const gv_i64 first = node << GV_FAN_SHIFT, rest = ring.level[level - 1].nodes - first;
    const gv_i32 count = rest < GV_FAN ? (gv_i32)rest : GV_FAN;
    if (level > 1) {
        const double* const numbers = tree + ring.level[level - 1].first + first;
        for (gv_i32 k = 0; k < count; ++k) {
            if (take(first + k, numbers[k]) && GV_ONE_LANE) return;
        }
        return;
    }
    const gv_i64 steps = *ring.steps;
    gv_i64 slot = gv_over(first, ring.samples), sample = first - slot * ring.samples;
    bool known = gv_is_known(ring, steps, slot);
    for (gv_i32 k = 0; k < count; ++k) {
        const gv_i64 place = first + k;
        const double number = !known ? 0.0 : is_mass ? (double)ring.priority[place] : gv_counts(ring, place) ? 1.0 : 0.0;
        if (take(place, number) && GV_ONE_LANE) return;
        if (++sample == ring.samples) {
            sample = 0;
            known = gv_is_known(ring, steps, ++slot);
        }
    }
}
