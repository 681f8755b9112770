// The only file that knows which compiler it is under. One kernel text, three targets:
//   GPU    (NVRTC)     a block is GV_TEAMS teams of GV_LANES threads, of one thread at most as many; a team steps one world
//   lanes  (GV_LANES on the host)  a team is GV_LANES OS threads: race checks under TSan, block-size checks
//   serial (host release)          a team is one lane, so a barrier is nothing; counters are a thread's own
// Kernels are phases of complete GV_FOR loops separated by gv_barrier(). What a lane knows does not live across a
// barrier, except through memory indexed by agent and values that are the same for the whole world.
#pragma once

#include "gv_grid.h"

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#define GV_FN static __device__ __forceinline__
#define GV_UNROLL _Pragma("unroll")
#define GV_LOOP _Pragma("unroll 1")  // not unrolled: what is inside is long
#define GV_ONE_LANE (GV_LANES == 1)
#define GV_TEAM_MASK ((GV_LANES & 31 ? (1u << (GV_LANES & 31)) - 1u : ~0u) << (threadIdx.x & 31u & ~(GV_LANES - 1u)))
#define GV_TOGETHER(said) (GV_LANES > 1 && GV_LANES < 32 && __all_sync(~0u, said))  // teams share a warp, and all say so
// For worlds of one lane, where all lanes of a warp come along. No read asked for before GV_ASKED is moved behind it; GV_BESIDE:
// whether one of so many worlds side by side says so, a power of two up to 16.
#define GV_ASKED() __syncwarp()
#define GV_BESIDE(worlds, said) ((__ballot_sync(~0u, said) >> (threadIdx.x & 31u & ~((worlds) - 1u)) & ((1u << (worlds)) - 1u)) != 0)
GV_FN void gv_barrier(const GvTeam& team) {
    if (GV_LANES > 32) __syncthreads();
    else if (GV_LANES > 1) __syncwarp(team.apart ? GV_TEAM_MASK : ~0u);  // for all of a warp costs next to nothing
}
GV_FN void gv_barrier_slots(const GvTeam& team) {  // of the lanes below 32, a slot each: the others need not wait
    if (GV_LANES > 1 && team.lane < 32) __syncwarp(team.apart ? GV_TEAM_MASK : ~0u);
}
GV_FN void gv_block_barrier(const GvTeam&) { __syncthreads(); }  // of all teams of a block that have a world
GV_FN gv_i32 gv_ticket(gv_i32* counter) { return atomicAdd(counter, 1); }
GV_FN gv_i32 gv_vote(const GvTeam& team, bool vote) {  // lanes that vote yes
    if (GV_LANES == 1 || GV_LANES > 32) return GV_LANES == 1 ? vote : __syncthreads_count(vote);
    gv_barrier(team);  // which a ballot is not, for memory
    return __popc(__ballot_sync(team.apart ? GV_TEAM_MASK : ~0u, vote) & GV_TEAM_MASK);
}
#define GV_SPAN (GV_LANES < 4 ? 4 : GV_LANES > 32 ? 32 : GV_LANES)
// Floats of shared memory a team: an odd number of spans, so that lanes of teams that share a warp read different banks.
#define GV_APART(floats) ((((floats) + GV_SPAN - 1) / GV_SPAN | 1) * GV_SPAN)
#if GV_LANES == 1  // the memory of a team of one lane is that lane's own
#define GV_TEAM_MEMORY float slots[1][32]; alignas(16) float scratch[1][GV_SCRATCH]; const gv_i32 at = 0;
#else
#define GV_TEAM_MEMORY const gv_i32 at = mine; __shared__ float slots[GV_TEAMS][GV_APART(32)]; \
    __shared__ alignas(16) float scratch[GV_TEAMS][GV_APART(GV_SCRATCH)];
