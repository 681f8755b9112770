// PPO's loss of one transition, and its derivatives by the outputs of the networks; the formulas are those of
// gpu_vecenv/train/algorithms/ppo/loss.py. A lane computes a row.
//
// A program defines the head: GV_OUTPUTS, GV_ENTRIES, and for choices GV_CHOICES (their numbers) and GV_MASK_FIRST (the first
// column of each entry's mask, -1 without one), both as a list in braces. Without GV_CHOICES the outputs are means.
#pragma once
#include "learner/network.h"
#include "policy/draw.h"

#ifdef GV_CHOICES
typedef gv_i32 GvAction;
#else
typedef float GvAction;
#endif

// Numbers of a row that its loss reads, beside the outputs.
struct GvRow {
    float log_prob, value, advantage, target;  // the first two from before the update
    gv_i32 sample;                             // -1 for a row that does not count
    GvAction action[GV_REGISTER_ENTRIES];          // of an actor's row, if they are few; others are read by the loss
};

// Sums of a lane, in the order of TERMS of loss.py but for the value loss, and the number of rows with a choice.
struct GvActorTerms {
    float policy_loss, entropy, kl, outside, count;
};

// x, or the largest number of 16 bits if it is larger; what is not finite stays.
GV_FN float gv_within_half(float x) { return gv_abs(x) < GV_INFINITY ? gv_clamp(x, -GV_LARGEST_HALF, GV_LARGEST_HALF) : x; }

// Stores a derivative by an output.
template <gv_i32 STRIDE>
GV_FN void gv_set_delta(GvTile<STRIDE> deltas, gv_i32 row, gv_i32 column, float delta, const GvSettings& settings) {
    gv_set(deltas, row, column, gv_within_half(settings.scale * delta));
}

#define GV_LOG2_E 1.4426950408889634f
#define GV_LN_2 0.693147180559945309f

// Exponential and logarithm with an error of about 2e-7. Draws have their own, whose bits are the same on every device.
GV_FN float gv_fast_exp(float x) { return gv_exp2_guess(GV_LOG2_E * x); }
GV_FN float gv_fast_log(float x) { return GV_LN_2 * gv_log2_guess(x); }

// Weights of the choices of an entry are 2^x with x = logit log2(e) - shift, so x takes one instruction; the shift is that of the
// largest logit. `sum` is the sum of the weights, `moment` that of weight x. The probability of choice i is inverse weight_i, and its
// logarithm ln(2) (x_i - log_sum).
struct GvEntryTerms {
    float shift, inverse, log_sum, entropy;
};
GV_FN float gv_exponent(float logit, float shift) { return gv_fma(logit, GV_LOG2_E, -shift); }
GV_FN GvEntryTerms gv_entry_terms(float shift, float sum, float moment) {
    const float log_sum = gv_log2_guess(sum), inverse = gv_reciprocal_guess(sum);
    return {shift, inverse, log_sum, GV_LN_2 * gv_fma(-moment, inverse, log_sum)};
}
GV_FN float gv_log_prob_of_x(const GvEntryTerms& of, float x) { return GV_LN_2 * (x - of.log_sum); }

// Derivatives of the loss by the logits of an entry, times a scale. As d log p(a) / d logit_i = [i = a] - p_i and
// dH / d logit_i = -p_i (log p_i + H), that by logit i is p_i (force + bonus (log p_i + H)) - [i = a] force.
struct GvEntrySlopes {
    float by_x, rest;
};
GV_FN GvEntrySlopes gv_entry_slopes(const GvEntryTerms& of, float force, float bonus) {
    const float rest = gv_fma(bonus, gv_fma(-GV_LN_2, of.log_sum, of.entropy), force);
    return {of.inverse * (GV_LN_2 * bonus), of.inverse * rest};
}
// The part of p_i.
GV_FN float gv_slope_of(const GvEntrySlopes& of, float weight, float x) { return weight * gv_fma(of.by_x, x, of.rest); }

