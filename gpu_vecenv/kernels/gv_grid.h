// On CUDA, where a block stands in its grid, and when a grid may begin.
#pragma once

// The world of the first team of this block. Of worlds of one lane a launch may put fewer than GV_TEAMS into a block.
#define GV_FIRST_WORLD ((gv_i32)(blockIdx.x * (GV_LANES == 1 ? blockDim.x : GV_TEAMS)))

// A kernel in a graph may start while the one before it ends: it waits for the end of that, whose writes are then there, before
// it looks at memory. Only then may the next one start, which so finds everything done that was before this one, too.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GV_IN_TURN() asm volatile("griddepcontrol.wait; griddepcontrol.launch_dependents;" ::: "memory")
#else
#define GV_IN_TURN()
#endif
