// First layers of any width: their features stream through the memory of a team in chunks, beside the weights of the chunk. Sums
// stay in registers over all chunks.
//
// Normal features and weights are numbers of 16 bits, without low parts. A sum over so many features has an error about as small,
// relative to its size, as that of a hidden layer. A number out of the range of 16 bits becomes NaN.
//
// If observations have a shared part (GV_SHARED), its products are computed once a world, and the sums of an agent start from them.
// Rows of a world follow each other, a.agents of them. The gradient of the weights of the shared part is the product with the mean
// of the derivatives of a world's agents, which has their range, times their number.
//
// Columns of the layer are units: of the actor, then of the critic in an update, or of the one network that acts. Teams take
// GV_COLUMN_PART of them at a time; columns behind the last unit have weights of 0.
#pragma once
#include "learner/rows.h"
#include "learner/slice.h"

// By part of the observation: the one that all agents of a world share, if GV_SHARED is 1, and that of an agent.
#define GV_SHARED_PART 0
#define GV_AGENT_PART 1
GV_TABLE(gv_part_features, GV_PART_FEATURES)
GV_TABLE(gv_part_columns, GV_PART_COLUMNS)  // of a row of packed features, or of packed weights
GV_TABLE(gv_part_chunk, GV_PART_CHUNKS)     // features of a chunk
GV_TABLE(gv_chunk_stride, GV_CHUNK_STRIDES)
GV_FN constexpr gv_i32 gv_part_first(gv_i32 part) { return part == GV_SHARED_PART ? 0 : gv_part_features(GV_SHARED_PART); }
GV_FN constexpr gv_i32 gv_packed_first(gv_i32 part) { return part == GV_SHARED_PART ? 0 : gv_part_columns(GV_SHARED_PART); }

#define GV_JOINT (GV_COLUMN_PART * GV_COLUMN_PARTS)
#define GV_ACT_WIDTH (GV_WIDE ? GV_JOINT : gv_width(1))  // columns of the units of a split network in global memory
#define GV_PACKED_COLUMNS (gv_part_columns(GV_SHARED_PART) + gv_part_columns(GV_AGENT_PART))

GV_FN GvHalf gv_half_or_nan(float x) {
    GvHalf half, same;
    gv_halves_or_nan(x, x, half, same);
    return half;
}

// ---- packing ---------------------------------------------------------------------------------------------------

struct alignas(2 * sizeof(GvHalf)) GvTwoHalves {
    GvHalf first, second;
};

// Weights of a column, 16 bits, and its bias, as gv_scaled() has them; 0 behind the features and behind the units.
GV_FN void gv_pack_column(const GvLanes& team, const GvLayer& layer, gv_i32 unit, GvHalf* weights, float* bias) {
    const bool any = unit < gv_units(1);
    GV_FOR(i, GV_PACKED_COLUMNS) {
        const bool shared = i < gv_part_columns(GV_SHARED_PART);
        const gv_i32 feature = shared ? i : i - gv_part_columns(GV_SHARED_PART);
        const gv_i32 features = shared ? gv_part_features(GV_SHARED_PART) : gv_part_features(GV_AGENT_PART);
        const gv_i32 from = shared ? feature : feature + gv_part_features(GV_SHARED_PART);
        const float w = any && feature < features ? layer.weight[unit * GV_FEATURES + from] : 0.0f;
        weights[i] = gv_half_or_nan(gv_scaled(1, w));
    }
    GV_ONCE { *bias = any ? gv_scaled(1, layer.bias[unit]) : 0.0f; }
}

GV_FN float gv_normalised(const GvNorm& norm, gv_i32 feature, float x) {
    return gv_limited(gv_fma(x - norm.offset[feature], norm.scale[feature], norm.shift[feature]), norm.limit);
}

