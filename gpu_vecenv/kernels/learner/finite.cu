// Search of weights and statistics for numbers that are not finite. They are divided into chunks. A team has a chunk, which takes
// the place of a world in GV_KERNEL.
#ifndef GV_SCRATCH
#define GV_SCRATCH 1  // unused
#endif
#include "target/target.h"

// gpu_vecenv/train/runner/finite.py fills these structs.
struct GvChunk {
    const void* numbers;   // `count` floats of `bytes` bytes
    gv_u64 exponent;       // bits that are all 1 in an infinity and in NaN, and only there
    gv_i32 count, bytes;
    gv_i64 state;          // the state that they belong to
};
struct GvArgs {
    const GvChunk* chunks;
    float* flags;                   // [states], set to 1 for a state with such a number, else left as it is
    gv_i32* invalid_actions;        // unused; GV_KERNEL expects it
    gv_i32 num_worlds, num_agents;  // chunks; 1
};
static_assert(sizeof(GvChunk) == 32 && sizeof(GvArgs) == 32, "as in gpu_vecenv/train/runner/finite.py");

// True if this lane finds such a number.
template <class Bits>
GV_FN bool gv_finds(const GvChunk& chunk, const GvTeam& team) {
    const Bits *numbers = (const Bits*)chunk.numbers, exponent = (Bits)chunk.exponent;
    bool found = false;
    GV_FOR(i, chunk.count) found |= (numbers[i] & exponent) == exponent;
    return found;
}

// Lanes write the same number, so their order has no effect.
GV_FN void gv_search_chunk(const GvArgs& a, const GvTeam& team) {
    const GvChunk chunk = a.chunks[team.world];
    const bool found = chunk.bytes == 8   ? gv_finds<gv_u64>(chunk, team)
                       : chunk.bytes == 4 ? gv_finds<gv_u32>(chunk, team)
                       : chunk.bytes == 2 ? gv_finds<gv_u16>(chunk, team)
                                          : gv_finds<gv_u8>(chunk, team);
    if (found) a.flags[chunk.state] = 1.0f;
}

GV_KERNEL(gv_search, gv_search_chunk)

#ifdef GV_PACK
#include "launch/threads.h"
#endif
