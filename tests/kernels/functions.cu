// Device functions of kernels/lib over arrays, for calls from Python, and functions of the host.
#include "autoreset.h"
#include "launch/max_index.h"
#include "lib/math.h"
#include "lib/powers.h"
#include "lib/rng.h"
#include "lib/sort.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void sincos_of(gv_i64 n, const float* x, float* sine, float* cosine) {
    for (gv_i64 i = 0; i < n; ++i) gv_sincos(x[i], &sine[i], &cosine[i]);
}
EXPORT void sincos_polynomials_of(gv_i64 n, const float* x, float* sine, float* cosine) {
    for (gv_i64 i = 0; i < n; ++i) gv_sincos_polynomials(x[i], &sine[i], &cosine[i]);
}
EXPORT void quotient_of(gv_i64 n, const float* x, const float* y, const float* guess, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_quotient(x[i], y[i], gv_inverse(y[i], guess[i]));
}
EXPORT void floor_of(gv_i64 n, const float* x, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_floor(x[i]);
}
EXPORT void sqrt_of(gv_i64 n, const float* x, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_sqrt(x[i]);
}
EXPORT void abs_of(gv_i64 n, const float* x, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_abs(x[i]);
}
EXPORT void mod_of(gv_i64 n, const float* x, const float* y, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_mod(x[i], y[i]);
}
EXPORT void min_of(gv_i64 n, const float* x, const float* y, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_min(x[i], y[i]);
}
EXPORT void max_of(gv_i64 n, const float* x, const float* y, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_max(x[i], y[i]);
}
EXPORT void clamp_of(gv_i64 n, const float* x, const float* lo, const float* hi, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_clamp(x[i], lo[i], hi[i]);
}
EXPORT void exp_of(gv_i64 n, const float* x, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_exp(x[i]);
}
EXPORT void exp_normal_of(gv_i64 n, const float* x, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_exp_normal(x[i]);
}
EXPORT void log_of(gv_i64 n, const float* x, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_log(x[i]);
}
EXPORT void log2_of(gv_i64 n, const float* x, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_log2(x[i]);
}
EXPORT void softplus_of(gv_i64 n, const float* x, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_softplus(x[i]);
}
EXPORT void tanh_of(gv_i64 n, const float* x, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_tanh(x[i]);
}
EXPORT void pow_of(gv_i64 n, const float* x, const float* y, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_pow(x[i], y[i]);
}
EXPORT void exp_in_double_of(gv_i64 n, const double* x, double* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_exp_in_double(x[i]);
}
EXPORT void log_in_double_of(gv_i64 n, const double* x, double* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_log_in_double(x[i]);
}
EXPORT void pow_in_double_of(gv_i64 n, const double* x, const double* y, double* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_pow_in_double(x[i], y[i]);
}
// Rows of key[0], key[1], counter[0 .. 3] to rows of four words.
EXPORT void philox_of(gv_i64 n, const gv_u32* in, gv_u32* out) {
    for (gv_i64 i = 0; i < n; ++i) {
        const gv_u32* row = in + 6 * i;
        const GvDraw draw = gv_philox((gv_u64)row[1] << 32 | row[0], row[2], row[3], row[4], row[5]);
        for (gv_i32 word = 0; word < 4; ++word) out[4 * i + word] = draw.word[word];
    }
}
EXPORT void uniform_of(gv_i64 n, const gv_u32* word, float* out) {
    for (gv_i64 i = 0; i < n; ++i) out[i] = gv_uniform(word[i]);
}
// Bits of an outcome, in the order of its members.
EXPORT gv_i32 outcome_of(gv_i64 autoreset, gv_i64 was_finished, gv_i64 terminated, gv_i64 truncated) {
    const GvOutcome o = gv_outcome((gv_i32)autoreset, was_finished != 0, terminated != 0, truncated != 0);
    return o.terminated | o.truncated << 1 | o.finished << 2 | o.restarts << 3;
}
EXPORT void rank_sort_of(gv_i64* keys, gv_i32 count, gv_u16* ordered) { gv_rank_sort(keys, count, ordered); }
