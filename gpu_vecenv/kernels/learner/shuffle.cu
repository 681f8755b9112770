// Order of minibatches: a random permutation of the transitions that count, as a function of a key and of a place. A team has a
// tile of places.
#include "lib/rng.h"
#include "program_args.h"

#define GV_ROUNDS 8

struct GvPermutation {
    gv_u32 count, mask, shift;
    gv_u32 key[GV_ROUNDS];
};

// A random permutation of 0 .. count - 1.
GV_FN GvPermutation gv_permutation(gv_u64 seed, gv_u32 count) {
    gv_u32 bits = 1;
    while (bits < 31 && (1u << bits) < count) ++bits;
    GvPermutation p = {count, (1u << bits) - 1u, (bits + 1) / 2, {}};
    for (gv_u32 i = 0; i < GV_ROUNDS / 4; ++i) {
        const GvDraw draw = gv_philox(seed, i, 0, 0, 0);
        for (gv_i32 k = 0; k < 4; ++k) p.key[4 * i + k] = draw.word[k];
    }
    return p;
}

// Image of a number. Each operation of a round can be undone among the numbers of so many bits. A product with an odd number
// spreads to higher bits, and a shifted copy to lower ones. The rounds are repeated until the result is below the count, which
// keeps the map one-to-one. As the count is over half of a power of two, this takes less than two turns on average.
// Source: the form of permute() in Kensler 2013, "Correlated multi-jittered sampling", with rounds and keys of its own. With 8 rounds
// all permutations of 3 to 6 numbers are equally frequent; a Feistel network of 8 rounds favours some.
GV_FN gv_u32 gv_permuted(const GvPermutation& p, gv_u32 x) {
    do {
        GV_UNROLL for (gv_i32 round = 0; round < GV_ROUNDS; ++round) {
            const gv_u32 key = p.key[round], turned = key >> 16 | key << 16;
            x = (x + turned) * (key | 1u) & p.mask;
            x ^= x >> p.shift;
        }
    } while (x >= p.count);
    return x;
}

// Lists the transitions that count, in their order.
GV_FN void gv_choose_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = a.size - first;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        if (a.valid[first + i] != 0) a.chosen[a.running_count[first + i] - 1] = (gv_i32)(first + i);
    }
}

// Place p of the order goes to minibatch p modulo their number; places beyond the count repeat the order from its start.
GV_FN void gv_shuffle_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_u32 count = (gv_u32)(a.running_count == nullptr ? a.size : a.running_count[a.size - 1]);
    const gv_i64 all = (gv_i64)a.minibatches * a.places;
    const gv_i32 tiles = (gv_i32)((all + GV_TILE - 1) / GV_TILE), number_of_order = tile / tiles;
    const GvPermutation order = gv_permutation(*a.seed + (gv_u64)(a.shuffle + number_of_order), count);
    const gv_i64 first = (gv_i64)(tile % tiles) * GV_TILE, rest = all - first;
    GV_FOR(i, rest < GV_TILE ? (gv_i32)rest : GV_TILE) {
        const gv_i64 in_order = first + i, at = number_of_order * all + in_order;
        const gv_u32 place = (gv_u32)(in_order % a.places * a.minibatches + in_order / a.places);
        const gv_u32 number = count == 0 ? 0 : gv_permuted(order, place % count);
        const gv_i32 sample = a.running_count == nullptr || count == 0 ? (gv_i32)number : a.chosen[number];
        if (a.samples != nullptr) {
            a.samples[at] = place < count ? sample : -1;
        } else {
            a.index[at] = sample;
            a.used[at] = place < count;
        }
    }
}

GV_PLAIN_KERNEL(gv_choose, gv_choose_tile)
GV_PLAIN_KERNEL(gv_shuffle, gv_shuffle_tile)
