// PPO's loss of the rows of a tile on the host, and its derivatives by the outputs; the formulas are those of learner/loss.h and of
// gpu_vecenv/train/algorithms/ppo/loss.py. An array of a tile has GV_ROWS numbers for each output or entry, so a vector has rows.
#pragma once
#include "learner/host_adam.h"
#include "learner/host_network.h"
#include "learner/slab.h"

#define GV_FORBIDDEN -3.4028234663852886e38f  // logit of a forbidden choice, as in distributions.py
#define GV_HALF_LOG_TURN 0.918938533204672742f  // ln(2 pi) / 2

struct GvHostSettings {
    float clip, entropy_coef, value_coef, mean, factor;
};

// Numbers of the rows of a tile that their losses read.
struct GvLossRows {
    alignas(64) float log_prob[GV_ROWS], value[GV_ROWS], advantage[GV_ROWS], target[GV_ROWS];
    alignas(64) gv_i32 sample[GV_ROWS];                  // -1 for a row without one
    alignas(64) gv_i32 counts[GV_ROWS], chose[GV_ROWS];  // -1 for a row that counts, or that had a choice; else 0
};

// Sums over rows. Each term has sums of its own of the rows with the same remainder, whatever the width of vectors.
struct GvSums {
    float terms[GV_MOST_TERMS][GV_LANES_OF_SUMS];
};
GV_INLINE void gv_add_term(GvSums& sums, gv_i32 term, gv_i32 row, const GvInts& counts, const GvVector& x) {
    float* at = sums.terms[term] + row % GV_LANES_OF_SUMS;
    gv_store_vector(at, gv_load_vector(at) + (counts ? x : GvVector{}));
}

GV_FN void gv_load_rows(const GvArgs& a, const GvHostSettings& settings, gv_i32 first, gv_i32 rows, GvLossRows& loss) {
    for (gv_i32 row = 0; row < rows; ++row) {
        const gv_i32 sample = first + row < a.rows ? a.samples[first + row] : -1;
        const float* numbers = a.numbers + 4 * (gv_i64)(sample < 0 ? 0 : sample);
        const bool counts = sample >= 0, chose = counts && !(a.choice != nullptr && a.choice[sample] == 0);
        loss.sample[row] = sample;
        loss.counts[row] = counts ? -1 : 0;
        loss.chose[row] = chose ? -1 : 0;
        loss.log_prob[row] = numbers[0];
        loss.value[row] = numbers[1];
        loss.advantage[row] = (numbers[2] - settings.mean) * settings.factor;
        loss.target[row] = numbers[3];
    }
}

// Arrays of a tile behind the room of a network.
struct GvLossRoom {
    float *outputs, *probabilities;  // [outputs, GV_ROWS]; of choices, logits become log-probabilities
    float *entropy, *action;         // [entries, GV_ROWS]; an action is an int32 or a float
    gv_i32* none;                    // [entries, GV_ROWS] -1 where the mask allows no choice, else 0
};
GV_FN GvLossRoom gv_loss_room(const GvArgs& a, const GvRoom& room) {
    const gv_i64 outputs = GV_ROWS * (gv_i64)a.outputs, entries = GV_ROWS * (gv_i64)a.num_entries;
    float* at = room.rest + 2 * outputs;
    return {room.rest, room.rest + outputs, at, at + entries, (gv_i32*)(at + 2 * entries)};
}

GV_FN void gv_transpose(const float* from, gv_i32 columns, gv_i32 count, gv_i32 rows, float* to) {
    for (gv_i32 i = 0; i < count; ++i) {
        for (gv_i32 row = 0; row < rows; ++row) to[i * GV_ROWS + row] = from[(gv_i64)row * columns + i];
    }
}

// Adds the terms that follow from log-probabilities, and returns minus the derivative of the loss by them; 0 for rows that do not
// count. See gv_surrogate of learner/loss.h.
GV_INLINE GvVector gv_push(const GvLossRows& loss, gv_i32 row, const GvVector& log_prob, const GvHostSettings& settings,
                           GvSums& sums) {
    const GvInts counts = gv_load_ints(loss.chose + row);
    const GvVector advantage = gv_load_vector(loss.advantage + row), log_ratio = log_prob - gv_load_vector(loss.log_prob + row);
    const GvVector ratio = gv_exp(log_ratio), change = ratio - 1.0f, free = ratio * advantage;
    const GvVector clipped = gv_clamp(ratio, gv_all(1.0f - settings.clip), gv_all(1.0f + settings.clip)) * advantage;
    gv_add_term(sums, GV_POLICY_LOSS, row, counts, free <= clipped ? -free : -clipped);
    gv_add_term(sums, GV_KL, row, counts, change - log_ratio);
    gv_add_term(sums, GV_OUTSIDE, row, counts, gv_abs(change) > settings.clip ? gv_all(1.0f) : GvVector{});
    gv_add_term(sums, GV_COUNT, row, counts, gv_all(1.0f));
    const GvVector push = free <= clipped ? free : 0.0f * free;  // NaN for what is not finite, as torch has it
    return counts ? push : GvVector{};
}

