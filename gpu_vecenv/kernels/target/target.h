// Chooses the target. One kernel text has three: CUDA, host (one lane a team), and lanes (host threads, for race checks).
//
// Each target defines GV_FN, GV_LOOP, GV_UNROLL, GV_ONE_LANE, the barriers and votes of a team, arithmetic that needs an
// intrinsic, and GV_KERNEL, the entry point of a kernel. Other headers know no compiler.
#pragma once
#include "target/types.h"

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
