// Kernels that draw the actions of policies. A team draws a tile of rows. Lanes first draw entries, then add the terms
// of each row's entries in their order, so that sums do not depend on the number of lanes.
#include "policy/draw.h"

// Rows of one tile, and the terms of its entries in scratch.
struct GvTile {
    gv_i64 first;
    gv_i32 rows, entries;
    float* terms;  // [rows, entries, 2]
};

GV_FN GvTile gv_tile(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const gv_i64 first = (gv_i64)number * a.tile_rows, rest = a.rows - first;
    return {first, rest < a.tile_rows ? (gv_i32)rest : a.tile_rows, a.entries, team.scratch};
}

GV_FN void gv_store_terms(const GvTile& tile, gv_i32 i, const GvTerms& terms) {
    tile.terms[2 * i] = terms.log_prob;
    tile.terms[2 * i + 1] = terms.entropy;
}

GV_FN void gv_add_terms(const GvArgs& a, const GvLanes& team, const GvTile& tile) {
    gv_barrier(team);
    GV_FOR(row, tile.rows) {
        GvTerms sum = {0.0f, 0.0f};
        for (gv_i32 i = row * tile.entries; i < (row + 1) * tile.entries; ++i) {
            sum.log_prob += tile.terms[2 * i];
            sum.entropy += tile.terms[2 * i + 1];
        }
        a.log_prob[tile.first + row] = sum.log_prob;
        a.entropy[tile.first + row] = sum.entropy;
    }
}

// The bytes of an entry's choices in a mask; null if all are allowed.
GV_FN const gv_u8* gv_mask_of(const GvArgs& a, gv_i64 row, gv_i32 entry) {
    const gv_i32 masked_from = a.mask_first[entry];
    return a.mask != nullptr && masked_from >= 0 ? a.mask + row * a.mask_columns + masked_from : nullptr;
}

// Draws the choices of a tile. If STAGED, `staged` holds its logits, in rows that are a.stride apart.
template <bool STAGED>
GV_FN void gv_draw_entries(const GvArgs& a, const GvLanes& team, const GvTile& tile, const float* logits, float* staged) {
    GV_FOR(i, tile.rows * tile.entries) {
        const gv_i32 in_tile = i / tile.entries, entry = i % tile.entries;
        const gv_i64 row = tile.first + in_tile;
        const gv_u8* mask = gv_mask_of(a, row, entry);
        const gv_u32 word = gv_entry_word(gv_policy_draw(a.draw, row, entry), entry);
        const float* own = logits + (gv_i64)in_tile * a.columns + a.first[entry];
        float* own_staged = staged + in_tile * a.stride + a.first[entry];
        const GvChoice choice = gv_draw_choice<STAGED>(own, own_staged, mask, a.choices[entry], word, a.likeliest != 0);
        ((gv_i32*)a.action)[tile.first * tile.entries + i] = choice.index;
        gv_store_terms(tile, i, choice.terms);
    }
}

// Copies the logits of a tile to rows that are a.stride apart. A lane steps its row and its column, because a division costs more.
GV_FN void gv_stage(const GvArgs& a, const GvLanes& team, const GvTile& tile, const float* logits, float* staged) {
    const gv_i32 rows = team.lanes / a.columns, columns = team.lanes % a.columns;
    gv_i32 row = team.lane / a.columns, column = team.lane % a.columns;
    GV_FOR(i, tile.rows * a.columns) {
        staged[row * a.stride + column] = logits[i];
        const bool wraps = column + columns >= a.columns;
        row += rows + wraps;
        column += wraps ? columns - a.columns : columns;
    }
}

// Logits are staged, because lanes read addresses far apart, and weights that replace them are computed once.
GV_FN void gv_draw_choices_tile(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const GvTile tile = gv_tile(a, team, number);
    const float* logits = a.logits + tile.first * a.columns;
    if (a.stride == 0) {
        gv_draw_entries<false>(a, team, tile, logits, team.scratch);
    } else {
        float* staged = team.scratch + 2 * a.tile_rows * a.entries;
        if (a.stride == a.columns) {
            GV_FOR(i, tile.rows * a.columns) staged[i] = logits[i];
        } else {
            gv_stage(a, team, tile, logits, staged);
        }
        gv_barrier(team);
        gv_draw_entries<true>(a, team, tile, logits, staged);
    }
    gv_add_terms(a, team, tile);
}

GV_FN void gv_draw_greedy_tile(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const GvTile tile = gv_tile(a, team, number);
    const float epsilon = a.epsilon == nullptr ? 0.0f : *a.epsilon;
    GV_FOR(i, tile.rows * tile.entries) {
        const gv_i32 entry = i % tile.entries;
        const gv_i64 row = tile.first + i / tile.entries;
        const gv_u32 word = gv_entry_word(gv_policy_draw(a.draw, row, entry), entry);
        const float* values = a.logits + row * a.columns + a.first[entry];
        const GvChoice choice = gv_draw_greedy(values, gv_mask_of(a, row, entry), a.choices[entry], word, epsilon);
        ((gv_i32*)a.action)[tile.first * tile.entries + i] = choice.index;
        gv_store_terms(tile, i, choice.terms);
    }
    gv_add_terms(a, team, tile);
}

GV_FN void gv_draw_normal_tile(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const GvTile tile = gv_tile(a, team, number);
    GV_FOR(i, tile.rows * tile.entries) {
        const gv_i32 entry = i % tile.entries;
        const gv_i64 at = tile.first * tile.entries + i;
        const GvDraw draw = gv_policy_draw(a.draw, tile.first + i / tile.entries, entry);
        const GvNumber number = gv_draw_normal(a.mean[at], a.log_std[entry], draw, entry, a.likeliest != 0);
        ((float*)a.action)[at] = number.value;
        gv_store_terms(tile, i, number.terms);
    }
    gv_add_terms(a, team, tile);
}

GV_FN void gv_draw_uniform_tile(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const GvTile tile = gv_tile(a, team, number);
    GV_FOR(i, tile.rows * tile.entries) {
        const gv_i32 entry = i % tile.entries;
        const gv_u32 word = gv_entry_word(gv_policy_draw(a.draw, tile.first + i / tile.entries, entry), entry);
        const GvNumber number = gv_draw_uniform(a.low[entry], a.high[entry], word);
        ((float*)a.action)[tile.first * tile.entries + i] = number.value;
        gv_store_terms(tile, i, number.terms);
    }
    gv_add_terms(a, team, tile);
}

GV_PLAIN_KERNEL(gv_draw_choices, gv_draw_choices_tile)
GV_PLAIN_KERNEL(gv_draw_greedy, gv_draw_greedy_tile)
GV_PLAIN_KERNEL(gv_draw_normals, gv_draw_normal_tile)
GV_PLAIN_KERNEL(gv_draw_uniforms, gv_draw_uniform_tile)