// ---- choices --------------------------------------------------------------------------------------------------

// An entry of an action: number of its choices, its first output, first column of its mask or -1, and its arrays of GV_ROWS numbers.
struct GvChoices {
    gv_i32 count, first, mask_first;
    float* entropy;
    gv_i32 *action, *none;
};
GV_FN GvChoices gv_choices_of(const GvArgs& a, const GvLossRoom& room, gv_i32 entry) {
    const gv_i32 *of_entry = a.entries + 3 * entry, at = entry * GV_ROWS;
    return {of_entry[0], of_entry[1], of_entry[2], room.entropy + at, (gv_i32*)room.action + at, room.none + at};
}

// Finds the entries without an allowed choice, and replaces the logits of forbidden choices.
GV_FN void gv_forbid(const GvArgs& a, const GvLossRows& loss, gv_i32 rows, const GvChoices& entry, const GvLossRoom& room) {
    for (gv_i32 row = 0; row < rows; ++row) {
        entry.none[row] = 0;
        if (entry.mask_first < 0 || a.mask.at == nullptr || loss.sample[row] < 0) continue;
        const gv_u8* mask = (const gv_u8*)a.mask.at + gv_place_in(a.mask, loss.sample[row], a.samples_per_step) + entry.mask_first;
        bool any = false;
        for (gv_i32 i = 0; i < entry.count; ++i) {
            any = any || mask[i] != 0;
            if (mask[i] == 0) room.outputs[(entry.first + i) * GV_ROWS + row] = GV_FORBIDDEN;
        }
        entry.none[row] = any ? 0 : -1;
    }
}

// Replaces the logits of an entry by log-probabilities.
GV_FN void gv_log_probabilities(gv_i32 rows, const GvChoices& entry, const GvLossRoom& room) {
    float *logits = room.outputs + entry.first * GV_ROWS, *probabilities = room.probabilities + entry.first * GV_ROWS;
    for (gv_i32 row = 0; row < rows; row += GV_WIDTH) {
        GvVector largest = gv_load_vector(logits + row), sum = {}, moment = {};
        for (gv_i32 i = 1; i < entry.count; ++i) largest = gv_max(largest, gv_load_vector(logits + i * GV_ROWS + row));
        for (gv_i32 i = 0; i < entry.count; ++i) {
            const GvVector x = gv_load_vector(logits + i * GV_ROWS + row) - largest, weight = gv_exp(x);
            sum += weight;
            moment += weight > 0.0f ? weight * x : GvVector{};
            gv_store_vector(probabilities + i * GV_ROWS + row, weight);
        }
        const GvVector log_sum = gv_log_inside(sum), inverse = 1.0f / sum;
        for (gv_i32 i = 0; i < entry.count; ++i) {
            float *logit = logits + i * GV_ROWS + row, *probability = probabilities + i * GV_ROWS + row;
            gv_store_vector(logit, (gv_load_vector(logit) - largest) - log_sum);
            gv_store_vector(probability, gv_load_vector(probability) * inverse);
        }
        gv_store_vector(entry.entropy + row, log_sum - moment * inverse);
    }
}

// Derivatives by the logits of an entry: d log p(a) / d logit_i = [i = a] - p_i; dH / d logit_i = -p_i (log p_i + H).
GV_FN void gv_choice_deltas(gv_i32 rows, const GvChoices& entry, const GvLossRoom& room, const GvLossRows& loss, const float* push,
                            float entropy_coef, float* deltas, gv_i32 columns) {
    for (gv_i32 row = 0; row < rows; row += GV_WIDTH) {
        const GvInts action = gv_load_ints(entry.action + row);
        const GvInts counts = gv_load_ints(loss.chose + row) & ~gv_load_ints(entry.none + row);
        const GvVector pushed = gv_load_vector(push + row), entropy = gv_load_vector(entry.entropy + row);
        for (gv_i32 i = 0; i < entry.count; ++i) {
            const gv_i32 at = (entry.first + i) * GV_ROWS + row;
            const GvVector p = gv_load_vector(room.probabilities + at), log_p = gv_load_vector(room.outputs + at);
            const GvVector bonus = p > 0.0f ? entropy_coef * (p * (log_p + entropy)) : GvVector{};
            const GvVector here = action == i ? gv_all(1.0f) : GvVector{};
            const GvVector delta = counts ? bonus - pushed * (here - p) : GvVector{};
            for (gv_i32 lane = 0; lane < GV_WIDTH; ++lane) {
                deltas[(gv_i64)(row + lane) * columns + entry.first + i] = delta[lane];
            }
        }
    }
}