// Adds the terms that follow from a row's log-probability. Returns minus the derivative of the loss by it: the ratio times the
// advantage, or 0 where the clipped ratio counts.
GV_FN float gv_surrogate(const GvRow& row, float log_prob, const GvSettings& settings, GvActorTerms& terms) {
    const float log_ratio = log_prob - row.log_prob, ratio = gv_fast_exp(log_ratio), change = ratio - 1.0f;
    const float clipped = gv_clamp(ratio, 1.0f - settings.clip, 1.0f + settings.clip) * row.advantage, free = ratio * row.advantage;
    terms.policy_loss -= free <= clipped ? free : clipped;
    terms.kl += change - log_ratio;
    terms.outside += gv_abs(change) > settings.clip ? 1.0f : 0.0f;
    terms.count += 1.0f;
    return free <= clipped ? free : 0.0f * free;  // NaN for what is not finite, as torch has it
}

#ifdef GV_CHOICES
GV_FN constexpr gv_i32 gv_choices(gv_i32 entry) {
    constexpr gv_i32 choices[GV_ENTRIES] = GV_CHOICES;
    return choices[entry];
}
GV_FN constexpr gv_i32 gv_mask_first(gv_i32 entry) {
    constexpr gv_i32 first[GV_ENTRIES] = GV_MASK_FIRST;
    return first[entry];
}
// Columns of a row's mask.
GV_FN constexpr gv_i32 gv_mask_columns() {
    gv_i32 columns = 0;
    for (gv_i32 entry = 0; entry < GV_ENTRIES; ++entry) columns += gv_mask_first(entry) >= 0 ? gv_choices(entry) : 0;
    return columns;
}

#define GV_FORBIDDEN -3.4028234663852886e38f  // logit of a forbidden choice, as in distributions.py

// Flags of up to 32 choices as bits. All loads wait together, as no store is between them.
GV_FN gv_u32 gv_allowed(const gv_u8* mask, gv_i32 count) {
    gv_u32 allowed = 0;
    GV_UNROLL for (gv_i32 i = 0; i < 32; ++i) {
        if (i < count) allowed |= (gv_u32)(mask[i] != 0) << i;
    }
    return allowed;
}

// Replaces the logits of an entry by log-probabilities and returns the entropy; true in `none` if the mask allows no choice.
GV_FN float gv_log_probs(float* logits, gv_i32 n, const gv_u8* mask, bool& none) {
    none = mask != nullptr;
    for (gv_i32 first = 0; mask != nullptr && first < n; first += 32) {
        const gv_i32 count = n - first < 32 ? n - first : 32;
        const gv_u32 allowed = gv_allowed(mask + first, count);
        GV_UNROLL_BY_4 for (gv_i32 i = 0; i < count; ++i) {
            logits[first + i] = allowed >> i & 1 ? logits[first + i] : GV_FORBIDDEN;
        }
        none = none && allowed == 0;
    }
    float largest = logits[0];
    GV_UNROLL_BY_4 for (gv_i32 i = 1; i < n; ++i) largest = gv_max(largest, logits[i]);
    float sum = 0.0f, moment = 0.0f;
    GV_UNROLL_BY_4 for (gv_i32 i = 0; i < n; ++i) {
        const float x = logits[i] - largest, weight = gv_fast_exp(x);
        sum += weight;
        moment += weight > 0.0f ? weight * x : 0.0f;
    }
    const float log_sum = gv_fast_log(sum);
    GV_UNROLL_BY_4 for (gv_i32 i = 0; i < n; ++i) logits[i] = (logits[i] - largest) - log_sum;
    return log_sum - moment * gv_reciprocal_guess(sum);
}

// Log-probability of a row's choices, and the entropy of each entry. Log-probabilities of all choices replace `outputs`, the logits.
// `none` is true for entries without an allowed choice, which add nothing. `mask` may be null.
GV_FN float gv_action_log_prob(float* outputs, const gv_i32* action, const gv_u8* mask, float (&entropy)[GV_ENTRIES],
                               bool (&none)[GV_ENTRIES]) {
    float log_prob = 0.0f;
    gv_i32 first = 0;
    GV_UNROLL for (gv_i32 entry = 0; entry < GV_ENTRIES; ++entry) {
        const gv_u8* own = mask != nullptr && gv_mask_first(entry) >= 0 ? mask + gv_mask_first(entry) : nullptr;
        entropy[entry] = gv_log_probs(outputs + first, gv_choices(entry), own, none[entry]);
        if (!none[entry]) log_prob += outputs[first + action[entry]];
        first += gv_choices(entry);
    }
    return log_prob;
}