// Rows of a part, normalised, as numbers of 16 bits: GV_PACK_ROWS rows from `first` on.
template <gv_i32 PART>
GV_FN void gv_pack_features(const GvLanes& team, const GvSlab& obs, const GvNorm& norm, gv_i32 rows, gv_i32 samples_per_step,
                            gv_i32 first, GvHalf* packed) {
    constexpr gv_i32 PAIRS = gv_part_columns(PART) / 2, FEATURES = gv_part_features(PART), SOME = 8;
    const gv_i32 rest = rows - first, count = (rest < GV_PACK_ROWS ? rest : GV_PACK_ROWS) * PAIRS;
    GV_LOOP for (gv_i32 i = team.lane; i < count; i += SOME * GV_TEAM_LANES) {
        float x[SOME][2];
        GV_UNROLL for (gv_i32 j = 0; j < SOME; ++j) {
            const gv_i32 at = i + j * GV_TEAM_LANES, row = first + at / PAIRS, feature = at % PAIRS * 2;
            const float* own = gv_sample(obs, at < count ? row : first, samples_per_step);
            GV_UNROLL for (gv_i32 k = 0; k < 2; ++k) x[j][k] = at < count && feature + k < FEATURES ? own[feature + k] : 0.0f;
        }
        GV_UNROLL for (gv_i32 j = 0; j < SOME; ++j) {
            const gv_i32 at = i + j * GV_TEAM_LANES, feature = at % PAIRS * 2;
            if (at >= count) continue;
            const auto normalised = [&](gv_i32 k) { return feature + k < FEATURES ? gv_normalised(norm, feature + k, x[j][k]) : 0.0f; };
            GvTwoHalves two;
            gv_halves_or_nan(normalised(0), normalised(1), two.first, two.second);
            ((GvTwoHalves*)packed)[(gv_i64)first * PAIRS + at] = two;
        }
    }
}

// ---- rows of a tile in chunks ----------------------------------------------------------------------------------

// Starts the copy of eight numbers of 16 bits, see gv_start_copy().
GV_FN void gv_start_eight(GvHalf* to, const GvHalf* from, bool valid) {
    GV_UNROLL for (gv_i32 i = 0; i < (gv_i32)sizeof(GvEight) / 16; ++i) {
        gv_start_copy<4>((float*)to + 4 * i, (const float*)from + 4 * i, valid);
    }
}

// A source of rows begins, starts to bring a chunk of the group's rows to a tile, and finishes it after the products of an earlier
// chunk. This one copies packed rows, those of `samples`; without a sample, zeros. A lane brings the same pieces of all chunks.
template <gv_i32 PART>
struct GvPackedRows {
    static constexpr gv_i32 PIECES = gv_part_chunk(PART) / 8;
    static_assert(gv_part_columns(PART) % 8 == 0, "rows have whole pieces");
    const GvHalf* packed;
    GvValues<gv_i32, GV_OWN * PIECES> pieces;  // places of those of the first chunk; -1 without a sample
};
template <gv_i32 PART>
GV_FN GvPackedRows<PART> gv_packed_rows(const GvGroup& group, const GvHalf* packed, const GvOwnSamples& samples) {
    constexpr gv_i32 PIECES = GvPackedRows<PART>::PIECES;
    GvPackedRows<PART> rows = {packed, {}};
    gv_each_value_with(rows.pieces, group, samples, [](gv_i32 i) { return i / PIECES; }, [](gv_i32 i, gv_i32& piece, gv_i32 sample) {
        piece = sample >= 0 ? sample * (gv_part_columns(PART) / 8) + i % PIECES : -1;
    });
    return rows;
}
template <gv_i32 PART>
GV_FN void gv_begin_rows(GvPackedRows<PART>&, const GvGroup&) {}
template <gv_i32 PART, gv_i32 STRIDE>
GV_FN void gv_start_chunk(GvPackedRows<PART>& rows, const GvGroup& group, gv_i32 chunk, GvTile<STRIDE> tile) {
    constexpr gv_i32 PIECES = GvPackedRows<PART>::PIECES;
    gv_each_value(rows.pieces, group, [&](gv_i32 i, gv_i32& piece) {
        const bool valid = piece >= 0 && chunk * PIECES + i % PIECES < gv_part_columns(PART) / 8;
        const GvHalf* from = rows.packed + (gv_i64)(valid ? piece + chunk * PIECES : 0) * 8;
        gv_start_eight(tile.at + i / PIECES * STRIDE + i % PIECES * 8, from, valid);
    });
}
template <gv_i32 PART, gv_i32 STRIDE>
GV_FN void gv_finish_chunk(GvPackedRows<PART>&, const GvGroup&, gv_i32, GvTile<STRIDE>) {}
template <gv_i32 PART, gv_i32 STRIDE>
GV_FN void gv_keep_chunk(const GvPackedRows<PART>&, const GvGroup&, gv_i32, GvTile<STRIDE>) {}

