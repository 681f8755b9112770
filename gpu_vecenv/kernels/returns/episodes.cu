// Means over the episodes that ended in a rollout, and over the last episodes that ended. The places of a rollout, in order of
// time and row, are divided into tiles. One kernel lists the episodes of each tile, and another one takes the lists together. The
// order of additions depends on shapes alone.
#ifndef GV_SCRATCH
#define GV_SCRATCH 4096  // SCRATCH of backend/programs.py
#endif
#include "target/target.h"

#define GV_STRANDS 128  // adjacent parts of a tile or of the list of tiles; a lane sums one at a time
#define GV_PLACES 32    // places of a strand of a tile
#define GV_TILE (GV_STRANDS * GV_PLACES)  // as in gpu_vecenv/train/returns/episodes.py

// gpu_vecenv/train/returns/episodes.py fills this struct.
struct GvArgs {
    const float* sums;              // [2, size] return and length of the episode so far
    const gv_u8* finished;          // [size] an episode ended that counts
    float* ended;                   // [2, tiles GV_TILE] those of ended episodes; each tile has its own from its first place on
    gv_i32* counts;                 // [tiles] ended episodes of a tile; later those of all tiles before it
    void* totals;                   // double [2, tiles] sums over the ended episodes of a tile
    float* recent;                  // [2, window] the last episodes that ended, the very last one first
    gv_i64* num_recent;             // [1] how many of them there are
    float* means;                   // [4] return and length, over the episodes that ended in the rollout, and over the last ones
    gv_i32* invalid_actions;        // unused; GV_KERNEL expects it
    gv_i64 size;
    gv_i32 num_worlds, num_agents;  // teams; 1
    gv_i32 tiles, window;
};
static_assert(sizeof(GvArgs) == 96, "as in gpu_vecenv/train/returns/episodes.py");

// Memory of a team: room for six arrays of a number for each strand, the last of them unused, and two of numbers of double
// precision.
GV_FN gv_i32* gv_numbers(const GvTeam& team, gv_i32 which) { return (gv_i32*)team.scratch + which * GV_STRANDS; }
// double: a long run has many episodes.
GV_FN double* gv_doubles(const GvTeam& team, gv_i32 which) {
    return (double*)(team.scratch + 6 * GV_STRANDS) + which * GV_STRANDS;
}

enum { GV_OWN, GV_UP_TO, GV_ENDED, GV_RETURN, GV_LENGTH };  // the five arrays

