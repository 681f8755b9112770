// Tiles on CUDA and on lanes: a group is a warp, whose lanes hold fragments of 16 x 8 numbers as gv_multiply_matrices() defines
// them. Loops have constant bounds and are unrolled, so that fragments stay in registers.
#pragma once
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#include "target/cuda_warp.h"
#else
#include "target/lanes_warp.h"
#endif

#define GV_GROUP_LANES 32
#define GV_GROUPS (GV_TEAM_LANES / 32)

// Rows of a group in a tile of `rows` rows: rows number * count to (number + 1) * count - 1.
GV_FN constexpr gv_i32 gv_group_rows(gv_i32 rows) { return rows / GV_GROUPS; }

// Loop over i in [0, n), distributed over the lanes of the group.
#define GV_GROUP_FOR(i, n) for (gv_i32 i = group.lane; i < (n); i += GV_GROUP_LANES)

template <gv_i32 ROWS, gv_i32 N>
struct GvSums {
    static_assert(ROWS % 16 == 0 && N % 8 == 0, "fragments have 16 rows and 8 columns");
    float v[ROWS / 16][N / 8][4];
};
template <gv_i32 ROWS, gv_i32 N>
struct GvRows {
    static_assert(ROWS % 16 == 0 && N % 16 == 0, "fragments of operands have 16 rows and 16 columns");
    gv_u32 v[ROWS / 16][N / 8][2];
};

// Two neighbouring numbers of the group's rows: row, column of the first, and their place in fragments.
struct GvPlace {
    gv_i32 row, column, m, j, half;
};

// Calls f(place, x, y) for all pairs of sums.
template <gv_i32 ROWS, gv_i32 N, class F>
GV_FN void gv_each_pair(GvSums<ROWS, N>& sums, const GvGroup& group, F f) {
    GV_UNROLL for (gv_i32 m = 0; m < ROWS / 16; ++m)
        GV_UNROLL for (gv_i32 j = 0; j < N / 8; ++j)
            GV_UNROLL for (gv_i32 half = 0; half < 2; ++half) {
                const GvPlace place = {16 * m + 8 * half + (group.lane >> 2), 8 * j + 2 * (group.lane & 3), m, j, half};
                f(place, sums.v[m][j][2 * half], sums.v[m][j][2 * half + 1]);
            }
}

// Runs of LENGTH columns. Run 4 q + t of a row has the columns 2 t and 2 t + 1 of the matrices q LENGTH / 2 to
// (q + 1) LENGTH / 2 - 1, so a lane has whole runs, gv_runs() of them. Those of a row whose numbers differ by multiples of 4 share a
// number of the gv_run_sums() numbers of a lane.
struct GvRun {
    gv_i32 row, run;
    gv_i32 number, sum;  // numbers of the run and of the shared number, both of the lane
};
GV_FN constexpr gv_i32 gv_runs(gv_i32 length, gv_i32 rows, gv_i32 columns) { return rows / 8 * columns / (4 * length); }
GV_FN constexpr gv_i32 gv_run_sums(gv_i32 rows) { return rows / 8; }

// Calls f(run) for all runs.
template <gv_i32 LENGTH, gv_i32 ROWS, gv_i32 N, class F>
GV_FN void gv_each_run_of(const GvGroup& group, F f) {
    static_assert(LENGTH % 2 == 0 && N % (4 * LENGTH) == 0, "four lanes have runs side by side");
    constexpr gv_i32 COUNT = N / (4 * LENGTH);
    GV_UNROLL for (gv_i32 i = 0; i < ROWS / 8 * COUNT; ++i) {
        const gv_i32 sum = i / COUNT;
        f(GvRun{8 * sum + (group.lane >> 2), 4 * (i % COUNT) + (group.lane & 3), i, sum});
    }
}
// Calls f(run, values), which may change the values.
template <gv_i32 LENGTH, gv_i32 ROWS, gv_i32 N, class F>
GV_FN void gv_each_run(GvSums<ROWS, N>& sums, const GvGroup& group, F f) {
    gv_each_run_of<LENGTH, ROWS, N>(group, [&](const GvRun& run) {
        const gv_i32 m = run.sum / 2, half = run.sum % 2, first = run.number % (N / (4 * LENGTH)) * LENGTH;
        float values[LENGTH];
        GV_UNROLL for (gv_i32 i = 0; i < LENGTH; ++i) values[i] = sums.v[m][(first + i) / 2][2 * half + i % 2];
        f(run, values);
        GV_UNROLL for (gv_i32 i = 0; i < LENGTH; ++i) sums.v[m][(first + i) / 2][2 * half + i % 2] = values[i];
    });
}

