// Rows of several agents, written by a team so that memory moves in whole sectors of 32 bytes.
#pragma once
#include "lib/vec.h"

// Runs body(row, column) for the cells of a table in the order of memory, shared out over the lanes. If whole rows keep most
// lanes busy, each lane stays in its column, and nothing is computed again from row to row.
template <class Body>
GV_FN void gv_cells(const GvTeam& team, gv_i32 rows, gv_i32 columns, Body body) {
    const gv_i32 step = team.lanes / columns, rest = team.lanes - step * columns;  // rows and columns to a lane's next cell
    gv_i32 row = team.lane / columns, column = team.lane - row * columns;
    if (8 * rest <= team.lanes) {
        GV_LOOP for (gv_i32 end = row < step ? rows : 0; row < end; row += step) body(row, column);
        return;
    }
    GV_LOOP while (row < rows) {
        body(row, column);
        row += step;
        column += rest;
        if (column >= columns) {
            column -= columns;
            ++row;
        }
    }
}

// Address in scratch to gather floats at that gv_copy_out copies to `to`: both are equally far from a 16-byte boundary. Takes up
// to 3 floats more than are gathered; `scratch` is 16-byte aligned.
GV_FN float* gv_gather_address(float* scratch, const float* to) { return scratch + ((gv_u64)to / sizeof(float) & 3); }

// Copies n gathered floats to `to`, in whole sectors: a partly written sector costs a GPU far more.
GV_FN void gv_copy_out(const GvTeam& team, const float* gathered, float* to, gv_i32 n) {
    typedef GvVec<float, 4> Quad;
    const gv_i32 line = team.lanes < 32 ? 4 : 32, past = (gv_i32)((gv_u64)to / sizeof(float)) & (line - 1);
    const gv_i32 head = past == 0 ? 0 : line - past < n ? line - past : n, quads = (n - head) / 4;
    GV_LOOP GV_FOR(i, head) to[i] = gathered[i];
    const Quad* from = (const Quad*)(gathered + head);
    Quad* lines = (Quad*)(to + head);
    GV_LOOP for (gv_u32 i = team.lane; i < (gv_u32)quads; i += team.lanes) lines[i] = from[i];
    GV_LOOP GV_FOR(i, n - head - 4 * quads) to[head + 4 * quads + i] = gathered[head + 4 * quads + i];
}
