// Rows of observations, gathered in scratch and written a tile of rows at a time, in whole lines.
#pragma once

// Floats of them, where many worlds share a block fewer than else.
#define SPARE(agents) (GV_SCRATCH_MOST - SCRATCH_FLOATS(agents) - 13)
#define ROOM(agents) (SPARE(agents) < 2560 ? SPARE(agents) : 2560)

// Rows that are gathered at a time; 0 where there is no room for one.
#define TILE_ROWS(agents, features) \
    ((agents) > MAX_STAGED ? 0 : (features) > 320 ? 4608 / (features) \
     : ROOM(agents) / (features) < (agents) ? ROOM(agents) / (features) : (agents))
#define TILE_FLOATS(agents, features) (TILE_ROWS(agents, features) * (features) + 10)  // two roles, each at its own offset

#include "neighbours.h"

// Where rows of observations of one world are: those of a role lie one after the other. Where those of both do, all are `first`.
struct Rows {
    float *first, *second;
    gv_i32 split, features;  // agents from `split` on have their rows in `second`
};

GV_FN Rows rows_of(const GvArgs& a, gv_i32 w, float* obs) {
    const gv_i32 taggers = gv_num_taggers(a), features = gv_num_features(a);
    float *first = gv_obs_row(a, obs, w, 0), *second = gv_obs_row(a, obs, w, taggers) - taggers * features;
    const Rows rows = {first, second, first == second ? gv_num_agents(a) : taggers, features};
    return rows;
}

GV_FN float& entry(const Rows& rows, gv_i32 i, gv_i32 column) {
    return (i < rows.split ? rows.first : rows.second)[i * rows.features + column];
}

// Rows `first` to `end` - 1, and where they are gathered.
struct Tile {
    Rows rows;
    gv_i32 first, end;
};

GV_FN float* tile_scratch(const GvArgs& a, const GvTeam& team) {
    return team.scratch + (SCRATCH_FLOATS(gv_num_agents(a)) + 3) / 4 * 4;
}

// Gathers rows with fill(tile) and writes them, a tile at a time; without room for a tile all at once, where they go.
template <class Fill>
GV_FN void write_rows(const GvArgs& a, const GvTeam& team, const Rows& table, Fill fill) {
    const gv_i32 agents = gv_num_agents(a), split = table.split, features = table.features;
    const gv_i32 size = TILE_ROWS(agents, features);
    const Tile all = {table, 0, agents};
    if (size == 0) fill(all);
    GV_LOOP for (gv_i32 first = 0; size > 0 && first < agents; first += size) {
        const gv_i32 end = first + size < agents ? first + size : agents;
        const gv_i32 second = first > split ? first : split, first_end = end < split ? end : split;  // of the tile
        const gv_i32 of_first = first < split ? (first_end - first) * features : 0;
        const gv_i32 of_second = second < end ? (end - second) * features : 0;
        float *to_first = table.first + first * features, *to_second = table.second + second * features;
        float* from_first = gv_gather_address(tile_scratch(a, team), to_first);
        float* from_second = gv_gather_address(tile_scratch(a, team) + (of_first + 6) / 4 * 4, to_second);
        const Rows rows = {from_first - first * features, from_second - second * features, split, features};
        const Tile tile = {rows, first, end};
        if (first > 0) gv_barrier(team);  // the last tile is still being written
        fill(tile);
        gv_barrier(team);
        gv_copy_out(team, from_first, to_first, of_first);
        gv_copy_out(team, from_second, to_second, of_second);
    }
}