// Calls f(row, values) for the rows of sums; f may change the values. Four lanes share a row, and value i of a lane is that of
// column gv_row_column(group, i). They call f for it at the same time, and gv_row_sum() and gv_row_max() take a number of each.
GV_FN constexpr gv_i32 gv_row_values(gv_i32 columns) { return columns / 4; }
GV_FN gv_i32 gv_row_column(const GvGroup& group, gv_i32 i) { return 8 * (i / 2) + 2 * (group.lane & 3) + i % 2; }
GV_FN bool gv_leads_row(const GvGroup& group) { return (group.lane & 3) == 0; }
GV_FN float gv_of_neighbour(const GvGroup& group, float x, gv_i32 distance) {
    return gv_from_bits((gv_u32)gv_from_lane(group, gv_bits(x), group.lane ^ distance));
}
GV_FN float gv_row_sum(const GvGroup& group, float x) {
    x += gv_of_neighbour(group, x, 1);
    return x + gv_of_neighbour(group, x, 2);
}
GV_FN float gv_row_max(const GvGroup& group, float x) {
    for (gv_i32 distance = 1; distance <= 2; ++distance) {
        const float other = gv_of_neighbour(group, x, distance);
        x = x > other ? x : other;
    }
    return x;
}
// Sum over the lanes of the group; all of them get it.
GV_FN float gv_group_sum(const GvGroup& group, float x) {
    GV_UNROLL for (gv_i32 distance = 16; distance > 0; distance /= 2) x += gv_of_neighbour(group, x, distance);
    return x;
}
template <gv_i32 ROWS, gv_i32 N, class F>
GV_FN void gv_each_row(GvSums<ROWS, N>& sums, const GvGroup& group, F f) {
    GV_UNROLL for (gv_i32 m = 0; m < ROWS / 16; ++m)
        GV_UNROLL for (gv_i32 half = 0; half < 2; ++half) {
            float values[gv_row_values(N)];
            GV_UNROLL for (gv_i32 i = 0; i < N / 4; ++i) values[i] = sums.v[m][i / 2][2 * half + i % 2];
            f(16 * m + 8 * half + (group.lane >> 2), values);
            GV_UNROLL for (gv_i32 i = 0; i < N / 4; ++i) sums.v[m][i / 2][2 * half + i % 2] = values[i];
        }
}

// The two sums of a place.
template <gv_i32 ROWS, gv_i32 N>
GV_FN float* gv_at(GvSums<ROWS, N>& sums, const GvPlace& place) {
    return &sums.v[place.m][place.j][2 * place.half];
}

