// Rows of observations, gathered in scratch and written a tile of rows at a time, in whole lines.
#pragma once

// Rows that are gathered at a time; 0 where there is no room for one.
#define TILE_ROWS(agents, features) \
    ((agents) > MAX_STAGED ? 0 : (features) > 320 ? 4608 / (features) : 2560 / (features) < (agents) ? 2560 / (features) : (agents))
#define TILE_FLOATS(agents, features) (TILE_ROWS(agents, features) * (features) + 10)  // two roles, each at its own offset

#include "neighbours.h"

// Where rows of observations of one world are: those of a role lie one after the other.
struct Rows {
    float *taggers, *runners;
    gv_i32 num_taggers, features;
};

GV_FN Rows rows_of(const GvArgs& a, gv_i32 w, float* obs) {
    const gv_i32 taggers = gv_num_taggers(a), features = gv_num_features(a);
    const Rows rows = {gv_obs_row(a, obs, w, 0), gv_obs_row(a, obs, w, taggers) - taggers * features, taggers, features};
    return rows;
}

GV_FN float& entry(const Rows& rows, gv_i32 i, gv_i32 column) {
    return (i < rows.num_taggers ? rows.taggers : rows.runners)[i * rows.features + column];
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
    const gv_i32 agents = gv_num_agents(a), taggers = table.num_taggers, features = table.features;
    const gv_i32 size = TILE_ROWS(agents, features);
    const Tile all = {table, 0, agents};
    if (size == 0) fill(all);
    GV_LOOP for (gv_i32 first = 0; size > 0 && first < agents; first += size) {
        const gv_i32 end = first + size < agents ? first + size : agents;
        const gv_i32 runner = first > taggers ? first : taggers, tagger_end = end < taggers ? end : taggers;  // of the tile
        const gv_i32 of_taggers = first < taggers ? (tagger_end - first) * features : 0;
        const gv_i32 of_runners = runner < end ? (end - runner) * features : 0;
        float *to_taggers = table.taggers + first * features, *to_runners = table.runners + runner * features;
        float* from_taggers = gv_gather_at(tile_scratch(a, team), to_taggers);
        float* from_runners = gv_gather_at(tile_scratch(a, team) + (of_taggers + 6) / 4 * 4, to_runners);
        const Rows rows = {from_taggers - first * features, from_runners - runner * features, taggers, features};
        const Tile tile = {rows, first, end};
        if (first > 0) gv_barrier(team);  // the last tile is still being written
        fill(tile);
        gv_barrier(team);
        gv_write_out(team, from_taggers, to_taggers, of_taggers);
        gv_write_out(team, from_runners, to_runners, of_runners);
    }
}