GV_FN void gv_choices_loss(const GvArgs& a, const GvHostSettings& settings, const GvLossRows& loss, gv_i32 rows,
                           const GvLossRoom& room, float* deltas, GvSums& sums) {
    alignas(64) float log_prob[GV_ROWS] = {}, push[GV_ROWS];
    for (gv_i32 number = 0; number < a.num_entries; ++number) {
        const GvChoices entry = gv_choices_of(a, room, number);
        gv_forbid(a, loss, rows, entry, room);
        gv_log_probabilities(rows, entry, room);
        for (gv_i32 row = 0; row < rows; ++row) {
            const gv_i32 sample = loss.sample[row];
            const gv_i32* taken = sample < 0 ? nullptr : (const gv_i32*)gv_sample(a.action, sample, a.samples_per_step);
            entry.action[row] = taken == nullptr ? 0 : taken[number];
            if (entry.none[row] == 0) log_prob[row] += room.outputs[(entry.first + entry.action[row]) * GV_ROWS + row];
        }
        for (gv_i32 row = 0; row < rows; row += GV_WIDTH) {
            const GvInts counts = gv_load_ints(loss.chose + row) & ~gv_load_ints(entry.none + row);
            gv_add_term(sums, GV_ENTROPY, row, counts, gv_load_vector(entry.entropy + row));
        }
    }
    for (gv_i32 row = 0; row < rows; row += GV_WIDTH) {
        gv_store_vector(push + row, gv_push(loss, row, gv_load_vector(log_prob + row), settings, sums));
    }
    for (gv_i32 number = 0; number < a.num_entries; ++number) {
        const GvChoices entry = gv_choices_of(a, room, number);
        gv_choice_deltas(rows, entry, room, loss, push, settings.entropy_coef, deltas, GV_UP(a.outputs));
    }
}

// ---- numbers --------------------------------------------------------------------------------------------------

GV_FN void gv_numbers_loss(const GvArgs& a, const GvHostSettings& settings, const GvLossRows& loss, gv_i32 rows,
                           const GvLossRoom& room, float* deltas, GvSums& sums) {
    const gv_i32 columns = GV_UP(a.outputs);
    float entropy = 0.0f;
    for (gv_i32 e = 0; e < a.num_entries; ++e) entropy += a.box.log_std[e] + (0.5f + GV_HALF_LOG_TURN);
    for (gv_i32 row = 0; row < rows; ++row) {
        const float* taken = loss.sample[row] < 0 ? nullptr : gv_sample(a.action, loss.sample[row], a.samples_per_step);
        for (gv_i32 e = 0; e < a.num_entries; ++e) {
            room.action[e * GV_ROWS + row] = taken == nullptr ? 0.0f : (taken[e] - a.box.centre[e]) / a.box.half_width[e];
        }
    }
    for (gv_i32 row = 0; row < rows; row += GV_WIDTH) {
        const GvInts counts = gv_load_ints(loss.chose + row);
        GvVector log_prob = {};
        for (gv_i32 e = 0; e < a.num_entries; ++e) {
            const float log_std = a.box.log_std[e];
            float* place = room.action + e * GV_ROWS + row;
            const GvVector z = (gv_load_vector(place) - gv_load_vector(room.outputs + e * GV_ROWS + row)) * gv_exp(-log_std);
            gv_store_vector(place, z);
            log_prob += -0.5f * z * z - log_std - GV_HALF_LOG_TURN;
        }
        gv_add_term(sums, GV_ENTROPY, row, counts, gv_all(entropy));
        const GvVector push = gv_push(loss, row, log_prob, settings, sums);
        for (gv_i32 e = 0; e < a.num_entries; ++e) {
            const GvVector z = gv_load_vector(room.action + e * GV_ROWS + row);
            const GvVector delta = counts ? -push * (z * gv_exp(-a.box.log_std[e])) : GvVector{};
            gv_add_term(sums, GV_SPREADS + e, row, counts, -push * (z * z - 1.0f) - settings.entropy_coef);
            for (gv_i32 lane = 0; lane < GV_WIDTH; ++lane) deltas[(gv_i64)(row + lane) * columns + e] = delta[lane];
        }
    }
}

// ---- values ---------------------------------------------------------------------------------------------------

GV_FN void gv_values_loss(const GvArgs& a, const GvHostSettings& settings, const GvLossRows& loss, gv_i32 rows, const float* values,
                          float* deltas, GvSums& sums) {
    for (gv_i32 row = 0; row < rows; row += GV_WIDTH) {
        const GvInts counts = gv_load_ints(loss.counts + row);
        const GvVector value = gv_load_vector(values + row), before = gv_load_vector(loss.value + row);
        const GvVector target = gv_load_vector(loss.target + row), off = value - target, error = off * off;
        const GvVector near_off = gv_clamp(value, before - settings.clip, before + settings.clip) - target;
        const GvVector near_error = near_off * near_off;
        const GvInts clipped = (near_error > error) & (a.clip_value != 0 ? -1 : 0);
        gv_add_term(sums, GV_VALUE_LOSS, row, counts, 0.5f * (clipped ? near_error : error));
        gv_add_term(sums, GV_VALUE_COUNT, row, counts, gv_all(1.0f));
        const GvVector delta = clipped | ~counts ? GvVector{} : settings.value_coef * off;
        for (gv_i32 lane = 0; lane < GV_WIDTH; ++lane) deltas[(gv_i64)(row + lane) * GV_STEP] = delta[lane];
    }
}
