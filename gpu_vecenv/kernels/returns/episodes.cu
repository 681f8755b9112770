// Means over the episodes that ended in a rollout, and over the last episodes that ended. The places of a rollout, in order of
// time and world, are divided into tiles. One kernel lists the episodes of each tile, with sums over the agents of a policy in the
// world, and another one takes the lists together. The order of additions depends on shapes alone.
#include "program_args.h"

#define GV_STRANDS 128  // adjacent parts of a tile or of the list of tiles; a lane sums one at a time
#define GV_PLACES (GV_TILE / GV_STRANDS)  // places of a strand of a tile

// Memory of a team: room for six arrays of a number for each strand, and three of numbers of double precision.
GV_FN gv_i32* gv_numbers(const GvLanes& team, gv_i32 which) { return (gv_i32*)team.scratch + which * GV_STRANDS; }
// double: a long run has many episodes.
GV_FN double* gv_doubles(const GvLanes& team, gv_i32 which) {
    return (double*)(team.scratch + 6 * GV_STRANDS) + which * GV_STRANDS;
}

enum { GV_OWN, GV_UP_TO, GV_ENDED, GV_RETURN, GV_LENGTH, GV_AGENTS };  // the six arrays

// Adds up GV_OWN: GV_UP_TO gets the sums up to and with each strand. Returns the sum of all.
GV_FN gv_i32 gv_add_up(const GvLanes& team) {
    gv_i32 *from = gv_numbers(team, GV_OWN), *to = gv_numbers(team, GV_UP_TO);
    for (gv_i32 back = 1; back < GV_STRANDS; back *= 2) {  // 7 rounds, an odd number, so the last one writes GV_UP_TO
        gv_barrier(team);
        GV_FOR(i, GV_STRANDS) to[i] = from[i] + (i < back ? 0 : from[i - back]);
        gv_i32* const last = from;
        from = to;
        to = last;
    }
    gv_barrier(team);
    return from[GV_STRANDS - 1];
}

// The sum of the strands before one.
GV_FN gv_i32 gv_before(const GvLanes& team, gv_i32 strand) { return strand == 0 ? 0 : gv_numbers(team, GV_UP_TO)[strand - 1]; }

// Stores three sums of a strand: of returns, lengths and agents.
// double: as above.
GV_FN void gv_store(const GvLanes& team, gv_i32 strand, const double* sums) {
    GV_UNROLL for (gv_i32 which = 0; which < 3; ++which) gv_doubles(team, which)[strand] = sums[which];
}

// Adds the three numbers of all strands to those of strand 0.
// double: as above.
GV_FN void gv_add_doubles(const GvLanes& team) {
    double *returns = gv_doubles(team, 0), *lengths = gv_doubles(team, 1), *agents = gv_doubles(team, 2);
    for (gv_i32 half = GV_STRANDS / 2; half > 0; half /= 2) {
        gv_barrier(team);
        GV_FOR(i, half) {
            returns[i] += returns[i + half];
            lengths[i] += lengths[i + half];
            agents[i] += agents[i + half];
        }
    }
    gv_barrier(team);
}

// A world in a step.
struct GvPlace {
    gv_i64 step;
    gv_i32 world;
};

GV_FN GvPlace gv_place_at(const GvArgs& a, gv_i64 place) {
    const gv_i64 step = place / a.worlds;
    return GvPlace{step, (gv_i32)(place - step * a.worlds)};
}

// Place of an agent's row in arrays [steps, rows].
GV_FN gv_i64 gv_row_at(const GvArgs& a, const GvPlace& at, gv_i32 agent) {
    return at.step * a.rows + a.agents[2 * agent] + (gv_i64)at.world * a.agents[2 * agent + 1];
}

// True if an agent took part in the episode that ended in a world.
GV_FN bool gv_any_counted(const GvArgs& a, const GvPlace& at) {
    for (gv_i32 agent = 0; agent < a.agents_of_world; ++agent)
        if (a.counted[gv_row_at(a, at, agent)] != 0) return true;
    return false;
}

