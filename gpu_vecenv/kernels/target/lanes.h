// Lanes: a team is GV_LANES threads of the host, for race checks and for comparing team sizes. Slow.
#pragma once
#include <pthread.h>
#include <thread>
#include <vector>
#include "target/types.h"

#define GV_FN static inline
#define GV_UNROLL
#define GV_LOOP
#define GV_ONE_LANE 0
#define GV_WHOLE_WARP(condition) ((void)(condition), false)

// Two barriers alternate. With one, a thread sanitizer would order a lane that leaves a barrier late after lanes that have reached
// the next barrier already, and would miss races between them.
static pthread_barrier_t gv_lanes_barriers[2];

GV_FN void gv_barrier(const GvTeam&) {
    static thread_local gv_i32 turn;
    pthread_barrier_wait(&gv_lanes_barriers[turn ^= 1]);
}
GV_FN void gv_barrier_sums(const GvTeam& team) { gv_barrier(team); }
GV_FN void gv_block_barrier(const GvTeam& team) { gv_barrier(team); }
GV_FN gv_i32 gv_fetch_add(gv_i32* counter) { return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }
GV_FN gv_i32 gv_vote(const GvTeam& team, bool vote) {
    gv_i32* votes = (gv_i32*)team.sums;
    gv_barrier(team);
    GV_ONCE *votes = 0;
    gv_barrier(team);
    if (vote) gv_fetch_add(votes);
    gv_barrier(team);
    return *votes;
}
GV_FN GvTeam gv_with_kept_memory(const GvTeam& team) { return team; }
GV_FN void gv_load_fence() {}
GV_FN bool gv_any_in_group(gv_i32, bool condition) { return condition; }

#define GV_EXPORT extern "C" __attribute__((visibility("default")))

#define GV_KERNEL(name, body)                                                                        \
    GV_EXPORT void name(const GV_KERNEL_ARGS* a, gv_i32 lo, gv_i32 hi) {                             \
        static float sums[32];                                                                       \
        alignas(16) static float scratch[GV_SCRATCH];                                                \
        static GvProgress progress;                                                                  \
        for (auto& barrier : gv_lanes_barriers) pthread_barrier_init(&barrier, nullptr, GV_LANES);   \
        std::vector<std::thread> lanes;                                                              \
        for (gv_i32 lane = 0; lane < GV_LANES; ++lane) lanes.emplace_back([=] {                      \
            for (gv_i32 w = lo; w < hi; ++w) {                                                       \
                const GvTeam team = {w, lane, GV_LANES, sums, scratch, false, &progress};            \
                body(*a, team);                                                                      \
                gv_barrier(team);                                                                    \
            }                                                                                        \
        });                                                                                          \
        for (auto& lane : lanes) lane.join();                                                        \
        for (auto& barrier : gv_lanes_barriers) pthread_barrier_destroy(&barrier);                   \
    }
#define GV_TILE_KERNEL GV_KERNEL  // see cuda_entry.h
#define GV_EARLY_KERNEL GV_KERNEL
GV_FN void gv_wait_for_previous() {}
GV_FN void gv_start_next() {}
