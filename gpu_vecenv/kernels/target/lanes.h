// Lanes: a team is GV_LANES threads of the host, for race checks and for comparing team sizes. Slow.
#pragma once
#include <pthread.h>
#include <thread>
#include <vector>
#include "target/types.h"

#define GV_FN static inline
#define GV_METHOD inline  // of a struct
#define GV_INLINE GV_FN  // small functions
#define GV_FLAT GV_FN
#define GV_CALLED GV_FN
#define GV_HOOK GV_INLINE  // declaration of a hook
#define GV_FRIEND friend void  // a hook that may use private members
#define GV_UNROLL
#define GV_LOOP
#define GV_UNROLL_BY_4
#define GV_ONE_LANE 0
#define GV_TEAM_LANES GV_LANES
#define GV_WHOLE_WARP(condition) ((void)(condition), false)

// Two barriers alternate. With one, a thread sanitizer would order a lane that leaves a barrier late after lanes that have reached
// the next barrier already, and would miss races between them.
static pthread_barrier_t gv_lanes_barriers[2];

GV_FN void gv_barrier(const GvLanes&) {
    static thread_local gv_i32 turn;
    pthread_barrier_wait(&gv_lanes_barriers[turn ^= 1]);
}
GV_FN void gv_barrier_sums(const GvLanes& team) { gv_barrier(team); }
GV_FN void gv_block_barrier(const GvLanes& team) { gv_barrier(team); }
GV_FN gv_i32 gv_fetch_add(gv_i32* counter) { return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }
// double: sums of many numbers.
GV_FN void gv_store_same(double* to, double number) { __atomic_store(to, &number, __ATOMIC_RELAXED); }
GV_FN gv_i32 gv_vote(const GvLanes& team, bool vote) {
    gv_i32* votes = (gv_i32*)team.sums;
    gv_barrier(team);
    GV_ONCE *votes = 0;
    gv_barrier(team);
    if (vote) gv_fetch_add(votes);
    gv_barrier(team);
    return *votes;
}
GV_FN GvTeam gv_with_kept_memory(const GvTeam& team) { return team; }

#define GV_EXPORT extern "C" __attribute__((visibility("default")))

// Runs the lanes of a team over the numbers lo .. hi - 1. `...` is what a lane does with one of them, `n`.
#define GV_LANES_KERNEL(name, Args, ...)                                                             \
    GV_EXPORT void name(const Args* a, gv_i32 lo, gv_i32 hi) {                                       \
        static float sums[32];                                                                       \
        alignas(16) static float scratch[GV_SCRATCH];                                                \
        static GvProgress progress;                                                                  \
        (void)progress;                                                                              \
        for (auto& barrier : gv_lanes_barriers) pthread_barrier_init(&barrier, nullptr, GV_LANES);   \
        std::vector<std::thread> threads;                                                            \
        for (gv_i32 lane = 0; lane < GV_LANES; ++lane) threads.emplace_back([=] {                    \
            const GvLanes lanes = {lane, GV_LANES, sums, scratch};                                   \
            for (gv_i32 n = lo; n < hi; ++n) {                                                       \
                __VA_ARGS__                                                                          \
                gv_barrier(lanes);                                                                   \
            }                                                                                        \
        });                                                                                          \
        for (auto& thread : threads) thread.join();                                                  \
        for (auto& barrier : gv_lanes_barriers) pthread_barrier_destroy(&barrier);                   \
    }
#define GV_KERNEL(name, body) GV_LANES_KERNEL(name, GvArgs, const GvTeam team = {lanes, n, &progress}; body(*a, team);)
#define GV_PLAIN_KERNEL(name, body) GV_LANES_KERNEL(name, GV_PLAIN_ARGS, body(*a, lanes, n);)
#define GV_EARLY_KERNEL GV_PLAIN_KERNEL
GV_FN void gv_wait_for_previous() {}
GV_FN void gv_start_next() {}
