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
#define MAX_PICKED 32   // agents picked before they are sorted in
#define MAX_STAGED 1536 // up to this many agents, all that is observed of them is staged in scratch; positions always are
#define MIN_GRID 160    // from this many agents on, a grid pays
#define MAX_SIDE 32     // cells along its side

#define GRID_CELLS(agents) ((agents) < MIN_GRID ? 0 : MAX_SIDE * MAX_SIDE)
#define SCRATCH_FLOATS(agents) \
    (((agents) <= MAX_STAGED ? 5 : 2) * (agents) + GRID_CELLS(agents) + (GRID_CELLS(agents) ? ((agents) + 1) / 2 : 0))

#include "gv_env.h"

// What a team shares while it observes.
struct Scratch {
    float* x;
    float* y;
    float* more;    // speeds, accelerations and directions, where staged
    gv_i32* end;    // [cells] one past a cell's last agent in `order`
    gv_u16* order;  // [agents in the game] cell by cell
};

GV_FN Scratch scratch_of(const GvTeam& team, gv_i32 agents) {
    Scratch s;
    s.x = team.scratch;
    s.y = s.x + agents;
    s.more = s.y + agents;
    s.end = (gv_i32*)(s.more + (agents <= MAX_STAGED ? 3 * agents : 0));
    s.order = (gv_u16*)(s.end + GRID_CELLS(agents));
    return s;
}

// ---- the grid -------------------------------------------------------------------------------------------------

struct Grid {
    gv_i32 side;
    float length, per_length;
};

// Cells of a size that nine hold about half as many agents again as are looked for.
GV_FN Grid grid_of(const GvArgs& a) {
    const gv_i32 k = gv_num_other_agents_observed(a);
    Grid grid;
    grid.side = 1;
    while (grid.side < MAX_SIDE && k * (grid.side + 1) * (grid.side + 1) <= 6 * gv_num_agents(a)) ++grid.side;
    grid.length = a.grid_length;
    grid.per_length = (float)grid.side / a.grid_length;
    return grid;
}

// Row or column of cells in which a coordinate lies: never falls as the coordinate rises, so cells between those of two
// coordinates hold all agents between them, rounding or not.
GV_FN gv_i32 cell_of(const Grid& grid, float coordinate) {
    const gv_i32 cell = (gv_i32)(gv_clamp(coordinate, 0.0f, grid.length) * grid.per_length);
    return cell < grid.side ? cell : grid.side - 1;
}

// Sort the agents in the game by cell. Their order within a cell is left to chance and changes no result.
GV_FN void sort_by_cell(const GvArgs& a, const GvTeam& team, const Scratch& s, const Grid& grid) {
    const gv_i32 agents = gv_num_agents(a), cells = grid.side * grid.side;
    gv_i32* sums = (gv_i32*)team.slots;
    GV_FOR(c, cells) s.end[c] = 0;
    gv_barrier(team);
    GV_FOR(i, agents) if (s.x[i] < FAR) gv_ticket(&s.end[cell_of(grid, s.y[i]) * grid.side + cell_of(grid, s.x[i])]);
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
    GV_FOR(i, agents) if (s.x[i] < FAR) {
        s.order[gv_ticket(&s.end[cell_of(grid, s.y[i]) * grid.side + cell_of(grid, s.x[i])])] = (gv_u16)i;
    }
    gv_barrier(team);
}

// ---- the search -----------------------------------------------------------------------------------------------

struct Search {
    float x, y;
    float limit;  // only agents nearer than this can be among the k
    gv_i32 self, picks;
    float distance[MAX_SORTED];
    gv_i32 found[MAX_SORTED];
};

// A bound that all distances up to `distance` stay below.
GV_FN float above(float distance) { return distance * 1.000001f + 1.0e-37f; }

GV_FN float squared_distance(const Scratch& s, const Search& q, gv_i32 j) {
    const float dx = s.x[j] - q.x, dy = s.y[j] - q.y;
    return dx * dx + dy * dy;
}

// Sort the picked ones into the k nearest so far. In a grid they do not come in the order of indices.
GV_FN void sort_in(const Scratch& s, Search& q, const gv_u16* pick, gv_i32 k, bool by_cell) {
    GV_LOOP for (gv_i32 p = 0; p < q.picks; ++p) {
        gv_i32 index = pick[p];
        float here = squared_distance(s, q, index);
        bool first = false;
        GV_UNROLL for (gv_i32 slot = 0; slot < k; ++slot) {
            const float distance = q.distance[slot];
            const gv_i32 found = q.found[slot];
            first = first | (here < distance) | (by_cell & (here == distance) & (index < found));
            q.distance[slot] = first ? here : distance;
            q.found[slot] = first ? index : found;
            here = first ? distance : here;  // the rest of the list moves one on
            index = first ? found : index;
        }
    }
    q.picks = 0;
    q.limit = gv_min(q.limit, by_cell ? above(q.distance[k - 1]) : q.distance[k - 1]);
}

