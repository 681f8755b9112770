// Policies at work: the same networks as in gradient.cu, without derivatives.
//
//   gv_act         draws an action for each row and stores it with its log-probability
//   gv_evaluate    log-probabilities of given actions
//   gv_values      values of the critic
//   gv_first       units of the first layer of a split network, from which the others continue
//   gv_wide_first  the same of a wide one, with weights that gv_pack_first has packed; gv_wide_worlds has the sums of shared parts
//   gv_pack_heads  weights of the last layer of an actor with many heads, as gv_act and gv_evaluate read them
//   gv_gru_act     as gv_act, for a policy with a GRU; also takes and gives its states
//
// A team loads one network and computes its tiles of rows. After that its groups do not wait for each other, but for those that
// share the units of a GRU.
#include "learner/act_rows.h"
#include "learner/choose.h"
#include "learner/load_network.h"
#include "learner/rows.h"
#include "learner/wide.h"

// Memory of a team: the network and features of 16 bits, then outputs. With the upper layers of a split network it has no features.
#define GV_SCRATCH gv_scratch_floats()

GV_FN const gv_u8* gv_mask_of(const GvArgs& a, gv_i32 row) {
#ifdef GV_CHOICES
    if (GV_MASKED && a.mask.at != nullptr) return (const gv_u8*)a.mask.at + gv_place(a, a.mask, row);
#endif
    return nullptr;
}

#if GV_CHUNKS == 0
// Draws an entry of a row, and stores the action.
GV_FN void gv_act_entry(const GvArgs& a, gv_i32 row, gv_i32 entry, float* outputs, GvNoise noise) {
    const GvAction action = gv_choose(a.box, entry, outputs, gv_mask_of(a, row), noise, a.likeliest != 0);
    ((GvAction*)a.action.at)[gv_place(a, a.action, row) + entry] = action;
}

// Noise of the rows. It follows from counters alone, so their loads wait together with those of the features.
typedef GvValues<GvNoise, GV_OWN * GV_ENTRIES> GvOwnNoise;
GV_FN void gv_draw_noise_of_rows(GvOwnNoise& noise, const GvArgs& a, const GvGroup& group, const GvOwn& own) {
    gv_each_value(noise, group, [&](gv_i32 i, GvNoise& found) {
        const gv_i32 in_tile = i / GV_ENTRIES, entry = i % GV_ENTRIES;
        if (in_tile < own.rows) found = gv_noise(gv_policy_draw(a.draw, own.first + in_tile, entry), entry);
    });
}

// Draws the actions of the rows, and stores them with their log-probabilities.
GV_FN void gv_choose_for_rows(GvOwnNoise& noise, const GvArgs& a, const GvGroup& group, const GvOwn& own) {
    if (a.result != nullptr) {
        GV_GROUP_FOR(i, own.rows * GV_OUTPUTS) {
            const float output = own.outputs[i / GV_OUTPUTS * GV_OUTPUT_STRIDE + i % GV_OUTPUTS];
            a.result[(gv_i64)own.first * GV_OUTPUTS + i] = output;
        }
        gv_group_barrier(group);
    }
    gv_each_value(noise, group, [&](gv_i32 i, GvNoise& found) {
        const gv_i32 in_tile = i / GV_ENTRIES, entry = i % GV_ENTRIES;
        float* outputs = own.outputs + in_tile * GV_OUTPUT_STRIDE;
        if (in_tile < own.rows) gv_act_entry(a, own.first + in_tile, entry, outputs, found);
    });
    gv_group_barrier(group);
    GV_GROUP_FOR(i, own.rows) gv_log_prob_of(a, own.first + i) = gv_sum_of_terms(own.outputs + i * GV_OUTPUT_STRIDE);
}
#endif

#if GV_GRU_COLUMNS > 0
#include "learner/gru_tile.h"

// A step of a GRU for a tile of 16 rows.
GV_FN void gv_gru_act_tile(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const GvGroup group = gv_group(team);
    const GvGruTile tile = gv_gru_tile(team);
    const bool leads = gv_leads(group);
    const gv_i32 first = 16 * number, rest = a.rows - first;
    const GvOwn own = {tile.outputs, first, rest < 16 ? rest : 16};
    const auto row_of = [&](gv_i32 row) { return row < own.rows ? first + row : -1; };
    GvOwnSamples samples;
    GvOwnFeatures features;
    GvOwnNoise noise;
    GvOwnState state;
    if (leads) {
        gv_each_value(samples, group, [&](gv_i32 i, gv_i32& sample) { sample = row_of(i); });
        gv_load_features(features, group, samples, a.obs, a.samples_per_step);
        gv_draw_noise_of_rows(noise, a, group, own);
    }
    gv_clear_halves(team, tile.features.at, 16 * GV_FEATURE_STRIDE);  // columns behind features stay 0
    gv_load_gru(team, tile.gru, a.layers, a.norm);
    gv_load_state(state, group, gv_state_before(tile, 0), a.state, row_of);
    gv_block_barrier(team);
    if (leads) {
        gv_store_features(features, group, samples, a.obs, a.samples_per_step, tile.gru, a.norm.limit, tile.features);
    }
    gv_block_barrier(team);
    gv_step_gru(tile, group, state, 0);
    gv_block_barrier(team);
    gv_store_state(state, group, a.new_state, row_of);
    if (!leads) return;
    gv_gru_outputs(tile, group, 0);
    gv_choose_for_rows(noise, a, group, own);
}

