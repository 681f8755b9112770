// Entry points of an env's kernels. kernel_source() in backend/source.py appends this header to the env's .cu.
#pragma once
#include "launch/in_memory.h"

#if defined(GV_SINGLE) && GV_ONE_LANE
#include "single/rollout.h"
#define GV_STEP_WORLD gv_step_in_registers
#define GV_ROLLOUT_WORLD gv_rollout_single
#else
#define GV_STEP_WORLD gv_step_in_memory
#define GV_ROLLOUT_WORLD gv_rollout_in_memory
#endif

// The host steps single-agent worlds in packs, if the observations of a pack fit the stack. Worlds that fill no pack are stepped
// one by one, and so are all worlds in builds with sizes as constants, which tests make.
#if defined(GV_SINGLE) && defined(GV_PACK) && !defined(GV_num_features) && GV_SINGLE_FEATURES <= 1024
#include "single/pack.h"
#define GV_KERNEL_BY_PACK(name, world, one, packs) \
    GV_KERNEL_OF(name, { GV_HOST_TEAM w = packs(a, team, hi); } for (; w < hi; ++w) { GV_HOST_TEAM one(a, team); })
#else
#define GV_KERNEL_BY_PACK(name, world, one, packs) GV_KERNEL(name, world)  // without packs, `one` and `packs` are unused
#endif

// CUDA compiles the module of rollouts before the first rollout, apart from steps, because it contains every hook again.
#if !defined(GV_MODULE) || GV_MODULE == 0
GV_KERNEL_BY_PACK(gv_step, GV_STEP_WORLD, gv_step_one, gv_step_packs)
GV_KERNEL(gv_reset, gv_reset_world)
GV_KERNEL(gv_observe, gv_observe_world)
GV_KERNEL(gv_copy, gv_copy_world)
#endif
#if !defined(GV_MODULE) || GV_MODULE == 1
GV_KERNEL_BY_PACK(gv_rollout, GV_ROLLOUT_WORLD, gv_rollout_one, gv_rollout_packs)
#endif

#ifdef GV_EXPORT  // host
#include "launch/max_index.h"
#endif
#ifdef GV_THREADS
#include "launch/threads.h"
#endif