#endif
#define GV_KERNEL(name, body)                                                                    \
    extern "C" __global__ void __launch_bounds__(GV_LANES* GV_TEAMS, GV_RESIDENT) name(const GvArgs a) { \
        const gv_i32 mine = threadIdx.x / GV_LANES, lane = threadIdx.x % GV_LANES; __builtin_assume((gv_u32)lane < GV_LANES); \
        GV_TEAM_MEMORY                                                                           \
        const GvTeam team = {GV_FIRST_WORLD + mine, lane, GV_LANES, slots[at], scratch[at], false}; \
        if ((gv_u32)team.world >= (gv_u32)a.num_worlds || !gv_has_work(a)) return;               \
        GV_IN_TURN(); body(a, team);                                                             \
    }
#elif defined(GV_LANES)
#include <pthread.h>
#include <thread>
#include <vector>
#define GV_FN static inline
#define GV_UNROLL
#define GV_LOOP
#define GV_ONE_LANE 0
static pthread_barrier_t gv_lanes_barriers[2];  // in turns: with one, who leaves late would be in order after who is at the next
GV_FN void gv_barrier(const GvTeam&) { static thread_local gv_i32 turn; pthread_barrier_wait(&gv_lanes_barriers[turn ^= 1]); }
GV_FN void gv_barrier_slots(const GvTeam& team) { gv_barrier(team); }
GV_FN gv_i32 gv_ticket(gv_i32* counter) { return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }
GV_FN gv_i32 gv_vote(const GvTeam& team, bool vote) {
    gv_i32* votes = (gv_i32*)team.slots;
    gv_barrier(team);
    GV_ONCE *votes = 0;
    gv_barrier(team);
    if (vote) gv_ticket(votes);
    gv_barrier(team);
    return *votes;
}
#define GV_KERNEL(name, body)                                                              \
    extern "C" __attribute__((visibility("default")))                                      \
    void name(const GvArgs* a, gv_i32 lo, gv_i32 hi) {                                     \
        static float slots[32];                                                            \
        alignas(16) static float scratch[GV_SCRATCH];                                      \
        for (auto& barrier : gv_lanes_barriers) pthread_barrier_init(&barrier, nullptr, GV_LANES); \
        std::vector<std::thread> lanes;                                                    \
        for (gv_i32 lane = 0; lane < GV_LANES; ++lane) lanes.emplace_back([=] {            \
            for (gv_i32 w = lo; w < hi; ++w) {                                             \
                const GvTeam team = {w, lane, GV_LANES, slots, scratch};                   \
                body(*a, team);                                                            \
                gv_barrier(team);                                                          \
            }                                                                              \
        });                                                                                \
        for (auto& lane : lanes) lane.join();                                              \
        for (auto& barrier : gv_lanes_barriers) pthread_barrier_destroy(&barrier);         \
    }

#else
#define GV_FN static inline __attribute__((GV_HOST_INLINING))
#define GV_UNROLL
#define GV_LOOP
#define GV_ONE_LANE 1
#define GV_BLOCK 32  // worlds of one agent that the compiler may step side by side, in the elements of vector registers
#ifdef __clang__
#define GV_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")  // no turn of the loop touches memory of another
#else
#define GV_INDEPENDENT _Pragma("GCC ivdep")
#endif
GV_FN void gv_barrier(const GvTeam&) {}
GV_FN void gv_barrier_slots(const GvTeam&) {}
GV_FN gv_i32 gv_ticket(gv_i32* counter) { return (*counter)++; }  // counters are this thread's own
GV_FN gv_i32 gv_vote(const GvTeam&, bool vote) { return vote; }
#define GV_KERNEL(name, body) GV_KERNEL_OF(name, for (; w < hi; ++w) { GV_HOST_TEAM body(a, team); })
#define GV_HOST_TEAM const GvTeam team = {w, 0, 1, slots, scratch};
#define GV_KERNEL_OF(name, ...)                                                            \
    extern "C" __attribute__((visibility("default")))                                      \
    void name(const GvArgs* args, gv_i32 lo, gv_i32 hi) {                                  \
        float slots[32];                                                                   \
        alignas(16) float scratch[GV_SCRATCH];                                             \
        gv_i32 w = lo, invalid = 0;                                                        \
        GvArgs a = *args;                                                                  \
        a.invalid_actions = &invalid;                                                      \
        __VA_ARGS__                                                                        \
        if (invalid != 0) __atomic_fetch_add(args->invalid_actions, invalid, __ATOMIC_RELAXED); \
    }
#endif