// Computes the sums of returns, lengths and agents over the agents that took part in the episode that ended in a world.
// double: as above.
GV_FN void gv_sum_agents(const GvArgs& a, const GvPlace& at, double* sums) {
    const gv_i64 lengths = a.size / a.worlds * a.rows;
    GV_UNROLL for (gv_i32 which = 0; which < 3; ++which) sums[which] = 0.0;
    for (gv_i32 agent = 0; agent < a.agents_of_world; ++agent) {
        const gv_i64 row = gv_row_at(a, at, agent);
        if (a.counted[row] == 0) continue;
        sums[0] += a.sums[row];
        sums[1] += a.sums[lengths + row];
        sums[2] += 1.0;
    }
}

// Lists the episodes that ended in a tile.
// double: as above.
GV_FN void gv_list_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 first = (gv_i64)tile * GV_TILE, all = (gv_i64)a.tiles * GV_TILE;
    const gv_i64 to_next = a.agents[1], to_next_step = a.rows - a.worlds * to_next;  // from a world to the next, in rows
    GV_FOR(i, GV_STRANDS) {
        gv_u32 ended = 0;  // a bit for each place
        const GvPlace at = gv_place_at(a, first + i * GV_PLACES);
        gv_i64 row = gv_row_at(a, at, 0);
        gv_i32 world = at.world;
        GV_UNROLL for (gv_i32 k = 0; k < GV_PLACES; ++k) {
            if (first + i * GV_PLACES + k < a.size && a.ended[row] != 0) ended |= 1u << k;
            row += to_next;
            if (++world == a.worlds) {
                world = 0;
                row += to_next_step;
            }
        }
        gv_i32 count = 0;
        for (gv_u32 rest = ended; rest != 0; rest &= rest - 1) {
            const gv_i32 k = gv_lowest_bit(rest);
            if (a.agents_of_world == 1 || gv_any_counted(a, gv_place_at(a, first + i * GV_PLACES + k))) ++count;
            else ended &= ~(1u << k);
        }
        gv_numbers(team, GV_ENDED)[i] = (gv_i32)ended;
        gv_numbers(team, GV_OWN)[i] = count;
    }
    const gv_i32 count = gv_add_up(team);
    GV_FOR(i, GV_STRANDS) {
        double sums[3] = {0.0, 0.0, 0.0};
        gv_i64 to = first + gv_before(team, i);
        for (gv_u32 rest = (gv_u32)gv_numbers(team, GV_ENDED)[i]; rest != 0; rest &= rest - 1) {
            double one[3];
            gv_sum_agents(a, gv_place_at(a, first + i * GV_PLACES + gv_lowest_bit(rest)), one);
            GV_UNROLL for (gv_i32 which = 0; which < 3; ++which) {
                a.listed[which * all + to] = (float)one[which];
                sums[which] += one[which];
            }
            ++to;
        }
        gv_store(team, i, sums);
    }
    gv_add_doubles(team);
    GV_ONCE {
        a.counts[tile] = count;
        for (gv_i32 which = 0; which < 3; ++which) a.totals[which * a.tiles + tile] = gv_doubles(team, which)[0];
    }
}

