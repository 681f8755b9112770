// Place of the numbers of a sample in an array of steps and samples; samples are numbered step by step.
#pragma once
#include "program_args.h"

GV_FN gv_i64 gv_place_in(const GvSlab& slab, gv_i32 sample, gv_i32 samples_per_step) {
    const gv_i64 gap = slab.step - slab.sample * samples_per_step;
    const gv_i64 steps = gap != 0 ? (gv_u32)sample / (gv_u32)samples_per_step : 0;
    return sample * slab.sample + steps * gap;
}
GV_FN const float* gv_sample(const GvSlab& slab, gv_i32 sample, gv_i32 samples_per_step) {
    return (const float*)slab.at + gv_place_in(slab, sample, samples_per_step);
}
