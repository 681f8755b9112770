// Selects the target: CUDA, host (one lane a team), or lanes (one host thread a lane, for race checks).
//
// Each target defines GV_FN, GV_FLAT, GV_CALLED, GV_INLINE, GV_METHOD, GV_HOOK, GV_FRIEND, GV_LOOP, GV_UNROLL, GV_UNROLL_BY_4,
// GV_ONE_LANE, the barriers and votes of a team, arithmetic that needs an intrinsic, and the entry points of kernels. Other
// headers use no compiler extensions, except those that only the host includes: lib/host_powers.h, lib/sort.h, single/pack.h,
// learner/host_*.h, launch/threads.h.
//
//   GV_KERNEL(name, body)        body(a, team) steps the world of a team
//   GV_PLAIN_KERNEL(name, body)  body(a, team, index) computes part `index` of a.teams, in kernels that step no worlds
//   GV_EARLY_KERNEL(name, body)  the same; the body calls gv_wait_for_previous() and gv_start_next() itself
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
#include "target/debug.h"
