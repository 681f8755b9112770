// Actions of a policy from the outputs of its network: draws, and log-probabilities. A lane computes an entry or a row.
#pragma once
#include "learner/loss.h"
#include "policy/draw.h"

#ifdef GV_CHOICES
typedef gv_u32 GvNoise;  // a random word
GV_FN GvNoise gv_noise(const GvDraw& draw, gv_i32 entry) { return gv_entry_word(draw, entry); }

// Draws an entry of a row. Its term of the log-probability replaces the first of its outputs. `masks` are those of the row; null
// allows all choices.
GV_FN gv_i32 gv_choose(const GvBox&, gv_i32 entry, float* outputs, const gv_u8* masks, GvNoise noise, bool likeliest) {
    gv_i32 first = 0, choices = 0, mask_first = -1, before = 0;
    // unrolled, so that the numbers of each entry are constants of instructions and not loads
    GV_UNROLL for (gv_i32 other = 0; other < GV_ENTRIES; ++other) {
        first = other == entry ? before : first;
        choices = other == entry ? gv_choices(other) : choices;
        mask_first = other == entry ? gv_mask_first(other) : mask_first;
        before += gv_choices(other);
    }
    const gv_u8* mask = masks != nullptr && mask_first >= 0 ? masks + mask_first : nullptr;
    GvChoice choice;
    if constexpr (GV_ENTRIES == 1 && GV_OUTPUTS <= 8) {  // the copy fits in registers, as all its indices are constants
        float staged[GV_OUTPUTS];
        GV_UNROLL for (gv_i32 i = 0; i < GV_OUTPUTS; ++i) staged[i] = outputs[i];
        choice = gv_draw_choice<true>(outputs, staged, mask, GV_OUTPUTS, noise, likeliest);
    } else {
        choice = gv_draw_choice<false>(outputs + first, nullptr, mask, choices, noise, likeliest);
    }
    outputs[first] = choice.terms.log_prob;
    return choice.index;
}

// Sum of the terms of a row's entries, in their order, as in draw.cu.
GV_FN float gv_sum_of_terms(const float* outputs) {
    float sum = 0.0f;
    gv_i32 first = 0;
    GV_UNROLL for (gv_i32 entry = 0; entry < GV_ENTRIES; ++entry) {
        sum += outputs[first];
        first += gv_choices(entry);
    }
    return sum;
}
#else
typedef float GvNoise;  // a standard normal number
GV_FN GvNoise gv_noise(const GvDraw& draw, gv_i32 entry) { return gv_normal(draw, entry); }

// The action is in the env's units, as BoxScale computes them.
GV_FN float gv_choose(const GvBox& box, gv_i32 entry, float* outputs, const gv_u8*, GvNoise noise, bool likeliest) {
    const GvNumber number = gv_number_of(outputs[entry], box.log_std[entry], noise, likeliest);
    outputs[entry] = number.terms.log_prob;
    return number.value * box.half_width[entry] + box.centre[entry];
}
GV_FN float gv_sum_of_terms(const float* outputs) {
    float sum = 0.0f;
    GV_UNROLL for (gv_i32 entry = 0; entry < GV_ENTRIES; ++entry) sum += outputs[entry];
    return sum;
}
#endif
