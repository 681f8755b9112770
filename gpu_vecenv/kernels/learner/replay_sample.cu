// Draws transitions of a replay buffer, sums the rewards of their steps, and gathers their inputs and actions.
#include "learner/replay.h"
#include "lib/powers.h"
#include "lib/purposes.h"
#include "lib/rng.h"

// Last word of the counter of a draw. Noise has the same key and smaller numbers in the low half (learner/noise.cu).
#define GV_REPLAY_DRAW (GV_PURPOSE_UPDATES << 16 | 0xFFFFu)

// High 64 bits of the product of two words, the high one first, with n; n is below 2^63.
GV_FN gv_i64 gv_below_long(gv_u32 high, gv_u32 low, gv_u64 n) {
    const gv_u64 n_high = n >> 32, n_low = n & 0xFFFFFFFFu;
    const gv_u64 middle = high * n_low + (low * n_low >> 32), other = low * n_high + (middle & 0xFFFFFFFFu);
    return (gv_i64)(high * n_high + (middle >> 32) + (other >> 32));
}

// The place in which a sum of the numbers before it first exceeds `rest`. If rounding leaves none, the last one with a number.
// double: as the trees.
GV_FN gv_i64 gv_place_of(const GvArgs& a, const double* tree, bool is_mass, double rest) {
    gv_i64 node = 0;
    for (gv_i32 level = a.ring.levels; level > 0; --level) {
        gv_i64 chosen = node << GV_FAN_SHIFT;
        double left = rest;
        bool found = false;
        gv_each_child(a.ring, tree, is_mass, level, node, [&](gv_i64 child, double number) {
            if (found || !(number > 0.0)) return found;
            chosen = child;
            rest = left;
            found = left < number;
            left -= number;
            return found;
        });
        node = chosen;
    }
    return node;
}

// Importance weight before its division by the largest one: (N P)^-beta (Schaul et al. 2016, section 3.4).
// double: shares of many transitions.
GV_FN float gv_weight(const GvArgs& a, gv_i64 place, double total) {
    const double share = (double)a.ring.priority[place] / total;
    return gv_pow((float)((double)*a.filled * share), -*a.beta);
}

// Draws places, one a lane.
// double: as the trees.
GV_FN void gv_draw_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = a.rows - first;
    const gv_i64 filled = *a.filled, steps = *a.ring.steps, kept = steps < a.ring.slots - 1 ? steps : a.ring.slots - 1;
    const gv_u64 count = (gv_u64)*a.draws;
    const double top = 1.0 / 4503599627370496.0;  // 2^-52
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 row = first + i;
        const GvDraw draw = gv_philox(a.seed, (gv_u32)row, (gv_u32)count, (gv_u32)(count >> 32), GV_REPLAY_DRAW);
        gv_i64 place = 0;
        float weight = 1.0f;
        if (filled > 0 && a.ring.masses != nullptr) {
            const double total = a.ring.masses[a.ring.level[a.ring.levels].first];
            const gv_u64 bits = ((gv_u64)draw.word[0] << 32 | draw.word[1]) >> 12;
            place = gv_place_of(a, a.ring.masses, true, (double)(gv_i64)bits * top * total);
            weight = gv_weight(a, place, total);
        } else if (filled > 0) {
            const gv_i64 number = gv_below_long(draw.word[0], draw.word[1], (gv_u64)filled);
            if (a.ring.counts != nullptr) {
                place = gv_place_of(a, a.ring.counts, false, (double)number);
            } else {
                const gv_i64 step = gv_over(number, a.ring.samples), slot = gv_slot(a.ring, 1 - kept + step);
                place = slot * a.ring.samples + (number - step * a.ring.samples);
            }
        }
        a.place[row] = place;
        a.weight[row] = weight;
    }
}

