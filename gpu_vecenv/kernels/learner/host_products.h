// Products of matrices in float32 for the host. Each element is a sum in the order of the inner index, so its bits do not depend on
// the number of threads or on the width of vectors.
#pragma once
#include "target/host_vectors.h"

// Vectors of columns, and rows, whose sums are in registers, with room for a row of the second factor and a number of the first
// one. A tile of four vectors reads neighbouring lines of the second factor, and takes 5 to 10 % less time than one of two.
#define GV_TILE_VECTORS (GV_VECTOR_REGISTERS == 32 ? 4 : 2)
constexpr gv_i32 gv_tile_rows(gv_i32 vectors) {
    return vectors == 1 ? 12 : GV_VECTOR_REGISTERS / 4 * 3 / vectors;
}
#define GV_STEP 16  // columns of matrices are multiples of it

// Numbers (row, i) at row * by_row + i * by_inner.
struct GvFactor {
    const float* at;
    gv_i64 by_row, by_inner;
};

// Sums are stored as they are.
struct GvPlain {
    GV_METHOD GvVector operator()(const GvVector& sum, const float* /*place*/) const { return sum; }
};

// C = finish(start + A B) for ROWS rows and VECTORS vectors of columns. Rows of `start` lie start_row apart, those of B b_row.
// finish(sum, place) gets the place in C.
template <gv_i32 ROWS, gv_i32 VECTORS, class Finish>
GV_INLINE void gv_product_tile(const GvFactor& a, const float* b, gv_i64 b_row, gv_i32 inner, const float* start, gv_i64 start_row,
                               float* c, gv_i64 c_row, const Finish& finish) {
    GvVector sums[ROWS][VECTORS];
    for (gv_i32 m = 0; m < ROWS; ++m) {
        for (gv_i32 v = 0; v < VECTORS; ++v) sums[m][v] = gv_load_vector(start + m * start_row + v * GV_WIDTH);
    }
    for (gv_i32 i = 0; i < inner; ++i) {
        GvVector of_b[VECTORS];
        for (gv_i32 v = 0; v < VECTORS; ++v) of_b[v] = gv_load_vector(b + i * b_row + v * GV_WIDTH);
        for (gv_i32 m = 0; m < ROWS; ++m) {
            const GvVector of_a = gv_all(a.at[m * a.by_row + i * a.by_inner]);
            for (gv_i32 v = 0; v < VECTORS; ++v) sums[m][v] = gv_fused_or_two(of_a, of_b[v], sums[m][v]);
        }
    }
    for (gv_i32 m = 0; m < ROWS; ++m) {
        for (gv_i32 v = 0; v < VECTORS; ++v) {
            float* place = c + m * c_row + v * GV_WIDTH;
            gv_store_vector(place, finish(sums[m][v], place));
        }
    }
}

// The same for a number of rows, in tiles of ROWS rows, then in smaller ones.
template <gv_i32 ROWS, gv_i32 VECTORS, class Finish>
GV_INLINE void gv_product_columns(gv_i32 rows, GvFactor a, const float* b, gv_i64 b_row, gv_i32 inner, const float* start,
                                  gv_i64 start_row, float* c, gv_i64 c_row, const Finish& finish) {
    for (; rows >= ROWS; rows -= ROWS, a.at += ROWS * a.by_row, start += ROWS * start_row, c += ROWS * c_row) {
        gv_product_tile<ROWS, VECTORS>(a, b, b_row, inner, start, start_row, c, c_row, finish);
    }
    if constexpr (ROWS > 1) {
        gv_product_columns<(ROWS > 4 ? 4 : ROWS / 2), VECTORS>(rows, a, b, b_row, inner, start, start_row, c, c_row, finish);
    }
}

// The same for columns from `first` on: VECTORS vectors at a time, then fewer.
template <gv_i32 VECTORS, class Finish>
GV_INLINE void gv_product_from(gv_i32 first, gv_i32 rows, gv_i32 columns, gv_i32 inner, const GvFactor& a, const float* b,
                               gv_i64 b_row, const float* start, gv_i64 start_row, float* c, gv_i64 c_row, const Finish& finish) {
    constexpr gv_i32 WIDTH = VECTORS * GV_WIDTH;
    for (; first + WIDTH <= columns; first += WIDTH) {
        gv_product_columns<gv_tile_rows(VECTORS), VECTORS>(rows, a, b + first, b_row, inner, start + first, start_row, c + first,
                                                           c_row, finish);
    }
    if constexpr (WIDTH > GV_STEP) {
        gv_product_from<VECTORS / 2>(first, rows, columns, inner, a, b, b_row, start, start_row, c, c_row, finish);
    }
}

// C = finish(start + A B), for a number of columns that is a multiple of GV_STEP.
template <class Finish = GvPlain>
static __attribute__((noinline)) void gv_product(gv_i32 rows, gv_i32 columns, gv_i32 inner, const GvFactor& a, const float* b,
                                                 gv_i64 b_row, const float* start, gv_i64 start_row, float* c, gv_i64 c_row,
                                                 const Finish& finish = Finish()) {
    gv_product_from<GV_TILE_VECTORS>(0, rows, columns, inner, a, b, b_row, start, start_row, c, c_row, finish);
}

// Row by row the products with `count` rows of B, plus `start`: C = start + A B^T, for few of them. Rows of both factors lie a
// multiple of GV_STEP apart, with zeros up to it in B. A sum has GV_STEP parts, whatever the width of vectors.
static __attribute__((noinline)) void gv_few_products(gv_i32 rows, gv_i32 count, gv_i32 inner, const float* a, const float* b,
                                                      const float* start, float* c, gv_i64 c_row) {
    constexpr gv_i32 PARTS = GV_STEP / GV_WIDTH;
    const gv_i32 columns = (inner + GV_STEP - 1) / GV_STEP * GV_STEP;
    for (gv_i32 row = 0; row < rows; ++row) {
        for (gv_i32 n = 0; n < count; ++n) {
            GvVector sums[PARTS] = {};
            for (gv_i32 i = 0; i < columns; i += GV_STEP) {
                for (gv_i32 p = 0; p < PARTS; ++p) {
                    const gv_i32 at = i + p * GV_WIDTH;
                    sums[p] = gv_fused_or_two(gv_load_vector(a + (gv_i64)row * columns + at),
                                              gv_load_vector(b + (gv_i64)n * columns + at), sums[p]);
                }
            }
            float parts[GV_STEP], sum = start[n];
            for (gv_i32 p = 0; p < PARTS; ++p) gv_store_vector(parts + p * GV_WIDTH, sums[p]);
            for (gv_i32 i = 0; i < GV_STEP; ++i) sum += parts[i];
            c[row * c_row + n] = sum;
        }
    }
}
