// The last layer of an actor with many heads, in chunks of whole entries. GV_CHUNKS chunks have up to GV_HEAD_COLUMNS outputs each.
// Weights of a chunk are copied to the memory of the team while the chunk before it is computed, and outputs of a chunk stay in that
// memory, where lanes read them, one entry of a row at a time. So outputs never reach global memory.
//
// Two kernels come before those that compute. gv_pack_heads writes the weights as numbers of 16 bits, high parts and low parts,
// because each tile of rows reads them again. gv_pack_masks writes masks as bits, in the order of the chunks. A team leaves out the
// chunks in which no row of its tile has an allowed choice, and a group those in which none of its rows has one.
#pragma once
#include "learner/load_network.h"
#include "learner/loss.h"
#include "learner/rows.h"

// Tables of which a lane reads any number: they are in memory, where those of GV_TABLE are constants of instructions.
#define GV_TABLE_IN_MEMORY(name, VALUES)         \
    GV_FN gv_i32 name(gv_i32 i) {                \
        static const gv_i32 values[] = VALUES;   \
        return values[i];                        \
    }
GV_TABLE_IN_MEMORY(gv_chunk_entry, GV_CHUNK_ENTRIES)    // first entry of a chunk, and behind the last one
GV_TABLE_IN_MEMORY(gv_chunk_output, GV_CHUNK_OUTPUTS)   // first output of a chunk, and behind the last one
GV_TABLE_IN_MEMORY(gv_column_of, GV_HEAD_COLUMNS_AT)    // by entry: its first column in its chunk
GV_TABLE_IN_MEMORY(gv_choices_of, GV_CHOICES)           // by entry
GV_TABLE_IN_MEMORY(gv_mask_column, GV_MASK_COLUMNS)     // by output: its column in masks, -1 without one

#define GV_TOP_WIDTH gv_width(GV_LAYERS)
#define GV_CHUNK_PART (GV_HEAD_COLUMNS * GV_LAST_STRIDE)  // numbers of 16 bits of the high or the low parts of a chunk
#define GV_CHUNK_WORDS (GV_HEAD_COLUMNS / 32)             // words of a row's mask in a chunk
#define GV_MASK_WORDS (GV_CHUNKS * GV_CHUNK_WORDS)
#define GV_SOME_COLUMNS (GV_MASKED ? 16 : 32)             // outputs whose sums are in registers at a time; masks need some, too

// If GV_HELD_HEADS is 1, outputs of a chunk stay in registers, and a lane has all of an entry: entries are runs of GV_RUN columns,
// see gv_each_run().
#define GV_RUN ((GV_MOST_CHOICES + 1) / 2 * 2)

// Number of choices of an entry: a constant if all have as many.
GV_FN gv_i32 gv_head_choices(gv_i32 entry) { return GV_EQUAL_CHOICES > 0 ? GV_EQUAL_CHOICES : gv_choices_of(entry); }

// Output of a column of all chunks, side by side; -1 behind the outputs of a chunk.
GV_FN gv_i32 gv_output_of(gv_i32 column) {
    const gv_i32 chunk = column / GV_HEAD_COLUMNS, in_chunk = column % GV_HEAD_COLUMNS, matrix = in_chunk / 8;
    if (GV_HELD_HEADS) {
        const gv_i32 entry = gv_chunk_entry(chunk) + matrix / (GV_RUN / 2) * 4 + in_chunk % 8 / 2;
        const gv_i32 choice = matrix % (GV_RUN / 2) * 2 + column % 2;
        return entry < GV_ENTRIES && choice < GV_EQUAL_CHOICES ? entry * GV_EQUAL_CHOICES + choice : -1;
    }
    const gv_i32 output = gv_chunk_output(chunk) + in_chunk;
    return output < gv_chunk_output(chunk + 1) ? output : -1;
}

// Writes the weights of the last layer of all chunks; columns without an output have weights of 0.
GV_FN void gv_pack_weights(const GvLanes& team, gv_i32 number, gv_i32 teams, const GvLayer* layers, GvHalf* packed) {
    constexpr gv_i32 COUNT = GV_CHUNKS * GV_HEAD_COLUMNS * GV_TOP_WIDTH, FROM = gv_units(GV_LAYERS);
    for (gv_i32 i = number * team.lanes + team.lane; i < COUNT; i += teams * team.lanes) {
        const gv_i32 column = i / GV_TOP_WIDTH, from = i % GV_TOP_WIDTH, output = gv_output_of(column);
        const float weight = output >= 0 && from < FROM ? layers[GV_LAYERS].weight[output * FROM + from] : 0.0f;
        GvHalf* high = packed + column / GV_HEAD_COLUMNS * 2 * GV_CHUNK_PART + column % GV_HEAD_COLUMNS * GV_LAST_STRIDE + from;
        high[0] = gv_half(weight);
        high[GV_CHUNK_PART] = gv_half(gv_rest(weight));
    }
}