// Sets each sum to the number of its column; `columns` lie on a multiple of 8 bytes.
struct alignas(8) GvTwo {
    float first, second;
};
template <gv_i32 ROWS, gv_i32 N>
GV_FN void gv_fill(GvSums<ROWS, N>& sums, const GvGroup& group, const float* columns) {
    GV_UNROLL for (gv_i32 j = 0; j < N / 8; ++j) {
        const GvTwo own = *(const GvTwo*)(columns + 8 * j + 2 * (group.lane & 3));
        GV_UNROLL for (gv_i32 m = 0; m < ROWS / 16; ++m)
            GV_UNROLL for (gv_i32 i = 0; i < 4; ++i) sums.v[m][j][i] = i & 1 ? own.second : own.first;
    }
}
template <gv_i32 ROWS, gv_i32 N>
GV_FN void gv_clear(GvSums<ROWS, N>& sums) {
    GV_UNROLL for (gv_i32 m = 0; m < ROWS / 16; ++m)
        GV_UNROLL for (gv_i32 j = 0; j < N / 8; ++j)
            GV_UNROLL for (gv_i32 i = 0; i < 4; ++i) sums.v[m][j][i] = 0.0f;
}

template <gv_i32 ROWS, gv_i32 N>
GV_FN void gv_add_sums(GvSums<ROWS, N>& sums, const GvSums<ROWS, N>& others) {
    GV_UNROLL for (gv_i32 m = 0; m < ROWS / 16; ++m)
        GV_UNROLL for (gv_i32 j = 0; j < N / 8; ++j)
            GV_UNROLL for (gv_i32 i = 0; i < 4; ++i) sums.v[m][j][i] += others.v[m][j][i];
}

// Sets a pair of a place, `first` columns further, and reads it. `first` is a multiple of 8.
template <gv_i32 ROWS, gv_i32 N>
GV_FN void gv_put(GvRows<ROWS, N>& rows, const GvPlace& place, gv_i32 first, float x, float y) {
    rows.v[place.m][first / 8 + place.j][place.half] = gv_pack(x, y);
}
template <gv_i32 ROWS, gv_i32 N>
GV_FN void gv_put_finite(GvRows<ROWS, N>& rows, const GvPlace& place, gv_i32 first, float x, float y) {
    rows.v[place.m][first / 8 + place.j][place.half] = gv_pack_finite(x, y);
}
template <gv_i32 ROWS, gv_i32 N>
GV_FN void gv_get(const GvRows<ROWS, N>& rows, const GvPlace& place, gv_i32 first, float& x, float& y) {
    gv_unpack(rows.v[place.m][first / 8 + place.j][place.half], x, y);
}

// N columns from `first` on, a multiple of 8.
template <gv_i32 N, gv_i32 ROWS, gv_i32 ALL>
GV_FN GvRows<ROWS, N> gv_columns(const GvRows<ROWS, ALL>& rows, gv_i32 first) {
    GvRows<ROWS, N> part;
    GV_UNROLL for (gv_i32 m = 0; m < ROWS / 16; ++m)
        GV_UNROLL for (gv_i32 j = 0; j < N / 8; ++j)
            GV_UNROLL for (gv_i32 half = 0; half < 2; ++half) part.v[m][j][half] = rows.v[m][first / 8 + j][half];
    return part;
}

// Stores the group's rows in a tile, whose row 0 is the group's first row.
template <gv_i32 ROWS, gv_i32 N, gv_i32 STRIDE>
GV_FN void gv_store(const GvRows<ROWS, N>& rows, const GvGroup& group, GvTile<STRIDE> tile) {
    GvHalf* own = tile.at + (group.lane >> 2) * STRIDE + 2 * (group.lane & 3);
    GV_UNROLL for (gv_i32 m = 0; m < ROWS / 16; ++m)
        GV_UNROLL for (gv_i32 j = 0; j < N / 8; ++j)
            GV_UNROLL for (gv_i32 half = 0; half < 2; ++half)
                *(gv_u32*)(own + (16 * m + 8 * half) * STRIDE + 8 * j) = rows.v[m][j][half];
}

