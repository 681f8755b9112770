// The k nearest other agents of every agent of a world, by squared float32 distance, equal ones by index.
//
//   GvNeighbours of = gv_neighbours(agents, k, length, place, memory, last, one_tile);
//   gv_find_neighbours(team, of);                       // all lanes
//   gv_each_neighbour(team, of, first, end, observer, body, finish);  // agents first .. end - 1
//
// The body is called for every rank below k; j is GV_NOBODY if agent i has fewer neighbours. The caller fills `place` first, and
// sets both coordinates of unseen agents to GV_FAR.
//
// The search depends on the sizes, its results do not:
//   nearest_scan.h    few agents
//   nearest_cells.h   many agents
//   nearest_serial.h  on the CPU, up to 1,024 agents
//   nearest_naive.h   elsewhere, for more than 32 neighbours
// Build flags choose others, for comparison: -DGV_NAIVE_SEARCH, -DGV_NO_SERIAL, -DGV_NO_BOUND and -DGV_MIN_CELLS=n.
#pragma once
#include "lib/nearest_naive.h"
#include "lib/nearest_scan.h"
#include "lib/nearest_cells.h"
#include "lib/rows.h"
#if defined(GV_PACK) && !defined(GV_NO_SERIAL) && !defined(GV_NAIVE_SEARCH)
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
// [agents, k] of a workspace, filled with GV_NOBODY at first; its content changes the time of a search only. `one_tile` is true if
// gv_each_neighbour will be called once, for all agents.
GV_FN GvNeighbours gv_neighbours(gv_i32 agents, gv_i32 k, float length, const GvPlace* place, float* memory, gv_u16* last,
                                 bool one_tile) {
    GvNeighbours of;
    of.crowd = {agents, k, place};
    of.serial = false;
#ifdef GV_SERIAL
    of.serial = agents <= GV_MAX_SERIAL;
#endif
    of.naive = !of.serial && k > GV_MAX_SORTED;
#ifdef GV_NAIVE_SEARCH
    of.naive = true;
#endif
    of.by_cell = !of.naive && !of.serial && agents >= GV_MIN_CELLS;
    of.at_once = !of.naive && !of.serial && one_tile && agents <= 32;
    of.last = last;
    of.found = of.by_cell ? last : (gv_u16*)memory;
    if (of.by_cell) of.grid = gv_cell_grid(of.crowd, length, (gv_i32*)memory, (gv_u16*)(memory + GV_MAX_CELLS));
    return of;
}

// Finds the neighbours of one agent, by cell or by a scan.
GV_FN void gv_search(const GvNeighbours& of, gv_i32 i, GvNearest& nearest) {
    const gv_i32 k = of.crowd.k;
    gv_clear(nearest, k);
    if (!of.by_cell) gv_search_all<GV_MIN_CELLS / 32>(of.crowd, i, of.last + i * k, nearest);
    else if (gv_is_seen(of.crowd.place[i])) gv_search_cells(of.crowd, of.grid, i, nearest);
    if (!of.by_cell && !gv_sees_all(of.crowd)) gv_keep(of.last + i * k, nearest, k);
}

// Finds the neighbours of all agents, unless gv_each_neighbour does. Ends with a barrier; the caller needs one before it.
GV_FN void gv_find_neighbours(const GvTeam& team, const GvNeighbours& of) {
    const bool here = !(of.naive || of.serial || of.at_once);
    if (of.by_cell) gv_sort_by_cell(team, of.crowd, of.grid, (gv_i32*)team.sums);
    GV_FOR(p, here ? of.crowd.agents : 0) {
        const gv_i32 i = of.by_cell ? of.grid.order[p] : p;  // adjacent lanes scan the same cells
        GvNearest nearest;
        gv_search(of, i, nearest);
        gv_keep(of.found + i * of.crowd.k, nearest, of.crowd.k);
    }
    if (here) gv_barrier(team);
}

// Calls body(observer(i), rank, j) for the neighbours j of each agent i, and finish(observer(i)) for each agent. observer(i)
// returns the data of agent i that both need; it is called once if one lane goes through all neighbours of the agent.
template <class Observer, class Body, class Finish>
GV_FN void gv_each_neighbour(const GvTeam& team, const GvNeighbours& of, gv_i32 first, gv_i32 end, Observer observer, Body body,
                             Finish finish) {
    const gv_i32 k = of.crowd.k;
    if (of.naive) {
        GV_LOOP GV_FOR(r, end - first) {
            const auto me = observer(first + r);
            gv_search_naively(of.crowd, first + r, [&](gv_i32 rank, gv_i32 j) { body(me, rank, j); });
            finish(me);
        }
#ifdef GV_SERIAL
    } else if (of.serial) {
        GvColumns columns;
        gv_split(of.crowd, columns);
        for (gv_i32 i = first; i < end; ++i) {
            gv_u16* nearest = of.last + i * k;
            const gv_i32 found = gv_search_serially(of.crowd, columns, i, nearest);
            const auto me = observer(i);
            for (gv_i32 rank = 0; rank < found; ++rank) body(me, rank, nearest[rank]);
            for (gv_i32 rank = found; rank < k; ++rank) body(me, rank, GV_NOBODY);
            finish(me);
        }
#endif
    } else if (of.at_once) {
        GV_FOR(i, end) {
            GvNearest nearest;
            gv_search(of, i, nearest);
            const auto me = observer(i);
            GV_UNROLL for (gv_i32 rank = 0; rank < k; ++rank) body(me, rank, nearest.agent[rank]);
            finish(me);
        }
    } else {
        gv_cells(team, end - first, k, [&](gv_i32 r, gv_i32 rank) {
            const gv_i32 i = first + r;
            body(observer(i), rank, of.found[i * k + rank]);
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
