// Tiles on the host: a group is the team, its rows are all rows of a tile, and numbers are floats rounded to 16 bits. The comments
// on these functions are in warp_tile.h and cuda_warp.h.
#pragma once
#include "target/half.h"
#include "target/tile_types.h"

struct GvHalf {
    float value;
};
struct GvGroup {
    gv_i32 number, lane;
};
GV_FN GvGroup gv_group(const GvLanes&) { return {0, 0}; }
GV_FN void gv_group_barrier(const GvGroup&) {}
GV_FN bool gv_group_any(const GvGroup&, bool condition) { return condition; }
GV_FN GvHalf gv_half(float value) { return {gv_rounded_to_half(value)}; }
GV_FN float gv_float(GvHalf half) { return half.value; }
GV_FN float gv_finite_half(float x) { return x > GV_LARGEST_HALF ? GV_LARGEST_HALF : x < -GV_LARGEST_HALF ? -GV_LARGEST_HALF : x; }

GV_FN void gv_halves_or_nan(float x, float y, GvHalf& first, GvHalf& second) {
    first.value = gv_half_or_nan_value(x);
    second.value = gv_half_or_nan_value(y);
}

#define GV_GROUP_LANES 1
#define GV_TEAM_LANES 1
#define GV_GROUPS 1
GV_FN constexpr gv_i32 gv_group_rows(gv_i32 rows) { return rows; }
#define GV_GROUP_FOR(i, n) for (gv_i32 i = 0; i < (n); ++i)

template <gv_i32 ROWS, gv_i32 N>
struct GvSums {
    float v[ROWS][N];
};
template <gv_i32 ROWS, gv_i32 N>
struct GvRows {
    float v[ROWS][N];
};
struct GvPlace {
    gv_i32 row, column;
};

template <gv_i32 ROWS, gv_i32 N, class F>
GV_FN void gv_each_pair(GvSums<ROWS, N>& sums, const GvGroup&, F f) {
    for (gv_i32 row = 0; row < ROWS; ++row) {
        for (gv_i32 column = 0; column < N; column += 2) f(GvPlace{row, column}, sums.v[row][column], sums.v[row][column + 1]);
    }
}
struct GvRun {
    gv_i32 row, run, number, sum;
};
GV_FN constexpr gv_i32 gv_runs(gv_i32 length, gv_i32 rows, gv_i32 columns) { return rows * columns / length; }
GV_FN constexpr gv_i32 gv_run_sums(gv_i32 rows) { return 4 * rows; }
template <gv_i32 LENGTH, gv_i32 ROWS, gv_i32 N, class F>
GV_FN void gv_each_run_of(const GvGroup&, F f) {
    constexpr gv_i32 RUNS = N / LENGTH;
    for (gv_i32 i = 0; i < ROWS * RUNS; ++i) f(GvRun{i / RUNS, i % RUNS, i, i / RUNS * 4 + i % RUNS % 4});
}
template <gv_i32 LENGTH, gv_i32 ROWS, gv_i32 N, class F>
GV_FN void gv_each_run(GvSums<ROWS, N>& sums, const GvGroup& group, F f) {
    gv_each_run_of<LENGTH, ROWS, N>(group, [&](const GvRun& run) {
        float values[LENGTH], *own = sums.v[run.row] + run.run / 4 * 4 * LENGTH + run.run % 4 * 2;
        for (gv_i32 i = 0; i < LENGTH; ++i) values[i] = own[i / 2 * 8 + i % 2];
        f(run, values);
        for (gv_i32 i = 0; i < LENGTH; ++i) own[i / 2 * 8 + i % 2] = values[i];
    });
}
GV_FN constexpr gv_i32 gv_row_values(gv_i32 columns) { return columns; }
GV_FN gv_i32 gv_row_column(const GvGroup&, gv_i32 i) { return i; }
GV_FN bool gv_leads_row(const GvGroup&) { return true; }
GV_FN float gv_row_sum(const GvGroup&, float x) { return x; }
GV_FN float gv_row_max(const GvGroup&, float x) { return x; }
GV_FN float gv_group_sum(const GvGroup&, float x) { return x; }
template <gv_i32 ROWS, gv_i32 N, class F>
GV_FN void gv_each_row(GvSums<ROWS, N>& sums, const GvGroup&, F f) {
    for (gv_i32 row = 0; row < ROWS; ++row) f(row, sums.v[row]);
}
template <gv_i32 ROWS, gv_i32 N>
GV_FN float* gv_at(GvSums<ROWS, N>& sums, const GvPlace& place) {
    return &sums.v[place.row][place.column];
}
template <gv_i32 ROWS, gv_i32 N>
GV_FN void gv_fill(GvSums<ROWS, N>& sums, const GvGroup&, const float* columns) {
    for (auto& row : sums.v) {
        for (gv_i32 column = 0; column < N; ++column) row[column] = columns[column];
    }
}
template <gv_i32 ROWS, gv_i32 N>
GV_FN void gv_clear(GvSums<ROWS, N>& sums) {
    for (auto& row : sums.v) {
        for (float& sum : row) sum = 0.0f;
    }
}
template <gv_i32 ROWS, gv_i32 N>
GV_FN void gv_add_sums(GvSums<ROWS, N>& sums, const GvSums<ROWS, N>& others) {
    for (gv_i32 row = 0; row < ROWS; ++row) {
        for (gv_i32 i = 0; i < N; ++i) sums.v[row][i] += others.v[row][i];
    }
}

