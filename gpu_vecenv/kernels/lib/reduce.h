// Sums, counts and votes of a team. gv_sum, gv_sum_each, gv_count and gv_any contain barriers.
#pragma once
#include "target/target.h"

// Writes up to 32 partial sums of value(0) .. value(n - 1): sum p adds the values p, p + 32, p + 64, ...
template <class Value>
GV_INLINE void gv_partial_sums(const GvLanes& team, gv_i32 n, Value value) {
    GV_FOR(p, n < 32 ? n : 32) {
        float partial = 0.0f;
        for (gv_i32 i = p; i < n; i += 32) partial += value(i);
        team.sums[p] = partial;
    }
}

// Adds the partial sums of n values. A barrier must follow gv_partial_sums.
GV_INLINE float gv_add_partial_sums(const GvLanes& team, gv_i32 n) {
    float sum = 0.0f;
    for (gv_i32 p = 0; p < (n < 32 ? n : 32); ++p) sum += team.sums[p];
    return sum;
}

// Sum of value(0) .. value(n - 1), added in the same order for every team size. The result is the same in all lanes.
template <class Value>
GV_INLINE float gv_sum(const GvLanes& team, gv_i32 n, Value value) {
    gv_barrier(team);  // lanes may still read the partial sums of the previous call
    gv_partial_sums(team, n, value);
    gv_barrier(team);
    return gv_add_partial_sums(team, n);
}

// Several sums at once: those of the vectors values(0, ...) .. values(n - 1, ...), each with the bits of gv_sum. Between two barriers
// as many are added as the 32 partial sums have room for; `values` is called again for the others, then with false.
template <class Values>
GV_INLINE auto gv_sum_each(const GvLanes& team, gv_i32 n, Values values) {
    decltype(values(0, true)) sums = {};
    constexpr gv_i32 count = sizeof(sums.value) / sizeof(float);
    const gv_i32 parts = n < 1 ? 1 : n < 32 ? n : 32, at_once = 32 / parts;
    for (gv_i32 first = 0; first < count; first += at_once) {
        gv_barrier(team);  // as in gv_sum
        GV_FOR(p, parts) {
            decltype(sums) partial = {};
            for (gv_i32 i = p; i < n; i += 32) {
                const auto addend = values(i, first == 0);
                GV_UNROLL for (gv_i32 s = 0; s < count; ++s) partial.value[s] += addend.value[s];
            }
            GV_UNROLL for (gv_i32 s = 0; s < count; ++s) {
                if (first <= s && s < first + at_once) team.sums[(s - first) * parts + p] = partial.value[s];
            }
        }
        gv_barrier(team);
        GV_UNROLL for (gv_i32 s = 0; s < count; ++s) {
            if (s < first || s >= first + at_once) continue;
            for (gv_i32 p = 0; p < parts; ++p) sums.value[s] += team.sums[(s - first) * parts + p];
        }
    }
    return sums;
}

// Number of i in [0, n) for which test(i) is true. The result is the same in all lanes.
template <class Test>
GV_INLINE gv_i32 gv_count(const GvLanes& team, gv_i32 n, Test test) {
    gv_i32 total = 0;
    for (gv_i32 first = 0; first < n; first += team.lanes) {
        const gv_i32 i = first + team.lane;
        total += gv_vote(team, i < n && test(i));
    }
    return total;
}

// True if the condition holds in any lane. The result is the same in all lanes.
GV_INLINE bool gv_any(const GvLanes& team, bool condition) { return gv_vote(team, condition) != 0; }