// Follows agents from step to step: a lane has one agent of a transition. Counts the draw, which no team of this launch reads.
GV_FN void gv_follow_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = (gv_i64)a.rows * a.ring.agents - first;
    const gv_i64 round = a.ring.slots * a.ring.samples;  // places of all slots
    const bool any = *a.filled > 0;
    if (tile == 0) {
        GV_ONCE { *a.draws += 1; }
    }
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 at = first + i, row = gv_over(at, a.ring.agents), agent = at - row * a.ring.agents;
        gv_i64 place = a.place[row], ahead = -1;
        const bool valid = any && (a.ring.flags[place * a.ring.agents + agent] & GV_VALID) != 0;
        bool goes_on = valid;
        float reward = 0.0f, discount = 0.0f;
        for (gv_i32 step = 0; goes_on && step < a.ring.n_steps; ++step) {
            const gv_i64 here = place * a.ring.agents + agent;
            const gv_i32 flags = a.ring.flags[here];
            reward += a.gammas[step] * a.ring.reward[here];
            gv_i64 next = place + a.ring.samples;
            if (next >= round) next -= round;
            goes_on = (flags & GV_END) == 0;
            const bool limit = !goes_on && (flags & GV_LIMIT) != 0;
            if (limit || (goes_on && step + 1 == a.ring.n_steps)) {
                discount = a.gammas[step + 1];
                ahead = limit ? 2 * place + 1 : 2 * next;
            }
            place = next;
        }
        a.valid[at] = valid;
        a.reward[at] = reward;
        a.discount[at] = discount;
        a.ahead[at] = discount != 0.0f ? ahead : -1;
    }
}

// Twice the place from which an agent's inputs of a part are taken, plus 1 for final observations; -1 if it has none. Agent -1
// stands for all agents of the transition.
GV_FN gv_i64 gv_source(const GvArgs& a, const GvBatchPart& part, gv_i64 row, gv_i64 agent) {
    const gv_i64 from = agent < 0 ? 0 : agent, to = agent < 0 ? a.ring.agents : agent + 1;
    for (gv_i64 each = from; each < to; ++each) {
        const gv_i64 at = row * a.ring.agents + each;
        const gv_i64 source = part.is_next != 0 ? a.ahead[at] : a.valid[at] != 0 ? 2 * a.place[row] : -1;
        if (source >= 0) return source;
    }
    return -1;
}

// Gathers numbers of a part; a team has a tile of them. Numbers are of one or four bytes.
template <class T>
GV_FN void gv_gather_part(const GvArgs& a, const GvLanes& team, const GvBatchPart& part, gv_i64 first) {
    const gv_i64 units = part.by_agent != 0 ? a.ring.agents : 1, of_row = units * part.width, rest = a.rows * of_row - first;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 row = gv_over(first + i, of_row), at = first + i - row * of_row;
        const gv_i64 source = gv_source(a, part, row, part.by_agent != 0 ? gv_over(at, part.width) : -1);
        const T* const from = (const T*)((source & 1) != 0 ? part.final_ring : part.ring);
        ((T*)part.to)[first + i] = source < 0 || from == nullptr ? (T)part.otherwise : from[(source >> 1) * of_row + at];
    }
}

GV_FN void gv_gather_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    gv_i32 k = 0;
    while (tile >= a.parts[k].end_tile) ++k;
    const GvBatchPart& part = a.parts[k];
    const gv_i64 first = (gv_i64)(k == 0 ? tile : tile - a.parts[k - 1].end_tile) * GV_TILE;
    if (part.bytes == 4) gv_gather_part<gv_u32>(a, team, part, first);
    else gv_gather_part<gv_u8>(a, team, part, first);
}

// Priorities of errors: (|error| + epsilon)^exponent (Schaul et al. 2016, section 3.3); the largest one if that is not finite.
// Transitions without an agent that counts keep theirs.
GV_FN void gv_priorities_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = a.rows - first;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 row = first + i;
        bool counts = false;
        for (gv_i32 agent = 0; agent < a.ring.agents; ++agent) counts |= a.valid[row * a.ring.agents + agent] != 0;
        const float priority = gv_pow(gv_abs(a.error[row]) + a.epsilon, a.exponent);
        const float positive = priority < 3.0e38f ? gv_max(priority, 1.0e-37f) : *a.largest;
        a.priorities[row] = counts ? positive : a.ring.priority[a.place[row]];
    }
}

GV_PLAIN_KERNEL(gv_replay_draw, gv_draw_tile)
GV_PLAIN_KERNEL(gv_replay_follow, gv_follow_tile)
GV_PLAIN_KERNEL(gv_replay_gather, gv_gather_tile)
GV_PLAIN_KERNEL(gv_replay_priorities, gv_priorities_tile)
