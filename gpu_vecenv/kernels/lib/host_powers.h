// Functions of lib/math.h and lib/powers.h for vectors of the host. gv_tanh has a form of its own; the others have the same bits.
#pragma once
#include "lib/powers.h"
#include "target/host_vectors.h"

GV_INLINE GvVector gv_clamp(const GvVector& x, const GvVector& lo, const GvVector& hi) { return gv_min(gv_max(x, lo), hi); }
GV_INLINE GvVector gv_abs(const GvVector& x) { return (GvVector)((GvInts)x & 0x7fffffff); }
GV_INLINE GvVector gv_exp(const GvVector& x) {
    const GvVector within = gv_min(gv_all(89.0f), gv_max(gv_all(-104.0f), x));
    const GvVector n = (within * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
    const GvVector r = (within - n * 0.693359375f) + n * 2.12194440e-4f;
    GvVector p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * (r * r) + r) + 1.0f;
    const GvInts whole = __builtin_convertvector(n, GvInts), half = whole >> 1;
    return x == x ? p * (GvVector)((half + 127) << 23) * (GvVector)((whole - half + 127) << 23) : x;
}

// Natural logarithm of positive finite numbers; NaN of NaN.
GV_INLINE GvVector gv_log_inside(const GvVector& x) {
    const GvInts bits = (GvInts)x - 0x3f3504f3;  // of sqrt(1/2)
    const GvVector f = (GvVector)((bits & 0x7fffff) + 0x3f3504f3) - 1.0f, square = f * f;
    const GvVector k = __builtin_convertvector(bits >> 23, GvVector);
    GvVector p = 7.0376836292e-2f * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    const GvVector curve = p * f * square - 0.5f * square;
    return x == x ? (f + (curve - k * 2.12194440e-4f)) + k * 0.693359375f : x;
}

// Hyperbolic tangent by a quotient of polynomials: that of Eigen's ptanh (MathFunctionsImpl.h). The largest error is stated in
// docs/design/trainer-cpu.md. NaN of NaN.
GV_INLINE GvVector gv_tanh(const GvVector& x) {
    const GvVector within = gv_clamp(x, gv_all(-7.90531110763549805f), gv_all(7.90531110763549805f)), square = within * within;
    GvVector p = -5.641676159e-14f * square + 4.087417210e-11f;
    p = p * square - 1.758378865e-08f;
    p = p * square + 1.046749912e-05f;
    p = p * square + 3.036098322e-03f;
    p = p * square + 1.302255392e-01f;
    p = p * square + 9.999998808e-01f;
    GvVector q = 2.448660962e-04f * square + 2.422276326e-02f;
    q = q * square + 4.635583758e-01f;
    q = q * square + 1.0f;
    return within * p / q;
}