// Four bytes of a mask as bits. The product moves the lowest bits of the bytes to its highest byte.
GV_FN gv_u32 gv_bits_of_four(gv_u32 bytes) {
    const gv_u32 any = (((bytes & 0x7f7f7f7fu) + 0x7f7f7f7fu) | bytes) >> 7 & 0x01010101u;  // 1 in each byte that is not 0
    return any * 0x01020408u >> 24;
}

// Word number `word` of a row's mask: bit i is 1 if choice i of the word is allowed, 0 behind the outputs of its chunk. Four
// bytes are loaded at a time where they lie for it.
GV_FN gv_u32 gv_mask_word(const gv_u8* mask, gv_i32 word) {
    const gv_i32 chunk = word / GV_CHUNK_WORDS, first = gv_chunk_output(chunk) + word % GV_CHUNK_WORDS * 32;
    const gv_i32 rest = gv_chunk_output(chunk + 1) - first, count = rest < 32 ? rest : 32;
    const gv_i32 fours = GV_MASKS_ALL && (gv_u64)(mask + first) % 4 == 0 ? count / 4 : 0;
    gv_u32 four[8], bits = 0;  // loads that wait together
    GV_UNROLL for (gv_i32 i = 0; i < 8; ++i) four[i] = i < fours ? ((const gv_u32*)(mask + first))[i] : 0;
    GV_UNROLL for (gv_i32 i = 0; i < 8; ++i) bits |= gv_bits_of_four(four[i]) << 4 * i;
    GV_UNROLL_BY_4 for (gv_i32 i = 4 * fours; i < count; ++i) {
        const gv_i32 column = gv_mask_column(first + i);
        bits |= (column < 0 || mask[column] != 0 ? 1u : 0u) << i;
    }
    return bits;
}

// Writes the masks of the rows of team `number` as bits, and the first chunk with an allowed choice to `kinds`, unless it is null.
// A lane makes a word.
GV_FN void gv_pack_masks_of_rows(const GvArgs& a, const GvLanes& team, gv_i32 number, gv_i32 all, gv_i32* kinds) {
    const gv_i32 first = number * GV_ROWS, rows = all - first < GV_ROWS ? all - first : GV_ROWS;
    GV_FOR(i, rows * GV_MASK_WORDS) {
        const gv_u8* mask = (const gv_u8*)a.mask.at + gv_place_in(a.mask, first + i / GV_MASK_WORDS, a.samples_per_step);
        a.allowed[(gv_i64)first * GV_MASK_WORDS + i] = (gv_i32)gv_mask_word(mask, i % GV_MASK_WORDS);
    }
    if (kinds == nullptr) return;
    gv_barrier(team);
    GV_FOR(i, rows) {
        const gv_i32* words = a.allowed + (gv_i64)(first + i) * GV_MASK_WORDS;
        gv_i32 word = 0;
        while (word < GV_MASK_WORDS && words[word] == 0) ++word;
        kinds[first + i] = word / GV_CHUNK_WORDS;
    }
}

// ---- chunks ----------------------------------------------------------------------------------------------------

// Weights and biases of two chunks in the memory of a team: one is computed while the other is copied.
struct GvHeads {
    const GvHalf* packed;
    const float* biases;  // of all outputs
    GvHalf* weights;      // [2, 2, GV_HEAD_COLUMNS, GV_LAST_STRIDE]
    float* of_columns;    // biases, [2, GV_HEAD_COLUMNS]
    gv_i32 turn;          // the one that is copied
    gv_i32* next;         // [GV_CHUNKS + 1], see gv_find_chunks()
};
struct GvChunk {
    gv_i32 number, entry, entries, output, outputs;  // first entry and output, and their numbers
    GvTile<GV_LAST_STRIDE> high, low;
    const float* biases;
};

