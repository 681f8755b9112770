// Neighbours of one agent among many: agents are sorted by the cells of a square, and a search scans the cells near the agent.
//
// The work grows with the number of agents and not with its square, unless all agents stand in one place. The cells around an
// agent are scanned first, and farther ones until k neighbours are found. Their distances give a bound, and the cells that it
// reaches are scanned last.
#pragma once
#include "lib/nearest.h"

#define GV_MAX_SIDE 32     // most cells along a side of the square
#define GV_MAX_CELLS (GV_MAX_SIDE * GV_MAX_SIDE + 1)  // one more for unseen agents
#define GV_MAX_PICKED 20   // agents picked before they are inserted into the list
// Number of cells that together hold about k agents. With larger cells a search enters fewer lines of cells; with smaller cells it
// measures fewer agents. Lines are the larger cost for a warp, agents for a single lane.
#define GV_CELLS_OF_K (GV_ONE_LANE ? 6 : 3)

struct GvCellGrid {
    gv_i32 side;                 // cells along a side
    float max_cell, per_length;  // side - 1; cells per unit of length
    gv_i32* end;                 // [side * side + 1] one past the index of a cell's last agent in `order`
    gv_u16* order;               // [agents] agents cell by cell, unseen ones last
};

// Cells of a square [0, length] x [0, length]. An agent outside belongs to the nearest cell.
GV_FN GvCellGrid gv_cell_grid(const GvCrowd& crowd, float length, gv_i32* end, gv_u16* order) {
    GvCellGrid grid;
    grid.side = 1;
    while (grid.side < GV_MAX_SIDE && crowd.k * (grid.side + 1) * (grid.side + 1) <= GV_CELLS_OF_K * crowd.agents) ++grid.side;
    grid.max_cell = (float)(grid.side - 1);
    grid.per_length = (float)grid.side / length;
    grid.end = end;
    grid.order = order;
    return grid;
}

// Number of the cell along one side in which a coordinate lies. It never falls as the coordinate rises, so the cells between those
// of two coordinates hold all agents between them, with any rounding. Bounds are applied before the conversion; NaN becomes 0.
GV_FN gv_i32 gv_cell_along(const GvCellGrid& grid, float coordinate) {
    return (gv_i32)gv_min(gv_max(0.0f, coordinate * grid.per_length), grid.max_cell);
}

GV_FN gv_i32 gv_cell_of(const GvCellGrid& grid, GvPlace place) {
    if (!gv_is_seen(place)) return grid.side * grid.side;
    return gv_cell_along(grid, place.value[1]) * grid.side + gv_cell_along(grid, place.value[0]);
}

// Counting sort of the agents by cell. Their order within a cell is arbitrary and changes no result. `sums` is [32].
GV_FN void gv_sort_by_cell(const GvTeam& team, const GvCrowd& crowd, const GvCellGrid& grid, gv_i32* sums) {
    const gv_i32 count = grid.side * grid.side + 1;
    GV_FOR(c, count) grid.end[c] = 0;
    gv_barrier(team);
    GV_FOR(i, crowd.agents) gv_fetch_add(&grid.end[gv_cell_of(grid, crowd.place[i])]);
    gv_barrier(team);
    GV_FOR(share, 32) {
        gv_i32 sum = 0;
        for (gv_i32 c = count * share / 32; c < count * (share + 1) / 32; ++c) sum += grid.end[c];
        sums[share] = sum;
    }
    gv_barrier(team);
    GV_FOR(share, 32) {  // counts become the indices at which cells start
        gv_i32 start = 0;
        for (gv_i32 before = 0; before < share; ++before) start += sums[before];
        for (gv_i32 c = count * share / 32; c < count * (share + 1) / 32; ++c) {
            const gv_i32 agents = grid.end[c];
            grid.end[c] = start;
            start += agents;
        }
    }
    gv_barrier(team);
    GV_FOR(i, crowd.agents) grid.order[gv_fetch_add(&grid.end[gv_cell_of(grid, crowd.place[i])])] = (gv_u16)i;
    gv_barrier(team);
}

// Index in `order` of a cell's first agent.
GV_FN gv_i32 gv_cell_start(const GvCellGrid& grid, gv_i32 cell) { return cell > 0 ? grid.end[cell - 1] : 0; }

// Cells from `left` to `right` in each line of cells from `bottom` to `top`.
struct GvCellRange {
    gv_i32 left, right, bottom, top;
};

