// On CUDA, where a block stands in its grid, and when a grid may begin.
#pragma once
#include "gv_team.h"

// The world of the first team of this block. Of worlds of one lane a launch may put fewer than GV_TEAMS into a block.
#define GV_FIRST_WORLD ((gv_i32)(blockIdx.x * (GV_LANES == 1 ? blockDim.x : GV_TEAMS)))

// A kernel in a graph may start while the one before it ends: it waits for the end of that, whose writes are then there, before
// it looks at memory. Only then may the next one start, which so finds everything done that was before this one, too.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GV_IN_TURN() asm volatile("griddepcontrol.wait; griddepcontrol.launch_dependents;" ::: "memory")
#define GV_EARLY_LINES(bytes) ((bytes) / 64)
#else
#define GV_IN_TURN()
#define GV_EARLY_LINES(bytes) 0
#endif

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
// Whether a grid has anything to do, which is always so. To know it, a thread reads a word of each line of the argument struct, and
// that while it has to wait anyway: later it would wait for each line when it first needs something of it.
template <class Args>
static __device__ __forceinline__ bool gv_has_work(const Args& a) {
    const gv_u32* words = (const gv_u32*)&a;
    gv_u32 any = (gv_u32)a.num_agents;
    _Pragma("unroll") for (gv_u32 line = 1; line <= GV_EARLY_LINES(sizeof(Args) - 4); ++line) any |= words[16 * line];
    return any != 0;
}
#endif
