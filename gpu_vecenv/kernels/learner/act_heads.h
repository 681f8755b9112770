// Actors with many heads at work: draws, and log-probabilities of given actions.
#pragma once
#include "learner/act_rows.h"
#include "policy/draw.h"
#include "learner/many_heads.h"
#include "learner/wide.h"

// A row of a tile, in the memory of the team.
struct GvActRow {
    GvHeadRow at;
    GvRowCounters counters;
};
static_assert(sizeof(GvActRow) <= 4 * GV_HEAD_ROW_FLOATS, "a row fits in its place");

// Draws a choice from logits, in which GV_FORBIDDEN marks those that the mask forbids.
GV_FN GvChoice gv_draw_head(const float* logits, gv_i32 n, gv_u32 word, bool likeliest) {
    gv_i32 allowed = 0;  // the first one
    while (GV_MASKED && allowed < n && logits[allowed] == GV_FORBIDDEN) ++allowed;
    if (allowed == n) return {0, {0.0f, 0.0f}};
    GvChoice choice;
    if constexpr (GV_EQUAL_CHOICES > 0 && GvLogits::FEW) {  // registers hold them, so weights are computed once
        float staged[GV_EQUAL_CHOICES > 0 ? GV_EQUAL_CHOICES : 1];
        GV_UNROLL for (gv_i32 i = 0; i < GV_EQUAL_CHOICES; ++i) staged[i] = logits[i];
        choice = gv_draw_choice<true>(logits, staged, nullptr, GV_EQUAL_CHOICES, word, likeliest);
    } else {
        choice = gv_draw_choice<false>(logits, nullptr, nullptr, n, word, likeliest);
    }
    choice.index = choice.index < allowed ? allowed : choice.index;  // of NaN
    return choice;
}

GV_FN const gv_u32* gv_masks_of(const GvArgs& a) {
    return GV_MASKED && a.mask.at != nullptr ? (const gv_u32*)a.allowed : nullptr;
}

// Calls use(group, own, rows, heads, top) for the tiles of team `number`: the group's rows, their places, and their last units.
template <class Use>
GV_FN void gv_each_tile_of_heads(const GvArgs& a, const GvLanes& team, gv_i32 number, bool draws, Use use) {
    const GvGroup group = gv_group(team);
    GvHalf* halves = (GvHalf*)team.scratch;
    float* floats = (float*)(halves + GV_HALVES);
    const GvNetwork<GV_OUTPUTS> network = {halves, floats};
    const gv_i32 row = group.number * GV_OWN, tiles = (a.rows + GV_ROWS - 1) / GV_ROWS;
    GvActRow* rows = (GvActRow*)(floats + GV_HEAD_ROWS_AT + row * GV_HEAD_ROW_FLOATS);
    GvHeads heads = gv_start_heads(team, a.packed, a.layers, halves, floats);
    gv_load_network<GV_OUTPUTS, GV_UPPER>(team, network, a.layers, a.norm);
    gv_barrier(team);
    GV_LOOP for (gv_i32 tile = number; tile < tiles; tile += a.teams) {
        const gv_i64 first = (gv_i64)tile * GV_ROWS + row, rest = a.rows - first;
        const gv_i32 count = rest < 0 ? 0 : rest < GV_OWN ? (gv_i32)rest : GV_OWN;
        const GvOwn own = {floats + GV_OUTPUTS_AT + row * GV_OUTPUT_STRIDE, (gv_i32)first, count};
        GV_GROUP_FOR(i, GV_OWN) {
            const gv_i32 of = i < count ? own.first + i : 0;
            const gv_i64 mask = i < count ? (gv_i64)of * GV_MASK_WORDS : -1;
            rows[i] = {{gv_place(a, a.action, of), mask, {}}, draws ? gv_row_counters(a.draw, of) : GvRowCounters{}};
        }
        gv_find_chunks(team, group, heads, a.result == nullptr || !draws ? gv_masks_of(a) : nullptr,
                       [&](gv_i32 i) -> const GvHeadRow& { return rows[i].at; });
        GvForget forget;
        GvTopUnits top;
        {
            GvRows<GV_OWN, gv_width(1)> units;
            gv_load(units, group, gv_part(GvStripes<GV_ACT_WIDTH>{a.units}, own.first, 0));
            gv_top_units<2>(network, group, units, forget, top);
        }
        use(group, own, rows, heads, top);
    }
    gv_wait_copies<0>();
}

// Writes the outputs of a chunk for the caller.
GV_FN void gv_write_outputs(const GvArgs& a, const GvGroup& group, const GvOwn& own, const GvChunk& chunk) {
    GV_GROUP_FOR(i, own.rows * chunk.outputs) {
        const gv_i32 row = i / chunk.outputs, column = i % chunk.outputs;
        a.result[((gv_i64)own.first + row) * GV_OUTPUTS + chunk.output + column] = own.outputs[row * GV_OUTPUT_STRIDE + column];
    }
    gv_group_barrier(group);
}