GV_FN void consider(const Scratch& s, Search& q, gv_u16* pick, gv_i32 k, gv_i32 j, bool by_cell) {
    if ((squared_distance(s, q, j) < q.limit) & (j != q.self)) {
        pick[q.picks++] = (gv_u16)j;
        if (q.picks == MAX_PICKED) sort_in(s, q, pick, k, by_cell);
    }
}

// The cells of one row, from column `left` to `right`.
GV_FN void consider_cells(const Scratch& s, const Grid& grid, Search& q, gv_u16* pick, gv_i32 k, gv_i32 row, gv_i32 left,
                          gv_i32 right) {
    if (left > right) return;
    const gv_i32 first = row * grid.side + left, end = s.end[row * grid.side + right];
    GV_LOOP for (gv_i32 p = first > 0 ? s.end[first - 1] : 0; p < end; ++p) consider(s, q, pick, k, s.order[p], true);
}

// Find the k nearest of agent i and write their indices over those of last time; NOBODY where there are fewer, and
// for an agent that nobody sees.
GV_FN void find_nearest(const GvArgs& a, const Scratch& s, const Grid& grid, gv_i32 i, gv_i32 k, gv_u16* near) {
    const gv_i32 agents = gv_num_agents(a);
    const bool by_cell = agents >= MIN_GRID;
    Search q;
    gv_u16 pick[MAX_PICKED];  // apart from the rest, which stays in registers
    q.x = s.x[i];
    q.y = s.y[i];
    q.self = i;
    q.picks = 0;
    q.limit = 0.0f;
    GV_UNROLL for (gv_i32 slot = 0; slot < k; ++slot) {
        const gv_i32 j = near[slot];
        if (!by_cell) q.limit = gv_max(q.limit, j < agents ? squared_distance(s, q, j) : FAR);
        q.distance[slot] = FAR;
        q.found[slot] = NOBODY;
    }
    q.limit = !by_cell && q.limit < FAR ? above(q.limit) : FAR;
    if (!(q.x < FAR)) q.limit = 0.0f;
    if (!by_cell) {
        for (gv_i32 j = 0; j < agents; ++j) consider(s, q, pick, k, j, false);
    } else if (q.x < FAR) {
        const gv_i32 x = cell_of(grid, q.x), y = cell_of(grid, q.y), last = grid.side - 1;
        gv_i32 left = 0, right = last, bottom = 0, top = last;
        GV_LOOP for (gv_i32 around = 1; !(q.distance[k - 1] < FAR) && around <= 2 * grid.side; around *= 2) {
            GV_UNROLL for (gv_i32 slot = 0; slot < k; ++slot) {  // too few in a smaller block: start anew
                q.distance[slot] = FAR;
                q.found[slot] = NOBODY;
            }
            left = x > around ? x - around : 0;
            right = x + around < last ? x + around : last;
            bottom = y > around ? y - around : 0;
            top = y + around < last ? y + around : last;
            GV_LOOP for (gv_i32 row = bottom; row <= top; ++row) consider_cells(s, grid, q, pick, k, row, left, right);
            sort_in(s, q, pick, k, true);
        }
        const float reach = gv_sqrt(q.limit) * 1.0001f + 1.0e-18f;  // the rest is for rounding
        const gv_i32 far_left = cell_of(grid, q.x - reach), far_right = cell_of(grid, q.x + reach);
        const gv_i32 far_top = cell_of(grid, q.y + reach);
        GV_LOOP for (gv_i32 row = cell_of(grid, q.y - reach); row <= far_top; ++row) {
            const bool seen = row >= bottom && row <= top;  // but for its ends
            consider_cells(s, grid, q, pick, k, row, far_left, seen ? left - 1 : far_right);
            if (seen) consider_cells(s, grid, q, pick, k, row, right + 1, far_right);
        }
    }
    sort_in(s, q, pick, k, by_cell);
    GV_UNROLL for (gv_i32 slot = 0; slot < k; ++slot) near[slot] = (gv_u16)q.found[slot];
}
