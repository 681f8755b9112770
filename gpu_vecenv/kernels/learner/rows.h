// Rows that a group brings to its part of a tile: where they lie in arrays, and their features, loaded before they are needed.
#pragma once
#include "learner/network.h"
#include "learner/slab.h"

// Rows of a group. Specialised groups (warp_specialised.h) share the rows of a tile; otherwise each group has rows of its own.
#define GV_OWN (GV_WORKERS > 0 ? GV_ROWS : gv_group_rows(GV_ROWS))

// Rows of `slab` that samples have, whose distance is that between two samples; the distance between steps is a multiple of it.
template <class Samples>
GV_FN Samples gv_rows_of(const Samples& samples, const GvGroup& group, const GvSlab& slab, gv_i32 samples_per_step) {
    Samples rows = samples;
    const gv_i32 further = (gv_i32)(slab.step / slab.sample) - samples_per_step;
    gv_each_value(rows, group, [&](gv_i32, gv_i32& row) {
        if (row >= 0 && further != 0) row += (gv_i32)((gv_u32)row / (gv_u32)samples_per_step) * further;
    });
    return rows;
}

// Features of the rows of a group in the next tile. Many features (GV_FEATURES_IN_REGISTERS is 0) would take too many registers;
// they are brought to the L2 cache.
typedef GvValues<gv_i32, GV_OWN> GvOwnSamples;  // -1 for a row without a sample, whose features are 0
typedef GvValues<float, GV_FEATURES_IN_REGISTERS ? GV_OWN * GV_FEATURES : 1> GvOwnFeatures;

GV_FN void gv_load_features(GvOwnFeatures& features, const GvGroup& group, const GvOwnSamples& samples, const GvSlab& obs,
                            gv_i32 samples_per_step) {
    if constexpr (GV_FEATURES_IN_REGISTERS) {
        gv_each_value_with(features, group, samples, [](gv_i32 i) { return i / GV_FEATURES; },
                          [&](gv_i32 i, float& x, gv_i32 sample) {
                              x = sample >= 0 ? gv_sample(obs, sample, samples_per_step)[i % GV_FEATURES] : 0.0f;
                          });
    } else {
        constexpr gv_i32 SECTORS = (GV_FEATURES + 7) / 8 + 1;  // 32 bytes each; a row may begin within one
        const GvOwnSamples rows = gv_rows_of(samples, group, obs, samples_per_step);
        GvValues<gv_u8, GV_OWN * SECTORS> each;  // unused
        gv_each_value_with(each, group, rows, [](gv_i32 i) { return i / SECTORS; },
                           [&](gv_i32 i, gv_u8&, gv_i32 row) {
                               const gv_i32 at = i % SECTORS * 8, last = GV_FEATURES - 1;
                               if (row >= 0) gv_prefetch((const float*)obs.at + row * obs.sample + (at < last ? at : last));
                           });
    }
}

// Normalises these features and stores them in the tile of the rows.
template <gv_i32 OUTPUTS, gv_i32 STRIDE>
GV_FN void gv_store_features(GvOwnFeatures& features, const GvGroup& group, const GvOwnSamples& samples, const GvSlab& obs,
                             gv_i32 samples_per_step, const GvNetwork<OUTPUTS>& network, float limit, GvTile<STRIDE> tile) {
    const auto store = [&](gv_i32 i, float x) { gv_set_feature(network, tile, i / GV_FEATURES, i % GV_FEATURES, x, limit); };
    if constexpr (GV_FEATURES_IN_REGISTERS) {
        gv_each_value(features, group, [&](gv_i32 i, float& x) { store(i, x); });
    } else {
        const GvOwnSamples rows = gv_rows_of(samples, group, obs, samples_per_step);  // a division for each row, not for each number
        constexpr gv_i32 SOME = GV_SPLIT ? 1280 : 256;  // 40 or 8 loads of a lane at a time; the first layer alone leaves registers
        GV_LOOP for (gv_i32 first = 0; first < GV_OWN * GV_FEATURES; first += SOME) {
            GvValues<float, SOME> some;
            gv_each_value_with(some, group, rows, [&](gv_i32 i) { return (first + i) / GV_FEATURES; },
                              [&](gv_i32 i, float& x, gv_i32 row) {
                                  const bool inside = first + i < GV_OWN * GV_FEATURES && row >= 0;
                                  const float* own = (const float*)obs.at + (inside ? row : 0) * obs.sample;
                                  x = inside ? own[(first + i) % GV_FEATURES] : 0.0f;
                              });
            gv_each_value(some, group, [&](gv_i32 i, float& x) {
                if (first + i < GV_OWN * GV_FEATURES) store(first + i, x);
            });
        }
    }
}

GV_FN void gv_clear_halves(const GvLanes& team, GvHalf* at, gv_i32 count) {
    GV_FOR(i, count * (gv_i32)sizeof(GvHalf) / 4) ((float*)at)[i] = 0.0f;
}

// Stores the outputs of the group's rows, one row after the other.
template <gv_i32 OUTPUTS, gv_i32 COLUMNS>
GV_FN void gv_store_outputs(GvSums<GV_OWN, COLUMNS>& sums, const GvGroup& group, float* outputs) {
    gv_each_pair(sums, group, [&](const GvPlace& place, float& x, float& y) {
        float* own = outputs + place.row * GV_OUTPUT_STRIDE + place.column;
        if (place.column < OUTPUTS) own[0] = x;
        if (place.column + 1 < OUTPUTS) own[1] = y;
    });
}
