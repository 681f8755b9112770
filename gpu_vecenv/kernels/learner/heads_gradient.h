// The loss of actors with many heads, and its derivatives. Chunks of outputs are computed twice: for the log-probability of the whole
// action, and for the derivatives that follow from it.
#pragma once
#include "learner/backward.h"
#include "learner/heads.h"
#include "learner/many_heads.h"

// A row of a tile, in the memory of the team.
struct GvLossRow {
    GvHeadRow at;
    gv_i32 counts;  // 0 for one that fills up the minibatch or has no choice
    float push;     // see gv_surrogate()
};
static_assert(sizeof(GvLossRow) <= 4 * GV_HEAD_ROW_FLOATS, "a row fits in its place");

GV_FN GvLossRow gv_loss_row(const GvArgs& a, gv_i32 sample) {
    const bool counts = sample >= 0 && (!GV_TWO_COUNTS || a.choice == nullptr || a.choice[sample] != 0);
    if (!counts) return {{0, -1, {}}, 0, 0.0f};
    return {{gv_place_in(a.action, sample, a.samples_per_step), (gv_i64)sample * GV_MASK_WORDS, {}}, 1, 0.0f};
}

// Calls use(i, derivative of the loss by logit i, times `scale`) for the choices of an entry. Returns the entropy.
template <class Use>
GV_FN float gv_head_slopes(const GvLogits& logits, gv_i32 taken, float push, float scale, float entropy_coef, Use use) {
    constexpr bool FEW = GvLogits::FEW;
    float weights[FEW ? GV_MOST_CHOICES : 1];
    const GvHeadTerms terms = gv_head_terms(logits, [&](gv_i32 i, float weight) { weights[FEW ? i : 0] = weight; });
    const float scaled = scale * push, force = terms.none ? 0.0f : scaled + (scaled - scaled);  // NaN for what is not finite
    const GvEntrySlopes slopes = gv_entry_slopes(terms.of, force, scale * entropy_coef);
    const auto slope = [&](gv_i32 i, float logit) {
        const float x = gv_exponent(logit, terms.of.shift), weight = FEW ? weights[FEW ? i : 0] : gv_exp2_guess(x);
        const bool some = !GV_SOME_FORBIDDEN || weight != 0.0f;  // x may be infinite where the weight is 0
        return (some ? gv_slope_of(slopes, weight, x) : 0.0f) - (i == taken ? force : 0.0f);
    };
    gv_each_logit(logits, [&](gv_i32 i, float logit) {
        if (i < logits.n) use(i, slope(i, logit));
    });
    return terms.none ? 0.0f : terms.of.entropy;
}

// The same for logits in memory; derivatives are stored from `column` on.
GV_FN float gv_store_head_slopes(const float* at, gv_i32 n, gv_i32 taken, float push, const GvSettings& settings,
                                 GvTile<GV_DELTA_STRIDE> deltas, gv_i32 row, gv_i32 column) {
    if constexpr (GvLogits::FEW && GV_EVEN_CHOICES) {
        float before = 0.0f;
        return gv_head_slopes(gv_logits(at, n), taken, push, settings.scale, settings.entropy_coef, [&](gv_i32 i, float slope) {
            if (i % 2 != 0) gv_set_pair(deltas, row, column + i - 1, before, slope);
            before = slope;
        });
    }
    return gv_head_slopes(gv_logits(at, n), taken, push, settings.scale, settings.entropy_coef, [&](gv_i32 i, float slope) {
        gv_set(deltas, row, column + i, gv_within_half(slope));
    });
}

// Memory of a group for its rows in a tile.
struct GvLossTile {
    GvLossRow* rows;
    float* outputs;
    GvTile<GV_DELTA_STRIDE> deltas;
    const gv_u32* masks;
    const gv_i32* actions;
    gv_i32* taken;  // choices in the first entries of the present chunk, in the order of gv_each_head()
};

