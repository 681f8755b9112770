// The nearest agents of each agent, ordered by squared float32 distance, equals by index.
//
// Sorting costs most, so a bound of the distance of the k-th nearest is found first, a cheap scan picks the few agents within
// it, and only those are sorted. A bound that is too wide costs time and nothing else.
//   Few agents: everybody's neighbours of the last observation, measured anew; the scan is of all agents.
//   Many: the k-th nearest in the cells of a grid next to an agent; the scan is of the cells that the bound reaches,
//   so that the work grows with the number of agents and not with its square, unless all stand in one place.
#pragma once

#define FAR 3.0e38f     // farther than anyone; also the place of agents that nobody sees
#define NOBODY 0xFFFF
#define MAX_SORTED 32   // up to this many neighbours are sorted in registers; more are found one scan each
#define MAX_PICKED 20   // agents of a grid picked before they are sorted in
#define MAX_STAGED 1024 // up to this many agents, all that is observed of them is staged in scratch; positions always are
#define MIN_GRID 416    // from this many agents on, a grid pays; whole words of a mask
#define MAX_ALONE 1024  // up to this many, none does for a lane that is alone with its world (alone.h)
#define MAX_SIDE 32     // cells along its side
#define FINENESS (GV_ONE_LANE ? 6 : 3)  // cells that together hold about as many agents as are looked for
#define WORDS (MIN_GRID / 32)  // of a mask of agents without a grid

#ifdef GV_num_other_agents_observed
#define MAX_OBSERVED (GV_num_other_agents_observed < MAX_SORTED ? GV_num_other_agents_observed : MAX_SORTED)
#else
#define MAX_OBSERVED MAX_SORTED
#endif
#define SCRATCH_PLACES(agents) (((agents) + 1) / 2 * 2)  // two are read at a time
#define GRID_CELLS(agents) ((agents) < MIN_GRID ? 0 : MAX_SIDE * MAX_SIDE + 1)  // the last is for agents that nobody sees
#define SCRATCH_FLOATS(agents)                                                                          \
    (4 + 2 * SCRATCH_PLACES(agents) + ((agents) <= MAX_STAGED ? 5 * (agents) : 0) + GRID_CELLS(agents) \
     + ((agents) < MIN_GRID ? ((agents) * MAX_OBSERVED + 1) / 2 : ((agents) + 1) / 2))

#include "hooks.h"

typedef GvVec<float, 2> Pair;  // read in one access
typedef GvVec<float, 4> Quad;

// Of a world.
struct Head {
    gv_i32 tags;  // of the step
    float time;   // as agents in the game observe it
};

// What a team shares while it steps and observes.
struct Scratch {
    Head* head;
    Pair* place;     // FAR of agents that nobody sees
    Quad* more;      // speed, acceleration, direction, type; where staged
    float* reward;   // before tags; where staged
    gv_i32* end;     // [cells + 1] one past a cell's last agent in `order`
    gv_u16* order;   // [agents] cell by cell, those that nobody sees last
    gv_u16* near;    // [agents, neighbours observed], without a grid
    gv_u16* caught;  // [tags] who caught somebody, in the place of those two
};

GV_FN Scratch scratch_of(const GvTeam& team, gv_i32 agents) {
    const gv_i32 staged = agents <= MAX_STAGED ? agents : 0;
    Scratch s;
    s.head = (Head*)team.scratch;
    s.place = (Pair*)(team.scratch + 4);
    s.more = (Quad*)(s.place + SCRATCH_PLACES(agents));
    s.reward = (float*)(s.more + staged);
    s.end = (gv_i32*)(s.reward + staged);
    s.order = s.near = s.caught = (gv_u16*)(s.end + GRID_CELLS(agents));
    return s;
}

// 1 of a tagger, 0 of a runner and -1 of an agent that left.
GV_FN float type_of(const GvArgs& a, gv_i32 i, bool alive) { return !alive ? -1.0f : i < gv_num_taggers(a) ? 1.0f : 0.0f; }