// Stores 0 as the choice in some entries without an allowed one.
GV_FN void gv_choose_nothing(const GvArgs& a, const GvGroup& group, const GvOwn& own, const GvActRow* rows, gv_i32 entry,
                             gv_i32 entries) {
    GV_GROUP_FOR(i, own.rows * entries) ((gv_i32*)a.action.at)[rows[i / entries].at.action + entry + i % entries] = 0;
}

// Draws the actions of the rows, and stores them with their log-probabilities.
GV_FN void gv_act_tiles(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    gv_each_tile_of_heads(a, team, number, true, [&](const GvGroup& group, const GvOwn& own, GvActRow* rows, GvHeads& heads,
                                                     const GvTopUnits& top) {
        GvRowSums log_prob;
        gv_each_value(log_prob, group, [](gv_i32, float& sum) { sum = 0.0f; });
        gv_each_chunk<true, true>(team, heads, [&](const GvChunk& chunk) {
            const auto row_at = [&](gv_i32 row) -> GvHeadRow& { return rows[row].at; };
            const gv_u32* masks = gv_masks_of(a);
            if (!gv_load_allowed(group, chunk, masks, row_at) && a.result == nullptr) {
                gv_choose_nothing(a, group, own, rows, chunk.entry, chunk.entries);
                return;
            }
            GV_LOOP for (gv_i32 masked = a.result == nullptr ? 1 : 0; masked < 2; ++masked) {  // callers get outputs without masks
                gv_chunk_outputs<true>(group, chunk, top, masked != 0 && masks != nullptr, own.outputs, row_at);
                if (masked == 0) gv_write_outputs(a, group, own, chunk);
            }
            gv_each_head(group, chunk, own.outputs, [&](gv_i32 row, gv_i32 entry, float* logits) {
                if (row >= own.rows) return;
                const gv_u32 word = gv_entry_word(gv_policy_draw(rows[row].counters, entry), entry);
                const GvChoice choice = gv_draw_head(logits, gv_head_choices(entry), word, a.likeliest != 0);
                ((gv_i32*)a.action.at)[rows[row].at.action + entry] = choice.index;
                logits[0] = choice.terms.log_prob;
            });
            gv_add_terms_of_heads(log_prob, group, chunk, own.outputs);
        });
        for (gv_i32 number = 0; number < GV_CHUNKS; ++number) {
            const gv_i32 entry = gv_chunk_entry(number);
            if (gv_next_chunk(heads, number) == number) continue;
            gv_choose_nothing(a, group, own, rows, entry, gv_chunk_entry(number + 1) - entry);
        }
        gv_each_value(log_prob, group, [&](gv_i32 row, float& sum) {
            if (row < own.rows) gv_log_prob_of(a, own.first + row) = sum;
        });
    });
}

GV_FN void gv_evaluate_tiles(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    gv_each_tile_of_heads(a, team, number, false, [&](const GvGroup& group, const GvOwn& own, GvActRow* rows, GvHeads& heads,
                                                      const GvTopUnits& top) {
        GvRowSums log_prob;
        gv_each_value(log_prob, group, [](gv_i32, float& sum) { sum = 0.0f; });
        gv_each_chunk<true, true>(team, heads, [&](const GvChunk& chunk) {
            const auto row_at = [&](gv_i32 row) -> GvHeadRow& { return rows[row].at; };
            const gv_u32* masks = gv_masks_of(a);
            if (!gv_load_allowed(group, chunk, masks, row_at)) return;
            gv_chunk_outputs<true>(group, chunk, top, masks != nullptr, own.outputs, row_at);
            gv_each_head(group, chunk, own.outputs, [&](gv_i32 row, gv_i32 entry, float* logits) {
                const gv_i32 taken = ((const gv_i32*)a.action.at)[rows[row].at.action + entry];
                logits[0] = gv_head_log_prob(logits, gv_head_choices(entry), row < own.rows ? taken : 0);
            });
            gv_add_terms_of_heads(log_prob, group, chunk, own.outputs);
        });
        gv_each_value(log_prob, group, [&](gv_i32 row, float& sum) {
            if (row < own.rows) a.result[own.first + row] = sum;
        });
    });
}

GV_FN void gv_pack_teams(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    gv_pack_weights(team, number, a.teams, a.layers, a.packed);
}
GV_FN void gv_pack_masks_teams(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    gv_pack_masks_of_rows(a, team, number, a.rows, nullptr);
}
