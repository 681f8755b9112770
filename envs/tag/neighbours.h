// The nearest agents of an agent, ordered by squared float32 distance, equals by index.
//
// Agents are sorted into the cells of a grid. The agents of the nine cells around one are sorted in first; the distance of
// the k-th of them bounds that of the k-th nearest, so that of the cells within its reach only the few agents nearer than
// that are left to sort in. The work grows with the number of agents and not with its square, unless all stand in one place.
#pragma once

#define FAR 3.0e38f      // farther than anyone; also the place of agents that nobody sees
#define NOBODY 0xFFFF
#define MAX_SORTED 32    // up to this many neighbours are sorted in registers; more are found one scan each
#define MAX_STAGED 1024  // up to this many agents, all that is observed of them is staged in scratch; positions always are
#define MIN_GRID 48      // from this many agents on, a grid pays
#define MAX_SIDE 32      // cells along its side

#define GRID_CELLS(agents) ((agents) < MIN_GRID ? 0 : MAX_SIDE * MAX_SIDE + 1)
#define SCRATCH_FLOATS(agents, lanes, k) \
    (((agents) <= MAX_STAGED ? 5 : 2) * (agents) + GRID_CELLS(agents) + ((agents) + 1) / 2 + ((lanes) * (k) + 1) / 2)
#define MAX_SCRATCH 12160  // floats: 48 KiB, less what gv_sum needs

#include "gv_env.h"

// What a team shares while it observes.
struct Scratch {
    float* x;
    float* y;
    float* more;    // speeds, accelerations and directions, where staged
    gv_i32* end;    // [cells + 1] one past a cell's last agent in `order`; agents that nobody sees come last
    gv_u16* order;  // [agents] cell by cell
    gv_u16* near;   // [lanes, k] nearest of the agents that are looked for at the moment
};

GV_FN Scratch scratch_of(const GvArgs& a, const GvTeam& team) {
    const gv_i32 agents = gv_num_agents(a);
    Scratch s;
    s.x = team.scratch;
    s.y = s.x + agents;
    s.more = s.y + agents;
    s.end = (gv_i32*)(s.more + (agents <= MAX_STAGED ? 3 * agents : 0));
    s.order = (gv_u16*)(s.end + GRID_CELLS(agents));
    s.near = s.order + 2 * ((agents + 1) / 2);
    return s;
}

// ---- the grid -------------------------------------------------------------------------------------------------

struct Grid {
    gv_i32 side;
    float length, per_length;
};

// Cells of a size that nine hold about half as many agents again as are looked for.
GV_FN Grid grid_of(const GvArgs& a) {
    const gv_i32 agents = gv_num_agents(a), k = gv_num_other_agents_observed(a);
    Grid grid;
    grid.side = 1;
    while (grid.side < MAX_SIDE && k * (grid.side + 1) * (grid.side + 1) <= 6 * agents) ++grid.side;
    grid.length = a.grid_length;
    grid.per_length = (float)grid.side / a.grid_length;
    return grid;
}

// Row or column of cells in which a coordinate lies: it never falls as the coordinate rises, so the cells from that of one
// coordinate to that of another hold all agents between them, rounding or not.
GV_FN gv_i32 cell_of(const Grid& grid, float coordinate) {
    const gv_i32 cell = (gv_i32)(gv_clamp(coordinate, 0.0f, grid.length) * grid.per_length);
    return cell < grid.side ? cell : grid.side - 1;
}

GV_FN gv_i32 cell_of_agent(const Scratch& s, const Grid& grid, gv_i32 i) {
    return s.x[i] < FAR ? cell_of(grid, s.y[i]) * grid.side + cell_of(grid, s.x[i]) : grid.side * grid.side;
}

