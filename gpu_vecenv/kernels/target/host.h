// Host: a team is one lane, so a barrier does nothing; a thread steps a range of worlds.
#pragma once
#include "target/types.h"

#ifdef GV_SINGLE  // packs are vectorised only if everything is inlined
#define GV_FN static inline __attribute__((always_inline))
#define GV_FLAT GV_FN
#define GV_CALLED GV_FN
#else             // larger kernels compile six times as fast if the compiler chooses
#ifndef __clang__  // a copy of each loop for a stride of 1 makes no kernel faster, and takes a sixth of the compilation
#pragma GCC optimize("no-version-loops-for-strides")
#endif
#define GV_FN static inline __attribute__((unused))
#define GV_FLAT GV_FN __attribute__((flatten))  // a hook with all that it calls: GvWorld stays in registers
#define GV_CALLED static __attribute__((noinline, unused))  // compiled once for all kernels that call it
#endif
#ifdef GV_DEBUG  // a debugger stops in every function
#define GV_METHOD inline
#define GV_INLINE GV_FN
#else
#define GV_METHOD inline __attribute__((always_inline))  // of a struct
#define GV_INLINE static inline __attribute__((always_inline, unused))  // small: GvWorld stays in registers
#endif
#define GV_HOOK GV_INLINE  // declaration of a hook
#define GV_FRIEND friend void  // a hook that may use private members
#define GV_UNROLL
#define GV_LOOP
#define GV_UNROLL_BY_4
#define GV_ONE_LANE 1
#define GV_WHOLE_WARP(condition) ((void)(condition), false)
#define GV_PACK 32  // single-agent worlds that are stepped together, in the elements of vector registers
#ifndef __wasm__        // a page has one thread
#define GV_THREADS 1
#endif

// Promise to the compiler that no iteration of the next loop accesses memory of another one.
#ifdef __clang__
#define GV_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define GV_INDEPENDENT _Pragma("GCC ivdep")
#endif

GV_FN void gv_barrier(const GvLanes&) {}
GV_FN void gv_barrier_sums(const GvLanes&) {}
GV_FN void gv_block_barrier(const GvLanes&) {}
GV_FN gv_i32 gv_fetch_add(gv_i32* counter) { return (*counter)++; }  // counters belong to one thread
// double: sums of many numbers.
GV_FN void gv_store_same(double* to, double number) { __atomic_store(to, &number, __ATOMIC_RELAXED); }
GV_FN gv_i32 gv_vote(const GvLanes&, bool vote) { return vote; }
GV_FN GvTeam gv_with_kept_memory(const GvTeam& team) { return team; }

// Hint in a spin loop, which frees the core for its other hardware thread.
GV_FN void gv_pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

#define GV_EXPORT extern "C" __attribute__((visibility("default")))

// A kernel over the worlds lo .. hi - 1. Invalid actions are counted by each thread and added up at the end.
#define GV_KERNEL_OF(name, ...)                                                                      \
    GV_EXPORT void name(const GvArgs* args, gv_i32 lo, gv_i32 hi) {                                  \
        float sums[32];                                                                              \
        alignas(16) float scratch[GV_SCRATCH];                                                       \
        GvProgress progress;                                                                         \
        gv_i32 w = lo, invalid = 0;                                                                  \
        GvArgs a = *args;                                                                            \
        a.invalid_actions = &invalid;                                                                \
        __VA_ARGS__                                                                                  \
        if (invalid != 0) __atomic_fetch_add(args->invalid_actions, invalid, __ATOMIC_RELAXED);      \
    }
#define GV_HOST_TEAM const GvTeam team = {{0, 1, sums, scratch}, w, &progress};
#define GV_KERNEL(name, body) GV_KERNEL_OF(name, for (; w < hi; ++w) { GV_HOST_TEAM body(a, team); })

// A kernel over the parts lo .. hi - 1.
#define GV_PLAIN_KERNEL(name, body)                                                                  \
    GV_EXPORT void name(const GV_PLAIN_ARGS* args, gv_i32 lo, gv_i32 hi) {                           \
        float sums[32];                                                                              \
        alignas(16) float scratch[GV_SCRATCH];                                                       \
        const GV_PLAIN_ARGS a = *args;                                                               \
        const GvLanes team = {0, 1, sums, scratch};                                                  \
        for (gv_i32 index = lo; index < hi; ++index) body(a, team, index);                           \
    }
#define GV_EARLY_KERNEL GV_PLAIN_KERNEL
GV_FN void gv_wait_for_previous() {}
GV_FN void gv_start_next() {}