// The same for stripes, and back.
template <gv_i32 ROWS, gv_i32 N, gv_i32 COLUMNS>
GV_FN void gv_store(const GvRows<ROWS, N>& rows, const GvGroup& group, GvStripes<COLUMNS> stripes) {
    GvHalf* own = stripes.at + 2 * group.lane;
    GV_UNROLL for (gv_i32 m = 0; m < ROWS / 16; ++m)
        GV_UNROLL for (gv_i32 j = 0; j < N / 8; ++j)
            GV_UNROLL for (gv_i32 half = 0; half < 2; ++half)
                *(gv_u32*)(own + m * stripes.NEXT + j * stripes.RIGHT + half * stripes.BELOW) = rows.v[m][j][half];
}
template <gv_i32 ROWS, gv_i32 N, gv_i32 COLUMNS>
GV_FN void gv_load(GvRows<ROWS, N>& rows, const GvGroup& group, GvStripes<COLUMNS> stripes) {
    const GvHalf* own = stripes.at + 2 * group.lane;
    GV_UNROLL for (gv_i32 m = 0; m < ROWS / 16; ++m)
        GV_UNROLL for (gv_i32 j = 0; j < N / 8; ++j)
            GV_UNROLL for (gv_i32 half = 0; half < 2; ++half)
                rows.v[m][j][half] = *(const gv_u32*)(own + m * stripes.NEXT + j * stripes.RIGHT + half * stripes.BELOW);
}
// Sets two neighbouring numbers of a tile, the first one in an even column; what is too large becomes the largest number.
template <gv_i32 STRIDE>
GV_FN void gv_set_pair(GvTile<STRIDE> tile, gv_i32 row, gv_i32 column, float x, float y) {
    *(gv_u32*)(tile.at + row * STRIDE + column) = gv_pack_finite(x, y);
}
// Stores a pair of a place; the stripes start with the group's first row.
template <gv_i32 COLUMNS>
GV_FN void gv_put_pair(GvStripes<COLUMNS> stripes, const GvPlace& place, float x, float y) {
    const gv_i32 pair = place.row % 8 * 8 + place.column % 8;  // in its matrix
    GvHalf* own = stripes.at + place.m * stripes.NEXT + place.j * stripes.RIGHT + place.half * stripes.BELOW + pair;
    *(gv_u32*)own = gv_pack_finite(x, y);
}

// ---- products of the group's rows ------------------------------------------------------------------------------

template <gv_i32 ROWS, gv_i32 N>
GV_FN void gv_left(const GvRows<ROWS, N>& a, const GvGroup&, gv_i32 m, gv_i32 step, gv_u32 (&word)[4]) {
    GV_UNROLL for (gv_i32 i = 0; i < 4; ++i) word[i] = a.v[m][2 * step + (i >> 1)][i & 1];
}
template <gv_i32 STRIDE>
GV_FN void gv_left(GvTile<STRIDE> a, const GvGroup& group, gv_i32 m, gv_i32 step, gv_u32 (&word)[4]) {
    const gv_i32 row = group.lane & 15, column = group.lane >> 4 << 3;
    gv_load_matrices(group, gv_matrix_row(a.at + row * STRIDE + column), 16 * (m * STRIDE + step), word);
}

// sums += a b^T, or a b if TRANSPOSED is false: `a` has K columns and is a tile whose row 0 is the group's first row, or GvRows;
// b is a tile of N rows and K columns, or of K rows and N columns.
template <gv_i32 K, bool TRANSPOSED, gv_i32 ROWS, gv_i32 N, class Left, gv_i32 STRIDE>
GV_FN void gv_add_product_of(GvSums<ROWS, N>& sums, const GvGroup& group, const Left& a, GvTile<STRIDE> b) {
    static_assert(K % 16 == 0, "a step takes 16 columns");
    const gv_i32 low = group.lane & 7, second = group.lane >> 3 & 1, third = group.lane >> 4;
    const GvHalf* own = b.at + (TRANSPOSED ? low * STRIDE + second * 8 : (low + second * 8) * STRIDE);
    const GvMatrixRow pair = gv_matrix_row(own + third * (TRANSPOSED ? 8 * STRIDE : 8)), last = gv_matrix_row(own);
    GV_UNROLL for (gv_i32 step = 0; step < K / 16; ++step) {
        gv_u32 left[ROWS / 16][4];
        GV_UNROLL for (gv_i32 m = 0; m < ROWS / 16; ++m) gv_left(a, group, m, step, left[m]);
        GV_UNROLL for (gv_i32 j = 0; j < N / 8; j += 2) {
            const GvMatrixRow row = j + 1 < N / 8 ? pair : last;
            gv_u32 right[4];
            if constexpr (TRANSPOSED) gv_load_matrices(group, row, 8 * j * STRIDE + 16 * step, right);
            else gv_load_transposed(group, row, 16 * step * STRIDE + 8 * j, right);
            GV_UNROLL for (gv_i32 m = 0; m < ROWS / 16; ++m) {
                gv_multiply_matrices(group, sums.v[m][j], left[m], right[0], right[1]);
                if (j + 1 < N / 8) gv_multiply_matrices(group, sums.v[m][j + 1 < N / 8 ? j + 1 : j], left[m], right[2], right[3]);
            }
        }
    }
}

