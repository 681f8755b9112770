// Rows of a group in the next tile. They are copied to the memory of the team while the present tile is computed, and so take no
// registers. The copies of a tile are committed twice: after the features, and after what the loss reads.
#pragma once
#include "learner/update_args.h"

struct GvPrefetched {
    GvOwnSamples samples;
    float *numbers, *action, *features;  // [GV_OWN, 4], [GV_OWN, GV_REGISTER_ENTRIES] and [GV_OWN, GV_STAGED_FEATURES]
    GvSettings* settings;                // of the team
};
// `memory` is that from GV_PREFETCH_AT on: GV_STAGED_FLOATS for each row, then the settings.
GV_FN GvPrefetched gv_prefetched(const GvGroup& group, float* memory) {
    float* own = memory + group.number * GV_OWN * GV_STAGED_FLOATS;
    GvSettings* settings = (GvSettings*)(memory + GV_ROWS * GV_STAGED_FLOATS);
    return {{}, own, own + 4 * GV_OWN, own + (4 + GV_REGISTER_ENTRIES) * GV_OWN, settings};
}

// Loads the settings of a network's loss to the memory of the team. A barrier must follow.
GV_FN void gv_load_settings(const GvPrefetched& prefetched, const GvArgs& a, const GvLanes& team, gv_i32 network) {
    GV_ONCE {
        *prefetched.settings = {*a.clip_coef, *a.entropy_coef, a.value_coef, a.scales[network], a.moments[0], a.moments[1], a.clip_value};
    }
}

GV_FN void gv_load_samples(GvOwnSamples& samples, const GvArgs& a, const GvGroup& group, gv_i32 tile) {
    gv_each_value(samples, group, [&](gv_i32 i, gv_i32& sample) {
        const gv_i64 row = (gv_i64)tile * GV_ROWS + group.number * GV_OWN + i;
        sample = row < a.rows ? a.samples[row] : -1;
    });
}

// True if each row of an array begins on a multiple of 16 bytes.
GV_FN bool gv_lies_on_sixteen_bytes(const GvSlab& slab) {
    return (gv_u64)slab.at % 16 == 0 && slab.sample % 4 == 0 && slab.step % 4 == 0;
}

// Starts the copies of the features of `samples`, GV_STAGED_PIECE of them at a time where rows lie for it.
GV_FN void gv_start_features(const GvPrefetched& prefetched, const GvArgs& a, const GvGroup& group) {
    if constexpr (GV_STAGED_FEATURES > 0) {
        constexpr gv_i32 PIECES = GV_FEATURES / GV_STAGED_PIECE;
        const bool aligned = GV_STAGED_PIECE > 1 && gv_lies_on_sixteen_bytes(a.obs);
        GvValues<gv_u8, GV_OWN * PIECES> each;  // unused
        gv_each_value_with(each, group, prefetched.samples, [](gv_i32 i) { return i / PIECES; },
                           [&](gv_i32 i, gv_u8&, gv_i32 sample) {
                               const float* row = gv_sample(a.obs, sample < 0 ? 0 : sample, a.samples_per_step);
                               const float* from = row + i % PIECES * GV_STAGED_PIECE;
                               float* to = prefetched.features + i * GV_STAGED_PIECE;
                               if (aligned) return gv_start_copy<4>(to, from, sample >= 0);
                               GV_UNROLL for (gv_i32 k = 0; k < GV_STAGED_PIECE; ++k) {
                                   gv_start_copy<1>(to + k, from + k, sample >= 0);
                               }
                           });
    } else {
        GvOwnFeatures none;
        gv_load_features(none, group, prefetched.samples, a.obs, a.samples_per_step);  // to the cache
    }
    gv_end_copies();
}

#ifdef GV_CHOICES
// Mask of a sample; null allows all choices.
GV_FN const gv_u8* gv_mask_of_sample(const GvArgs& a, gv_i32 sample) {
    if (!GV_MASKED || a.mask.at == nullptr) return nullptr;
    return (const gv_u8*)a.mask.at + gv_place_in(a.mask, sample, a.samples_per_step);
}
// Brings the mask of a row to the L2 cache.
GV_FN void gv_prefetch_mask(const gv_u8* mask) {
    if (mask == nullptr) return;
    for (gv_i32 at = 0; at < gv_mask_columns(); at += 32) gv_prefetch(mask + at);  // sectors of 32 bytes
    gv_prefetch(mask + gv_mask_columns() - 1);
}
#endif

// Starts the copies of what the loss reads of `samples`.
GV_FN void gv_start_rows(GvPrefetched& prefetched, const GvArgs& a, const GvGroup& group, bool with_action) {
    gv_each_value(prefetched.samples, group, [&](gv_i32 i, gv_i32& of) {
        const gv_i32 sample = of < 0 ? 0 : of;
        gv_start_copy<4>(prefetched.numbers + 4 * i, a.numbers + 4 * (gv_i64)sample, of >= 0);
#ifdef GV_CHOICES
        if (with_action) gv_prefetch_mask(gv_mask_of_sample(a, sample));
#endif
        if (!with_action || GV_ENTRIES > GV_REGISTER_ENTRIES) return;
        const float* action = gv_sample(a.action, sample, a.samples_per_step);
        GV_UNROLL for (gv_i32 entry = 0; entry < GV_REGISTER_ENTRIES; ++entry) {
            gv_start_copy<1>(prefetched.action + i * GV_REGISTER_ENTRIES + entry, action + entry, of >= 0);
        }
    });
    gv_end_copies();
}

// Normalises the features that were copied, and stores them in the tile of the rows. A lane reads its own copies.
template <gv_i32 OUTPUTS, gv_i32 STRIDE>
GV_FN void gv_take_features(const GvPrefetched& prefetched, const GvOwnSamples& present, const GvArgs& a, const GvGroup& group,
                            const GvNetwork<OUTPUTS>& network, GvTile<STRIDE> tile) {
    if constexpr (GV_STAGED_FEATURES > 0) {
        static_assert(GV_STAGED_PIECE == 1 || GV_STAGED_PIECE == 4, "pieces are floats, or 16 bytes");
        if constexpr (GV_STAGED_PIECE == 4) {
            GV_GROUP_FOR(i, GV_OWN * GV_FEATURES / 4) {
                gv_set_four_features(network, tile, i / (GV_FEATURES / 4), i % (GV_FEATURES / 4) * 4, prefetched.features + 4 * i,
                                     a.norm.limit);
            }
        } else GV_GROUP_FOR(i, GV_OWN * GV_FEATURES) {
            gv_set_feature(network, tile, i / GV_FEATURES, i % GV_FEATURES, prefetched.features[i], a.norm.limit);
        }
    } else {
        GvOwnFeatures none;
        gv_store_features(none, group, present, a.obs, a.samples_per_step, network, a.norm.limit, tile);
    }
}

// Returns the numbers of row i that the loss reads. A lane reads its own copies.
GV_FN GvRow gv_take_row(const GvPrefetched& prefetched, gv_i32 i, gv_i32 sample) {
    const float* numbers = prefetched.numbers + 4 * i;
    GvRow row = {numbers[0], numbers[1], numbers[2], numbers[3], sample, {}};
    GV_UNROLL for (gv_i32 entry = 0; entry < GV_REGISTER_ENTRIES; ++entry) {
        row.action[entry] = ((const GvAction*)prefetched.action)[i * GV_REGISTER_ENTRIES + entry];
    }
    return row;
}
