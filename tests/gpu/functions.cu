// Functions of lib/math.h that have a form of their own on CUDA, next to the plain form.
#include "lib/math.h"

struct Pair {
    float first, second;
};

extern "C" __global__ void quotients(gv_i32 n, const float* x, const float* y, float* out, float* plain) {
    const gv_i32 i = (gv_i32)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    const Pair pair = gv_dividing([=](auto by) {
        const auto divisor = by(y[i]);
        const float first = x[i] / divisor;
        return Pair{first, first / divisor};
    });
    out[2 * i] = pair.first;
    out[2 * i + 1] = pair.second;
    plain[2 * i] = x[i] / y[i];
    plain[2 * i + 1] = plain[2 * i] / y[i];
}

extern "C" __global__ void sines(gv_i32 n, const float* x, float* out, float* plain) {
    const gv_i32 i = (gv_i32)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    gv_sincos_small(x[i], out + 2 * i, out + 2 * i + 1);
    gv_sincos(x[i], plain + 2 * i, plain + 2 * i + 1);
}
