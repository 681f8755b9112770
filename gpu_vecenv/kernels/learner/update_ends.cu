// Start and end of an update: statistics of the advantages become the numbers that minibatches read, and sums over minibatches
// become metrics. A team has a tile of samples, which takes the place of a world in GV_KERNEL.
#ifndef GV_SCRATCH
#define GV_SCRATCH 1  // unused
#endif
#include "lib/powers.h"

#define GV_TILE 256  // samples of a team, as in gpu_vecenv/train/fused/update_ends.py

// gpu_vecenv/train/fused/update_ends.py fills this struct.
struct GvArgs {
    const float* log_prob;                    // of sample b in step t at t * log_prob_step + b
    const float *advantage, *target, *value;  // [size], 0 for samples that do not count
    const void *mean, *var, *count;           // double [2], [2], [1]: of advantages and targets that count
    const void *choice_mean, *choice_var, *choice_count;  // double [1] each: of advantages of samples with a choice
    const float *learning_rate, *factor, *entropy_coef;
    const float* log_std;                     // [entries] or null
    const float* step;                        // number of Adam's steps
    float* numbers;                           // [size, 4] log-probability, value, advantage, target
    float *rate, *scales;                     // see GvArgs of learner/update_args.h, as for the next three
    float* work;                              // [num_work] totals and other sums, and `steps`
    gv_i32* stopped;                          // [num_stopped]
    float* steps;
    gv_i64* deals;                            // deals before the update, then with it
    float* metrics;                           // [12] PPO.metric_names
    gv_i32* invalid_actions;                  // unused; GV_KERNEL expects it
    gv_i64 log_prob_step;
    gv_i32 num_worlds, num_agents;            // teams; 1
    gv_i32 size, samples_per_step, entries, num_work, num_stopped;
    gv_i32 normalize;                         // GV_OVER_ROLLOUT, GV_OVER_MINIBATCH, or neither
    float value_coef, scaled_to;              // scaled_to: logarithm to base 2 of the size of scaled derivatives
    gv_i32 num_epochs, unused;                // deals of the update
};
static_assert(sizeof(GvArgs) == 248, "as in gpu_vecenv/train/fused/update_ends.py");

enum { GV_OVER_ROLLOUT = 1, GV_OVER_MINIBATCH = 2 };

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
    return {(float)*(const double*)a.choice_mean, (float)(gv_sqrt(*(const double*)a.choice_var) + 1e-8)};
}

// Power of two that gives numbers of some size about the size 2^scaled_to; NaN for NaN.
GV_FN float gv_scale_for(const GvArgs& a, float size) {
    return size == size ? gv_two_to((gv_i32)gv_floor(gv_clamp(a.scaled_to - gv_log2(size), -40.0f, 40.0f))) : size;
}

// Sets the scales of the derivatives by the outputs of actor and critic, from the root mean squares of advantages and of errors
// of values; the error of a value is its advantage before it is normalised. Weights of the loss may be negative.
// double: as the statistics.
GV_FN void gv_set_scales(const GvArgs& a) {
    const double mean = *(const double*)a.mean, var = *(const double*)a.var;
    const double choice_mean = *(const double*)a.choice_mean, choice_var = *(const double*)a.choice_var;
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

GV_FN void gv_begin_tile(const GvArgs& a, const GvTeam& team) {
    const GvStandard spread = gv_spread(a);
    const gv_i32 first = team.world * GV_TILE, rest = a.size - first;
    GV_FOR(i, rest < GV_TILE ? rest : GV_TILE) {
        const gv_u32 at = (gv_u32)(first + i), step = at / (gv_u32)a.samples_per_step;
        const float log_prob = a.log_prob[step * a.log_prob_step + (at - step * (gv_u32)a.samples_per_step)];
        const float advantage = (a.advantage[at] - spread.mean) / spread.deviation;
        ((GvSample*)a.numbers)[at] = {log_prob, a.value[at], advantage, a.target[at]};
    }
    if (team.world != 0) return;
    GV_FOR(i, a.num_work) a.work[i] = a.work + i == a.steps ? *a.step : 0.0f;
    GV_FOR(i, a.num_stopped) a.stopped[i] = 0;
    GV_ONCE {
        *a.rate = *a.learning_rate * *a.factor;
        gv_set_scales(a);
    }
}

// double: as the statistics.
GV_FN void gv_end_update(const GvArgs& a, const GvTeam&) {
    const double *var = (const double*)a.var, count = *(const double*)a.count;
    const float *totals = a.work, taken = totals[6], wanted = totals[7], with_choice = totals[8];
    // NaN, which stands for no value, without a step. Numbers 1 and 5 are the value loss and the norm.
    for (gv_i32 i = 0; i < 6; ++i) a.metrics[i] = totals[i] / (i == 1 || i == 5 ? taken : with_choice);
    // The advantage is the target minus the value. Without a sample, count / count is NaN, which stands for no value.
    a.metrics[6] = (float)(count / count - var[0] / (var[1] + 1e-8));
    a.metrics[7] = *a.rate;
    a.metrics[8] = (float)(count / a.size);
    a.metrics[9] = (float)(*(const double*)a.choice_count / count);
    a.metrics[10] = taken;
    a.metrics[11] = wanted - taken;
    *a.deals += a.num_epochs;
}
GV_FN void gv_end_once(const GvArgs& a, const GvTeam& team) { GV_ONCE gv_end_update(a, team); }

GV_KERNEL(gv_begin, gv_begin_tile)
GV_KERNEL(gv_end, gv_end_once)

#ifdef GV_PACK
#include "launch/threads.h"
#endif
