// What a kernel sees of its target: whole numbers of fixed size, and the team of lanes that works on a world.
#pragma once

typedef unsigned char gv_u8;
typedef unsigned short gv_u16;
typedef int gv_i32;
typedef unsigned int gv_u32;
typedef long long gv_i64;
typedef unsigned long long gv_u64;

struct GvTeam {
    gv_i32 world;  // the world this team steps
    gv_i32 lane;   // this lane's number, 0 .. lanes - 1
    gv_i32 lanes;  // lanes in the team
    float* slots;  // [32] for gv_sum
    float* scratch;  // [GV_SCRATCH] for the env, shared by the team; what is in it is lost between kernels
    bool apart;  // on the way through a branch that not all teams take which share a warp on CUDA
};

#ifndef GV_SCRATCH
#define GV_SCRATCH 1  // an env that wants more, up to GV_SCRATCH_MOST floats, defines it before it includes gv_env.h
#endif

#if defined(GV_TEAMS) && GV_LANES > 1  // on CUDA they share the 48 KiB of a block
#define GV_SCRATCH_MOST ((((12288 / GV_TEAMS - GV_APART(32)) / GV_SPAN - 1) | 1) * GV_SPAN)
#else  // as much as a team that shares its block with none has there
#define GV_SCRATCH_MOST 12160
#endif

// On CUDA the compiler knows where a lane has one agent at most, and makes no loop.
#define GV_FOR(i, n) for (gv_i32 i = team.lane; i < (n); i += team.lanes)
#define GV_ONCE if (team.lane == 0)

#ifdef GV_SOLO  // on the host such worlds are stepped in blocks, which are vectorised only where all is inlined
#define GV_HOST_INLINING always_inline
#else           // larger kernels are compiled six times as fast as the compiler likes it
#define GV_HOST_INLINING unused
#endif