// Adds up GV_OWN: GV_UP_TO gets the sums up to and with each strand. Returns the sum of all.
GV_FN gv_i32 gv_add_up(const GvTeam& team) {
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
GV_FN gv_i32 gv_before(const GvTeam& team, gv_i32 strand) { return strand == 0 ? 0 : gv_numbers(team, GV_UP_TO)[strand - 1]; }

// Adds the two numbers of all strands to those of strand 0.
// double: as above.
GV_FN void gv_add_doubles(const GvTeam& team) {
    double *sum = gv_doubles(team, 0), *other = gv_doubles(team, 1);
    for (gv_i32 half = GV_STRANDS / 2; half > 0; half /= 2) {
        gv_barrier(team);
        GV_FOR(i, half) {
            sum[i] += sum[i + half];
            other[i] += other[i + half];
        }
    }
    gv_barrier(team);
}

// Lists the episodes that ended in a tile.
// double: as above.
GV_FN void gv_list_tile(const GvArgs& a, const GvTeam& team) {
    const gv_i64 first = (gv_i64)team.world * GV_TILE, all = (gv_i64)a.tiles * GV_TILE;
    GV_FOR(i, GV_STRANDS) {
        gv_u32 ended = 0;  // a bit for each place
        GV_UNROLL for (gv_i32 k = 0; k < GV_PLACES; ++k) {
            const gv_i64 place = first + i * GV_PLACES + k;
            if (place < a.size && a.finished[place] != 0) ended |= 1u << k;
        }
        gv_i32 count = 0;
        for (gv_u32 rest = ended; rest != 0; rest &= rest - 1) ++count;
        gv_numbers(team, GV_ENDED)[i] = (gv_i32)ended;
        gv_numbers(team, GV_OWN)[i] = count;
    }
    const gv_i32 count = gv_add_up(team);
    GV_FOR(i, GV_STRANDS) {
        double returns = 0.0, lengths = 0.0;
        gv_i64 to = first + gv_before(team, i);
        for (gv_u32 rest = (gv_u32)gv_numbers(team, GV_ENDED)[i]; rest != 0; rest &= rest - 1) {
            const gv_i64 place = first + i * GV_PLACES + gv_lowest_bit(rest);
            returns += a.ended[to] = a.sums[place];
            lengths += a.ended[all + to] = a.sums[a.size + place];
            ++to;
        }
        gv_doubles(team, 0)[i] = returns;
        gv_doubles(team, 1)[i] = lengths;
    }
    gv_add_doubles(team);
    GV_ONCE {
        a.counts[team.world] = count;
        ((double*)a.totals)[team.world] = gv_doubles(team, 0)[0];
        ((double*)a.totals)[a.tiles + team.world] = gv_doubles(team, 1)[0];
    }
}

// Sums over all tiles: counts become those of the tiles before each. Returns the number of episodes.
// double: as above.
GV_FN gv_i32 gv_add_tiles(const GvArgs& a, const GvTeam& team) {
    const gv_i32 each = (a.tiles + GV_STRANDS - 1) / GV_STRANDS;
    GV_FOR(i, GV_STRANDS) {
        double returns = 0.0, lengths = 0.0;
        gv_i32 count = 0;
        for (gv_i32 tile = i * each; tile < (i + 1) * each && tile < a.tiles; ++tile) {
            count += a.counts[tile];
            returns += ((const double*)a.totals)[tile];
            lengths += ((const double*)a.totals)[a.tiles + tile];
        }
        gv_numbers(team, GV_OWN)[i] = count;
        gv_doubles(team, 0)[i] = returns;
        gv_doubles(team, 1)[i] = lengths;
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

// Place of an episode of the rollout in the lists.
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
GV_FN void gv_take_lists(const GvArgs& a, const GvTeam& team) {
    const gv_i32 total = gv_add_tiles(a, team);
    const gv_i64 all = (gv_i64)a.tiles * GV_TILE, now = *a.num_recent + total, held = now < a.window ? now : a.window;
    GV_ONCE {
        a.means[0] = (float)(gv_doubles(team, 0)[0] / (double)total);
        a.means[1] = (float)(gv_doubles(team, 1)[0] / (double)total);
    }
    float *returns = (float*)gv_numbers(team, GV_RETURN), *lengths = (float*)gv_numbers(team, GV_LENGTH);
    // Episodes move to later entries, so the last entries are written first.
    for (gv_i32 first = (a.window - 1) / GV_STRANDS * GV_STRANDS; first >= 0; first -= GV_STRANDS) {
        const gv_i32 entries = a.window - first < GV_STRANDS ? a.window - first : GV_STRANDS;
        gv_barrier(team);
        GV_FOR(i, entries) {
            const gv_i32 entry = first + i;
            const bool is_new = entry < total;
            const float* from = is_new ? a.ended + gv_place(a, total - 1 - entry) : a.recent + (entry - total);
            returns[i] = *from;
            lengths[i] = from[is_new ? all : a.window];
        }
        gv_barrier(team);
        GV_FOR(i, entries) {
            a.recent[first + i] = returns[i];
            a.recent[a.window + first + i] = lengths[i];
        }
    }
    gv_barrier(team);
    GV_FOR(i, GV_STRANDS) {
        double sum = 0.0, steps = 0.0;
        for (gv_i32 entry = i; entry < held; entry += GV_STRANDS) {
            sum += a.recent[entry];
            steps += a.recent[a.window + entry];
        }
        gv_doubles(team, 0)[i] = sum;
        gv_doubles(team, 1)[i] = steps;
    }
    gv_add_doubles(team);
    GV_ONCE {
        a.means[2] = (float)(gv_doubles(team, 0)[0] / (double)held);
        a.means[3] = (float)(gv_doubles(team, 1)[0] / (double)held);
        *a.num_recent = held;
    }
}

GV_KERNEL(gv_list, gv_list_tile)
GV_KERNEL(gv_take, gv_take_lists)

#ifdef GV_PACK
#include "launch/threads.h"
#endif
