// CUDA: a block is GV_TEAMS teams of GV_LANES threads; a team steps one world.
//
// Teams of 2 to 16 lanes share a warp. Their barriers wait for the whole warp, which is nearly free, unless the team is divergent.
#pragma once
#include "target/types.h"

#ifdef GV_DEBUG  // a debugger stops in every function, and long kernels compile in less time
#define GV_FN static __device__
#define GV_METHOD __device__
#else
#define GV_FN static __device__ __forceinline__
#define GV_METHOD __device__ __forceinline__  // of a struct
#endif
#define GV_INLINE GV_FN  // small functions
#define GV_FLAT GV_FN
#define GV_CALLED GV_FN
#define GV_HOOK GV_INLINE  // declaration of a hook
#define GV_FRIEND friend __device__ void  // a hook that may use private members
#define GV_UNROLL _Pragma("unroll")
#define GV_LOOP _Pragma("unroll 1")  // keeps a long loop body from being unrolled
#define GV_UNROLL_BY_4 _Pragma("unroll 4")  // has four loads in flight where the compiler would keep one
#define GV_ONE_LANE (GV_LANES == 1)

// Mask of this team's lanes in its warp, one bit each.
#define GV_TEAM_MASK ((GV_LANES & 31 ? (1u << (GV_LANES & 31)) - 1u : ~0u) << (threadIdx.x & 31u & ~(GV_LANES - 1u)))

// True if teams share a warp and the condition holds in all of its lanes.
#define GV_WHOLE_WARP(condition) (GV_LANES > 1 && GV_LANES < 32 && __all_sync(~0u, condition))

GV_FN void gv_barrier(const GvLanes& team) {
    if (GV_LANES > 32) __syncthreads();
    else if (GV_LANES > 1) __syncwarp(team.divergent ? GV_TEAM_MASK : ~0u);
}

// Barrier of the lanes below 32, which write one partial sum each.
GV_FN void gv_barrier_sums(const GvLanes& team) {
    if (GV_LANES > 1 && team.lane < 32) __syncwarp(team.divergent ? GV_TEAM_MASK : ~0u);
}

// Barrier of all teams of a block that have a world.
GV_FN void gv_block_barrier(const GvLanes&) { __syncthreads(); }

// The same address in shared memory, kept in a register. Without the assembly, the compiler computes it anew behind barriers.
template <class T>
GV_FN T* gv_kept(T* shared) {
    gv_u32 at = (gv_u32)__cvta_generic_to_shared(shared);
    asm volatile("" : "+r"(at));
    return (T*)__cvta_shared_to_generic(at);
}

// The same team with addresses of its memory in registers.
GV_FN GvTeam gv_with_kept_memory(const GvTeam& team) {
    GvTeam kept = team;
    if (GV_LANES == 1) return kept;  // its memory is local to the thread
    kept.sums = gv_kept(team.sums);
    kept.scratch = gv_kept(team.scratch);
    kept.progress = gv_kept(team.progress);
    return kept;
}

// Adds 1 and returns the previous value; no result may depend on the order. Scratch of a team of one lane is local memory, on which
// an atomic addition is undefined: the compiler puts a trap there.
GV_FN gv_i32 gv_fetch_add(gv_i32* counter) {
#if GV_LANES == 1 && !defined(GV_SINGLE)
    if (__isLocal(counter)) return (*counter)++;
#endif
    return atomicAdd(counter, 1);
}

// Stores a number that others may store at the same time, if all of them store the same one.
// double: sums of many numbers.
GV_FN void gv_store_same(double* to, double number) { *to = number; }

// Number of lanes of the team that vote true. A barrier.
GV_FN gv_i32 gv_vote(const GvLanes& team, bool vote) {
    if (GV_LANES == 1 || GV_LANES > 32) return GV_LANES == 1 ? vote : __syncthreads_count(vote);
    gv_barrier(team);  // a ballot does not order memory
    return __popc(__ballot_sync(team.divergent ? GV_TEAM_MASK : ~0u, vote) & GV_TEAM_MASK);
}

// Makes the compiler compute again what later code needs of a number, which frees the registers of earlier results.
GV_FN void gv_recompute(float& x) { asm volatile("" : "+f"(x)); }

// Word whose bit k is read(k). `lanes` consecutive lanes, a power of two up to MOST, pass the same function, and each of them reads
// a part. All lanes of a warp must call it, with the same number.
template <gv_i32 MOST, class Read>
GV_FN gv_u32 gv_bits_of_group(const GvLanes& team, gv_i32 lanes, Read read) {
    if constexpr (MOST > 1) {
        if (lanes < MOST) return gv_bits_of_group<MOST / 2>(team, lanes, read);
    }
    const gv_i32 lane = team.lane & 31, in_group = lane & (MOST - 1);
    bool part[32 / MOST];
    GV_UNROLL for (gv_i32 k = 0; k < 32 / MOST; ++k) part[k] = read(k * MOST + in_group);
    gv_u32 bits = 0;
    GV_UNROLL for (gv_i32 k = 0; k < 32 / MOST; ++k) {
        const gv_u32 of_group = MOST > 1 ? __ballot_sync(~0u, part[k]) >> (lane - in_group) & (~0u >> (32 - MOST)) : part[k];
        bits |= of_group << k * MOST;
    }
    return bits;
}

// All lanes of a warp must call the next two functions.

// Keeps the compiler from moving earlier loads behind later code.
GV_FN void gv_load_fence() { __syncwarp(); }

// True if the condition holds in one of `lanes` consecutive lanes, a power of two up to 16. Teams must have one lane.
GV_FN bool gv_any_in_group(gv_i32 lanes, bool condition) {
    return ((__ballot_sync(~0u, condition) >> (threadIdx.x & 31u & ~(lanes - 1u))) & ((1u << lanes) - 1u)) != 0;
}