GV_FN Quad more_of(const GvArgs& a, gv_i32 w, gv_i32 i) {
    const gv_i64 me = (gv_i64)w * gv_num_agents(a) + i;
    const Quad more = {a.speed[me], a.acceleration[me], a.direction[me], type_of(a, i, a.alive[me] != 0)};
    return more;
}

GV_FN float squared_distance(Pair here, Pair there) {
    const float dx = there.value[0] - here.value[0], dy = there.value[1] - here.value[1];
    return dx * dx + dy * dy;
}

GV_FN bool is_seen(Pair place) { return place.value[0] < FAR; }

// A bound that all distances up to `distance` stay below.
GV_FN float above(float distance) { return distance * 1.000001f + 1.0e-37f; }

// ---- the k nearest so far -------------------------------------------------------------------------------------

struct Nearest {
    float distance[MAX_SORTED];
    gv_i32 agent[MAX_SORTED];
};

GV_FN void forget(Nearest& nearest, gv_i32 k) {
    GV_UNROLL for (gv_i32 slot = 0; slot < k; ++slot) {
        nearest.distance[slot] = FAR;
        nearest.agent[slot] = NOBODY;
    }
}

// Whether an agent comes before the one at `slot`. Agents that come in the order of their indices need not compare them.
GV_FN bool precedes(const Nearest& nearest, gv_i32 slot, float distance, gv_i32 agent, bool in_order) {
    const float there = nearest.distance[slot];
    return (distance < there) | (!in_order & (distance == there) & (agent < nearest.agent[slot]));
}

GV_FN void insert(Nearest& nearest, gv_i32 k, float distance, gv_i32 agent, bool in_order) {
    bool here = precedes(nearest, k - 1, distance, agent, in_order);
    GV_UNROLL for (gv_i32 slot = k - 1; slot >= 0; --slot) {  // those behind it move one on
        const bool before = slot > 0 && precedes(nearest, slot > 0 ? slot - 1 : 0, distance, agent, in_order);
        const float last_distance = slot > 0 ? nearest.distance[slot > 0 ? slot - 1 : 0] : distance;
        const gv_i32 last_agent = slot > 0 ? nearest.agent[slot > 0 ? slot - 1 : 0] : agent;
        const float moved = before ? last_distance : distance;
        const gv_i32 mover = before ? last_agent : agent;
        nearest.distance[slot] = here ? moved : nearest.distance[slot];
        nearest.agent[slot] = here ? mover : nearest.agent[slot];
        here = before;
    }
}

// ---- few agents: all are looked at ----------------------------------------------------------------------------

// Which of up to 32 places, an even number, are closer than a bound: a bit each.
GV_FN gv_u32 closer_than(float bound, Pair me, const Pair* places, gv_i32 count) {
    return gv_signs(count < 32 ? count : 32, [&](gv_i32 i, float& first, float& second) {
        const Quad two = *(const Quad*)(places + i);
        const Pair one = {two.value[0], two.value[1]}, next = {two.value[2], two.value[3]};
        first = squared_distance(me, one) - bound;
        second = squared_distance(me, next) - bound;
    });
}

// Whether each observes everybody else, so that there is nobody to leave out.
GV_FN bool observes_all(gv_i32 agents, gv_i32 k) { return k >= agents - 1; }

GV_FN void search_all(const Scratch& s, gv_i32 agents, gv_i32 i, const gv_u16* last, gv_i32 k, Nearest& nearest) {
    const Pair me = s.place[i];
    float bound = observes_all(agents, k) ? FAR : 0.0f;
    GV_UNROLL for (gv_i32 slot = 0; !observes_all(agents, k) && slot < k; ++slot) {
        const gv_i32 j = last[slot];
        bound = gv_max(bound, j < agents ? squared_distance(me, s.place[j]) : FAR);
    }
    bound = !is_seen(me) ? 0.0f : bound < FAR ? above(bound) : FAR;
    gv_u32 picked[WORDS];  // a bit an agent
    GV_UNROLL for (gv_i32 word = 0; word < WORDS; ++word) {
        const gv_u32 others = i / 32 == word ? ~(1u << i % 32) : ~0u;
        picked[word] = closer_than(bound, me, s.place + word * 32, SCRATCH_PLACES(agents) - word * 32) & others;
    }
    gv_i32 first = 0;
    const auto take = [&](gv_i32 slots) {  // one of them into the list, of which no more than `slots` are in use then
        if (picked[0] != 0) {
            const gv_i32 j = first + gv_lowest_bit(picked[0]);
            picked[0] &= picked[0] - 1;
            insert(nearest, slots, squared_distance(me, s.place[j]), j, true);
        }
        if (picked[0] == 0) {  // the next word, so that all lanes go through what they picked in one loop
            GV_UNROLL for (gv_i32 word = 1; word < WORDS; ++word) picked[word - 1] = picked[word];
            picked[WORDS - 1] = 0;
            first += 32;
        }
    };
    if (k >= 8) {
        GV_LOOP for (gv_i32 turn = 0; turn < k / 2 && first < agents; ++turn) take(k / 2);
    }
    GV_LOOP while (first < agents) take(k);
}