// Starts the copies of a chunk, with the low parts of its weights if `low`.
GV_FN void gv_start_chunk(const GvLanes& team, const GvHeads& heads, gv_i32 chunk, bool low) {
    constexpr gv_i32 FLOATS = GV_CHUNK_PART * (gv_i32)sizeof(GvHalf) / 4;
    float* to = (float*)(heads.weights + heads.turn * 2 * GV_CHUNK_PART);
    const float* from = (const float*)(heads.packed + (gv_i64)chunk * 2 * GV_CHUNK_PART);
    GV_FOR(i, (low ? 2 : 1) * FLOATS / 4) gv_start_copy<4>(to + 4 * i, from + 4 * i, true);
    GV_FOR(i, GV_HEAD_COLUMNS) {
        const gv_i32 output = gv_output_of(chunk * GV_HEAD_COLUMNS + i);
        const float* from = heads.biases + (output < 0 ? 0 : output);
        gv_start_copy<1>(heads.of_columns + heads.turn * GV_HEAD_COLUMNS + i, from, output >= 0);
    }
    gv_end_copies();
}

// Returns the memory of the chunks, with the first chunk on its way. A barrier must follow.
GV_FN GvHeads gv_start_heads(const GvLanes& team, const GvHalf* packed, const GvLayer* layers, GvHalf* halves, float* floats) {
    GvHeads heads = {packed, layers[GV_LAYERS].bias, halves + GV_HEAD_WEIGHTS_AT, floats + GV_HEAD_BIASES_AT, 0,
                     (gv_i32*)(floats + GV_HEAD_NEXT_AT)};
    GV_ONCE heads.next[0] = 0;
    gv_start_chunk(team, heads, 0, true);
    return heads;
}

// The first chunk from number `from` on that is computed; GV_CHUNKS behind the last one.
GV_FN gv_i32 gv_next_chunk(const GvHeads& heads, gv_i32 from) { return GV_MASKED ? heads.next[from] : from; }

// Calls use(chunk) for the chunks that are computed, without the low parts of their weights unless EXACT. The first one is on its
// way again after the last one, with low parts if EXACT_AFTER; gv_wait_copies<0>() waits for it.
template <bool EXACT, bool EXACT_AFTER, class Use>
GV_FN void gv_each_chunk(const GvLanes& team, GvHeads& heads, Use use) {
    GV_LOOP for (gv_i32 number = gv_next_chunk(heads, 0); number < GV_CHUNKS; number = gv_next_chunk(heads, number + 1)) {
        const gv_i32 entry = gv_chunk_entry(number), output = gv_chunk_output(number);
        const GvTile<GV_LAST_STRIDE> high = {heads.weights + heads.turn * 2 * GV_CHUNK_PART};
        const GvChunk chunk = {
            number, entry, gv_chunk_entry(number + 1) - entry, output, gv_chunk_output(number + 1) - output,
            high, gv_part(high, GV_HEAD_COLUMNS, 0), heads.of_columns + heads.turn * GV_HEAD_COLUMNS,
        };
        gv_wait_copies<0>();
        gv_barrier(team);  // the chunk is there, and nobody reads the one before it
        heads.turn ^= 1;
        const gv_i32 following = gv_next_chunk(heads, number + 1);
        const bool more = following < GV_CHUNKS;
        gv_start_chunk(team, heads, more ? following : gv_next_chunk(heads, 0), more ? EXACT : EXACT_AFTER);
        use(chunk);
    }
}

// First column of an entry in its chunk.
GV_FN gv_i32 gv_head_column(const GvChunk& chunk, gv_i32 entry) {
    return GV_EQUAL_CHOICES > 0 ? (entry - chunk.entry) * GV_EQUAL_CHOICES : gv_column_of(entry);
}

// ---- units and outputs -----------------------------------------------------------------------------------------

// Units of the last hidden layer of the group's rows.
struct GvTopUnits {
    GvRows<GV_OWN, GV_TOP_WIDTH> high, low;
};

// Computes layer LAYER and those above it, as gv_forward_from() does, up to the last hidden one.
template <gv_i32 LAYER, class Input, class Keep>
GV_FN void gv_top_units(const GvNetwork<GV_OUTPUTS>& network, const GvGroup& group, const Input& input, Keep& keep, GvTopUnits& top) {
    constexpr bool LAST = LAYER == GV_LAYERS;
    constexpr gv_i32 WIDTH = gv_width(LAYER), CHUNK = 16;
    GvRows<GV_OWN, WIDTH> high;
    GvRows<GV_OWN, LAST ? WIDTH : CHUNK> low;
    GV_UNROLL for (gv_i32 first = 0; first < WIDTH; first += CHUNK) {
        auto sums = gv_chunk_sums<LAYER, CHUNK, GV_OWN>(network, group, input, first);
        gv_activate<LAYER>(sums, group, keep, first, high, first, low);
    }
    gv_keep_units<LAYER>(keep, group, high, 0);
    if constexpr (LAST) top = {high, low};
    else gv_top_units<LAYER + 1>(network, group, high, keep, top);
}