// This one reads observations. Those of a chunk wait in registers, and each makes room for the one of the next chunk, which is then
// on its way while products are computed.
template <gv_i32 PART>
struct GvObservedRows {
    const GvSlab& obs;
    const GvNorm& norm;
    GvHalf* packed;     // gets the first `wanted` of the group's rows, packed
    gv_i32 wanted;
    GvOwnSamples rows;  // see gv_rows_of(); -1 for a row that is not there
    const float* first;  // features of the first row, if all rows are there and follow each other; else null
    GvValues<float, GV_OWN * gv_part_chunk(PART)> x;
    GvValues<float, gv_part_chunk(PART)> offset, scale, shift;
};
template <gv_i32 PART>
GV_FN GvObservedRows<PART> gv_observed_rows(const GvGroup& group, const GvSlab& obs, const GvNorm& norm, const GvOwnSamples& rows,
                                            GvHalf* packed, gv_i32 wanted) {
    const gv_i32 first = gv_value_at(rows, group, 0), last = gv_value_at(rows, group, GV_OWN - 1);
    const float* at = first >= 0 && last - first == GV_OWN - 1 ? (const float*)obs.at + first * obs.sample : nullptr;
    return {obs, norm, packed, wanted, rows, at, {}, {}, {}, {}};
}

// Calls use(load), where load(i, chunk) is number i of a chunk; 0 behind the features and without a row.
template <gv_i32 PART, class Use>
GV_FN void gv_with_observed(const GvObservedRows<PART>& rows, const GvGroup& group, Use use) {
    constexpr gv_i32 CHUNK = gv_part_chunk(PART), FEATURES = gv_part_features(PART);
    if (rows.first != nullptr) {
        const float* from = rows.first;
        const gv_u32 apart = (gv_u32)rows.obs.sample;
        use([=](gv_i32 i, gv_i32 chunk) {  // few instructions for an address
            const gv_i32 feature = chunk * CHUNK + i % CHUNK;
            return feature < FEATURES ? (from + feature)[(gv_u32)(i / CHUNK) * apart] : 0.0f;
        });
    } else {
        use([&](gv_i32 i, gv_i32 chunk) {
            const gv_i32 feature = chunk * CHUNK + i % CHUNK, row = gv_value_at(rows.rows, group, i / CHUNK);
            return row >= 0 && feature < FEATURES ? ((const float*)rows.obs.at + row * rows.obs.sample)[feature] : 0.0f;
        });
    }
}
// Loads the numbers that normalise a chunk.
template <gv_i32 PART>
GV_FN void gv_load_norm(GvObservedRows<PART>& rows, const GvGroup& group, gv_i32 chunk) {
    constexpr gv_i32 CHUNK = gv_part_chunk(PART), FEATURES = gv_part_features(PART);
    const auto load = [&](GvValues<float, CHUNK>& held, const float* from) {
        gv_each_value(held, group, [&](gv_i32 i, float& x) {
            const gv_i32 feature = chunk * CHUNK + i;
            x = feature < FEATURES ? from[feature] : 0.0f;
        });
    };
    load(rows.offset, rows.norm.offset);
    load(rows.scale, rows.norm.scale);
    load(rows.shift, rows.norm.shift);
}
template <gv_i32 PART>
GV_FN void gv_begin_rows(GvObservedRows<PART>& rows, const GvGroup& group) {
    static_assert(gv_part_chunk(PART) % 32 == 0, "lanes have numbers of one row, and each lane the same features of all rows");
    gv_with_observed(rows, group, [&](auto load) { gv_each_value(rows.x, group, [&](gv_i32 i, float& x) { x = load(i, 0); }); });
    gv_load_norm(rows, group, 0);
}
template <gv_i32 PART, gv_i32 STRIDE>
GV_FN void gv_start_chunk(GvObservedRows<PART>&, const GvGroup&, gv_i32, GvTile<STRIDE>) {}
template <gv_i32 PART, gv_i32 STRIDE>
GV_FN void gv_finish_chunk(GvObservedRows<PART>& rows, const GvGroup& group, gv_i32 chunk, GvTile<STRIDE> tile) {
    constexpr gv_i32 CHUNK = gv_part_chunk(PART);
    const auto normalised = [&](gv_i32 i, float x) {
        const gv_i32 at = i % CHUNK;
        return gv_limited(gv_fma(x - gv_held(rows.offset, at), gv_held(rows.scale, at), gv_held(rows.shift, at)), rows.norm.limit);
    };
    gv_with_observed(rows, group, [&](auto load) {
        gv_each_two_values(rows.x, group, [&](gv_i32 i, float& x, gv_i32 j, float& y) {
            GvHalf& first = tile.at[i / CHUNK * STRIDE + i % CHUNK];
            gv_halves_or_nan(normalised(i, x), normalised(j, y), first, tile.at[j / CHUNK * STRIDE + j % CHUNK]);
            x = load(i, chunk + 1);
            y = load(j, chunk + 1);
        });
    });
    gv_load_norm(rows, group, chunk + 1);
}