// Sums over all tiles: counts become those of the tiles before each. Returns the number of episodes.
// double: as above.
GV_FN gv_i32 gv_add_tiles(const GvArgs& a, const GvLanes& team) {
    const gv_i32 each = (a.tiles + GV_STRANDS - 1) / GV_STRANDS;
    const double* const totals = a.totals;
    GV_FOR(i, GV_STRANDS) {
        double sums[3] = {0.0, 0.0, 0.0};
        gv_i32 count = 0;
        for (gv_i32 tile = i * each; tile < (i + 1) * each && tile < a.tiles; ++tile) {
            count += a.counts[tile];
            GV_UNROLL for (gv_i32 which = 0; which < 3; ++which) sums[which] += totals[which * a.tiles + tile];
        }
        gv_numbers(team, GV_OWN)[i] = count;
        gv_store(team, i, sums);
    }
    const gv_i32 total = gv_add_up(team);
    gv_add_doubles(team);
    GV_FOR(i, GV_STRANDS) {
        gv_i32 before = gv_before(team, i);
        for (gv_i32 tile = i * each; tile < (i + 1) * each && tile < a.tiles; ++tile) {
            const gv_i32 own = a.counts[tile];
            a.counts[tile] = before;
            before += own;
        }
    }
    gv_barrier(team);
    return total;
}

// The mean return and length in the sums of strand 0.
// double: as above.
GV_FN void gv_write_means(const GvLanes& team, float* means) {
    const double agents = gv_doubles(team, 2)[0];
    means[0] = (float)(gv_doubles(team, 0)[0] / agents);
    means[1] = (float)(gv_doubles(team, 1)[0] / agents);
}

// Place of an episode of the rollout in the lists of all tiles.
GV_FN gv_i64 gv_place(const GvArgs& a, gv_i32 episode) {
    gv_i32 tile = 0, after = a.tiles;  // the last tile with no more episodes before it
    while (after - tile > 1) {
        const gv_i32 middle = tile + (after - tile) / 2;
        if (a.counts[middle] <= episode) tile = middle;
        else after = middle;
    }
    return (gv_i64)tile * GV_TILE + episode - a.counts[tile];
}

// Puts the episodes of the rollout before those of `recent`, the last one first, and computes the means.
// double: as above.
GV_FN void gv_take_lists(const GvArgs& a, const GvLanes& team, gv_i32) {
    const gv_i32 total = gv_add_tiles(a, team);
    const gv_i64 all = (gv_i64)a.tiles * GV_TILE, now = *a.num_recent + total, held = now < a.window ? now : a.window;
    GV_ONCE { gv_write_means(team, a.means); }
    float *returns = (float*)gv_numbers(team, GV_RETURN), *lengths = (float*)gv_numbers(team, GV_LENGTH);
    float* agents = (float*)gv_numbers(team, GV_AGENTS);
    // Episodes move to later entries, so the last entries are written first.
    for (gv_i32 first = (a.window - 1) / GV_STRANDS * GV_STRANDS; first >= 0; first -= GV_STRANDS) {
        const gv_i32 entries = a.window - first < GV_STRANDS ? a.window - first : GV_STRANDS;
        gv_barrier(team);
        GV_FOR(i, entries) {
            const gv_i32 entry = first + i;
            const bool is_new = entry < total;
            const float* from = is_new ? a.listed + gv_place(a, total - 1 - entry) : a.recent + (entry - total);
            const gv_i64 next = is_new ? all : a.window;
            returns[i] = *from;
            lengths[i] = from[next];
            agents[i] = from[2 * next];
        }
        gv_barrier(team);
        GV_FOR(i, entries) {
            a.recent[first + i] = returns[i];
            a.recent[a.window + first + i] = lengths[i];
            a.recent[2 * a.window + first + i] = agents[i];
        }
    }
    gv_barrier(team);
    GV_FOR(i, GV_STRANDS) {
        double sums[3] = {0.0, 0.0, 0.0};
        for (gv_i32 entry = i; entry < held; entry += GV_STRANDS) {
            GV_UNROLL for (gv_i32 which = 0; which < 3; ++which) sums[which] += a.recent[which * a.window + entry];
        }
        gv_store(team, i, sums);
    }
    gv_add_doubles(team);
    GV_ONCE {
        gv_write_means(team, a.means + 2);
        *a.num_recent = held;
    }
}

GV_PLAIN_KERNEL(gv_list, gv_list_tile)
GV_PLAIN_KERNEL(gv_take, gv_take_lists)