// Sort the agents by cell. Their order within a cell is left to chance and changes no result.
GV_FN void sort_by_cell(const GvArgs& a, const GvTeam& team, const Scratch& s, const Grid& grid) {
    const gv_i32 agents = gv_num_agents(a), cells = grid.side * grid.side + 1;
    gv_i32* sums = (gv_i32*)team.slots;
    GV_FOR(c, cells) s.end[c] = 0;
    gv_barrier(team);
    GV_FOR(i, agents) gv_ticket(&s.end[cell_of_agent(s, grid, i)]);
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
    GV_FOR(i, agents) s.order[gv_ticket(&s.end[cell_of_agent(s, grid, i)])] = (gv_u16)i;
    gv_barrier(team);
}

// ---- the search -----------------------------------------------------------------------------------------------

struct Search {
    float x, y;
    gv_i32 self;
    float distance[MAX_SORTED];
    gv_i32 found[MAX_SORTED];
};

// Sort agent j in if it is among the k nearest so far.
GV_FN void consider(const Scratch& s, Search& q, gv_i32 k, gv_i32 j) {
    const float dx = s.x[j] - q.x, dy = s.y[j] - q.y;
    float here = dx * dx + dy * dy;
    if (here <= q.distance[k - 1] && here < FAR && j != q.self) {
        gv_i32 index = j;
        GV_UNROLL for (gv_i32 slot = 0; slot < k; ++slot) {
            const bool first = here < q.distance[slot] || (here == q.distance[slot] && index < q.found[slot]);
            const float distance = q.distance[slot];  // what does not come first moves on
            const gv_i32 found = q.found[slot];
            q.distance[slot] = first ? here : distance;
            q.found[slot] = first ? index : found;
            here = first ? distance : here;
            index = first ? found : index;
        }
    }
}

// The cells of one row, from column `left` to `right`.
GV_FN void consider_cells(const Scratch& s, const Grid& grid, Search& q, gv_i32 k, gv_i32 row, gv_i32 left, gv_i32 right) {
    if (left > right) return;
    const gv_i32 first = row * grid.side + left;
    const gv_i32 end = s.end[row * grid.side + right];
    for (gv_i32 p = first > 0 ? s.end[first - 1] : 0; p < end; ++p) consider(s, q, k, s.order[p]);
}

// Find the k nearest of agent i, and write their indices; NOBODY where there are fewer.
GV_FN void find_nearest(const GvArgs& a, const Scratch& s, const Grid& grid, gv_i32 i, gv_i32 k, gv_u16* near) {
    const gv_i32 agents = gv_num_agents(a);
    Search q;
    q.x = s.x[i];
    q.y = s.y[i];
    q.self = i;
    GV_UNROLL for (gv_i32 slot = 0; slot < k; ++slot) {
        q.distance[slot] = FAR;
        q.found[slot] = NOBODY;
    }
    if (q.x < FAR && agents < MIN_GRID) {
        for (gv_i32 j = 0; j < agents; ++j) consider(s, q, k, j);
    } else if (q.x < FAR) {
        const gv_i32 x = cell_of(grid, q.x), y = cell_of(grid, q.y), last = grid.side - 1;
        const gv_i32 left = x > 0 ? x - 1 : 0, right = x < last ? x + 1 : last;
        const gv_i32 bottom = y > 0 ? y - 1 : 0, top = y < last ? y + 1 : last;
        for (gv_i32 row = bottom; row <= top; ++row) consider_cells(s, grid, q, k, row, left, right);
        const float reach = gv_sqrt(q.distance[k - 1]) * 1.0001f + 1.0e-18f;  // the rest is for rounding
        const gv_i32 far_left = cell_of(grid, q.x - reach), far_right = cell_of(grid, q.x + reach);
        const gv_i32 far_top = cell_of(grid, q.y + reach);
        for (gv_i32 row = cell_of(grid, q.y - reach); row <= far_top; ++row) {
            const bool seen = row >= bottom && row <= top;  // but for its ends
            consider_cells(s, grid, q, k, row, far_left, seen ? left - 1 : far_right);
            if (seen) consider_cells(s, grid, q, k, row, right + 1, far_right);
        }
    }
    GV_UNROLL for (gv_i32 slot = 0; slot < k; ++slot) near[slot] = (gv_u16)q.found[slot];
}
