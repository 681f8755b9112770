// The loss of an actor's and of a critic's rows in a tile.
#pragma once
#include "learner/prefetch.h"

// Sums of a lane. What the loss reads beside them is loaded for each tile, as it would take registers between two tiles.
struct GvActor {
    static constexpr gv_i32 OUTPUTS = GV_OUTPUTS, TERMS = GV_ACTOR_COLUMNS - gv_weight_columns(0), NUMBER = 0;
    GvActorTerms terms;
    float spread[GV_SPREADS > 0 ? GV_SPREADS : 1];
};
struct GvCritic {
    static constexpr gv_i32 OUTPUTS = 1, TERMS = GV_CRITIC_COLUMNS - GV_CRITIC_WEIGHTS, NUMBER = 1;
    float value_loss, count;
};

template <gv_i32 STRIDE>
GV_FN void gv_row_loss(GvActor& actor, const GvArgs& a, float* outputs, GvTile<STRIDE> deltas, gv_i32 in_tile, GvRow row,
                       const GvSettings& settings) {
#if GV_TWO_COUNTS
    if (a.choice != nullptr && a.choice[row.sample] == 0) {  // no weight in the terms of the policy
        for (gv_i32 column = 0; column < GV_OUTPUTS; ++column) gv_set(deltas, in_tile, column, 0.0f);
        return;
    }
#endif
    row.advantage = (row.advantage - settings.mean) * settings.factor;
    GvAction action[GV_ENTRIES];
    if constexpr (GV_ENTRIES > GV_REGISTER_ENTRIES) {
        const GvAction* taken = (const GvAction*)gv_sample(a.action, row.sample, a.samples_per_step);
        GV_UNROLL for (gv_i32 i = 0; i < GV_ENTRIES; ++i) action[i] = taken[i];
    } else {
        GV_UNROLL for (gv_i32 i = 0; i < GV_ENTRIES; ++i) action[i] = row.action[i];
    }
#ifdef GV_CHOICES
    gv_actor_loss(outputs, deltas, in_tile, row, action, gv_mask_of_sample(a, row.sample), settings, actor.terms);
#else
    GV_UNROLL for (gv_i32 i = 0; i < GV_ENTRIES; ++i) action[i] = (action[i] - a.box.centre[i]) / a.box.half_width[i];
    gv_actor_loss(outputs, deltas, in_tile, row, action, a.box.log_std, settings, actor.terms, actor.spread);
#endif
}
template <gv_i32 STRIDE>
GV_FN void gv_row_loss(GvCritic& critic, const GvArgs&, float* outputs, GvTile<STRIDE> deltas, gv_i32 in_tile, const GvRow& row,
                       const GvSettings& settings) {
    critic.value_loss += gv_critic_loss(outputs[0], deltas, in_tile, row, settings);
    critic.count += 1.0f;
}

// Terms of a lane by number: derivatives by log_std, then sums.
GV_FN float gv_term(const GvActor& actor, gv_i32 i) {
    const GvActorTerms& of = actor.terms;
    const float terms[5] = {of.policy_loss, of.entropy, of.kl, of.outside, of.count};
    return i < GV_SPREADS ? actor.spread[i] : terms[i - GV_SPREADS];
}
GV_FN float gv_term(const GvCritic& critic, gv_i32 i) { return i == 0 ? critic.value_loss : critic.count; }

// Computes the loss of the group's rows, and their derivatives by the outputs. Rows without a sample have derivatives of 0.
template <class Head, gv_i32 STRIDE>
GV_FN void gv_group_loss(Head& head, const GvArgs& a, const GvGroup& group, const GvPrefetched& prefetched, GvOwnSamples& samples,
                         float* outputs, GvTile<STRIDE> deltas) {
    gv_each_value(samples, group, [&](gv_i32 i, gv_i32& sample) {
        if (sample >= 0) {
            const GvRow row = gv_take_row(prefetched, i, sample);
            gv_row_loss(head, a, outputs + i * GV_OUTPUT_STRIDE, deltas, i, row, *prefetched.settings);
        } else {
            for (gv_i32 column = 0; column < Head::OUTPUTS; ++column) gv_set(deltas, i, column, 0.0f);
        }
    });
}
