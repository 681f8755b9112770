// The k nearest other agents of every agent of a world, by squared float32 distance, equal distances by index.
//
//   GvNeighbours search = gv_neighbours(agents, k, length, place, memory, last, one_tile);
//   gv_find_neighbours(team, search);                             // all lanes
//   gv_each_neighbour(team, search, first, end, observer, body, finish);  // agents first .. end - 1
//
// The body is called for every rank below k; j is GV_NOBODY if agent i has no neighbour of that rank. The caller fills `place`
// first, and sets both coordinates of unseen agents to GV_FAR.
//
// The first search of this list that applies is used. The results do not depend on it:
//   nearest_serial.h  on the CPU, up to 1,024 agents
//   nearest_naive.h   more than 32 neighbours
//   nearest_cells.h   416 agents or more
//   nearest_scan.h    fewer agents
// Build flags choose others, for comparison: -DGV_NAIVE_SEARCH, -DGV_NO_SERIAL, -DGV_NO_BOUND and -DGV_MIN_CELLS=n.
#pragma once
#include "lib/nearest_naive.h"
#include "lib/nearest_scan.h"
#include "lib/nearest_cells.h"
#include "lib/rows.h"
#if defined(GV_PACK) && !defined(GV_NO_SERIAL) && !defined(GV_NAIVE_SEARCH)  // only the host with one lane defines GV_PACK
#define GV_SERIAL
#include "lib/nearest_serial.h"
#endif

#ifndef GV_MIN_CELLS
#define GV_MIN_CELLS 416  // cells are faster for at least so many agents; a multiple of 32
#endif

// Floats of `memory` that a search needs.
GV_FN constexpr gv_i32 gv_neighbours_floats(gv_i32 agents, gv_i32 k) {
    return agents >= GV_MIN_CELLS ? GV_MAX_CELLS + (agents + 1) / 2
                                  : (agents * (k < GV_MAX_SORTED ? k : GV_MAX_SORTED) + 1) / 2;
}

struct GvNeighbours {
    GvCrowd crowd;
    GvCellGrid grid;  // if cells are used
    gv_u16* last;   // [agents, k] neighbours found by the last search
    gv_u16* found;  // [agents, k] neighbours found by this one
    bool naive, by_cell, serial;
    bool at_once;  // each lane has one agent, calls the body for it and keeps its list in registers
};

// `length` is the side of the square that holds the agents. `memory` is scratch of gv_neighbours_floats(agents, k). `last` is
// [agents, k] of a workspace, filled with GV_NOBODY at first; its content changes the time of a search only. `one_tile` may be
// true only if gv_each_neighbour will be called once, for all agents.
GV_FN GvNeighbours gv_neighbours(gv_i32 agents, gv_i32 k, float length, const GvPlace* place, float* memory, gv_u16* last,
                                 bool one_tile) {
    GvNeighbours search;
    search.crowd = {agents, k, place};
    search.serial = false;
#ifdef GV_SERIAL
    search.serial = agents <= GV_MAX_SERIAL;
#endif
    search.naive = !search.serial && k > GV_MAX_SORTED;
#ifdef GV_NAIVE_SEARCH
    search.naive = true;
#endif
    search.by_cell = !search.naive && !search.serial && agents >= GV_MIN_CELLS;
    search.at_once = !search.naive && !search.serial && one_tile && agents <= 32;
    search.last = last;
    search.found = search.by_cell ? last : (gv_u16*)memory;  // cells need no last neighbours, so `last` keeps the result
    if (search.by_cell) search.grid = gv_cell_grid(search.crowd, length, (gv_i32*)memory, (gv_u16*)(memory + GV_MAX_CELLS));
    return search;
}

// Finds the neighbours of one agent, by cell or by a scan.
GV_FN void gv_search(const GvNeighbours& search, gv_i32 i, GvNearest& nearest) {
    const gv_i32 k = search.crowd.k;
    gv_clear(nearest, k);
    if (!search.by_cell) gv_search_all<GV_MIN_CELLS / 32>(search.crowd, i, search.last + i * k, nearest);
    else if (gv_is_seen(search.crowd.place[i])) gv_search_cells(search.crowd, search.grid, i, nearest);
    if (!search.by_cell && !gv_sees_all(search.crowd)) gv_keep(search.last + i * k, nearest, k);  // for the next bound
}

// Finds all neighbours and ends with a barrier, unless gv_each_neighbour finds them. The caller needs a barrier before it.
GV_FN void gv_find_neighbours(const GvTeam& team, const GvNeighbours& search) {
    const bool here = !(search.naive || search.serial || search.at_once);
    if (search.by_cell) gv_sort_by_cell(team, search.crowd, search.grid, (gv_i32*)team.sums);
    GV_FOR(p, here ? search.crowd.agents : 0) {
        const gv_i32 i = search.by_cell ? search.grid.order[p] : p;  // adjacent lanes scan the same cells
        GvNearest nearest;
        gv_search(search, i, nearest);
        gv_keep(search.found + i * search.crowd.k, nearest, search.crowd.k);
    }
    if (here) gv_barrier(team);
}

// Calls body(observer(i), rank, j) for the neighbours j of each agent i, and finish(observer(i)) for each agent. observer(i)
// returns the data of agent i that both need; it is called once if one lane goes through all neighbours of the agent.
template <class Observer, class Body, class Finish>
GV_FN void gv_each_neighbour(const GvTeam& team, const GvNeighbours& search, gv_i32 first, gv_i32 end, Observer observer, Body body,
                             Finish finish) {
    const gv_i32 k = search.crowd.k;
    if (search.naive) {
        GV_LOOP GV_FOR(r, end - first) {
            const auto me = observer(first + r);
            gv_search_naively(search.crowd, first + r, [&](gv_i32 rank, gv_i32 j) { body(me, rank, j); });
            finish(me);
        }
#ifdef GV_SERIAL
    } else if (search.serial) {
        GvColumns columns;
        gv_split(search.crowd, columns);
        for (gv_i32 i = first; i < end; ++i) {
            gv_u16* nearest = search.last + i * k;
            const gv_i32 count = gv_search_serially(search.crowd, columns, i, nearest);
            const auto me = observer(i);
            for (gv_i32 rank = 0; rank < count; ++rank) body(me, rank, nearest[rank]);
            for (gv_i32 rank = count; rank < k; ++rank) body(me, rank, GV_NOBODY);
            finish(me);
        }
#endif
    } else if (search.at_once) {
        GV_FOR(i, end) {  // first is 0
            GvNearest nearest;
            gv_search(search, i, nearest);
            const auto me = observer(i);
            GV_UNROLL for (gv_i32 rank = 0; rank < k; ++rank) body(me, rank, nearest.agent[rank]);
            finish(me);
        }
    } else {
        gv_for_table(team, end - first, k, [&](gv_i32 r, gv_i32 rank) {
            const gv_i32 i = first + r;
            body(observer(i), rank, search.found[i * k + rank]);
        });
        GV_LOOP GV_FOR(r, end - first) finish(observer(first + r));
    }
}

// Calls body(observer(i), rank, j) for all other agents j of each agent i, in the order of their indices, and finish(observer(i)).
template <class Observer, class Body, class Finish>
GV_FN void gv_each_other(const GvTeam& team, gv_i32 agents, gv_i32 first, gv_i32 end, Observer observer, Body body, Finish finish) {
    for (gv_i32 i = first; i < end; ++i) {
        const auto me = observer(i);
        GV_FOR(rank, agents - 1) body(me, rank, rank < i ? rank : rank + 1);
    }
    GV_FOR(r, end - first) finish(observer(first + r));
}
