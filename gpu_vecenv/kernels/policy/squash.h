// Tanh of a normal number with its log-density, and the derivatives. Semantics are those of squashed_outputs() in
// gpu_vecenv/train/policies/actor.py.
#pragma once
#include "lib/math.h"
#include "lib/powers.h"

#define GV_CONSTANT 0.918938533204672742f  // log(2 pi) / 2
#define GV_LOG_2 0.693147180559945309f

// The clamped logarithm of the deviation, a number before the tangent, e^-2|u|, and its tangent.
struct GvSquashed {
    float log_std, u, e, action;
};
GV_FN GvSquashed gv_squashed(float mean, float given_log_std, float noise, float low, float high) {
    const float log_std = gv_clamp(given_log_std, low, high);
    const float u = mean + gv_exp(log_std) * noise;
    const float e = gv_exp(-2.0f * gv_abs(u)), size = (1.0f - e) / (1.0f + e);
    return {log_std, u, e, u < 0.0f ? -size : size};
}

GV_FN float gv_log_density(const GvSquashed& now, float noise) {
    const float softplus = gv_max(-2.0f * now.u, 0.0f) + gv_log(1.0f + now.e);  // log(1 + e^-2u)
    return 2.0f * (now.u + softplus - GV_LOG_2) - 0.5f * noise * noise - now.log_std - GV_CONSTANT;
}

// Derivatives by the mean and by the logarithm of the deviation: the log-density rises by 2 tanh(u) with u, and the tangent by
// 1 - tanh(u)^2 = 4 e / (1 + e)^2.
struct GvSquashSlopes {
    float mean, log_std;
};
GV_FN GvSquashSlopes gv_squash_slopes(const GvSquashed& now, float noise, bool within, float of_action, float of_log_prob) {
    const float slope = 4.0f * now.e / ((1.0f + now.e) * (1.0f + now.e));
    const float of_u = of_action * slope + of_log_prob * 2.0f * now.action;
    return {of_u, within ? of_u * gv_exp(now.log_std) * noise - of_log_prob : 0.0f};
}
