// Means of the metrics of episodes over the episodes that ended in a rollout. The places of a rollout, in order of time and world,
// are divided into tiles. One kernel adds up a metric in a tile, and another one takes the tiles together. The order of additions
// depends on shapes alone.
#include "program_args.h"

#define GV_ITEMS 128  // sums of a team

// double: a long run has many episodes.
GV_FN double* gv_sums(const GvLanes& team, gv_i32 which) { return (double*)team.scratch + which * GV_ITEMS; }

// Adds up both sums of all items and stores the totals.
// double: as above.
GV_FN void gv_add_items(const GvLanes& team, double* totals) {
    double *sums = gv_sums(team, 0), *counts = gv_sums(team, 1);
    for (gv_i32 half = GV_ITEMS / 2; half > 0; half /= 2) {
        gv_barrier(team);
        GV_FOR(i, half) {
            sums[i] += sums[i + half];
            counts[i] += counts[i + half];
        }
    }
    gv_barrier(team);
    GV_ONCE {
        totals[0] = sums[0];
        totals[1] = counts[0];
    }
}

// Adds up a metric over the episodes that ended in a tile. An episode in which nothing was recorded has NaN.
// double: as above.
GV_FN void gv_add_tile(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const gv_i32 metric = number / a.tiles, tile = number - metric * a.tiles;
    const float* const metrics = a.metrics + metric * a.metric;
    GV_FOR(i, GV_ITEMS) {
        double sum = 0.0, count = 0.0;
        GV_LOOP for (gv_i32 k = i; k < GV_TILE; k += GV_ITEMS) {
            const gv_i64 place = (gv_i64)tile * GV_TILE + k;
            if (place >= a.size) break;
            const gv_i64 step = place / a.worlds, world = place - step * a.worlds;
            const gv_i64 flag = step * a.flag_step + world * a.flag_world;
            if ((a.terminated[flag] | a.truncated[flag]) == 0) continue;
            const float value = metrics[step * a.metric_step + world * a.metric_world];
            if (value == value) {
                sum += value;
                count += 1.0;
            }
        }
        gv_sums(team, 0)[i] = sum;
        gv_sums(team, 1)[i] = count;
    }
    gv_add_items(team, a.totals + 2 * (gv_i64)number);
}

// Computes the mean of a metric from the totals of its tiles.
// double: as above.
GV_FN void gv_take_tiles(const GvArgs& a, const GvLanes& team, gv_i32 metric) {
    const double* const totals = a.totals + 2 * (gv_i64)metric * a.tiles;
    GV_FOR(i, GV_ITEMS) {
        double sum = 0.0, count = 0.0;
        GV_LOOP for (gv_i32 tile = i; tile < a.tiles; tile += GV_ITEMS) {
            sum += totals[2 * tile];
            count += totals[2 * tile + 1];
        }
        gv_sums(team, 0)[i] = sum;
        gv_sums(team, 1)[i] = count;
    }
    double total[2];
    gv_add_items(team, total);
    GV_ONCE a.means[metric] = (float)(total[0] / total[1]);
}

GV_PLAIN_KERNEL(gv_metric_sums, gv_add_tile)
GV_PLAIN_KERNEL(gv_metric_means, gv_take_tiles)
