// The functions of lib/powers.h over arrays.
#include "lib/powers.h"

#define KERNEL(name, call)                                                                               \
    extern "C" __global__ void name(gv_i32 n, const float* x, const float* y, float* out) {              \
        const gv_i32 i = (gv_i32)(blockIdx.x * blockDim.x + threadIdx.x);                                \
        if (i < n) out[i] = call;                                                                        \
    }

KERNEL(exp_of, gv_exp(x[i]))
KERNEL(log_of, gv_log(x[i]))
KERNEL(log2_of, gv_log2(x[i]))
KERNEL(softplus_of, gv_softplus(x[i]))
KERNEL(tanh_of, gv_tanh(x[i]))
KERNEL(pow_of, gv_pow(x[i], y[i]))

#define KERNEL_IN_DOUBLE(name, call)                                                                     \
    extern "C" __global__ void name(gv_i32 n, const double* x, const double* y, double* out) {           \
        const gv_i32 i = (gv_i32)(blockIdx.x * blockDim.x + threadIdx.x);                                \
        if (i < n) out[i] = call;                                                                        \
    }

KERNEL_IN_DOUBLE(exp_in_double_of, gv_exp_in_double(x[i]))
KERNEL_IN_DOUBLE(log_in_double_of, gv_log_in_double(x[i]))
KERNEL_IN_DOUBLE(pow_in_double_of, gv_pow_in_double(x[i], y[i]))
