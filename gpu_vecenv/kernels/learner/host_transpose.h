// Transposes of matrices in float32 for the host.
#pragma once
#include "target/host_vectors.h"

// Transposes a block of GV_WIDTH rows and columns. Each step interleaves every row of the upper half with the row half a block
// below it; after log2(GV_WIDTH) steps rows are columns.
GV_FN void gv_transpose_block(const float* from, gv_i64 from_row, float* to, gv_i64 to_row) {
    GvVector rows[GV_WIDTH], next[GV_WIDTH];
    for (gv_i32 i = 0; i < GV_WIDTH; ++i) rows[i] = gv_load_vector(from + i * from_row);
    for (gv_i32 step = 1; step < GV_WIDTH; step *= 2) {
        for (gv_i32 i = 0; i < GV_WIDTH / 2; ++i) gv_interleave(rows[i], rows[i + GV_WIDTH / 2], next[2 * i], next[2 * i + 1]);
        for (gv_i32 i = 0; i < GV_WIDTH; ++i) rows[i] = next[i];
    }
    for (gv_i32 i = 0; i < GV_WIDTH; ++i) gv_store_vector(to + i * to_row, rows[i]);
}

// Copies the transpose of a matrix without gaps to rows that are to_row numbers apart, in blocks whose lines stay in the cache.
GV_FN void gv_copy_columns(const float* from, gv_i32 rows, gv_i32 columns, float* to, gv_i64 to_row) {
    for (gv_i32 left = 0; left < columns; left += GV_WIDTH) {
        for (gv_i32 top = 0; top < rows; top += GV_WIDTH) {
            const float* block = from + (gv_i64)top * columns + left;
            float* place = to + left * to_row + top;
            if (top + GV_WIDTH <= rows && left + GV_WIDTH <= columns) {
                gv_transpose_block(block, columns, place, to_row);
                continue;
            }
            for (gv_i32 column = 0; column < GV_WIDTH && left + column < columns; ++column) {
                for (gv_i32 row = 0; row < GV_WIDTH && top + row < rows; ++row) {
                    place[column * to_row + row] = block[(gv_i64)row * columns + column];
                }
            }
        }
    }
}