template <gv_i32 ROWS, gv_i32 N>
GV_FN void gv_put(GvRows<ROWS, N>& rows, const GvPlace& place, gv_i32 first, float x, float y) {
    rows.v[place.row][first + place.column] = gv_rounded_to_half(x);
    rows.v[place.row][first + place.column + 1] = gv_rounded_to_half(y);
}
template <gv_i32 ROWS, gv_i32 N>
GV_FN void gv_put_finite(GvRows<ROWS, N>& rows, const GvPlace& place, gv_i32 first, float x, float y) {
    gv_put(rows, place, first, gv_finite_half(x), gv_finite_half(y));
}
template <gv_i32 ROWS, gv_i32 N>
GV_FN void gv_get(const GvRows<ROWS, N>& rows, const GvPlace& place, gv_i32 first, float& x, float& y) {
    x = rows.v[place.row][first + place.column];
    y = rows.v[place.row][first + place.column + 1];
}
template <gv_i32 N, gv_i32 ROWS, gv_i32 ALL>
GV_FN GvRows<ROWS, N> gv_columns(const GvRows<ROWS, ALL>& rows, gv_i32 first) {
    GvRows<ROWS, N> part;
    for (gv_i32 row = 0; row < ROWS; ++row) {
        for (gv_i32 i = 0; i < N; ++i) part.v[row][i] = rows.v[row][first + i];
    }
    return part;
}
template <gv_i32 ROWS, gv_i32 N, gv_i32 STRIDE>
GV_FN void gv_store(const GvRows<ROWS, N>& rows, const GvGroup&, GvTile<STRIDE> tile) {
    for (gv_i32 row = 0; row < ROWS; ++row) {
        for (gv_i32 column = 0; column < N; ++column) tile.at[row * STRIDE + column].value = rows.v[row][column];
    }
}
template <gv_i32 ROWS, gv_i32 N, gv_i32 COLUMNS>
GV_FN void gv_store(const GvRows<ROWS, N>& rows, const GvGroup&, GvStripes<COLUMNS> stripes) {
    for (gv_i32 row = 0; row < ROWS; ++row) {
        for (gv_i32 i = 0; i < N; ++i) stripes.at[gv_place_of<GvStripes<COLUMNS>>(row, i)].value = rows.v[row][i];
    }
}
template <gv_i32 ROWS, gv_i32 N, gv_i32 COLUMNS>
GV_FN void gv_load(GvRows<ROWS, N>& rows, const GvGroup&, GvStripes<COLUMNS> stripes) {
    for (gv_i32 row = 0; row < ROWS; ++row) {
        for (gv_i32 i = 0; i < N; ++i) rows.v[row][i] = stripes.at[gv_place_of<GvStripes<COLUMNS>>(row, i)].value;
    }
}
template <gv_i32 STRIDE>
GV_FN void gv_set_pair(GvTile<STRIDE> tile, gv_i32 row, gv_i32 column, float x, float y) {
    GvHalf* own = tile.at + row * STRIDE + column;
    own[0] = gv_half(gv_finite_half(x));
    own[1] = gv_half(gv_finite_half(y));
}
template <gv_i32 COLUMNS>
GV_FN void gv_put_pair(GvStripes<COLUMNS> stripes, const GvPlace& place, float x, float y) {
    GvHalf* own = stripes.at + gv_place_of<GvStripes<COLUMNS>>(place.row, place.column);
    own[0] = gv_half(gv_finite_half(x));
    own[1] = gv_half(gv_finite_half(y));
}

