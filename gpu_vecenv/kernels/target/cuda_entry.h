// Entry points of kernels on CUDA: the teams of a block, their shared memory, and the order of grids.
#pragma once
#include "target/types.h"

// World of the first team of this block. If a team has one lane, a launch may choose blocks of fewer than GV_TEAMS threads.
#define GV_FIRST_WORLD ((gv_i32)(blockIdx.x * (GV_LANES == 1 ? blockDim.x : GV_TEAMS)))

// In a captured graph a grid may start before the previous grid ends (programmatic dependent launch). Each grid waits for the end
// of the previous grid before it accesses memory, and then allows the next grid to start. So it sees the writes of all earlier
// grids. Before this wait a grid already sees the writes of all grids but the previous one, since that one has waited. A grid that
// waits takes registers and places from other streams, so a long grid allows the next one to start when it is nearly done.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GV_OVERLAPS 1
#else
#define GV_OVERLAPS 0
#endif

// Waits for the end of the previous grid.
static __device__ __forceinline__ void gv_wait_for_previous() {
#if GV_OVERLAPS
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Allows the next grid to start as soon as all blocks have called this or have ended.
static __device__ __forceinline__ void gv_start_next() {
#if GV_OVERLAPS
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Reads every cache line of the argument struct while the previous grid finishes: the struct is constant memory, which is not
// cached when a kernel starts. Returns true if `number`, a member, is not 0. It never is; the compiler does not know this and keeps
// the loads.
template <class Args>
static __device__ __forceinline__ bool gv_touch_args(const Args& a, gv_i32 number) {
    const gv_u32* words = (const gv_u32*)&a;
    const gv_u32 lines = GV_OVERLAPS ? (sizeof(Args) - 4) / 64 : 0;
    gv_u32 any = (gv_u32)number;
    _Pragma("unroll") for (gv_u32 line = 1; line <= lines; ++line) any |= words[16 * line];
    return any != 0;
}

// Floats of shared memory a team, rounded up to an odd number of spans, so that teams that share a warp access different banks.
#define GV_SPAN (GV_LANES < 4 ? 4 : GV_LANES > 32 ? 32 : GV_LANES)
#define GV_PADDED(floats) ((((floats) + GV_SPAN - 1) / GV_SPAN | 1) * GV_SPAN)

#if GV_LANES == 1  // the memory of a team of one lane is local to the thread
#define GV_TEAM_MEMORY float sums[1][32]; alignas(16) float scratch[1][GV_SCRATCH]; \
    GvProgress progress[1]; const gv_i32 at = 0;
#else
#define GV_TEAM_MEMORY const gv_i32 at = own; __shared__ float sums[GV_TEAMS][GV_PADDED(32)]; \
    __shared__ alignas(16) float scratch[GV_TEAMS][GV_PADDED(GV_SCRATCH)]; __shared__ GvProgress progress[GV_TEAMS];
#endif

// Copies n floats that each team of a warp has gathered, if their places follow one another in memory: all lanes write the floats
// of one team, then those of the next one. A team of few lanes alone would write a few sectors at a time; one of 8 lanes writes
// whole lines. Returns false if the places do not follow one another, or if lanes of the warp are in another branch or have no
// world; and in rollouts, where it would take too many registers. See gv_copy_out().
static __device__ __forceinline__ bool gv_copy_out_together(const GvLanes& team, const float* gathered, float* to, gv_i32 n) {
#if defined(GV_TEAMS) && GV_LANES > 1 && GV_LANES < 8 && GV_MODULE != 1
    constexpr gv_i32 teams = 32 / GV_LANES, padded = GV_PADDED(GV_SCRATCH);
    if (GV_TEAMS % teams != 0 || n % 2 != 0 || n < 32 || team.divergent) return false;
    const gv_i32 lane = threadIdx.x & 31, mine = lane / GV_LANES;
    const gv_u64 first = __shfl_sync(~0u, (gv_u64)to, 0);
    if (__ballot_sync(~0u, (gv_u64)(to - mine * n) == first && first % 8 == 0) != ~0u) return false;
    const gv_u32 start = (gv_u32)(first / sizeof(float));  // gathered floats keep their distance from a 16-byte boundary
    const float* const from = gathered - ((gv_u64)to / sizeof(float) & 3) - mine * padded;
    float* const all = to - mine * n;
    _Pragma("unroll 1") for (gv_i32 i = 2 * lane; i < n; i += 64) {
        _Pragma("unroll 8") for (gv_i32 k = 0; k < teams; ++k) {
            *(float2*)(all + k * n + i) = *(const float2*)(from + k * padded + ((start + k * n) & 3) + i);
        }
    }
    return true;
#else
    (void)team, (void)gathered, (void)to, (void)n;
    return false;
#endif
}

// Lanes without a world return at once. Barriers and votes of a warp count exited lanes as arrived, from Volta on.
#define GV_KERNEL(name, body)                                                                              \
    extern "C" __global__ void __launch_bounds__(GV_LANES* GV_TEAMS, GV_RESIDENT) name(const GvArgs a) {   \
        const gv_i32 own = threadIdx.x / GV_LANES, lane = threadIdx.x % GV_LANES;                          \
        __builtin_assume((gv_u32)lane < GV_LANES);                                                         \
        GV_TEAM_MEMORY                                                                                     \
        const GvTeam team = {{lane, GV_LANES, sums[at], scratch[at]}, GV_FIRST_WORLD + own, &progress[at]}; \
        if ((gv_u32)team.world >= (gv_u32)a.num_worlds || !gv_touch_args(a, a.num_agents)) return;         \
        gv_wait_for_previous();                                                                            \
        gv_start_next();                                                                                   \
        body(a, team);                                                                                     \
    }

// ---- kernels that step no worlds -------------------------------------------------------------------------------

// Lanes of a team, which is a block. In a program with an env GV_LANES are those of its hooks.
#ifdef GV_TILE_LANES
#define GV_TEAM_LANES GV_TILE_LANES
#else
#define GV_TEAM_LANES GV_LANES
#endif

#ifdef GV_GIVEN_SCRATCH  // the launch says how much
#define GV_PLAIN_SCRATCH extern __shared__ float4 gv_given[]; float* const scratch = (float*)gv_given;
#else
#define GV_PLAIN_SCRATCH __shared__ alignas(16) float scratch[GV_SCRATCH];
#endif

// The remainder tells the compiler the range of a lane's number. Without it, some kernels spill more registers.
#define GV_PLAIN_ENTRY(name, wait, body)                                                                   \
    extern "C" __global__ void __launch_bounds__(GV_TEAM_LANES, GV_RESIDENT) name(const GV_PLAIN_ARGS a) { \
        __shared__ float sums[32];                                                                         \
        GV_PLAIN_SCRATCH                                                                                   \
        const gv_i32 lane = threadIdx.x % GV_TEAM_LANES;                                                   \
        if (!gv_touch_args(a, a.teams)) return;                                                            \
        wait                                                                                               \
        body(a, GvLanes{lane, GV_TEAM_LANES, sums, scratch}, (gv_i32)blockIdx.x);                          \
    }
#define GV_PLAIN_KERNEL(name, body) GV_PLAIN_ENTRY(name, gv_wait_for_previous(); gv_start_next();, body)
#define GV_EARLY_KERNEL(name, body) GV_PLAIN_ENTRY(name, , body)
