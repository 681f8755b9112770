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

// Takes the step number n of a parameter, whose gradient is `factor` times the sums. torch.optim.Adam computes the same.
GV_FN void gv_take_step(const GvHostTensor& tensor, const float* sums, float factor, float learning_rate, float eps, float n) {
    const float rate = learning_rate / gv_bias_correction(false, n), root = gv_sqrt(gv_bias_correction(true, n));
    GV_INDEPENDENT
    for (gv_i32 i = 0; i < tensor.outputs * tensor.inputs; ++i) {
        const float gradient = sums[i] * factor;
        const float m = GV_M_DECAY * tensor.m[i] + GV_M_SHARE * gradient;
        const float v = GV_V_DECAY * tensor.v[i] + GV_V_SHARE * gradient * gradient;
        tensor.m[i] = m;
        tensor.v[i] = v;
        tensor.weight[i] -= rate * m / (gv_sqrt(v) / root + eps);
    }
}
