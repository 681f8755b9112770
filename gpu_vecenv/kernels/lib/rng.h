// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// A draw is a pure function of its key and counter: there is no state to store or to race on.
#pragma once
#include "target/target.h"

struct GvDraw {
    gv_u32 word[4];
};

GV_FN GvDraw gv_philox(gv_u64 key, gv_u32 c0, gv_u32 c1, gv_u32 c2, gv_u32 c3) {
    gv_u32 k0 = (gv_u32)key, k1 = (gv_u32)(key >> 32);
    for (gv_i32 round = 0; round < 10; ++round) {
        gv_u32 high0, low0, high1, low1;
        gv_multiply_wide(0xD2511F53u, c0, &high0, &low0);
        gv_multiply_wide(0xCD9E8D57u, c2, &high1, &low1);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    GvDraw draw = {{c0, c1, c2, c3}};
    return draw;
}

// Key of the draws of an agent. A counter has room for 16 bits of its index; the others change the key, each in another way, because
// the multiplier is odd. Without them, index 65,536 would draw what index 0 draws for another purpose.
GV_FN gv_u64 gv_agent_key(gv_u64 seed, gv_u32 agent) { return seed ^ (gv_u64)((agent >> 16) * 0x9E3779B1u) << 32; }

// Integer in [0, n), the high word of a product. Its bias is below n / 2^32.
GV_FN gv_i32 gv_below(gv_u32 word, gv_i32 n) { return (gv_i32)(((gv_u64)word * (gv_u32)n) >> 32); }

// Uniform number in [0, 1), made of the 24 high bits, so that every value is an exact float32.
GV_FN float gv_uniform(gv_u32 word) { return (float)(word >> 8) * 5.9604644775390625e-8f; }
