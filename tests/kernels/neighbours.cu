// The search for neighbours and tiles of kernels/lib as kernels over one world, for the host and for teams of several lanes.
#include "lib/neighbours.h"
#include "lib/tiles.h"

#define GV_SCRATCH 16384

struct GvArgs {
    gv_i32* invalid_actions;
    const GvPlace* place;
    gv_u16* last;
    gv_i32 *found, *finished;
    float *first, *second;
    gv_i32 agents, k, one_tile, split, length, size;
};

GV_FN void find(const GvArgs& a, const GvTeam& team) {
    const GvNeighbours search = gv_neighbours(a.agents, a.k, 1.0f, a.place, team.scratch, a.last, a.one_tile);
    gv_find_neighbours(team, search);
    gv_each_neighbour(team, search, 0, a.agents, [](gv_i32 i) { return i; },
                      [&](gv_i32 i, gv_i32 rank, gv_i32 j) { a.found[i * a.k + rank] = j; }, [&](gv_i32 i) { ++a.finished[i]; });
}

// Entry c of agent i's row is 1000 i + c.
GV_FN void write(const GvArgs& a, const GvTeam& team) {
    const GvRows rows = {a.first, a.second - a.split * a.length, a.split, a.length};
    gv_write_tiles(team, rows, a.agents, a.size, team.scratch, [&](const GvTile& tile) {
        gv_for_table(team, tile.end - tile.first, a.length, [&](gv_i32 r, gv_i32 c) {
            gv_row_in(tile.rows, tile.first + r)[c] = (float)(1000 * (tile.first + r) + c);
        });
    });
}

GV_KERNEL(find_neighbours, find)
GV_KERNEL(write_tiles, write)
