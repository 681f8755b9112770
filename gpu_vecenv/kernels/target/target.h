// Selects the target: CUDA, host (one lane a team), or lanes (one host thread a lane, for race checks).
//
// Each target defines GV_FN, GV_LOOP, GV_UNROLL, GV_ONE_LANE, the barriers and votes of a team, arithmetic that needs an
// intrinsic, and GV_KERNEL, the entry point of a kernel. Other headers use no compiler extensions, except those that
// only the host includes: lib/sort.h, single/pack.h, launch/threads.h.
#pragma once
#include "target/types.h"

#define GV_KERNEL_ARGS GvArgs  // type of the arguments of kernels; a program may define another one

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#include "target/cuda.h"
#include "target/cuda_ops.h"
#include "target/cuda_entry.h"
#else
#ifdef GV_LANES
#include "target/lanes.h"
#else
#include "target/host.h"
#endif
#include "target/host_ops.h"
#endif
