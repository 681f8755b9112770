// Operations of hooks in Python that C++ does in another way, and functions with several results.
#pragma once
#include "lib/math.h"
#include "lib/powers.h"
#include "lib/vec.h"

// x // y and x % y: the quotient is rounded down, and the rest has the sign of y.
GV_FN gv_i32 gv_floor_quotient(gv_i32 x, gv_i32 y) {
    const gv_i32 quotient = x / y;
    return quotient - (quotient * y != x && (x < 0) != (y < 0));
}
GV_FN gv_i32 gv_floor_rest(gv_i32 x, gv_i32 y) {
    const gv_i32 rest = x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

GV_FN gv_i32 gv_smaller(gv_i32 x, gv_i32 y) { return y < x ? y : x; }
GV_FN gv_i32 gv_larger(gv_i32 x, gv_i32 y) { return x < y ? y : x; }
GV_FN gv_i32 gv_magnitude(gv_i32 x) { return x < 0 ? -x : x; }

// Sine and cosine: value[0] and value[1].
GV_FN GvVec<float, 2> gv_sincos_of(float x) {
    GvVec<float, 2> both;
    gv_sincos(x, &both.value[0], &both.value[1]);
    return both;
}
GV_FN GvVec<float, 2> gv_sincos_small_of(float x) {
    GvVec<float, 2> both;
    gv_sincos_small(x, &both.value[0], &both.value[1]);
    return both;
}
GV_FN float gv_sin_of(float x) { return gv_sincos_of(x).value[0]; }
GV_FN float gv_cos_of(float x) { return gv_sincos_of(x).value[1]; }
