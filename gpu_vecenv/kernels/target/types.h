// Integers of fixed size, and teams of lanes.
#pragma once

typedef signed char gv_i8;
typedef unsigned char gv_u8;
typedef short gv_i16;
typedef unsigned short gv_u16;
typedef int gv_i32;
typedef unsigned int gv_u32;
typedef long long gv_i64;
typedef unsigned long long gv_u64;

// Time and flags of a world during a step, in memory of the team (launch/in_memory.h).
struct GvProgress {
    gv_i32 t;
    gv_u8 terminated, truncated;
};

struct GvNumbers;  // metrics.h

// The lanes of a team, and their memory.
struct GvLanes {
    gv_i32 lane;     // number of this lane, 0 .. lanes - 1
    gv_i32 lanes;    // lanes in the team
    float* sums;     // [32] partial sums of gv_sum
    float* scratch;  // [GV_SCRATCH] memory of the team; undefined when a kernel starts
    bool divergent = false;  // in a branch that other teams of the same warp may not take (CUDA)
};

// A team that steps a world.
struct GvTeam : GvLanes {
    gv_i32 world;    // index of the world, for gv_row() and gv_state(); 0 if a lane holds the world
    GvProgress* progress = nullptr;  // of the world; register worlds have theirs in variables
    GvNumbers* numbers = nullptr;    // metrics of the episode, while a step holds them in variables
    gv_i32 world_number = world;     // number of the world in its env, for debugging
};

// Loop over i in [0, n), distributed over the lanes of the team: a lane runs i = lane, lane + lanes, lane + 2 lanes, ...
#define GV_FOR(i, n) for (gv_i32 i = team.lane; i < (n); i += team.lanes)
// Runs the next statement in one lane of the team.
#define GV_ONCE if (team.lane == 0)