// Keep the nearest of an agent: agents of fewer than 2^16, two in one access where that can be.
GV_FN void put_nearest(gv_u16* to, const Nearest& nearest, gv_i32 k) {
    typedef GvVec<gv_u16, 2> Two;
    GV_UNROLL for (gv_i32 slot = 0; k % 2 == 0 && slot < k; slot += 2) {
        const Two two = {(gv_u16)nearest.agent[slot], (gv_u16)nearest.agent[slot + 1]};
        ((Two*)to)[slot / 2] = two;
    }
    GV_UNROLL for (gv_i32 slot = 0; k % 2 != 0 && slot < k; ++slot) to[slot] = (gv_u16)nearest.agent[slot];
}

// ---- the grid -------------------------------------------------------------------------------------------------

struct Grid {
    gv_i32 side;
    float last, per_length;  // side - 1, and cells per unit of length
};

// Larger cells are fewer rows to enter, smaller ones fewer agents to look at. Rows cost a warp more, agents a lane that is alone.
GV_FN Grid grid_of(const GvArgs& a) {
    const gv_i32 k = gv_num_other_agents_observed(a);
    Grid grid;
    grid.side = 1;
    while (grid.side < MAX_SIDE && k * (grid.side + 1) * (grid.side + 1) <= FINENESS * gv_num_agents(a)) ++grid.side;
    grid.last = (float)(grid.side - 1);
    grid.per_length = (float)grid.side / a.grid_length;
    return grid;
}

// Row or column of cells in which a coordinate lies: never falls as the coordinate rises, so cells between those of two
// coordinates hold all agents between them, rounding or not. The bounds come before the conversion; NaN becomes 0.
GV_FN gv_i32 cell_of(const Grid& grid, float coordinate) {
    return (gv_i32)gv_min(gv_max(0.0f, coordinate * grid.per_length), grid.last);
}

GV_FN gv_i32 cell_at(const Grid& grid, Pair place) {
    if (!is_seen(place)) return grid.side * grid.side;
    return cell_of(grid, place.value[1]) * grid.side + cell_of(grid, place.value[0]);
}

// Sort the agents by cell. Their order within a cell is left to chance and changes no result.
GV_FN void sort_by_cell(const GvArgs& a, const GvTeam& team, const Scratch& s, const Grid& grid) {
    const gv_i32 agents = gv_num_agents(a), cells = grid.side * grid.side + 1;
    gv_i32* sums = (gv_i32*)team.sums;
    GV_FOR(c, cells) s.end[c] = 0;
    gv_barrier(team);
    GV_FOR(i, agents) gv_fetch_add(&s.end[cell_at(grid, s.place[i])]);
    gv_barrier(team);
    GV_FOR(part, 32) {
        gv_i32 sum = 0;
        for (gv_i32 c = cells * part / 32; c < cells * (part + 1) / 32; ++c) sum += s.end[c];
        sums[part] = sum;
    }
    gv_barrier(team);
    GV_FOR(part, 32) {  // counts become the places where the cells start
        gv_i32 start = 0;
        for (gv_i32 before = 0; before < part; ++before) start += sums[before];
        for (gv_i32 c = cells * part / 32; c < cells * (part + 1) / 32; ++c) {
            const gv_i32 count = s.end[c];
            s.end[c] = start;
            start += count;
        }
    }
    gv_barrier(team);
    GV_FOR(i, agents) s.order[gv_fetch_add(&s.end[cell_at(grid, s.place[i])])] = (gv_u16)i;
    gv_barrier(team);
}

