// Random numbers of updates: row by row, four entries from a draw. A team has a tile of numbers.
#include "lib/entries.h"
#include "lib/purposes.h"
#include "program_args.h"

GV_FN GvDraw gv_update_draw(const GvArgs& a, gv_i64 row, gv_i32 entry) {
    const gv_u64 count = (gv_u64)*a.count;
    const gv_u32 last = GV_PURPOSE_UPDATES << 16 | (gv_u32)entry >> 2;
    return gv_philox(a.seed, (gv_u32)row, (gv_u32)count, (gv_u32)(count >> 32), last);
}

// Writes number(draw, entry) to the numbers of a tile.
template <class T, class Number>
GV_FN void gv_write_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile, T* out, const Number& number) {
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = (gv_i64)a.rows * a.entries - first;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 at = first + i, row = at / a.entries;
        const gv_i32 entry = (gv_i32)(at - row * a.entries);
        out[at] = number(gv_update_draw(a, row, entry), entry);
    }
}

GV_FN void gv_noise_normal_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    gv_write_tile(a, team, tile, (float*)a.out, [](const GvDraw& draw, gv_i32 entry) { return gv_normal(draw, entry); });
}

GV_FN void gv_noise_uniform_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const auto uniform = [](const GvDraw& draw, gv_i32 entry) { return gv_uniform(gv_entry_word(draw, entry)); };
    gv_write_tile(a, team, tile, (float*)a.out, uniform);
}

// Integers below a number of the device, the high word of its product with a number of 64 bits.
GV_FN void gv_noise_integers_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 high = *a.high;
    const gv_u64 n = high < 0 ? 0 : (gv_u64)high;
    gv_write_tile(a, team, tile, (gv_i64*)a.out, [n](const GvDraw& draw, gv_i32) {
        return (gv_i64)((draw.word[0] * n + (draw.word[1] * n >> 32)) >> 32);
    });
}

GV_PLAIN_KERNEL(gv_noise_integers, gv_noise_integers_tile)
GV_PLAIN_KERNEL(gv_noise_normal, gv_noise_normal_tile)
GV_PLAIN_KERNEL(gv_noise_uniform, gv_noise_uniform_tile)
