// Losses of critics with one output, and of a policy that climbs them, with their derivatives. There is one team. The order of
// additions depends on the number of rows alone. Semantics are those of gpu_vecenv/train/algorithms/off_policy/losses.py.
#include "program_args.h"

#define GV_ITEMS 512  // sums of a team, each of rows that lie so far apart

// Adds up the sums of all items; the first one gets the total.
GV_FN void gv_add_items(const GvLanes& team, float* sums) {
    for (gv_i32 half = GV_ITEMS / 2; half > 0; half /= 2) {
        gv_barrier(team);
        GV_FOR(i, half) sums[i] += sums[i + half];
    }
    gv_barrier(team);
}

// The mean of squared errors with weights, times `factor`, and the mean value.
GV_FN void gv_critic_loss_of(const GvArgs& a, const GvLanes& team, gv_i32 /*number*/) {
    float *losses = team.scratch, *values = losses + GV_ITEMS, *weights = values + GV_ITEMS;
    GV_FOR(item, GV_ITEMS) {
        float loss = 0.0f, value = 0.0f, weight = 0.0f;
        for (gv_i32 row = item; row < a.rows; row += GV_ITEMS) {
            const float share = a.share[row], target = a.target[row];
            weight += share;
            for (gv_i32 critic = 0; critic < a.count; ++critic) {
                const gv_i64 at = (gv_i64)critic * a.rows + row;
                const float error = a.values[at] - target;
                loss += share * error * error;
                value += share * a.values[at];
                a.slopes[at] = 2.0f * a.factor * share * error * a.scale;
            }
        }
        losses[item] = loss;
        values[item] = value;
        weights[item] = weight;
    }
    gv_add_items(team, losses);
    gv_add_items(team, values);
    gv_add_items(team, weights);
    GV_ONCE {
        a.results[0] = a.factor * *losses;
        a.results[1] = *values / ((float)a.count * *weights);
    }
}

// The mean of the smallest value, or with `alpha` null of the first one, with the opposite sign; and alpha times the log-density.
GV_FN void gv_actor_loss_of(const GvArgs& a, const GvLanes& team, gv_i32 /*number*/) {
    float *losses = team.scratch, *entropies = losses + GV_ITEMS;
    const bool soft = a.alpha != nullptr;
    const float alpha = soft ? *a.alpha : 0.0f;
    GV_FOR(item, GV_ITEMS) {
        float loss = 0.0f, entropy = 0.0f;
        for (gv_i32 row = item; row < a.rows; row += GV_ITEMS) {
            const float share = a.share[row], log_prob = soft ? a.log_prob[row] : 0.0f;
            gv_i32 least = 0;
            float value = a.values[row];
            for (gv_i32 critic = 1; soft && critic < a.count; ++critic) {
                const float other = a.values[(gv_i64)critic * a.rows + row];
                const bool is_less = other < value || other != other;  // NaN stays
                value = is_less ? other : value;
                least = is_less ? critic : least;
            }
            for (gv_i32 critic = 0; critic < a.count; ++critic) {
                a.slopes[(gv_i64)critic * a.rows + row] = critic == least ? -share * a.scale : 0.0f;
            }
            if (soft) a.log_prob_slopes[row] = alpha * share * a.scale;
            loss += share * (alpha * log_prob - value);
            entropy -= share * log_prob;
        }
        losses[item] = loss;
        entropies[item] = entropy;
    }
    gv_add_items(team, losses);
    gv_add_items(team, entropies);
    GV_ONCE {
        a.results[0] = *losses;
        a.results[1] = *entropies;
    }
}

GV_PLAIN_KERNEL(gv_actor_loss, gv_actor_loss_of)
GV_PLAIN_KERNEL(gv_critic_loss, gv_critic_loss_of)