// Writes a chunk of a tile to the packed rows that are wanted.
template <gv_i32 PART, gv_i32 STRIDE>
GV_FN void gv_keep_chunk(const GvObservedRows<PART>& rows, const GvGroup& group, gv_i32 chunk, GvTile<STRIDE> tile) {
    constexpr gv_i32 CHUNK = gv_part_chunk(PART), PIECES = CHUNK / 8, COLUMNS = gv_part_columns(PART);
    if (rows.wanted <= 0) return;
    GV_GROUP_FOR(i, GV_OWN * PIECES) {
        const gv_i32 row = i / PIECES, piece = i % PIECES * 8, column = chunk * CHUNK + piece;
        if (row >= rows.wanted || column >= COLUMNS) continue;
        gv_copy_eight(rows.packed + row * COLUMNS + column, tile.at + row * STRIDE + piece);
    }
}

// ---- products --------------------------------------------------------------------------------------------------

// Two groups share the rows of both, each with half of the columns: they read fewer numbers from the memory of the team than with
// rows of their own.
#define GV_BESIDE (GV_GROUPS % 2 == 0 && GV_COLUMN_PART % 32 == 0 ? 2 : 1)
#define GV_FIRST_ROWS (GV_OWN * GV_BESIDE)
#define GV_FIRST_COLUMNS (GV_COLUMN_PART / GV_BESIDE)
typedef GvSums<GV_FIRST_ROWS, GV_FIRST_COLUMNS> GvFirstSums;
GV_FN gv_i32 gv_first_row(const GvGroup& group) { return group.number / GV_BESIDE * GV_FIRST_ROWS; }  // in a tile
GV_FN gv_i32 gv_first_column(const GvGroup& group) { return group.number % GV_BESIDE * GV_FIRST_COLUMNS; }

// Adds the products of rows with the packed weights of GV_COLUMN_PART columns from `first` on. The memory of a team has
// GV_STREAM_STAGES stages, of which one is multiplied while the others are loaded. A stage has rows, then weights. A group brings
// GV_OWN rows.
template <gv_i32 PART, class Source>
GV_FN void gv_add_features(GvFirstSums& sums, const GvLanes& team, const GvGroup& group, Source& source, const GvHalf* packed,
                           gv_i32 first) {
    constexpr gv_i32 CHUNK = gv_part_chunk(PART), STRIDE = gv_chunk_stride(PART), PIECES = CHUNK / 8;
    constexpr gv_i32 CHUNKS = (gv_part_features(PART) + CHUNK - 1) / CHUNK;
    const auto stage_of = [&](gv_i32 chunk, gv_i32 row) {
        GvHalf* stage = (GvHalf*)team.scratch + chunk % GV_STREAM_STAGES * (GV_ROWS + GV_COLUMN_PART) * STRIDE;
        return GvTile<STRIDE>{stage + row * STRIDE};
    };
    const auto rows_of = [&](gv_i32 chunk) { return stage_of(chunk, group.number * GV_OWN); };
    const auto start = [&](gv_i32 chunk) {
        if (chunk < CHUNKS) {
            gv_start_chunk(source, group, chunk, rows_of(chunk));
            GvHalf* to = stage_of(chunk, GV_ROWS).at;
            GV_FOR(i, GV_COLUMN_PART * PIECES) {
                const gv_i32 column = i / PIECES, piece = i % PIECES * 8, at = chunk * CHUNK + piece;
                const bool valid = at < gv_part_columns(PART);
                const GvHalf* from = packed + (first + column) * GV_PACKED_COLUMNS + gv_packed_first(PART) + (valid ? at : 0);
                gv_start_eight(to + column * STRIDE + piece, from, valid);
            }
        }
        gv_end_copies();
    };
    const auto finish = [&](gv_i32 chunk) {
        if (chunk < CHUNKS) gv_finish_chunk(source, group, chunk, rows_of(chunk));
    };
    gv_begin_rows(source, group);
    gv_barrier(team);  // the products before have ended
    for (gv_i32 chunk = 0; chunk < GV_STREAM_STAGES - 1; ++chunk) {
        start(chunk);
        finish(chunk);
    }
    GV_LOOP for (gv_i32 chunk = 0; chunk < CHUNKS; ++chunk) {
        gv_wait_copies<GV_STREAM_STAGES - 2>();
        gv_barrier(team);  // the chunk is there, and the one before it has been multiplied
        start(chunk + GV_STREAM_STAGES - 1);
        gv_keep_chunk(source, group, chunk, rows_of(chunk));
        gv_add_layer<CHUNK>(sums, group, stage_of(chunk, gv_first_row(group)), stage_of(chunk, GV_ROWS + gv_first_column(group)));
        finish(chunk + GV_STREAM_STAGES - 1);
    }
    gv_wait_copies<0>();
}

