// Products of tiles, for tests: C = A W^T + c by way of a tile, D = half(C) V by way of registers, E = A^T half(C), t = A^T 1.
#include "learner/tile.h"
#include "program_args.h"

// Numbers between two rows of a tile.
GV_FN constexpr gv_i32 gv_stride(gv_i32 columns) { return ((columns + 7) / 8 | 1) * 8; }

GV_FN void gv_tile_body(const GvArgs& a, const GvLanes& team, gv_i32) {
    constexpr gv_i32 ROWS = GV_ROWS, K = GV_K, N = GV_N, M = GV_M, OWN = gv_group_rows(ROWS);
    constexpr gv_i32 A = gv_stride(K), W = gv_stride(K), V = gv_stride(M), C = gv_stride(N);
    const GvGroup group = gv_group(team);
    const GvTile<A> left = {(GvHalf*)team.scratch};
    const GvTile<W> weights = {left.at + ROWS * A};
    const GvTile<V> others = {weights.at + N * W};
    const GvTile<C> kept = {others.at + N * V};
    GV_FOR(i, ROWS * K) gv_set(left, i / K, i % K, a.a[i]);
    GV_FOR(i, N * K) gv_set(weights, i / K, i % K, a.w[i]);
    GV_FOR(i, N * M) gv_set(others, i / M, i % M, a.v[i]);
    gv_barrier(team);
    const gv_i32 row = group.number * OWN;
    GvSums<OWN, N> sums;
    GvRows<OWN, N> rows;
    gv_fill(sums, group, a.c);
    gv_add_layer<K>(sums, group, gv_part(left, row, 0), weights);
    gv_each_pair(sums, group, [&](const GvPlace& place, float& x, float& y) {
        a.first[(row + place.row) * N + place.column] = x;
        a.first[(row + place.row) * N + place.column + 1] = y;
        gv_put_finite(rows, place, 0, x, y);
    });
    GvSums<OWN, M> more;
    gv_clear(more);
    gv_add_product<N>(more, group, rows, others);
    gv_each_pair(more, group, [&](const GvPlace& place, float& x, float& y) {
        a.second[(row + place.row) * M + place.column] = x;
        a.second[(row + place.row) * M + place.column + 1] = y;
    });
    gv_store(rows, group, gv_part(kept, row, 0));
    gv_barrier(team);
    GvSpread<K, N> spread;
    gv_clear(spread);
    gv_add_columns<ROWS>(spread, group, left, kept);
    gv_each_sum(spread, group, [&](gv_i32 m, gv_i32 n, float sum) { a.columns[m * N + n] = sum; },
                [&](gv_i32 m, float total) { a.totals[m] = total; });
    GvValues<gv_i32, OWN> index;
    GvValues<float, 3 * OWN> held;  // three neighbouring numbers of each row
    gv_each_value(index, group, [&](gv_i32 i, gv_i32& value) { value = ROWS - 1 - (row + i); });
    gv_each_value_with(held, group, index, [](gv_i32 i) { return i / 3; }, [&](gv_i32 i, float& value, gv_i32 from) {
        value = a.a[from * K + i % 3];
    });
    gv_each_value(held, group, [&](gv_i32 i, float& value) { a.held[3 * row + i] = value; });
}

GV_PLAIN_KERNEL(gv_products, gv_tile_body)