// A row of a tile, in the memory of the team.
struct GvHeadRow {
    gv_i64 action, mask;  // places of its numbers in the arrays of actions and of bits of masks; -1 for a row that does not count
    gv_u32 allowed[GV_CHUNK_WORDS];  // in the present chunk
};

// Finds the chunks in which a row of the tile has an allowed choice; all, if `masks` is null. Others are not computed, and their
// weights are not copied. The first one is on its way afterwards.
// `row(i)` is the GvHeadRow of the group's row i.
template <class Row>
GV_FN void gv_find_chunks(const GvLanes& team, const GvGroup& group, const GvHeads& heads, const gv_u32* masks, Row row) {
    if (!GV_MASKED) return;
    const gv_i32 coming = heads.next[0];
    gv_i32* of_groups = heads.next + GV_CHUNKS + 1;  // [GV_GROUPS, GV_CHUNKS]
    gv_group_barrier(group);  // rows are there
    GV_GROUP_FOR(chunk, GV_CHUNKS) {
        gv_u32 any = masks == nullptr ? 1 : 0;
        GV_UNROLL_BY_4 for (gv_i32 i = 0; i < GV_OWN * GV_CHUNK_WORDS; ++i) {
            const gv_i64 mask = row(i / GV_CHUNK_WORDS).mask;
            any |= masks == nullptr || mask < 0 ? 0 : masks[mask + chunk * GV_CHUNK_WORDS + i % GV_CHUNK_WORDS];
        }
        of_groups[group.number * GV_CHUNKS + chunk] = any != 0;
    }
    gv_barrier(team);  // nobody reads those of the tile before
    GV_FOR(chunk, GV_CHUNKS + 1) {
        gv_i32 next = chunk, any = 0;
        for (; next < GV_CHUNKS && any == 0; next += any == 0) {
            for (gv_i32 number = 0; number < GV_GROUPS; ++number) any |= of_groups[number * GV_CHUNKS + next];
        }
        heads.next[chunk] = next;
    }
    gv_barrier(team);
    const gv_i32 first = heads.next[0];
    if (first == coming || first == GV_CHUNKS) return;
    gv_wait_copies<0>();  // for the one that was first in the tile before
    gv_start_chunk(team, heads, first, true);
}

// Loads the masks of a chunk for the group's rows, unless `masks` is null. Returns false if no row has an allowed choice. `row(i)` is
// the GvHeadRow of row i.
template <class Row>
GV_FN bool gv_load_allowed(const GvGroup& group, const GvChunk& chunk, const gv_u32* masks, Row row) {
    if (masks == nullptr) return true;
    bool any = false;
    GV_GROUP_FOR(i, GV_OWN * GV_CHUNK_WORDS) {
        GvHeadRow& of = row(i % GV_OWN);
        const gv_i32 word = i / GV_OWN;
        of.allowed[word] = of.mask < 0 ? 0 : masks[of.mask + chunk.number * GV_CHUNK_WORDS + word];
        any = any || of.allowed[word] != 0;
    }
    gv_group_barrier(group);
    return gv_group_any(group, any);
}

// Outputs of a chunk for the group's rows, without the low parts of units and weights unless EXACT; if `masked`, those of
// forbidden choices are GV_FORBIDDEN.
template <bool EXACT, class Row>
GV_FN void gv_chunk_outputs(const GvGroup& group, const GvChunk& chunk, const GvTopUnits& top, bool masked, float* outputs, Row row) {
    GV_LOOP for (gv_i32 first = 0; first < chunk.outputs; first += GV_SOME_COLUMNS) {
        GvSums<GV_OWN, GV_SOME_COLUMNS> sums;
        gv_fill(sums, group, chunk.biases + first);
        if constexpr (EXACT) {
            gv_add_exact_product(sums, group, top.high, top.low, gv_part(chunk.high, first, 0), gv_part(chunk.low, first, 0));
        } else {
            gv_add_product_of<GV_TOP_WIDTH, true>(sums, group, top.high, gv_part(chunk.high, first, 0));
        }
        gv_each_pair(sums, group, [&](const GvPlace& place, float& x, float& y) {
            const gv_i32 column = first + place.column;  // even, so the next one is in the same word
            const gv_u32 bits = masked ? row(place.row).allowed[first / 32] >> column % 32 : ~0u;
            float* own = outputs + place.row * GV_OUTPUT_STRIDE + column;
            own[0] = (bits & 1) != 0 ? x : GV_FORBIDDEN;
            own[1] = (bits & 2) != 0 ? y : GV_FORBIDDEN;
        });
    }
    gv_group_barrier(group);
}