// Starts the copies of the choices that the rows have taken in the first GV_TAKEN_ENTRIES entries of a chunk, if it has more; 0 for
// rows that do not count. A lane reads its own copies.
GV_FN void gv_start_taken(const GvGroup& group, const GvChunk& chunk, const GvLossTile& tile) {
    const gv_i32 entries = chunk.entries < GV_TAKEN_ENTRIES ? chunk.entries : GV_TAKEN_ENTRIES;
    GV_GROUP_FOR(i, GV_OWN * entries) {
        const GvLossRow& row = tile.rows[i % GV_OWN];
        const gv_i32* from = tile.actions + (row.counts != 0 ? row.at.action + chunk.entry + i / GV_OWN : 0);
        gv_start_copy<1>((float*)tile.taken + i, (const float*)from, row.counts != 0);
    }
    gv_end_copies();
}
GV_FN gv_i32 gv_taken(const GvChunk& chunk, const GvLossTile& tile, gv_i32 row, gv_i32 entry) {
    if (entry - chunk.entry < GV_TAKEN_ENTRIES) return tile.taken[row + GV_OWN * (entry - chunk.entry)];
    return tile.rows[row].counts != 0 ? tile.actions[tile.rows[row].at.action + entry] : 0;
}

// Outputs of a chunk for the group's rows and the choices taken, unless no row has an allowed choice: then it returns false.
// Derivatives need no EXACT ones, as they are rounded to 16 bits themselves.
template <bool EXACT>
GV_FN bool gv_outputs_of_chunk(const GvGroup& group, const GvChunk& chunk, const GvTopUnits& top, const GvLossTile& tile) {
    const auto row_at = [&](gv_i32 row) -> GvHeadRow& { return tile.rows[row].at; };
    if (!gv_load_allowed(group, chunk, tile.masks, row_at)) return false;
    gv_start_taken(group, chunk, tile);
    gv_chunk_outputs<EXACT>(group, chunk, top, tile.masks != nullptr, tile.outputs, row_at);
    gv_wait_copies<0>();
    return true;
}

// Log-probabilities of the actions of the rows.
GV_FN void gv_log_probs_of_rows(GvRowSums& log_prob, const GvLanes& team, const GvGroup& group, GvHeads& heads, const GvTopUnits& top,
                                const GvLossTile& tile) {
    gv_each_value(log_prob, group, [](gv_i32, float& sum) { sum = 0.0f; });
    gv_each_chunk<true, false>(team, heads, [&](const GvChunk& chunk) {
        if (!gv_outputs_of_chunk<true>(group, chunk, top, tile)) return;
        gv_each_head(group, chunk, tile.outputs, [&](gv_i32 row, gv_i32 entry, float* logits) {
            logits[0] = gv_head_log_prob(logits, gv_head_choices(entry), gv_taken(chunk, tile, row, entry));
        });
        gv_add_terms_of_heads(log_prob, group, chunk, tile.outputs);
    });
}

// Computes the derivatives by the outputs of a chunk, in the tile. Returns a lane's part of the entropy.
GV_FN float gv_slopes_of_chunk(const GvGroup& group, const GvChunk& chunk, const GvLossTile& tile, const GvSettings& settings) {
    float entropy = 0.0f;
    gv_each_head(group, chunk, tile.outputs, [&](gv_i32 row, gv_i32 entry, float* logits) {
        const GvLossRow& of = tile.rows[row];
        const gv_i32 n = gv_head_choices(entry), column = gv_head_column(chunk, entry);
        if (of.counts == 0) {
            for (gv_i32 i = 0; i < n; ++i) gv_set(tile.deltas, row, column + i, 0.0f);
            return;
        }
        const gv_i32 taken = gv_taken(chunk, tile, row, entry);
        entropy += gv_store_head_slopes(logits, n, taken, of.push, settings, tile.deltas, row, column);
    });
    return entropy;
}

#if GV_HELD_HEADS
// ---- outputs in registers --------------------------------------------------------------------------------------

typedef GvSums<GV_OWN, GV_HEAD_COLUMNS> GvHeldOutputs;

// Choices taken in the entries of a chunk that a lane has, by the number of the run; 0 for rows that do not count.
struct GvHeldTaken {
    gv_i32 v[gv_runs(GV_RUN, GV_OWN, GV_HEAD_COLUMNS)];
};

// Outputs of a chunk for the group's rows, which lanes hold. The choices taken are loaded before the products.
template <bool EXACT>
GV_FN void gv_held_outputs(GvHeldOutputs& outputs, GvHeldTaken& taken, const GvGroup& group, const GvChunk& chunk,
                           const GvTopUnits& top, const GvLossTile& tile) {
    gv_each_run_of<GV_RUN, GV_OWN, GV_HEAD_COLUMNS>(group, [&](const GvRun& run) {
        const GvLossRow& row = tile.rows[run.row];
        const bool counts = row.counts != 0 && run.run < chunk.entries;
        taken.v[run.number] = counts ? tile.actions[row.at.action + chunk.entry + run.run] : 0;
    });
    gv_fill(outputs, group, chunk.biases);
    if constexpr (EXACT) gv_add_exact_product(outputs, group, top.high, top.low, chunk.high, chunk.low);
    else gv_add_product_of<GV_TOP_WIDTH, true>(outputs, group, top.high, chunk.high);
}

