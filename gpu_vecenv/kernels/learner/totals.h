// Steps of the optimiser in an update: their masks, and the totals of their terms.
#pragma once
#include "learner/bias_correction.h"

// A step of the optimiser: its mask, and the factors of sums that give the clipped mean gradient.
struct GvStep {
    bool wanted, taken;
    float norm, of_actor, of_critic, before;  // factors of the sums of both networks; steps of Adam before
};

// Adds the terms of a minibatch to the totals, and stops the epochs after one whose mean divergence is too large. A lane has read
// `totals`, `started` (epoch_start) and `terms`, so that their loads are in flight at the same time.
struct GvTotals {
    float totals[9], started[2], terms[5], value_loss, count;
};
GV_FN void gv_add_to_totals(const GvArgs& a, const GvStep& step, bool open, GvTotals& now) {
    const float inverse = 1.0f / gv_max(now.terms[4], 1.0f), with_choice = now.terms[4] > 0.0f ? 1.0f : 0.0f;
    const float value_loss = now.value_loss * (1.0f / gv_max(now.count, 1.0f));
    const float added[9] = {now.terms[0] * inverse, value_loss, now.terms[1] * inverse, now.terms[2] * inverse,
                            now.terms[3] * inverse, step.norm,  1.0f,                   1.0f,
                            with_choice};
    GV_UNROLL for (gv_i32 i = 0; i < 9; ++i) {
        if (i != 7 ? step.taken : step.wanted) a.totals[i] = now.totals[i] += added[i];
    }
    a.steps[a.minibatch + 1] = step.before + (step.taken ? 1.0f : 0.0f);
    if (a.ends_epoch != 0) {
        const float kl = (now.totals[3] - now.started[0]) / (now.totals[8] - now.started[1]);  // NaN without a step
        a.stopped[a.epoch + 1] = !open || kl > a.target_kl ? 1 : 0;
        a.epoch_start[0] = now.totals[3];
        a.epoch_start[1] = now.totals[8];
    }
}
