// Steps of Adam on the host.
#pragma once
#include "learner/bias_correction.h"

#define GV_LANES_OF_SUMS 16

// A sum of squares, in the same order for all widths of vectors.
GV_FN float gv_squares(const float* x, gv_i32 count) {
    float sums[GV_LANES_OF_SUMS] = {}, sum = 0.0f;
    gv_i32 i = 0;
    for (; i + GV_LANES_OF_SUMS <= count; i += GV_LANES_OF_SUMS) {
        for (gv_i32 j = 0; j < GV_LANES_OF_SUMS; ++j) sums[j] += x[i + j] * x[i + j];
    }
    for (; i < count; ++i) sum += x[i] * x[i];
    for (gv_i32 j = 0; j < GV_LANES_OF_SUMS; ++j) sum += sums[j];
    return sum;
}

// Moments below these numbers become zeros. Otherwise those of units that are off reach the subnormal numbers, where rounding
// ends their decay, and each operation with such a number takes many times as long. Of the first moment, also the product with a
// learning rate has to stay normal. No weight changes by so little, because eps is far larger.
#define GV_LEAST_M 1e-30f
#define GV_LEAST_V 1.17549435e-38f
GV_FN float gv_from(float least, float x) { return x < least && x > -least ? 0.0f : x; }

// Takes the step number n of a parameter, whose gradient is `factor` times the sums. torch.optim.Adam computes the same, but for
// moments that are nearly zero.
GV_FN void gv_take_step(const GvHostTensor& tensor, const float* sums, float factor, float learning_rate, float eps, float n) {
    const float rate = learning_rate / gv_bias_correction(false, n), root = gv_sqrt(gv_bias_correction(true, n));
    GV_INDEPENDENT
    for (gv_i32 i = 0; i < tensor.outputs * tensor.inputs; ++i) {
        const float gradient = sums[i] * factor;
        const float m = gv_from(GV_LEAST_M, GV_M_DECAY * tensor.m[i] + GV_M_SHARE * gradient);
        const float v = gv_from(GV_LEAST_V, GV_V_DECAY * tensor.v[i] + GV_V_SHARE * gradient * gradient);
        tensor.m[i] = m;
        tensor.v[i] = v;
        tensor.weight[i] -= rate * m / (gv_sqrt(v) / root + eps);
    }
}