// sums += (high + low) (b + rest)^T without the product of the low parts: `high` and `low` are GvRows of K columns, b and rest tiles
// (N, K). Each fragment of b is loaded once for two products.
template <gv_i32 K, gv_i32 ROWS, gv_i32 N, gv_i32 STRIDE>
GV_FN void gv_add_exact_product(GvSums<ROWS, N>& sums, const GvGroup& group, const GvRows<ROWS, K>& high, const GvRows<ROWS, K>& low,
                                GvTile<STRIDE> b, GvTile<STRIDE> rest) {
    static_assert(N % 16 == 0, "fragments of b come in pairs");
    const gv_i32 place = (group.lane & 7) * STRIDE + (group.lane >> 3 & 1) * 8 + (group.lane >> 4) * 8 * STRIDE;
    const GvMatrixRow of_b = gv_matrix_row(b.at + place), of_low = gv_matrix_row(rest.at + place);
    GV_UNROLL for (gv_i32 step = 0; step < K / 16; ++step) {
        gv_u32 one[ROWS / 16][4], two[ROWS / 16][4];
        GV_UNROLL for (gv_i32 m = 0; m < ROWS / 16; ++m) {
            gv_left(high, group, m, step, one[m]);
            gv_left(low, group, m, step, two[m]);
        }
        GV_UNROLL for (gv_i32 j = 0; j < N / 8; j += 2) {
            gv_u32 right[4], of_rest[4];
            gv_load_matrices(group, of_b, 8 * j * STRIDE + 16 * step, right);
            gv_load_matrices(group, of_low, 8 * j * STRIDE + 16 * step, of_rest);
            GV_UNROLL for (gv_i32 m = 0; m < ROWS / 16; ++m)
                GV_UNROLL for (gv_i32 product = 0; product < 3; ++product)
                    GV_UNROLL for (gv_i32 i = 0; i < 2; ++i) {  // neighbours, which do not wait for each other
                        const gv_u32* word = product == 1 ? of_rest : right;
                        gv_multiply_matrices(group, sums.v[m][j + i], product == 0 ? two[m] : one[m], word[2 * i], word[2 * i + 1]);
                    }
        }
    }
}

// ---- sums over the rows of a tile ------------------------------------------------------------------------------

// Groups that share M x N sums: ABOVE groups below each other, each with ROWS x COLUMNS fragments.
template <gv_i32 M, gv_i32 N>
struct GvSplit {
    GV_FN constexpr gv_i32 over(gv_i32 n, gv_i32 parts) { return (n + parts - 1) / parts; }
    GV_FN constexpr gv_i32 loads(gv_i32 above) {  // words that a group loads in a step; sums and totals count twice, as they stay
        const gv_i32 rows = over(M / 16, above), columns = over(N / 8, GV_GROUPS / above);
        return 8 * rows * (columns + 1) + 4 * rows + 2 * columns;
    }
    GV_FN constexpr gv_i32 best() {
        gv_i32 found = 1;
        for (gv_i32 above = 2; above <= GV_GROUPS; above *= 2) {
            if (loads(above) < loads(found)) found = above;
        }
        return found;
    }
    static constexpr gv_i32 ABOVE = best(), BESIDE = GV_GROUPS / ABOVE;
    static constexpr gv_i32 ROWS = over(M / 16, ABOVE), COLUMNS = over(N / 8, BESIDE);
};

