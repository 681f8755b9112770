// Rows of a table, gathered in scratch and written together, a tile of rows at a time.
//
// A partly written 32-byte sector costs a GPU far more than a whole one, and rows of any length start and end inside sectors.
// A tile is written in whole sectors, except at its ends.
#pragma once
#include "lib/rows.h"

#define GV_TILE_MARGIN 10  // floats of scratch for the alignment of a tile

// Addresses of the rows of a world's agents. Agent i has its row at first + i * length if i < split, otherwise at
// second + i * length.
struct GvRows {
    float *first, *second;
    gv_i32 split, length;  // floats of a row
};

// Row of an agent.
GV_FN float* gv_row_in(const GvRows& rows, gv_i32 i) { return (i < rows.split ? rows.first : rows.second) + i * rows.length; }

// Rows of the agents `first` to `end` - 1; fill writes them to `rows`.
struct GvTile {
    GvRows rows;
    gv_i32 first, end;
};

// Number of rows that `room` floats of scratch hold.
GV_FN gv_i32 gv_tile_rows(gv_i32 room, gv_i32 agents, gv_i32 length) {
#ifdef GV_NO_TILES  // for comparison
    return 0;
#endif
    const gv_i32 rows = room > GV_TILE_MARGIN ? (room - GV_TILE_MARGIN) / length : 0;
    return rows < agents ? rows : agents;
}

// Calls fill(tile) for tiles of `size` rows, and copies each tile to the table. With size 0, or one lane, fill writes all rows
// straight to the table. Every lane calls fill, which must not contain a barrier.
template <class Fill>
GV_FN void gv_write_tiles(const GvTeam& team, const GvRows& table, gv_i32 agents, gv_i32 size, float* scratch, Fill fill) {
    const gv_i32 split = table.split, length = table.length;
    const GvTile all = {table, 0, agents};
    if (GV_ONE_LANE || size == 0) {
        fill(all);
        return;
    }
    GV_LOOP for (gv_i32 first = 0; first < agents; first += size) {
        const gv_i32 end = first + size < agents ? first + size : agents;
        const gv_i32 second = first > split ? first : split, first_end = end < split ? end : split;
        const gv_i32 of_first = first < split ? (first_end - first) * length : 0;  // floats
        const gv_i32 of_second = second < end ? (end - second) * length : 0;
        float *to_first = table.first + first * length, *to_second = table.second + second * length;
        float* from_first = gv_gather_address(scratch, to_first);
        const gv_i32 offset = (of_first + 6) / 4 * 4;  // of_first + 3, rounded up to a multiple of 4
        float* from_second = gv_gather_address(scratch + offset, to_second);
        const GvRows rows = {from_first - first * length, from_second - second * length, split, length};
        const GvTile tile = {rows, first, end};
        if (first > 0) gv_barrier(team);  // the previous tile has been copied
        fill(tile);
        gv_barrier(team);
        gv_copy_out(team, from_first, to_first, of_first);
        gv_copy_out(team, from_second, to_second, of_second);
    }
}