struct Search {
    Pair me;
    float bound;  // only agents nearer than this can be among the k
    gv_i32 self, picks;
};

GV_FN void sort_in(const Scratch& s, Search& q, const gv_u16* pick, gv_i32 k, Nearest& nearest) {
    GV_LOOP for (gv_i32 p = 0; p < q.picks; ++p) {
        insert(nearest, k, squared_distance(q.me, s.place[pick[p]]), pick[p], false);
    }
    q.picks = 0;
    q.bound = gv_min(q.bound, above(nearest.distance[k - 1]));
}

// Cells from column `left` to `right` and row `bottom` to `top`.
struct Block {
    gv_i32 left, right, bottom, top;
};

GV_FN Block block_between(const Grid& grid, Pair low, Pair high) {
    const Block block = {cell_of(grid, low.value[0]), cell_of(grid, high.value[0]), cell_of(grid, low.value[1]),
                         cell_of(grid, high.value[1])};
    return block;
}

// Where a cell's agents start in `order`.
GV_FN gv_i32 start_of(const Scratch& s, gv_i32 cell) { return cell > 0 ? s.end[cell - 1] : 0; }

// Agents in a block, but for those in a block seen before. A lane goes on to its next row in the turn in which one ends, so that
// all that share a warp go through their cells in one loop, and sort what they picked together.
GV_FN void search_block(const Scratch& s, const Grid& grid, Search& q, gv_u16* pick, gv_i32 k, Nearest& nearest, Block block,
                        Block seen) {
    gv_i32 row = block.bottom, p, end, skip, skipped;
    const auto enter = [&]() {
        const bool crosses = (row >= seen.bottom) & (row <= seen.top);
        p = start_of(s, row * grid.side + block.left);
        end = s.end[row * grid.side + block.right];
        skip = crosses ? start_of(s, row * grid.side + seen.left) : 0;
        skipped = crosses ? s.end[row * grid.side + seen.right] - skip : 0;
    };
    enter();
    GV_LOOP do {
        GV_LOOP while (row <= block.top && q.picks < MAX_PICKED) {
            if ((gv_u32)(p - skip) < (gv_u32)skipped) p = skip + skipped;
            if (p < end) {
                const gv_i32 j = s.order[p];
                if ((squared_distance(q.me, s.place[j]) < q.bound) & (j != q.self)) pick[q.picks++] = (gv_u16)j;
            }
            if (++p >= end && ++row <= block.top) enter();
        }
        sort_in(s, q, pick, k, nearest);
    } while (row <= block.top);
}

// The cells around an agent, further ones while they hold too few; then what else the bound reaches.
GV_FN void search_cells(const Scratch& s, const Grid& grid, gv_i32 i, gv_i32 k, Nearest& nearest) {
    gv_u16 pick[MAX_PICKED];  // apart from the rest, which stays in registers
    Search q = {s.place[i], FAR, i, 0};
    const gv_i32 x = cell_of(grid, q.me.value[0]), y = cell_of(grid, q.me.value[1]), last = grid.side - 1;
    Block seen = {0, 0, 1, 0};  // none
    bool enough = false, done = false;
    GV_LOOP for (gv_i32 around = 1; !done; around *= 2) {
        Block block = {x > around ? x - around : 0, x + around < last ? x + around : last, y > around ? y - around : 0,
                       y + around < last ? y + around : last};
        if (enough) {
            const float reach = gv_sqrt(q.bound) * 1.0001f + 1.0e-18f;  // the rest is for rounding
            const Pair low = {q.me.value[0] - reach, q.me.value[1] - reach}, high = {q.me.value[0] + reach, q.me.value[1] + reach};
            block = block_between(grid, low, high);
        }
        search_block(s, grid, q, pick, k, nearest, block, seen);
        done = enough || around >= last;  // all of them
        enough = nearest.distance[k - 1] < FAR;
        seen = block;
    }
}