GV_PLAIN_KERNEL(gv_gru_act, gv_gru_act_tile)

#else

#define GV_PART (GV_SPLIT ? GV_UPPER : GV_WHOLE)

// Units of the first layer on their way to global memory.
struct GvFirstUnits {
    GvStripes<GV_ACT_WIDTH> units;  // of the group's rows
};
template <gv_i32 LAYER, gv_i32 ROWS, gv_i32 N>
GV_FN void gv_keep_units(GvFirstUnits& kept, const GvGroup& group, const GvRows<ROWS, N>& units, gv_i32 first) {
    gv_store(units, group, gv_part(kept.units, 0, first));
}
template <gv_i32 LAYER>
GV_FN void gv_keep_slopes(GvFirstUnits&, const GvPlace&, gv_i32, float, float) {}

// Computes the group's outputs of a network or of its upper layers, or units of its first layer.
template <gv_i32 OUTPUTS, gv_i32 PART>
GV_FN void gv_compute(const GvArgs& a, const GvGroup& group, const GvNetwork<OUTPUTS>& network, GvTile<GV_FEATURE_STRIDE> features,
                      const GvOwn& own) {
    GvForget forget;
    GvSums<GV_OWN, GvNetwork<OUTPUTS>::COLUMNS> sums;
    const GvStripes<GV_ACT_WIDTH> lower = gv_part(GvStripes<GV_ACT_WIDTH>{a.units}, own.first, 0);
    if constexpr (PART == GV_FIRST) {
        GvFirstUnits kept = {lower};
        gv_forward_from<1>(network, group, features, kept, sums);
    } else if constexpr (PART == GV_UPPER) {
        GvRows<GV_OWN, gv_width(1)> units;
        gv_load(units, group, lower);
        gv_forward_above(network, group, units, forget, sums);
    } else {
        sums = gv_forward<GV_OWN>(network, group, features, forget);
    }
    if constexpr (PART != GV_FIRST) gv_store_outputs<OUTPUTS>(sums, group, own.outputs);
}

// Computes a network, or a part of it, for the tiles of team `number`. `prefetch(group, own)` is called before a tile is
// computed, `use(group, own)` after it. If `wanted(group, own)` is false, the tile is not computed and `use` is not called.
template <gv_i32 OUTPUTS, gv_i32 PART, class Wanted, class Prefetch, class Use>
GV_FN void gv_each_tile(const GvArgs& a, const GvLanes& team, gv_i32 number, Wanted wanted, Prefetch prefetch, Use use) {
    const GvGroup group = gv_group(team);
    GvHalf* halves = (GvHalf*)team.scratch;
    float* floats = (float*)(halves + GV_HALVES);
    const GvNetwork<OUTPUTS> network = {halves, floats};
    const gv_i32 row = group.number * GV_OWN, tiles = (a.rows + GV_ROWS - 1) / GV_ROWS;
    const GvTile<GV_FEATURE_STRIDE> all = {halves + GV_FEATURES_AT}, tile_of_group = gv_part(all, row, 0);
    GvOwn own = {floats + GV_OUTPUTS_AT + row * GV_OUTPUT_STRIDE, 0, 0};
    GvOwnSamples samples;
    GvOwnFeatures features;
    const auto load = [&](gv_i32 tile) {
        if constexpr (PART == GV_UPPER) return;
        gv_each_value(samples, group, [&](gv_i32 i, gv_i32& sample) {
            const gv_i64 found = (gv_i64)tile * GV_ROWS + row + i;
            sample = found < a.rows ? (gv_i32)found : -1;
        });
        gv_load_features(features, group, samples, a.obs, a.samples_per_step);
    };
    const auto begin = [&](gv_i32 tile) {
        const gv_i64 first = (gv_i64)tile * GV_ROWS + row, rest = a.rows - first;
        own.first = (gv_i32)first;
        own.rows = rest < 0 ? 0 : rest < GV_OWN ? (gv_i32)rest : GV_OWN;
        prefetch(group, own);
    };
    load(number);
    begin(number);
    if constexpr (PART != GV_UPPER) gv_clear_halves(team, all.at, GV_ROWS * GV_FEATURE_STRIDE);  // columns behind features stay 0
    gv_load_network<OUTPUTS, PART>(team, network, a.layers, a.norm);
    gv_barrier(team);
    GV_LOOP for (gv_i32 tile = number; tile < tiles; tile += a.teams) {
        if constexpr (PART != GV_UPPER) {
            gv_store_features(features, group, samples, a.obs, a.samples_per_step, network, a.norm.limit, tile_of_group);
            gv_group_barrier(group);
            load(tile + a.teams);
        }
        if (wanted(group, own)) {
            gv_compute<OUTPUTS, PART>(a, group, network, tile_of_group, own);
            gv_group_barrier(group);
            use(group, own);
        }
        gv_group_barrier(group);
        begin(tile + a.teams);
    }
}

