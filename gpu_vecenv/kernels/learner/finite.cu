// Search of weights and statistics for numbers that are not finite. They are divided into chunks, one for each team.
#include "program_args.h"

// True if this lane finds such a number.
template <class Bits>
GV_FN bool gv_finds(const GvChunk& chunk, const GvLanes& team) {
    const Bits *numbers = (const Bits*)chunk.numbers, exponent = (Bits)chunk.exponent;
    bool found = false;
    GV_FOR(i, chunk.count) found |= (numbers[i] & exponent) == exponent;
    return found;
}

// Lanes write the same number, so their order has no effect.
GV_FN void gv_search_chunk(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const GvChunk chunk = a.chunks[number];
    const bool found = chunk.bytes == 8   ? gv_finds<gv_u64>(chunk, team)
                       : chunk.bytes == 4 ? gv_finds<gv_u32>(chunk, team)
                       : chunk.bytes == 2 ? gv_finds<gv_u16>(chunk, team)
                                          : gv_finds<gv_u8>(chunk, team);
    if (found) a.flags[chunk.state] = 1.0f;
}

GV_PLAIN_KERNEL(gv_search, gv_search_chunk)