// Cells up to `around` away from the cell (x, y).
GV_FN GvCellRange gv_range_around(const GvCellGrid& grid, gv_i32 x, gv_i32 y, gv_i32 around) {
    const gv_i32 max_cell = grid.side - 1;
    const GvCellRange range = {x > around ? x - around : 0, x + around < max_cell ? x + around : max_cell,
                               y > around ? y - around : 0, y + around < max_cell ? y + around : max_cell};
    return range;
}

// Cells that hold all agents nearer than a squared distance.
GV_FN GvCellRange gv_range_within(const GvCellGrid& grid, GvPlace me, float squared) {
    const float reach = gv_sqrt(squared) * 1.0001f + 1.0e-18f;  // a little more, for rounding
    const GvPlace low = {me.value[0] - reach, me.value[1] - reach}, high = {me.value[0] + reach, me.value[1] + reach};
    const GvCellRange range = {gv_cell_along(grid, low.value[0]), gv_cell_along(grid, high.value[0]),
                               gv_cell_along(grid, low.value[1]), gv_cell_along(grid, high.value[1])};
    return range;
}

// The search of one agent.
struct GvCellSearch {
    GvPlace me;
    float bound;  // only agents nearer than this can be among the k
    gv_i32 self, picks;
};

GV_FN void gv_insert_picked(const GvCrowd& crowd, GvCellSearch& search, const gv_u16* picked, GvNearest& nearest) {
    const bool in_order = false;  // cells are scanned in any order
    GV_LOOP for (gv_i32 p = 0; p < search.picks; ++p) {
        gv_insert(nearest, crowd.k, gv_squared_distance(search.me, crowd.place[picked[p]]), picked[p], in_order);
    }
    search.picks = 0;
    search.bound = gv_min(search.bound, gv_above(nearest.distance[crowd.k - 1]));
}

// Scans the agents of a range of cells, except those of a range that was scanned before. A single loop goes through all lines of
// cells, so that the lanes of a warp stay together and insert their picked agents together.
GV_FN void gv_search_range(const GvCrowd& crowd, const GvCellGrid& grid, GvCellSearch& search, gv_u16* picked, GvNearest& nearest,
                           GvCellRange range, GvCellRange scanned) {
    gv_i32 line = range.bottom, p, end, skip_start, skip_count;
    const auto enter = [&]() {
        const bool crosses = (line >= scanned.bottom) & (line <= scanned.top);
        p = gv_cell_start(grid, line * grid.side + range.left);
        end = grid.end[line * grid.side + range.right];
        skip_start = crosses ? gv_cell_start(grid, line * grid.side + scanned.left) : 0;
        skip_count = crosses ? grid.end[line * grid.side + scanned.right] - skip_start : 0;
    };
    enter();
    GV_LOOP do {
        GV_LOOP while (line <= range.top && search.picks < GV_MAX_PICKED) {
            if ((gv_u32)(p - skip_start) < (gv_u32)skip_count) p = skip_start + skip_count;
            if (p < end) {
                const gv_i32 j = grid.order[p];
                const bool nearer = gv_squared_distance(search.me, crowd.place[j]) < search.bound;
                if (nearer & (j != search.self)) picked[search.picks++] = (gv_u16)j;
            }
            if (++p >= end && ++line <= range.top) enter();
        }
        gv_insert_picked(crowd, search, picked, nearest);
    } while (line <= range.top);
}

// Finds the neighbours of agent i, which must be seen. `nearest` must be clear.
GV_FN void gv_search_cells(const GvCrowd& crowd, const GvCellGrid& grid, gv_i32 i, GvNearest& nearest) {
    gv_u16 picked[GV_MAX_PICKED];  // outside GvCellSearch, which stays in registers
    GvCellSearch search = {crowd.place[i], GV_FAR, i, 0};
    const gv_i32 x = gv_cell_along(grid, search.me.value[0]), y = gv_cell_along(grid, search.me.value[1]);
    GvCellRange scanned = {0, 0, 1, 0};  // no cell
    bool enough = false, done = false;
    GV_LOOP for (gv_i32 around = 1; !done; around *= 2) {
        GvCellRange range = gv_range_around(grid, x, y, around);
        if (enough) range = gv_range_within(grid, search.me, search.bound);
        gv_search_range(crowd, grid, search, picked, nearest, range, scanned);
        done = enough || around >= grid.side - 1;  // the last range, or all cells
        enough = nearest.distance[crowd.k - 1] < GV_FAR;
        scanned = range;
    }
}
