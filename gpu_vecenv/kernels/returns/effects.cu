// Masks of policies: a choice is allowed if the env's mask allows it and its entry has an effect. A team has GV_ITEMS items, each
// of four columns of GV_DEPTH rows, so that lanes find their place once for them and load their flags together.
#include "program_args.h"

struct alignas(4) GvFour {
    gv_u8 flag[4];
};

GV_FN void gv_limit_item(const GvArgs& a, gv_i64 row, gv_i32 column) {
    const gv_i32 columns = a.columns - column < 4 ? a.columns - column : 4;
    const gv_i32 rows = a.rows - row < GV_DEPTH ? (gv_i32)(a.rows - row) : GV_DEPTH;
    gv_i32 source[4], group[4];
    GV_UNROLL for (gv_i32 k = 0; k < 4; ++k) {
        source[k] = k < columns ? a.sources[column + k] : -1;
        group[k] = k < columns ? a.groups[column + k] : -1;
    }
    GvFour four[GV_DEPTH];
    GV_UNROLL for (gv_i32 i = 0; i < GV_DEPTH; ++i) {
        const gv_i64 at = row + (i < rows ? i : 0);
        GV_UNROLL for (gv_i32 k = 0; k < 4; ++k) {
            const gv_u8 allowed = source[k] < 0 ? 1 : a.mask[at * a.mask_columns + source[k]];
            const gv_u8 effect = group[k] < 0 ? 1 : a.effects[at * a.num_groups + group[k]];
            four[i].flag[k] = allowed != 0 && effect != 0;
        }
    }
    const bool aligned = ((gv_u64)a.out | (gv_u64)a.columns) % 4 == 0;
    GV_UNROLL for (gv_i32 i = 0; i < GV_DEPTH; ++i) {
        gv_u8* out = (gv_u8*)a.out + (row + i) * a.columns + column;
        if (i < rows && aligned) *(GvFour*)out = four[i];
        for (gv_i32 k = 0; i < rows && !aligned && k < columns; ++k) out[k] = four[i].flag[k];
    }
}

GV_FN void gv_limit_items(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const gv_i32 pieces = (a.columns + 3) / 4;
    const gv_i64 first = (gv_i64)number * GV_ITEMS, block = first / pieces;  // of GV_DEPTH rows
    const gv_i32 piece = (gv_i32)(first - block * pieces);
    GV_FOR(i, GV_ITEMS) {
        const gv_i32 further = (piece + i) / pieces;
        const gv_i64 row = (block + further) * GV_DEPTH;
        if (row < a.rows) gv_limit_item(a, row, (piece + i - further * pieces) * 4);
    }
}

GV_PLAIN_KERNEL(gv_limit, gv_limit_items)