GV_FN bool gv_always(const GvGroup&, const GvOwn&) { return true; }
GV_FN void gv_nothing(const GvGroup&, const GvOwn&) {}

#if GV_CHUNKS > 0
#include "learner/act_heads.h"
#else
#ifdef GV_CHOICES
GV_FN float gv_evaluated(const GvArgs& a, gv_i32 row, float* outputs, const GvAction (&action)[GV_ENTRIES]) {
    float entropy[GV_ENTRIES];
    bool none[GV_ENTRIES];
    return gv_action_log_prob(outputs, action, gv_mask_of(a, row), entropy, none);
}
#else
GV_FN float gv_evaluated(const GvArgs& a, gv_i32, const float* outputs, GvAction (&action)[GV_ENTRIES]) {
    float z[GV_ENTRIES];
    GV_UNROLL for (gv_i32 i = 0; i < GV_ENTRIES; ++i) action[i] = (action[i] - a.box.centre[i]) / a.box.half_width[i];
    return gv_action_log_prob(outputs, action, a.box.log_std, z);
}
#endif

GV_FN void gv_act_tiles(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    GvOwnNoise noise;
    const auto prefetch = [&](const GvGroup& group, const GvOwn& own) { gv_draw_noise_of_rows(noise, a, group, own); };
    gv_each_tile<GV_OUTPUTS, GV_PART>(a, team, number, gv_always, prefetch, [&](const GvGroup& group, const GvOwn& own) {
        gv_choose_for_rows(noise, a, group, own);
    });
}

GV_FN void gv_evaluate_tiles(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    gv_each_tile<GV_OUTPUTS, GV_PART>(a, team, number, gv_always, gv_nothing, [&](const GvGroup& group, const GvOwn& own) {
        GV_GROUP_FOR(i, own.rows) {
            const gv_i32 row = own.first + i;
            const GvAction* taken = (const GvAction*)a.action.at + gv_place(a, a.action, row);
            GvAction action[GV_ENTRIES];
            GV_UNROLL for (gv_i32 entry = 0; entry < GV_ENTRIES; ++entry) action[entry] = taken[entry];
            a.result[row] = gv_evaluated(a, row, own.outputs + i * GV_OUTPUT_STRIDE, action);
        }
    });
}

#endif

// True if a value of the group's rows is wanted: all are, or those whose byte in `mask` is 1. Other values are then undefined.
GV_FN bool gv_wanted(const GvArgs& a, const GvGroup& group, const GvOwn& own) {
    if (a.mask.at == nullptr) return true;
    bool any = false;
    GV_GROUP_FOR(i, own.rows) any = any || ((const gv_u8*)a.mask.at)[gv_place(a, a.mask, own.first + i)] != 0;
    return gv_group_any(group, any);
}

GV_FN void gv_value_tiles(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const auto wanted = [&](const GvGroup& group, const GvOwn& own) { return gv_wanted(a, group, own); };
    gv_each_tile<1, GV_PART>(a, team, number, wanted, gv_nothing, [&](const GvGroup& group, const GvOwn& own) {
        GV_GROUP_FOR(i, own.rows) a.result[own.first + i] = own.outputs[i * GV_OUTPUT_STRIDE];
    });
}

GV_PLAIN_KERNEL(gv_act, gv_act_tiles)
GV_PLAIN_KERNEL(gv_evaluate, gv_evaluate_tiles)
GV_PLAIN_KERNEL(gv_values, gv_value_tiles)
#if GV_CHUNKS > 0
GV_PLAIN_KERNEL(gv_pack_heads, gv_pack_teams)
#if GV_MASKED
GV_PLAIN_KERNEL(gv_pack_masks, gv_pack_masks_teams)
#endif
#endif

