// Numbers of entries, four of which share a draw: entry e has a part of the draw number e / 4.
#pragma once
#include "lib/powers.h"
#include "lib/rng.h"

// The word of an entry. An index that is not constant would move the words from registers to memory.
GV_FN gv_u32 gv_entry_word(const GvDraw& draw, gv_i32 entry) {
    const gv_u32 early = entry & 1 ? draw.word[1] : draw.word[0], late = entry & 1 ? draw.word[3] : draw.word[2];
    return entry & 2 ? late : early;
}

// Standard normal number by Box and Muller (1958). Entries 2 p and 2 p + 1 are the two coordinates of one point.
GV_FN float gv_normal(const GvDraw& draw, gv_i32 entry) {
    const gv_u32 first = entry & 2 ? draw.word[2] : draw.word[0], second = entry & 2 ? draw.word[3] : draw.word[1];
    const float radius = gv_sqrt(-2.0f * gv_log(1.0f - gv_uniform(first)));
    float sine, cosine;
    gv_sincos(6.2831853071795865f * gv_uniform(second), &sine, &cosine);
    return radius * (entry & 1 ? sine : cosine);
}