// Calls f(row, entry, outputs of the entry) for all rows of the group and all entries of a chunk. f may write the entry's term of a
// row's sum to the first of its outputs.
template <class F>
GV_FN void gv_each_head(const GvGroup& group, const GvChunk& chunk, float* outputs, F f) {
    GV_LOOP GV_GROUP_FOR(i, GV_OWN * chunk.entries) {
        const gv_i32 row = i % GV_OWN, entry = chunk.entry + i / GV_OWN;
        f(row, entry, outputs + row * GV_OUTPUT_STRIDE + gv_head_column(chunk, entry));
    }
    gv_group_barrier(group);
}

// Adds these terms to the sums of the rows, in the order of entries.
typedef GvValues<float, GV_OWN> GvRowSums;
GV_FN void gv_add_terms_of_heads(GvRowSums& sums, const GvGroup& group, const GvChunk& chunk, const float* outputs) {
    gv_each_value(sums, group, [&](gv_i32 row, float& sum) {
        for (gv_i32 entry = chunk.entry; entry < chunk.entry + chunk.entries; ++entry) {
            sum += outputs[row * GV_OUTPUT_STRIDE + gv_head_column(chunk, entry)];
        }
    });
}

// ---- one entry of a row ----------------------------------------------------------------------------------------

// Logits of an entry, read once if they are so few that registers hold them.
struct GvLogits {
    static constexpr bool FEW = GV_MOST_CHOICES <= 16;
    const float* at;
    gv_i32 n;
    float few[FEW ? GV_MOST_CHOICES : 1];
};
#if GV_HELD_HEADS
GV_FN GvLogits gv_held_logits(const float (&values)[GV_RUN]) {
    GvLogits logits = {nullptr, GV_MOST_CHOICES, {}};
    GV_UNROLL for (gv_i32 i = 0; i < GV_MOST_CHOICES; ++i) logits.few[i] = values[i];
    return logits;
}
#endif
GV_FN GvLogits gv_logits(const float* at, gv_i32 n) {
    GvLogits logits = {at, n, {}};
    if constexpr (GvLogits::FEW) {
        GV_UNROLL for (gv_i32 i = 0; i < GV_MOST_CHOICES; ++i) logits.few[i] = i < n ? at[i] : GV_FORBIDDEN;
    }
    return logits;
}
// Calls f(i, logit) for all choices, and with GV_FORBIDDEN for some behind them.
template <class F>
GV_FN void gv_each_logit(const GvLogits& logits, F f) {
    if constexpr (GvLogits::FEW) {
        GV_UNROLL for (gv_i32 i = 0; i < GV_MOST_CHOICES; ++i) f(i, logits.few[i]);
    } else {
        GV_UNROLL_BY_4 for (gv_i32 i = 0; i < logits.n; ++i) f(i, logits.at[i]);
    }
}

// Some logits may be GV_FORBIDDEN: a mask forbids them, or they lie behind the choices of an entry. Their weights are 0.
#define GV_SOME_FORBIDDEN (GV_MASKED || !GV_HELD_HEADS)

struct GvHeadTerms {
    GvEntryTerms of;
    bool none;  // the mask allows no choice
};

// Calls keep(i, weight) for all choices.
template <class Keep>
GV_FN GvHeadTerms gv_head_terms(const GvLogits& logits, Keep keep) {
    float largest = GV_FORBIDDEN, sum = 0.0f, moment = 0.0f;
    gv_each_logit(logits, [&](gv_i32, float logit) { largest = gv_larger(largest, logit); });
    const float shift = GV_MASKED && largest == GV_FORBIDDEN ? 0.0f : GV_LOG2_E * largest;
    gv_each_logit(logits, [&](gv_i32 i, float logit) {
        const float x = gv_exponent(logit, shift), weight = gv_exp2_guess(x);
        keep(i, weight);
        sum += weight;
        moment = !GV_SOME_FORBIDDEN || weight != 0.0f ? gv_fma(weight, x, moment) : moment;  // x may be infinite where it is 0
    });
    const bool none = GV_MASKED && largest == GV_FORBIDDEN && sum == sum;  // with NaN among them, the terms are NaN
    return {gv_entry_terms(shift, sum, moment), none};
}

// Log-probability of a choice; 0 if the mask allows none.
GV_FN float gv_head_log_prob(const float* at, gv_i32 n, gv_i32 taken) {
    const GvHeadTerms terms = gv_head_terms(gv_logits(at, n), [](gv_i32, float) {});
    return terms.none ? 0.0f : gv_log_prob_of_x(terms.of, gv_exponent(at[taken], terms.of.shift));
}
