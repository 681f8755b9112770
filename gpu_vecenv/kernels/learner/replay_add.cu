// Copies the steps of a rollout to the ring of a replay buffer, and adds up its trees of sums.
#include "learner/replay.h"

// Slot of a step of the rollout, before the steps are counted.
GV_FN gv_i64 gv_new_slot(const GvArgs& a, gv_i64 start, gv_i64 step) {
    return start + step < a.ring.slots ? start + step : start + step - a.ring.slots;
}

// Copies numbers of one part; a team has a tile of them. Numbers are of one or four bytes.
template <class T>
GV_FN void gv_copy_part(const GvArgs& a, const GvLanes& team, const GvRingPart& part, gv_i64 first) {
    const gv_i64 of_step = a.ring.samples * part.width, rest = part.steps * of_step - first;
    const gv_i64 start = gv_slot(a.ring, 1), first_step = gv_over(first, of_step);
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 beyond = first - first_step * of_step + i, later = gv_over(beyond, of_step);
        const gv_i64 step = first_step + later, at = beyond - later * of_step;
        const gv_i64 sample = gv_over(at, part.width), number = at - sample * part.width;
        if (part.at_ends != 0 && a.ended[(step * a.ring.samples + sample) * a.ring.agents] == 0) continue;
        const T* const from = (const T*)((const char*)part.slab + step * part.step + sample * part.sample);
        ((T*)part.ring)[gv_new_slot(a, start, step) * of_step + at] = from[number];
    }
}

GV_FN void gv_copy_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    gv_i32 k = 0;
    while (tile >= a.parts[k].end_tile) ++k;
    const GvRingPart& part = a.parts[k];
    const gv_i64 first = (gv_i64)(k == 0 ? tile : tile - a.parts[k - 1].end_tile) * GV_TILE;
    if (part.bytes == 4) gv_copy_part<gv_u32>(a, team, part, first);
    else gv_copy_part<gv_u8>(a, team, part, first);
}

// Writes the flags of agents, and the priorities of new transitions. A team has a tile of agents in steps.
GV_FN void gv_mark_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 of_step = a.ring.samples * a.ring.agents, first = (gv_i64)tile * GV_TILE, rest = a.num_steps * of_step - first;
    const gv_i64 start = gv_slot(a.ring, 1);
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 from = first + i, step = gv_over(from, of_step), at = from - step * of_step;
        const gv_i64 slot = gv_new_slot(a, start, step), sample = gv_over(at, a.ring.agents);
        const gv_i32 limit = a.bootstraps != 0 && a.timed_out[from] != 0 ? GV_LIMIT : 0;
        const gv_i32 ends = (a.episode_end[from] != 0 ? GV_END : 0) | (a.ended[from] != 0 ? GV_WORLD_END : 0);
        a.ring.flags[slot * of_step + at] = (gv_u8)((a.valid[from] != 0 ? GV_VALID : 0) | limit | ends);
        if (a.ring.priority == nullptr || sample * a.ring.agents != at) continue;
        bool counts = false;
        for (gv_i32 agent = 0; agent < a.ring.agents; ++agent) counts |= a.valid[from + agent] != 0;
        a.ring.priority[slot * a.ring.samples + sample] = counts ? *a.largest : 0.0f;
    }
}

// Counts the steps of the rollout, and if every transition counts those that can be sampled.
GV_FN void gv_advance(const GvArgs& a, const GvLanes& team, gv_i32) {
    GV_ONCE {
        const gv_i64 steps = *a.ring.steps + a.num_steps, kept = steps < a.ring.slots - 1 ? steps : a.ring.slots - 1;
        *a.ring.steps = steps;
        if (a.ring.counts == nullptr) *a.filled = kept < a.ring.newest ? 0 : (kept - a.ring.newest) * a.ring.samples;
    }
}

// Adds up the children of a node.
// double: counts beyond 2^24, and sums of many priorities.
GV_FN double gv_sum_of(const GvArgs& a, const double* tree, bool is_mass, gv_i64 node) {
    double sum = 0.0;
    gv_each_child(a.ring, tree, is_mass, a.at_level, node, [&](gv_i64, double number) {
        sum += number;
        return false;
    });
    return sum;
}

// Adds up nodes of a level: those above the given places, or those above the slots that a rollout has changed.
// double: as above.
GV_FN void gv_sum_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const GvLevel level = a.ring.level[a.at_level];
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = a.count - first;
    const gv_i32 shift = GV_FAN_SHIFT * a.at_level;
    // The first slot that a rollout changes is the first of the steps that were the newest ones before.
    const gv_i64 changed = (gv_slot(a.ring, 1 - a.num_steps - a.ring.newest) * a.ring.samples) >> shift;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        gv_i64 node = changed + first + i;
        if (a.places != nullptr) node = a.places[first + i] >> shift;
        else if (node >= level.nodes) node -= level.nodes;
        if (a.ring.counts != nullptr && a.places == nullptr) {
            const gv_i64 at = level.first + node;
            a.ring.counts[at] = gv_sum_of(a, a.ring.counts, false, node);
            if (a.at_level == a.ring.levels) *a.filled = (gv_i64)a.ring.counts[at];
        }
        if (a.ring.masses != nullptr) gv_store_same(&a.ring.masses[level.first + node], gv_sum_of(a, a.ring.masses, true, node));
    }
}

GV_PLAIN_KERNEL(gv_replay_advance, gv_advance)
GV_PLAIN_KERNEL(gv_replay_copy, gv_copy_tile)
GV_PLAIN_KERNEL(gv_replay_mark, gv_mark_tile)
GV_PLAIN_KERNEL(gv_replay_sum, gv_sum_tile)
