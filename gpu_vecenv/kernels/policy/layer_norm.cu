// Layer norms, with the ReLU behind them if there is one, and the derivatives. A team has a tile of rows, and a group a row at a time.
#include "program_args.h"
#include "target/tile.h"

GV_FN float gv_normed(const float* x, gv_i32 column, float mean, float inverse) { return (x[column] - mean) * inverse; }
GV_FN float gv_scaled(const GvArgs& a, gv_i32 column, float normed) { return normed * a.weight[column] + a.bias[column]; }

// Calls use(row) for the rows of a tile that are those of the group.
template <class Use>
GV_FN void gv_each_row_of_tile(const GvArgs& a, const GvGroup& group, gv_i32 tile, Use use) {
    const gv_i64 first = (gv_i64)tile * a.tile_rows, end = first + a.tile_rows < a.rows ? first + a.tile_rows : a.rows;
    for (gv_i64 row = first + group.number; row < end; row += GV_GROUPS) use(row);
}

GV_FN void gv_norm_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const GvGroup group = gv_group(team);
    gv_each_row_of_tile(a, group, tile, [&](gv_i64 row) {
        const float* x = a.x + row * a.width;
        float sum = 0.0f, squares = 0.0f;
        GV_GROUP_FOR(c, a.width) sum += x[c];
        const float mean = gv_group_sum(group, sum) / (float)a.width;
        GV_GROUP_FOR(c, a.width) squares += (x[c] - mean) * (x[c] - mean);
        const float inverse = 1.0f / gv_sqrt(gv_group_sum(group, squares) / (float)a.width + a.eps);
        GV_GROUP_FOR(c, a.width) {
            const float y = gv_scaled(a, c, gv_normed(x, c, mean, inverse));
            a.y[row * a.width + c] = a.relu != 0 && y <= 0.0f ? 0.0f : y;  // NaN stays
        }
        if (group.lane == 0) {
            a.moments[2 * row] = mean;
            a.moments[2 * row + 1] = inverse;
        }
    });
}

// With n the normed row, s its derivatives by the loss and inverse the factor of the norm, those by the row are
// inverse (s - mean(s) - n mean(s n)). Sums for weight and bias are those of a tile.
GV_FN void gv_norm_back_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const GvGroup group = gv_group(team);
    float* sums = team.scratch + group.number * 2 * a.width;  // of this group: for the weight, then for the bias
    GV_GROUP_FOR(c, a.width) sums[c] = sums[a.width + c] = 0.0f;
    gv_each_row_of_tile(a, group, tile, [&](gv_i64 row) {
        const float *x = a.x + row * a.width, *of_y = a.of_y + row * a.width;
        const float mean = a.moments[2 * row], inverse = a.moments[2 * row + 1];
        float sum = 0.0f, product = 0.0f;
        GV_GROUP_FOR(c, a.width) {
            const float n = gv_normed(x, c, mean, inverse);
            const float slope = a.relu != 0 && gv_scaled(a, c, n) <= 0.0f ? 0.0f : of_y[c];
            sums[c] += slope * n;
            sums[a.width + c] += slope;
            sum += slope * a.weight[c];
            product += slope * a.weight[c] * n;
        }
        sum = gv_group_sum(group, sum) / (float)a.width;
        product = gv_group_sum(group, product) / (float)a.width;
        GV_GROUP_FOR(c, a.width) {
            const float n = gv_normed(x, c, mean, inverse);
            const float slope = a.relu != 0 && gv_scaled(a, c, n) <= 0.0f ? 0.0f : of_y[c];
            a.of_x[row * a.width + c] = inverse * (slope * a.weight[c] - sum - n * product);
        }
    });
    gv_barrier(team);
    GV_FOR(i, 2 * a.width) {
        float total = 0.0f;
        for (gv_i32 k = 0; k < GV_GROUPS; ++k) total += team.scratch[k * 2 * a.width + i];
        a.of_tiles[(gv_i64)tile * 2 * a.width + i] = total;
    }
}

GV_PLAIN_KERNEL(gv_norm, gv_norm_tile)
GV_PLAIN_KERNEL(gv_norm_back, gv_norm_back_tile)
