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

#if GV_HELD
// Terms of an entry whose choices are the columns `first` to `first` + n - 1, with their weights in `weights`. Exponents replace
// their logits in `values`. Adds the log-probability of the choice `taken` to `log_prob`.
template <gv_i32 VALUES>
GV_FN GvEntryTerms gv_held_entry(const GvGroup& group, float (&values)[VALUES], float (&weights)[VALUES], gv_i32 first,
                                gv_i32 n, gv_i32 taken, float& log_prob) {
    const auto inside = [&](gv_i32 i) {
        const gv_i32 column = gv_row_column(group, i);
        return column >= first && column < first + n;
    };
    float largest = GV_FORBIDDEN, sum = 0.0f, moment = 0.0f, x_of_taken = 0.0f;
    GV_UNROLL for (gv_i32 i = 0; i < VALUES; ++i) {
        if (inside(i)) largest = gv_larger(largest, values[i]);
    }
    const float shift = GV_LOG2_E * gv_row_max(group, largest);
    GV_UNROLL for (gv_i32 i = 0; i < VALUES; ++i) {
        if (!inside(i)) continue;
        const float x = gv_exponent(values[i], shift), weight = gv_exp2_guess(x);
        values[i] = x;
        weights[i] = weight;
        sum += weight;
        moment = gv_fma(weight, x, moment);
        if (gv_row_column(group, i) == first + taken) x_of_taken = x;
    }
    const GvEntryTerms of = gv_entry_terms(shift, gv_row_sum(group, sum), gv_row_sum(group, moment));
    log_prob += gv_log_prob_of_x(of, gv_row_sum(group, x_of_taken));
    return of;
}

// gv_group_loss() for choices without masks, whose logits lanes hold; derivatives replace `outputs`.
template <gv_i32 N>
GV_FN void gv_held_loss(GvActor& head, const GvArgs& a, const GvGroup& group, const GvPrefetched& prefetched,
                        const GvOwnSamples& samples, GvSums<GV_OWN, N>& outputs) {
    constexpr gv_i32 VALUES = gv_row_values(N);
    const GvSettings& settings = *prefetched.settings;
    gv_each_row(outputs, group, [&](gv_i32 in_tile, float (&values)[VALUES]) {
        const gv_i32 sample = gv_value_at(samples, group, in_tile);
        GvRow row = gv_take_row(prefetched, in_tile, sample);
        row.advantage = (row.advantage - settings.mean) * settings.factor;
        const gv_i32* taken = nullptr;
        if constexpr (GV_ENTRIES > GV_REGISTER_ENTRIES) {
            taken = (const gv_i32*)gv_sample(a.action, sample < 0 ? 0 : sample, a.samples_per_step);
        }
        GvEntryTerms entries[GV_ENTRIES];
        float weights[VALUES] = {}, log_prob = 0.0f, entropy = 0.0f;
        gv_i32 action[GV_ENTRIES], first = 0;
        GV_UNROLL for (gv_i32 entry = 0; entry < GV_ENTRIES; ++entry) {
            action[entry] = GV_ENTRIES > GV_REGISTER_ENTRIES ? taken[entry] : row.action[entry < GV_REGISTER_ENTRIES ? entry : 0];
            entries[entry] = gv_held_entry(group, values, weights, first, gv_choices(entry), action[entry], log_prob);
            entropy += entries[entry].entropy;
            first += gv_choices(entry);
        }
        GvActorTerms terms = head.terms;
        const float scaled = settings.scale * gv_surrogate(row, log_prob, settings, terms);
        terms.entropy += entropy;
        const bool counts = sample >= 0;
        if (counts && gv_leads_row(group)) head.terms = terms;
        const float force = counts ? scaled + (scaled - scaled) : 0.0f, bonus = counts ? settings.scale * settings.entropy_coef : 0.0f;
        float slopes[VALUES] = {};
        first = 0;
        GV_UNROLL for (gv_i32 entry = 0; entry < GV_ENTRIES; ++entry) {
            const GvEntrySlopes of = gv_entry_slopes(entries[entry], force, bonus);
            GV_UNROLL for (gv_i32 i = 0; i < VALUES; ++i) {
                const gv_i32 column = gv_row_column(group, i);
                if (column < first || column >= first + gv_choices(entry)) continue;
                const float of_taken = column == first + action[entry] ? force : 0.0f;
                slopes[i] = gv_slope_of(of, weights[i], values[i]) - of_taken;
            }
            first += gv_choices(entry);
        }
        GV_UNROLL for (gv_i32 i = 0; i < VALUES; ++i) values[i] = slopes[i];
    });
}
#endif

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