// gv_log_probs_of_rows(). A lane adds up the terms of its runs of a row.
GV_FN void gv_held_log_probs(GvRowSums& log_prob, const GvLanes& team, const GvGroup& group, GvHeads& heads,
                             const GvTopUnits& top, const GvLossTile& tile) {
    float sums[gv_run_sums(GV_OWN)] = {};
    gv_each_chunk<true, false>(team, heads, [&](const GvChunk& chunk) {
        GvHeldOutputs outputs;
        GvHeldTaken taken;
        gv_held_outputs<true>(outputs, taken, group, chunk, top, tile);
        gv_each_run<GV_RUN>(outputs, group, [&](const GvRun& run, float (&values)[GV_RUN]) {
            const GvLogits logits = gv_held_logits(values);
            const GvEntryTerms terms = gv_head_terms(logits, [](gv_i32, float) {}).of;
            float logit = 0.0f;
            gv_each_logit(logits, [&](gv_i32 i, float of_choice) { logit = i == taken.v[run.number] ? of_choice : logit; });
            sums[run.sum] += run.run < chunk.entries ? gv_log_prob_of_x(terms, gv_exponent(logit, terms.shift)) : 0.0f;
        });
    });
    gv_each_run_of<GV_RUN, GV_OWN, 4 * GV_RUN>(group, [&](const GvRun& run) {
        tile.outputs[run.row * GV_OUTPUT_STRIDE + run.run] = sums[run.sum];
    });
    gv_group_barrier(group);
    gv_each_value(log_prob, group, [&](gv_i32 row, float& sum) {
        const float* terms = tile.outputs + row * GV_OUTPUT_STRIDE;
        sum = (terms[0] + terms[1]) + (terms[2] + terms[3]);
    });
}

// Computes the derivatives by the outputs of a chunk. Returns a lane's part of the entropy.
GV_FN float gv_held_slopes(GvRows<GV_OWN, GV_HEAD_COLUMNS>& deltas, const GvGroup& group, const GvChunk& chunk,
                           const GvTopUnits& top, const GvLossTile& tile, const GvSettings& settings) {
    float entropy = 0.0f;
    GvHeldOutputs outputs;
    GvHeldTaken taken;
    gv_held_outputs<false>(outputs, taken, group, chunk, top, tile);
    gv_each_run<GV_RUN>(outputs, group, [&](const GvRun& run, float (&values)[GV_RUN]) {
        const GvLossRow& row = tile.rows[run.row];
        const bool counts = run.run < chunk.entries && row.counts != 0;
        const GvLogits logits = gv_held_logits(values);
        GV_UNROLL for (gv_i32 i = 0; i < GV_RUN; ++i) values[i] = 0.0f;
        const float of_entry = gv_head_slopes(logits, taken.v[run.number], row.push, counts ? settings.scale : 0.0f,
                                              settings.entropy_coef, [&](gv_i32 i, float slope) { values[i] = slope; });
        entropy += counts ? of_entry : 0.0f;
    });
    gv_each_pair(outputs, group, [&](const GvPlace& place, float& x, float& y) { gv_put_finite(deltas, place, 0, x, y); });
    return entropy;
}
#endif

// Derivatives of all hidden layers from those of the last one, which are sums yet without slopes.
template <class Kept>
GV_FN void gv_backward_from_top(const GvNetwork<GV_OUTPUTS>& network, const GvGroup& group, GvSums<GV_OWN, GV_TOP_WIDTH>& sums,
                                Kept& kept) {
    const GvRows<GV_OWN, GV_TOP_WIDTH> slopes = gv_kept_slopes<GV_LAYERS, GV_TOP_WIDTH>(kept, group, 0);
    GvRows<GV_OWN, GV_TOP_WIDTH> deltas;
    gv_each_pair(sums, group, [&](const GvPlace& place, float& x, float& y) {
        float one, two;
        gv_get(slopes, place, 0, one, two);
        gv_put_finite(deltas, place, 0, x * one, y * two);
    });
    gv_keep_deltas<GV_LAYERS>(kept, group, deltas, 0);
    gv_backward_from<GV_LAYERS - 1, GV_TOP_WIDTH>(network, group, deltas, kept);
}
