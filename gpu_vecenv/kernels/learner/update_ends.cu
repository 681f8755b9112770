// Start and end of an update: statistics of the advantages become the numbers that minibatches read, and sums over minibatches
// become metrics. A team has a tile of samples.
#include "lib/powers.h"
#include "program_args.h"

struct alignas(16) GvSample {
    float log_prob, value, advantage, target;
};

// Mean of the advantages, which is subtracted from them, and the deviation that divides them.
struct GvStandard {
    float mean, deviation;
};
// double: as the statistics.
GV_FN GvStandard gv_spread(const GvArgs& a) {
    if (a.normalize != GV_OVER_ROLLOUT) return {0.0f, 1.0f};
    return {(float)*a.choice_mean, (float)(gv_sqrt(*a.choice_var) + 1e-8)};
}

// Power of two that gives numbers of some size about the size 2^scaled_to; NaN for NaN.
GV_FN float gv_scale_for(const GvArgs& a, float size) {
    return size == size ? gv_two_to((gv_i32)gv_floor(gv_clamp(a.scaled_to - gv_log2(size), -40.0f, 40.0f))) : size;
}

// Sets the scales of the derivatives by the outputs of actor and critic, from the root mean squares of advantages and of errors
// of values; the error of a value is its advantage before it is normalised. Weights of the loss may be negative.
// double: as the statistics.
GV_FN void gv_set_scales(const GvArgs& a) {
    const double mean = *a.mean, var = *a.var;
    const double choice_mean = *a.choice_mean, choice_var = *a.choice_var;
    const float error = (float)gv_sqrt(var + mean * mean), deviation = (float)gv_sqrt(choice_var);
    float size = a.normalize == GV_OVER_MINIBATCH ? 1.0f
                 : a.normalize == GV_OVER_ROLLOUT ? deviation / gv_spread(a).deviation
                                                  : (float)gv_sqrt(choice_var + choice_mean * choice_mean);
    size += gv_abs(*a.entropy_coef);
    if (a.log_std != nullptr) {
        float least = a.log_std[0];
        for (gv_i32 i = 1; i < a.entries; ++i) least = gv_min(least, a.log_std[i]);
        size *= gv_exp(-least);
    }
    a.scales[0] = gv_scale_for(a, size);
    a.scales[1] = gv_scale_for(a, gv_abs(a.value_coef) * error);
}

GV_FN void gv_begin_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const GvStandard spread = gv_spread(a);
    const gv_i32 first = tile * GV_TILE, rest = a.size - first;
    GV_FOR(i, rest < GV_TILE ? rest : GV_TILE) {
        const gv_u32 at = (gv_u32)(first + i), step = at / (gv_u32)a.samples_per_step;
        const float log_prob = a.log_prob[step * a.log_prob_step + (at - step * (gv_u32)a.samples_per_step)];
        const float advantage = (a.advantage[at] - spread.mean) / spread.deviation;
        ((GvSample*)a.numbers)[at] = {log_prob, a.value[at], advantage, a.target[at]};
    }
    if (tile != 0) return;
    GV_FOR(i, a.num_work) a.work[i] = a.work + i == a.steps ? *a.step : 0.0f;
    GV_FOR(i, a.num_stopped) a.stopped[i] = 0;
    GV_ONCE {
        *a.rate = *a.learning_rate * *a.factor;
        gv_set_scales(a);
    }
}

// double: as the statistics.
GV_FN void gv_end_update(const GvArgs& a, const GvLanes&) {
    const double *var = a.var, count = *a.num_samples;
    const float *totals = a.work, taken = totals[6], wanted = totals[7], with_choice = totals[8];
    // NaN, which stands for no value, without a step. Numbers 1 and 5 are the value loss and the norm.
    for (gv_i32 i = 0; i < 6; ++i) a.metrics[i] = totals[i] / (i == 1 || i == 5 ? taken : with_choice);
    // The advantage is the target minus the value. Without a sample, count / count is NaN, which stands for no value.
    a.metrics[6] = (float)(count / count - var[0] / (var[1] + 1e-8));
    a.metrics[7] = *a.rate;
    a.metrics[8] = (float)(count / a.size);
    a.metrics[9] = (float)(*a.choice_num_samples / count);
    a.metrics[10] = taken;
    a.metrics[11] = wanted - taken;
    *a.shuffles += a.num_epochs;
}
GV_FN void gv_end_once(const GvArgs& a, const GvLanes& team, gv_i32) { GV_ONCE gv_end_update(a, team); }

GV_PLAIN_KERNEL(gv_begin, gv_begin_tile)
GV_PLAIN_KERNEL(gv_end, gv_end_once)
