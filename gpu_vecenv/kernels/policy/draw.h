// Actions of policies, one entry at a time: the draw, its log-probability and the entropy. They are pure functions of counters and
// of a network's outputs, with the same bits on every target.
//
// A choice takes one random word and is found in the cumulative sum of exponentials. The alternative, the race of Gumbel noises,
// takes a word and two logarithms for every choice.
#pragma once
#include "lib/entries.h"
#include "lib/purposes.h"
#include "program_args.h"

// The counters of one row.
struct GvRowCounters {
    gv_u64 seed;
    gv_i32 world_id, episode, t, agent;
};
GV_FN GvRowCounters gv_row_counters(const GvCounters& counters, gv_i64 row) {
    const gv_i32 w = counters.world[row];
    return {counters.seed[w], counters.world_id[w], counters.episode[w], counters.t[w], counters.agent[row]};
}

// Draw of entry `entry`, which it shares with up to three neighbours.
GV_FN GvDraw gv_policy_draw(const GvRowCounters& row, gv_i32 entry) {
    const gv_u32 purpose = GV_PURPOSE_POLICY - ((gv_u32)entry >> 2);
    return gv_philox(row.seed, (gv_u32)row.world_id, (gv_u32)row.episode, (gv_u32)row.t, purpose << 16 | (gv_u32)row.agent);
}
GV_FN GvDraw gv_policy_draw(const GvCounters& counters, gv_i64 row, gv_i32 entry) {
    return gv_policy_draw(gv_row_counters(counters, row), entry);
}

// Terms of an entry: its shares of the log-probability of an action and of the entropy of the distribution.
struct GvTerms {
    float log_prob, entropy;
};

// ---- choices --------------------------------------------------------------------------------------------------

struct GvChoice {
    gv_i32 index;
    GvTerms terms;
};

// A logit minus the largest one, and its exponential. Both are 0 for differences below -87: the largest weight is 1, and smaller
// ones may be subnormal, which is slow.
struct GvWeight {
    float x, weight;
};
GV_FN GvWeight gv_weight(float x) {
    const bool none = x < -87.0f;
    const float within = none ? 0.0f : x, weight = gv_exp_normal(within);
    return {within, none ? 0.0f : weight};
}

// One of n choices with unnormalised log-probabilities. `mask` has a byte for each choice, 0 if it is forbidden; null allows all.
// An entry without an allowed choice is 0 and adds nothing. Logits of NaN give an index in range and terms of NaN.
// If STAGED, `staged` is a copy of the logits, which weights replace. Otherwise it is unused, and weights are computed twice.
template <bool STAGED>
GV_FN GvChoice gv_draw_choice(const float* logits, float* staged, const gv_u8* mask, gv_i32 n, gv_u32 word, bool likeliest) {
    gv_i32 index = 0;  // first allowed choice
    if (mask != nullptr) {
        while (index < n && mask[index] == 0) ++index;
        if (index == n) return {0, {0.0f, 0.0f}};
        for (gv_i32 i = 0; STAGED && i < n; ++i) staged[i] = mask[i] != 0 ? staged[i] : -GV_INFINITY;
    }
    const auto logit = [&](gv_i32 i) {
        if (STAGED) return staged[i];
        return mask == nullptr || mask[i] != 0 ? logits[i] : -GV_INFINITY;
    };
    float largest = logit(index);
    for (gv_i32 i = index + 1; i < n; ++i) {
        const float other = logit(i);
        index = other > largest ? i : index;
        largest = other > largest ? other : largest;
    }
    // Four partial sums lose fewer digits than one.
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f}, moments[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    const auto add = [&](gv_i32 i, gv_i32 j) {
        const GvWeight of = gv_weight(logit(i) - largest);
        if (STAGED) staged[i] = of.weight;
        sums[j] += of.weight;
        moments[j] += of.weight * of.x;
    };
    gv_i32 from = 0;
    for (; from + 4 <= n; from += 4) {
        GV_UNROLL for (gv_i32 j = 0; j < 4; ++j) add(from + j, j);
    }
    GV_UNROLL for (gv_i32 j = 0; j < 3; ++j) {
        if (from + j < n) add(from + j, j);
    }
    const float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    const float moment = (moments[0] + moments[1]) + (moments[2] + moments[3]);
    // The first choice whose cumulative sum exceeds a uniform part of the sum. The half keeps that part above 0, so that a first
    // choice is not drawn too often. If no cumulative sum exceeds it, the last choice that increased the sum takes the rest.
    const float part = ((float)word + 0.5f) * 2.3283064365386963e-10f * sum;
    float cumulative = 0.0f;
    for (gv_i32 i = 0; !likeliest && i < n; ++i) {
        const float next = cumulative + (STAGED ? staged[i] : gv_weight(logit(i) - largest).weight);
        index = next > cumulative && !(cumulative > part) ? i : index;
        cumulative = next;
        if (!STAGED && cumulative > part) break;  // a weight costs more than the branch
    }
    const float log_sum = gv_log(sum);
    return {index, {(logits[index] - largest) - log_sum, log_sum - moment / sum}};
}