// M x N sums, and M totals of the rows of the left operand.
template <gv_i32 M, gv_i32 N>
struct GvSpread {
    static_assert(M % 16 == 0 && N % 8 == 0, "fragments have 16 rows and 8 columns");
    typedef GvSplit<M, N> Split;
    float v[Split::ROWS][Split::COLUMNS][4], total[Split::ROWS][4];
};
template <gv_i32 M, gv_i32 N>
GV_FN void gv_clear(GvSpread<M, N>& sums) {
    typedef GvSplit<M, N> Split;
    GV_UNROLL for (gv_i32 m = 0; m < Split::ROWS; ++m)
        GV_UNROLL for (gv_i32 i = 0; i < 4; ++i) {
            sums.total[m][i] = 0.0f;
            GV_UNROLL for (gv_i32 j = 0; j < Split::COLUMNS; ++j) sums.v[m][j][i] = 0.0f;
        }
}

// sums += a^T b and, if `totals`, totals += a^T 1, over K rows of tiles or stripes.
template <gv_i32 K, gv_i32 M, gv_i32 N, class Left, class Right>
GV_FN void gv_add_columns(GvSpread<M, N>& sums, const GvGroup& group, Left a, Right b, bool totals = true) {
    typedef GvSplit<M, N> Split;
    const gv_i32 low = group.lane & 7, second = group.lane >> 3 & 1, third = group.lane >> 4;
    const gv_i32 m_first = group.number / Split::BESIDE * Split::ROWS, j_first = group.number % Split::BESIDE * Split::COLUMNS;
    const GvMatrixRow left_row = gv_matrix_row(a.at + low * a.ROW + third * a.BELOW + (second + 2 * m_first) * a.RIGHT);
    const GvHalf* right_at = b.at + low * b.ROW + second * b.BELOW + j_first * b.RIGHT;
    const GvMatrixRow pair = gv_matrix_row(right_at + third * b.RIGHT), last = gv_matrix_row(right_at);
    GV_UNROLL for (gv_i32 step = 0; step < K / 16; ++step) {
        gv_u32 left[Split::ROWS][4];
        GV_UNROLL for (gv_i32 m = 0; m < Split::ROWS; ++m) {
            if (M / 16 % Split::ABOVE != 0 && m_first + m >= M / 16) continue;
            gv_load_transposed(group, left_row, step * a.NEXT + 2 * m * a.RIGHT, left[m]);
            if (totals) gv_multiply_matrices(group, sums.total[m], left[m], 0x3c003c00u, 0x3c003c00u);  // ones
        }
        GV_UNROLL for (gv_i32 j = 0; j < Split::COLUMNS; j += 2) {
            const bool any = N / 8 % Split::BESIDE == 0 || j_first + j < N / 8;
            const bool both = j + 1 < Split::COLUMNS && (N / 8 % Split::BESIDE == 0 || j_first + j + 1 < N / 8);
            if (!any) continue;
            gv_u32 right[4];
            gv_load_transposed(group, both ? pair : last, step * b.NEXT + j * b.RIGHT, right);
            GV_UNROLL for (gv_i32 m = 0; m < Split::ROWS; ++m) {
                if (M / 16 % Split::ABOVE != 0 && m_first + m >= M / 16) continue;
                gv_multiply_matrices(group, sums.v[m][j], left[m], right[0], right[1]);
                if (both) gv_multiply_matrices(group, sums.v[m][j + 1 < Split::COLUMNS ? j + 1 : j], left[m], right[2], right[3]);
            }
        }
    }
}