// Loss of a row of choices. `outputs` are its logits, which change; `action` and `mask` are its own, mask may be null.
template <gv_i32 STRIDE>
GV_FN void gv_actor_loss(float* outputs, GvTile<STRIDE> deltas, gv_i32 in_tile, const GvRow& row, const gv_i32* action,
                         const gv_u8* mask, const GvSettings& settings, GvActorTerms& terms) {
    float entropy[GV_ENTRIES];
    bool none[GV_ENTRIES];
    const float log_prob = gv_action_log_prob(outputs, action, mask, entropy, none);
    GV_UNROLL for (gv_i32 entry = 0; entry < GV_ENTRIES; ++entry) terms.entropy += none[entry] ? 0.0f : entropy[entry];
    gv_i32 first = 0;
    const float push = gv_surrogate(row, log_prob, settings, terms);
    GV_UNROLL for (gv_i32 entry = 0; entry < GV_ENTRIES; ++entry) {
        GV_UNROLL_BY_4 for (gv_i32 i = 0; i < gv_choices(entry); ++i) {
            const float log_p = outputs[first + i], p = gv_fast_exp(log_p), here = i == action[entry] ? 1.0f : 0.0f;
            // d log p(a) / d logit_i = [i = a] - p_i;  dH / d logit_i = -p_i (log p_i + H)
            const float bonus = p > 0.0f ? settings.entropy_coef * (p * (log_p + entropy[entry])) : 0.0f;
            gv_set_delta(deltas, in_tile, first + i, none[entry] ? 0.0f : bonus - push * (here - p), settings);
        }
        first += gv_choices(entry);
    }
}
#else
// Log-density of a row's action in normalised units, and its distances to the means in deviations.
GV_FN float gv_action_log_prob(const float* outputs, const float* action, const float* log_std, float (&z)[GV_ENTRIES]) {
    float log_prob = 0.0f;
    GV_UNROLL for (gv_i32 i = 0; i < GV_ENTRIES; ++i) {
        z[i] = (action[i] - outputs[i]) * gv_fast_exp(-log_std[i]);
        log_prob += -0.5f * z[i] * z[i] - log_std[i] - GV_HALF_LOG_TURN;
    }
    return log_prob;
}

// Loss of a row of numbers in normalised units. `outputs` are means. Adds derivatives by log_std to `spread`, which is not scaled.
template <gv_i32 STRIDE>
GV_FN void gv_actor_loss(const float* outputs, GvTile<STRIDE> deltas, gv_i32 in_tile, const GvRow& row, const float* action,
                         const float* log_std, const GvSettings& settings, GvActorTerms& terms, float (&spread)[GV_ENTRIES]) {
    float z[GV_ENTRIES];
    const float log_prob = gv_action_log_prob(outputs, action, log_std, z);
    GV_UNROLL for (gv_i32 i = 0; i < GV_ENTRIES; ++i) terms.entropy += log_std[i] + (0.5f + GV_HALF_LOG_TURN);
    const float push = gv_surrogate(row, log_prob, settings, terms);
    GV_UNROLL for (gv_i32 i = 0; i < GV_ENTRIES; ++i) {
        gv_set_delta(deltas, in_tile, i, -push * (z[i] * gv_fast_exp(-log_std[i])), settings);
        spread[i] += -push * (z[i] * z[i] - 1.0f) - settings.entropy_coef;
    }
}
#endif

// Loss of a row's value; returns its term of the value loss.
template <gv_i32 STRIDE>
GV_FN float gv_critic_loss(float value, GvTile<STRIDE> deltas, gv_i32 in_tile, const GvRow& row, const GvSettings& settings) {
    const float off = value - row.target, error = off * off;
    const float near_off = gv_clamp(value, row.value - settings.clip, row.value + settings.clip) - row.target;
    const bool clipped = settings.clip_value != 0 && near_off * near_off > error;
    gv_set_delta(deltas, in_tile, 0, clipped ? 0.0f : settings.value_coef * off, settings);
    return 0.5f * (clipped ? near_off * near_off : error);
}