// The choice with the largest value, the first of several, or with the probability `epsilon` a uniform one of those allowed. For
// `mask` and an entry without an allowed choice see gv_draw_choice. The terms are those of this distribution.
GV_FN GvChoice gv_draw_greedy(const float* values, const gv_u8* mask, gv_i32 n, gv_u32 word, float epsilon) {
    gv_i32 greedy = -1, allowed = 0;
    for (gv_i32 i = 0; i < n; ++i) {
        if (mask != nullptr && mask[i] == 0) continue;
        greedy = greedy < 0 || values[i] > values[greedy] ? i : greedy;
        ++allowed;
    }
    if (allowed == 0) return {0, {0.0f, 0.0f}};
    // A part below epsilon is uniform in [0, epsilon), so it also says which of the allowed choices it is.
    const float part = ((float)word + 0.5f) * 2.3283064365386963e-10f;
    gv_i32 index = greedy;
    if (part < epsilon) {
        const gv_i32 at = (gv_i32)(part / epsilon * (float)allowed);
        gv_i32 left = at < allowed ? at : allowed - 1;
        for (index = 0; (mask != nullptr && mask[index] == 0) || left-- > 0;) ++index;
    }
    const float other = epsilon / (float)allowed, best = (1.0f - epsilon) + other;
    const float log_best = gv_log(best), log_other = other > 0.0f ? gv_log(other) : 0.0f;
    const float entropy = -(best * log_best + (float)(allowed - 1) * other * log_other);
    return {index, {index == greedy ? log_best : log_other, entropy}};
}

// ---- numbers --------------------------------------------------------------------------------------------------

struct GvNumber {
    float value;
    GvTerms terms;
};

#define GV_HALF_LOG_TURN 0.918938533204672742f  // ln(2 pi) / 2

// A normal number, its log-density and its differential entropy. The density is that of the rounded number.
GV_FN GvNumber gv_number_of(float mean, float log_std, float standard_normal, bool likeliest) {
    const float value = likeliest ? mean : mean + gv_exp(log_std) * standard_normal;
    const float z = (value - mean) * gv_exp(-log_std);
    return {value, {-0.5f * z * z - log_std - GV_HALF_LOG_TURN, log_std + (0.5f + GV_HALF_LOG_TURN)}};
}
GV_FN GvNumber gv_draw_normal(float mean, float log_std, const GvDraw& draw, gv_i32 entry, bool likeliest) {
    return gv_number_of(mean, log_std, gv_normal(draw, entry), likeliest);
}

// A uniform number between two bounds. If they are equal, it adds nothing. Their difference may be larger than a float.
GV_FN GvNumber gv_draw_uniform(float low, float high, gv_u32 word) {
    const float part = gv_uniform(word), half = 0.5f * high - 0.5f * low;
    const float entropy = half > 0.0f ? gv_log(half) + 0.693147180559945309f : 0.0f;
    return {gv_clamp(low * (1.0f - part) + high * part, low, high), {-entropy, entropy}};
}