#if GV_WIDE
GV_FN void gv_pack_first_of(const GvArgs& a, const GvLanes& team, gv_i32 column) {
    gv_pack_column(team, a.layers[0], column, a.first_weights + column * GV_PACKED_COLUMNS, a.first_biases + column);
}

// Sums of a part of the columns, from `first` on, of the tile whose first row is `row` of `rows` rows, with features in `obs`.
// The normal features of the first `wanted` rows go to `packed`.
template <gv_i32 PART>
GV_FN void gv_first_sums(GvFirstSums& sums, const GvArgs& a, const GvLanes& team, const GvGroup& group, const GvSlab& obs,
                         const GvNorm& norm, gv_i32 rows_per_step, gv_i32 row, gv_i32 rows, gv_i32 first, GvHalf* packed,
                         gv_i32 wanted) {
    const gv_i32 own = row + group.number * GV_OWN;
    GvOwnSamples samples;
    gv_each_value(samples, group, [&](gv_i32 i, gv_i32& sample) { sample = own + i < rows ? own + i : -1; });
    const GvOwnSamples places = gv_rows_of(samples, group, obs, rows_per_step);
    GvHalf* to = wanted > own ? packed + (gv_i64)own * gv_part_columns(PART) : packed;
    GvObservedRows<PART> source = gv_observed_rows<PART>(group, obs, norm, places, to, wanted - own);
    gv_begin_sums<PART>(sums, group, a.first_biases, a.world_sums, row + gv_first_row(group), rows, a.agents,
                        first + gv_first_column(group));
    gv_add_features<PART>(sums, team, group, source, a.first_weights, first);
}

GV_FN void gv_wide_first_tiles(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const GvGroup group = gv_group(team);
    const gv_i32 items = (a.rows + GV_ROWS - 1) / GV_ROWS * GV_COLUMN_PARTS;
    GV_LOOP for (gv_i32 item = number; item < items; item += a.teams) {
        const gv_i32 tile = item / GV_COLUMN_PARTS * GV_ROWS, row = tile + group.number * GV_OWN, rest = a.rows - row;
        const gv_i32 first = item % GV_COLUMN_PARTS * GV_COLUMN_PART;
        const GvOwn own = {nullptr, row, rest < 0 ? 0 : rest < GV_OWN ? rest : GV_OWN};
        if (a.partly != 0 && gv_vote(team, gv_wanted(a, group, own)) == 0) continue;
        GvFirstSums sums;
        gv_first_sums<GV_AGENT_PART>(sums, a, team, group, a.obs, a.norm, a.samples_per_step, tile, a.rows, first,
                                     a.packed_rows, first == 0 ? a.packed_count : 0);
        GvRows<GV_FIRST_ROWS, GV_FIRST_COLUMNS> units;
        gv_each_pair(sums, group, [&](const GvPlace& place, float& x, float& y) {
            gv_put(units, place, 0, gv_activated<1>(x).value, gv_activated<1>(y).value);
        });
        gv_store(units, group, gv_part(GvStripes<GV_JOINT>{a.units}, tile + gv_first_row(group), first + gv_first_column(group)));
    }
}

#if GV_SHARED
GV_FN void gv_wide_worlds_tiles(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const GvGroup group = gv_group(team);
    const gv_i32 worlds = a.rows / a.agents, items = (worlds + GV_ROWS - 1) / GV_ROWS * GV_COLUMN_PARTS;
    GV_LOOP for (gv_i32 item = number; item < items; item += a.teams) {
        const gv_i32 row = item / GV_COLUMN_PARTS * GV_ROWS, first = item % GV_COLUMN_PARTS * GV_COLUMN_PART;
        GvFirstSums sums;
        gv_first_sums<GV_SHARED_PART>(sums, a, team, group, a.shared, a.shared_norm, a.worlds_per_step, row, worlds, first,
                                      nullptr, 0);
        gv_store_world_sums(sums, group, a.world_sums, row + gv_first_row(group), worlds, first + gv_first_column(group));
    }
}
GV_PLAIN_KERNEL(gv_wide_worlds, gv_wide_worlds_tiles)
#endif
GV_PLAIN_KERNEL(gv_pack_first, gv_pack_first_of)
GV_PLAIN_KERNEL(gv_wide_first, gv_wide_first_tiles)
#elif GV_SPLIT
// One output, because the biases of the outputs are not needed and a critic has no more.
GV_FN void gv_first_tiles(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const auto wanted = [&](const GvGroup& group, const GvOwn& own) { return a.partly == 0 || gv_wanted(a, group, own); };
    gv_each_tile<1, GV_FIRST>(a, team, number, wanted, gv_nothing, gv_nothing);
}
GV_PLAIN_KERNEL(gv_first, gv_first_tiles)
#endif
#endif