// Sums before a part is added: biases, or for rows of agents what the shared part of their worlds gave. `row` and `first` are the
// first row and column of the sums.
template <gv_i32 PART>
GV_FN void gv_begin_sums(GvFirstSums& sums, const GvGroup& group, const float* biases, const float* world_sums, gv_i32 row,
                         gv_i32 rows, gv_i32 agents, gv_i32 first) {
    if constexpr (PART == GV_AGENT_PART && GV_SHARED) {
        gv_each_pair(sums, group, [&](const GvPlace& place, float& x, float& y) {
            const gv_i32 at = row + place.row < rows ? (row + place.row) / agents : 0;
            const float* own = world_sums + (gv_i64)at * GV_JOINT + first + place.column;
            x = own[0];
            y = own[1];
        });
    } else {
        gv_fill(sums, group, biases + first);
    }
}

// Stores sums of worlds.
GV_FN void gv_store_world_sums(GvFirstSums& sums, const GvGroup& group, float* world_sums, gv_i32 row, gv_i32 rows, gv_i32 first) {
    gv_each_pair(sums, group, [&](const GvPlace& place, float& x, float& y) {
        if (row + place.row >= rows) return;
        float* own = world_sums + (gv_i64)(row + place.row) * GV_JOINT + first + place.column;
        own[0] = x;
        own[1] = y;
    });
}

// ---- sums over rows --------------------------------------------------------------------------------------------

// Sums over rows of GV_COLUMN_PART columns of derivatives, from `first` on, times GV_FEATURE_PART packed features, from `from` on.
// `sample_of(row)` is the row of the packed features, -1 for one that does not count. A lane loads it two stages before it starts
// the copies. Sums of the derivatives alone are added up if `totals`.
template <gv_i32 PART, gv_i32 N, class Deltas, class SampleOf>
GV_FN void gv_sum_features(GvSpread<GV_COLUMN_PART, N>& sums, const GvLanes& team, gv_i32 slice, gv_i32 slices, gv_i32 stages,
                           Deltas deltas, gv_i32 first, const GvHalf* packed, gv_i32 from, bool totals, SampleOf sample_of) {
    constexpr gv_i32 STRIDE = (N / 8 | 1) * 8, PIECES = N / 8, COLUMNS = gv_part_columns(PART), M = GV_COLUMN_PART;
    constexpr gv_i32 COUNT = GV_STAGE_ROWS * PIECES, EACH = (COUNT + GV_TEAM_LANES - 1) / GV_TEAM_LANES;
    gv_i32 samples[EACH], following[EACH];
    const auto load = [&](gv_i32 (&to)[EACH], gv_i32 row) {
        GV_UNROLL for (gv_i32 k = 0; k < EACH; ++k) {
            const gv_i32 i = team.lane + k * GV_TEAM_LANES;
            to[k] = i < COUNT ? sample_of(row + i / PIECES) : -1;
        }
    };
    const auto start = [&](GvHalf* memory, gv_i32 row) {
        gv_start_stripes<GV_STAGE_ROWS>(team, GvStripes<M>{memory}, gv_part(deltas, row, first));
        GvHalf* to = memory + GV_STAGE_ROWS * M;
        GV_UNROLL for (gv_i32 k = 0; k < EACH; ++k) {
            const gv_i32 i = team.lane + k * GV_TEAM_LANES, piece = i % PIECES * 8, column = from + piece;
            if (i >= COUNT) continue;
            const bool valid = samples[k] >= 0 && column < COLUMNS;
            const GvHalf* of_sample = packed + (valid ? (gv_i64)samples[k] * COLUMNS + column : 0);
            gv_start_eight(to + i / PIECES * STRIDE + piece, of_sample, valid);
        }
        GV_UNROLL for (gv_i32 k = 0; k < EACH; ++k) samples[k] = following[k];
        load(following, row + 2 * slices * GV_STAGE_ROWS);
    };
    const auto add = [&](GvHalf* memory) {
        const GvStripes<M> left = {memory};
        gv_add_columns<GV_STAGE_ROWS>(sums, gv_group(team), left, GvTile<STRIDE>{memory + GV_STAGE_ROWS * M}, totals);
    };
    gv_clear(sums);
    load(samples, slice * GV_STAGE_ROWS);
    load(following, (slice + slices) * GV_STAGE_ROWS);
    gv_each_stage<GV_STREAM_STAGES, GV_STAGE_ROWS*(M + STRIDE), GV_STAGE_ROWS>(team, slice, slices, stages, start, add);
}