// Calls f(row, column, sum) for all sums, and of_row(row, total) for all totals; each once in the team.
template <gv_i32 M, gv_i32 N, class F, class OfRow>
GV_FN void gv_each_sum(const GvSpread<M, N>& sums, const GvGroup& group, F f, OfRow of_row) {
    typedef GvSplit<M, N> Split;
    const gv_i32 m_first = group.number / Split::BESIDE * Split::ROWS, beside = group.number % Split::BESIDE;
    const gv_i32 g = group.lane >> 2, t = group.lane & 3;
    GV_UNROLL for (gv_i32 m = 0; m < Split::ROWS; ++m)
        GV_UNROLL for (gv_i32 i = 0; i < 4; ++i) {
            const gv_i32 row = 16 * (m_first + m) + 8 * (i >> 1) + g;
            if (row >= M) continue;
            if (beside == 0 && t == 0 && (i & 1) == 0) of_row(row, sums.total[m][i]);
            GV_UNROLL for (gv_i32 j = 0; j < Split::COLUMNS; ++j) {
                const gv_i32 column = 8 * (beside * Split::COLUMNS + j) + 2 * t + (i & 1);
                if (column < N) f(row, column, sums.v[m][j][i]);
            }
        }
}

// ---- values that lanes hold ------------------------------------------------------------------------------------

// N values of a group, value i in lane i % 32.
template <class T, gv_i32 N>
struct GvValues {
    static constexpr gv_i32 SLOTS = (N + 31) / 32;
    T v[SLOTS];
};

// Value i, which this lane holds.
template <class T, gv_i32 N>
GV_FN T gv_held(const GvValues<T, N>& held, gv_i32 i) {
    return held.v[i / 32];
}

// Value i of up to 32, which all lanes ask for at the same time.
template <gv_i32 N>
GV_FN gv_i32 gv_value_at(const GvValues<gv_i32, N>& held, const GvGroup& group, gv_i32 i) {
    static_assert(N <= 32, "one value a lane");
    return gv_from_lane(group, held.v[0], i);
}

// Calls f(i, value) for all values.
template <class T, gv_i32 N, class F>
GV_FN void gv_each_value(GvValues<T, N>& held, const GvGroup& group, F f) {
    GV_UNROLL for (gv_i32 slot = 0; slot < GvValues<T, N>::SLOTS; ++slot) {
        const gv_i32 i = group.lane + 32 * slot;
        if (N % 32 == 0 || i < N) f(i, held.v[slot]);
    }
}

// Calls f(i, value, j, value) for all values, two of a lane at a time.
template <class T, gv_i32 N, class F>
GV_FN void gv_each_two_values(GvValues<T, N>& held, const GvGroup& group, F f) {
    static_assert(N % 64 == 0, "a lane has pairs");
    GV_UNROLL for (gv_i32 slot = 0; slot < GvValues<T, N>::SLOTS; slot += 2) {
        const gv_i32 i = group.lane + 32 * slot;
        f(i, held.v[slot], i + 32, held.v[slot + 1]);
    }
}

// Calls f(i, value, other), where `other` is value of(i) of another array of up to 32 values.
template <class T, gv_i32 N, gv_i32 OTHERS, class Of, class F>
GV_FN void gv_each_value_with(GvValues<T, N>& held, const GvGroup& group, const GvValues<gv_i32, OTHERS>& others, Of of, F f) {
    static_assert(OTHERS <= 32, "one value a lane");
    GV_UNROLL for (gv_i32 slot = 0; slot < GvValues<T, N>::SLOTS; ++slot) {
        const gv_i32 i = group.lane + 32 * slot, from = of(i);
        const gv_i32 other = gv_from_lane(group, others.v[0], from < OTHERS ? from : 0);
        if (N % 32 == 0 || i < N) f(i, held.v[slot], other);
    }
}
