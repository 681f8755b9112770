// Layer norms, with the ReLU behind them if there is one, and the derivatives. A team has a tile of rows of GV_WIDTH numbers. A
// group has a row at a time, whose numbers its lanes share.
#include "lib/vec.h"
#include "program_args.h"
#include "target/tile.h"

#define GV_NUMBERS (GV_WIDTH / GV_GROUP_LANES)     // numbers of a row that a lane has
#define GV_RUN (GV_NUMBERS < 4 ? GV_NUMBERS : 4)  // neighbours among them, which one access reads

struct GvNumbers {
    float v[GV_NUMBERS];
};
GV_FN gv_i32 gv_column(const GvGroup& group, gv_i32 i) { return (i / GV_RUN * GV_GROUP_LANES + group.lane) * GV_RUN + i % GV_RUN; }

// A lane's numbers of a row, whose address is a multiple of 16 bytes.
GV_FN GvNumbers gv_read(const GvGroup& group, const float* rows, gv_i64 row) {
    GvNumbers numbers;
    GV_UNROLL for (gv_i32 i = 0; i < GV_NUMBERS; i += GV_RUN) {
        const auto run = *(const GvVec<float, GV_RUN>*)(rows + row * GV_WIDTH + gv_column(group, i));
        GV_UNROLL for (gv_i32 j = 0; j < GV_RUN; ++j) numbers.v[i + j] = run.value[j];
    }
    return numbers;
}
GV_FN void gv_write(const GvGroup& group, float* rows, gv_i64 row, const GvNumbers& numbers) {
    GV_UNROLL for (gv_i32 i = 0; i < GV_NUMBERS; i += GV_RUN) {
        GvVec<float, GV_RUN> run;
        GV_UNROLL for (gv_i32 j = 0; j < GV_RUN; ++j) run.value[j] = numbers.v[i + j];
        *(GvVec<float, GV_RUN>*)(rows + row * GV_WIDTH + gv_column(group, i)) = run;
    }
}

// The same of a weight or a bias, which may have any address.
GV_FN GvNumbers gv_of_columns(const GvGroup& group, const float* columns) {
    GvNumbers numbers;
    GV_UNROLL for (gv_i32 i = 0; i < GV_NUMBERS; ++i) numbers.v[i] = columns[gv_column(group, i)];
    return numbers;
}

// The group's rows of a tile.
struct GvTileRows {
    gv_i64 first, end;
};
GV_FN GvTileRows gv_tile_rows(const GvArgs& a, const GvGroup& group, gv_i32 tile) {
    const gv_i64 first = (gv_i64)tile * a.tile_rows, end = first + a.tile_rows;
    return {first + group.number, end < a.rows ? end : a.rows};
}

GV_FN void gv_norm_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const GvGroup group = gv_group(team);
    const GvTileRows rows = gv_tile_rows(a, group, tile);
    const GvNumbers weight = gv_of_columns(group, a.weight), bias = gv_of_columns(group, a.bias);
    GvNumbers next = {};
    if (rows.first < rows.end) next = gv_read(group, a.x, rows.first);
    for (gv_i64 row = rows.first; row < rows.end; row += GV_GROUPS) {
        const GvNumbers x = next;
        if (row + GV_GROUPS < rows.end) next = gv_read(group, a.x, row + GV_GROUPS);  // while this row is computed
        float sum = 0.0f, squares = 0.0f;
        GV_UNROLL for (gv_i32 i = 0; i < GV_NUMBERS; ++i) sum += x.v[i];
        const float mean = gv_group_sum(group, sum) / GV_WIDTH;
        GV_UNROLL for (gv_i32 i = 0; i < GV_NUMBERS; ++i) squares += (x.v[i] - mean) * (x.v[i] - mean);
        const float inverse = 1.0f / gv_sqrt(gv_group_sum(group, squares) / GV_WIDTH + a.eps);
        GvNumbers y;
        GV_UNROLL for (gv_i32 i = 0; i < GV_NUMBERS; ++i) {
            const float scaled = (x.v[i] - mean) * inverse * weight.v[i] + bias.v[i];
            y.v[i] = a.relu != 0 && scaled <= 0.0f ? 0.0f : scaled;  // NaN stays
        }
        gv_write(group, a.y, row, y);
        if (group.lane == 0) {
            a.moments[2 * row] = mean;
            a.moments[2 * row + 1] = inverse;
        }
    }
}

// With n the normed row, s its derivatives by the loss and inverse the factor of the norm, those by the row are
// inverse (s - mean(s) - n mean(s n)). Sums for weight and bias are those of a tile.
GV_FN void gv_norm_back_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const GvGroup group = gv_group(team);
    const GvTileRows rows = gv_tile_rows(a, group, tile);
    const GvNumbers weight = gv_of_columns(group, a.weight), bias = gv_of_columns(group, a.bias);
    GvNumbers of_weight = {}, of_bias = {};
    for (gv_i64 row = rows.first; row < rows.end; row += GV_GROUPS) {
        GvNumbers n = gv_read(group, a.x, row), s = gv_read(group, a.of_y, row);
        const float mean = a.moments[2 * row], inverse = a.moments[2 * row + 1];
        float sum = 0.0f, product = 0.0f;
        GV_UNROLL for (gv_i32 i = 0; i < GV_NUMBERS; ++i) {
            n.v[i] = (n.v[i] - mean) * inverse;
            if (a.relu != 0 && n.v[i] * weight.v[i] + bias.v[i] <= 0.0f) s.v[i] = 0.0f;
            of_weight.v[i] += s.v[i] * n.v[i];
            of_bias.v[i] += s.v[i];
            s.v[i] *= weight.v[i];
            sum += s.v[i];
            product += s.v[i] * n.v[i];
        }
        sum = gv_group_sum(group, sum) / GV_WIDTH;
        product = gv_group_sum(group, product) / GV_WIDTH;
        GV_UNROLL for (gv_i32 i = 0; i < GV_NUMBERS; ++i) s.v[i] = inverse * (s.v[i] - sum - n.v[i] * product);
        gv_write(group, a.of_x, row, s);
    }
    float* sums = team.scratch + group.number * 2 * GV_WIDTH;
    gv_write(group, sums, 0, of_weight);
    gv_write(group, sums, 1, of_bias);
    gv_barrier(team);
    GV_FOR(i, 2 * GV_WIDTH) {
        float total = 0.0f;
        for (gv_i32 k = 0; k < GV_GROUPS; ++k) total += team.scratch[k * 2 * GV_WIDTH + i];
        a.of_tiles[(gv_i64)tile * 2 * GV_WIDTH + i] = total;
    }
}

GV_PLAIN_KERNEL(gv_norm, gv_norm_tile)
GV_PLAIN_KERNEL(gv_norm_back, gv_norm_back_tile)