template <gv_i32 ROWS, gv_i32 N>
GV_FN float gv_left(const GvRows<ROWS, N>& a, gv_i32 row, gv_i32 column) { return a.v[row][column]; }
template <gv_i32 STRIDE>
GV_FN float gv_left(GvTile<STRIDE> a, gv_i32 row, gv_i32 column) { return a.at[row * STRIDE + column].value; }

template <gv_i32 K, bool TRANSPOSED, gv_i32 ROWS, gv_i32 N, class Left, gv_i32 STRIDE>
GV_FN void gv_add_product_of(GvSums<ROWS, N>& sums, const GvGroup&, const Left& a, GvTile<STRIDE> b) {
    float right[K][N];  // in the order in which the loop below reads it
    for (gv_i32 k = 0; k < K; ++k) {
        for (gv_i32 n = 0; n < N; ++n) right[k][n] = b.at[TRANSPOSED ? n * STRIDE + k : k * STRIDE + n].value;
    }
    for (gv_i32 row = 0; row < ROWS; ++row) {
        for (gv_i32 k = 0; k < K; ++k) {
            const float left = gv_left(a, row, k);
            for (gv_i32 n = 0; n < N; ++n) sums.v[row][n] += left * right[k][n];
        }
    }
}

template <gv_i32 K, gv_i32 ROWS, gv_i32 N, gv_i32 STRIDE>
GV_FN void gv_add_exact_product(GvSums<ROWS, N>& sums, const GvGroup& group, const GvRows<ROWS, K>& high, const GvRows<ROWS, K>& low,
                                GvTile<STRIDE> b, GvTile<STRIDE> rest) {
    gv_add_product_of<K, true>(sums, group, low, b);
    gv_add_product_of<K, true>(sums, group, high, rest);
    gv_add_product_of<K, true>(sums, group, high, b);
}

template <gv_i32 M, gv_i32 N>
struct GvSpread {
    float v[M][N], total[M];
};
template <gv_i32 M, gv_i32 N>
GV_FN void gv_clear(GvSpread<M, N>& sums) {
    for (gv_i32 m = 0; m < M; ++m) {
        sums.total[m] = 0.0f;
        for (float& sum : sums.v[m]) sum = 0.0f;
    }
}
template <gv_i32 K, gv_i32 M, gv_i32 N, class Left, class Right>
GV_FN void gv_add_columns(GvSpread<M, N>& sums, const GvGroup&, Left a, Right b, bool totals = true) {
    for (gv_i32 k = 0; k < K; ++k) {
        float right[N];
        for (gv_i32 n = 0; n < N; ++n) right[n] = b.at[gv_place_of<Right>(k, n)].value;
        for (gv_i32 m = 0; m < M; ++m) {
            const float left = a.at[gv_place_of<Left>(k, m)].value;
            sums.total[m] += totals ? left : 0.0f;
            for (gv_i32 n = 0; n < N; ++n) sums.v[m][n] += left * right[n];
        }
    }
}
template <gv_i32 M, gv_i32 N, class F, class OfRow>
GV_FN void gv_each_sum(const GvSpread<M, N>& sums, const GvGroup&, F f, OfRow of_row) {
    for (gv_i32 m = 0; m < M; ++m) {
        of_row(m, sums.total[m]);
        for (gv_i32 n = 0; n < N; ++n) f(m, n, sums.v[m][n]);
    }
}

template <class T, gv_i32 N>
struct GvValues {
    T v[N];
};
template <class T, gv_i32 N>
GV_FN T gv_held(const GvValues<T, N>& held, gv_i32 i) {
    return held.v[i];
}
template <gv_i32 N>
GV_FN gv_i32 gv_value_at(const GvValues<gv_i32, N>& held, const GvGroup&, gv_i32 i) {
    return held.v[i];
}
template <class T, gv_i32 N, class F>
GV_FN void gv_each_value(GvValues<T, N>& held, const GvGroup&, F f) {
    for (gv_i32 i = 0; i < N; ++i) f(i, held.v[i]);
}
template <class T, gv_i32 N, class F>
GV_FN void gv_each_two_values(GvValues<T, N>& held, const GvGroup&, F f) {
    for (gv_i32 i = 0; i < N; i += 2) f(i, held.v[i], i + 1, held.v[i + 1]);
}
template <class T, gv_i32 N, gv_i32 OTHERS, class Of, class F>
GV_FN void gv_each_value_with(GvValues<T, N>& held, const GvGroup&, const GvValues<gv_i32, OTHERS>& others, Of of, F f) {
    for (gv_i32 i = 0; i < N; ++i) f(i, held.v[i], others.v[of(i) < OTHERS ? of(i) : 0]);
}
