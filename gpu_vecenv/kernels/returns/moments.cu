// Mean and variance of samples, merged into running ones. Samples are divided into tiles of rows and groups of features. One kernel
// computes the moments of each tile, and another merges them. The order of additions depends on shapes alone.
#include "program_args.h"

#ifdef GV_RESIDENT  // as many as the registers for the rows of a strand allow
#undef GV_RESIDENT
#define GV_RESIDENT 6
#endif

// double: late samples of a long run must still count, and a mean may be large beside the deviation.
GV_FN double* gv_numbers(const GvLanes& team, gv_i32 which) { return (double*)team.scratch + which * GV_ITEMS; }

// Adds the numbers of all strands, which are `group` apart, to those of strand 0; several arrays need the barriers of one.
// double: as above.
template <class... Numbers>
GV_FN void gv_add_strands(const GvLanes& team, gv_i32 group, Numbers*... numbers) {
    for (gv_i32 half = GV_ITEMS / 2; half >= group; half /= 2) {
        gv_barrier(team);
        GV_FOR(i, half) ((numbers[i] += numbers[i + half]), ...);
    }
    gv_barrier(team);
}

GV_FN gv_i64 gv_least(gv_i64 x, gv_i64 y) { return x < y ? x : y; }

// x / y for x >= 0 and y > 0. A GPU takes some times longer for a division of 64 bits.
GV_FN gv_i64 gv_quotient(gv_i64 x, gv_i64 y) { return (x | y) >> 32 == 0 ? (gv_u32)x / (gv_u32)y : x / y; }

// Rows of a strand, of one feature. A load of a GPU takes long, so all rows are read before a loaded number is used: steps of rows
// follow each other without branches, and a fence keeps the compiler from loading a number where it is used.
struct GvStrand {
    float x[GV_DEPTH];
    gv_u32 counts;  // a bit for each row
};
static_assert(GV_DEPTH == 32, "a bit for each row");

// Loads rows of a tile that all lie in one step: an address takes one addition, and no row is missing.
GV_FN void gv_load_rows_of_step(GvStrand& held, const GvArgs& a, gv_i64 at, gv_i64 strands) {
    const gv_i64 on = strands * a.row_stride;
    const float* from = a.samples + at;
    GV_UNROLL for (gv_i32 k = 0; k < GV_DEPTH; ++k) {
        held.x[k] = *from;
        if (k < GV_DEPTH - 1) from += on;  // no pointer behind the array
    }
}
// Loads rows, of which the first is `in_step` rows behind the start of its step; `rows` is the number that are left, from the
// first one on.
GV_FN void gv_load_rows(GvStrand& held, const GvArgs& a, gv_i64 at, gv_i64 in_step, gv_i32 strands, gv_i32 rows) {
    const gv_i64 steps_on = gv_quotient(strands, a.rows_per_step), rows_on = strands - steps_on * a.rows_per_step;
    const gv_i64 on = steps_on * a.step_stride + rows_on * a.row_stride;
    const gv_i64 on_over = on + a.step_stride - a.rows_per_step * a.row_stride;  // over the end of a step
    // A strand has few rows, so 32 bits hold those of a step as far as they matter.
    const gv_i32 further = (gv_i32)rows_on, per_step = (gv_i32)gv_least(a.rows_per_step, 1 << 30);
    gv_i32 until_end = (gv_i32)gv_least(a.rows_per_step - in_step, 1 << 30);
    GV_UNROLL for (gv_i32 k = 0; k < GV_DEPTH; ++k) {
        held.x[k] = a.samples[k * strands < rows ? at : 0];  // without a branch
        if (k % 4 == 3) gv_load_fence();  // else all addresses are computed first, which takes registers
        until_end -= further;
        const bool over = until_end <= 0;
        until_end += over ? per_step : 0;
        at += over ? on_over : on;
    }
}
GV_FN void gv_load_strand(GvStrand& held, const GvArgs& a, const GvLanes& team, gv_i32 tile, gv_i32 feature, gv_i32 strand) {
    const gv_i64 strands = GV_ITEMS / a.group, rows_of_tile = strands * GV_DEPTH, first = tile * rows_of_tile + strand;
    const gv_i64 step = gv_quotient(first, a.rows_per_step), in_step = first - step * a.rows_per_step;
    const bool any = feature < a.features;
    const gv_i64 at = step * a.step_stride + in_step * a.row_stride + (any ? feature * a.feature_stride : 0);
    const gv_i32 rows = (gv_i32)gv_least(a.rows - first, rows_of_tile);  // 0 or less behind the last one
    const gv_i64 end_in_step = in_step - strand + rows_of_tile;
    if (in_step >= strand && end_in_step <= a.rows_per_step && (tile + 1) * rows_of_tile <= a.rows) {
        gv_load_rows_of_step(held, a, at, strands);
    } else {
        gv_load_rows(held, a, rows > 0 ? at : 0, in_step, (gv_i32)strands, rows);
    }
    const gv_u8* valid = a.valid + (rows > 0 ? first : 0);
    const gv_u32 counts = gv_bits_of_group<16>(team, a.group, [&](gv_i32 k) {
        const gv_i32 row = k * (gv_i32)strands;
        return row < rows && valid[row < rows ? row : 0] != 0;
    });
    gv_load_fence();
    held.counts = any ? counts : 0;
}

// Calls use(sample) for the rows that count.
template <class Use>
GV_FN void gv_for_strand(const GvStrand& held, Use use) {
    GV_UNROLL for (gv_i32 k = 0; k < GV_DEPTH; ++k)
        if ((held.counts >> k & 1u) != 0) use(held.x[k]);
}

// Number of samples before the merge, a copy that the first kernel makes: teams of the second one read it while one of them
// writes the new number.
// double: as above.
GV_FN double& gv_count_before(const GvArgs& a) { return a.tiles[(gv_i64)a.num_tiles * 3 * a.features]; }

// Moments of a tile, by two passes: squares about another point than the mean would cancel if the mean is far from 0. A lane with one
// item keeps its rows for the second pass.
// double: as above.
GV_FN void gv_tile_moments(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    const gv_i32 groups = (a.features + a.group - 1) / a.group, tile = number / groups;
    const gv_i32 first = number % groups * a.group;
    if (number == 0) {
        GV_ONCE gv_count_before(a) = a.is_new ? 0.0 : *a.num_samples;
    }
    double *count = gv_numbers(team, 0), *sum = gv_numbers(team, 1), *squares = gv_numbers(team, 2);
    GvStrand held;
    GV_FOR(i, GV_ITEMS) {
        double added = 0.0;
        gv_load_strand(held, a, team, tile, first + i % a.group, i / a.group);
        gv_for_strand(held, [&](float x) { added += x; });
        count[i] = gv_count_ones(held.counts);
        sum[i] = added;
    }
    gv_add_strands(team, a.group, count, sum);
    GV_FOR(i, GV_ITEMS) {
        const gv_i32 f = i % a.group;
        const double mean = sum[f] / (count[f] < 1.0 ? 1.0 : count[f]);
        double added = 0.0;
        GV_UNROLL for (gv_i32 k = 0; k < GV_DEPTH; ++k) gv_recompute(held.x[k]);  // doubles would take twice the registers
        if (team.lanes < GV_ITEMS) gv_load_strand(held, a, team, tile, first + f, i / a.group);
        gv_for_strand(held, [&](float x) { added += (x - mean) * (x - mean); });
        squares[i] = added;
    }
    gv_add_strands(team, a.group, squares);
    GV_FOR(f, a.group) {
        double* to = a.tiles + (gv_i64)tile * 3 * a.features + first + f;
        if (first + f < a.features) {
            to[0] = count[f];
            to[a.features] = sum[f] / (count[f] < 1.0 ? 1.0 : count[f]);
            to[2 * (gv_i64)a.features] = squares[f];
        }
    }
}

// Merges moments of a feature into the running ones. Chan et al. 1979, the update for two sets A (so far) and B (new), divided by the
// number of samples:
//   mean = mean_A + (mean_B - mean_A) n_B / n
//   var = var_A n_A / n + var_B n_B / n + (mean_B - mean_A)^2 n_A n_B / n^2
// Then computes the numbers that normalise: (x - mean) / std = (x - offset) scale + shift, where offset is the mean in float, and
// shift makes up for its rounding. The deviation is never below 1e-4.
// double: as above.
GV_FN void gv_merge_feature(const GvArgs& a, gv_i32 f, double before, double count, double mean, double var) {
    double &mean_now = a.mean[f], &var_now = a.var[f];
    if (a.is_new) mean_now = var_now = 0.0;
    const double total = before + count, share = count / (total < 1.0 ? 1.0 : total), change = mean - mean_now;
    var_now = var_now * (1.0 - share) + var * share + change * change * share * (1.0 - share);
    mean_now += change * share;
    if (a.offset != nullptr) {
        const float offset = (float)mean_now, scale = 1.0f / (float)gv_sqrt(var_now < 1e-8 ? 1e-8 : var_now);
        a.offset[f] = offset;
        a.scale[f] = scale;
        a.shift[f] = (float)((offset - mean_now) * scale);
    }
}

// Merges the moments of all tiles. A team has a group of features.
// double: as above.
GV_FN void gv_merge_tiles(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    double *count = gv_numbers(team, 0), *sum = gv_numbers(team, 1), *squares = gv_numbers(team, 2);
    const gv_i32 strands = GV_ITEMS / a.group, step = 3 * a.features, first = number * a.group;
    const double before = a.num_tiles > 0 ? gv_count_before(a) : a.is_new ? 0.0 : *a.num_samples;
    GV_FOR(i, GV_ITEMS) {
        const gv_i32 f = first + i % a.group;
        double n = 0.0, added = 0.0;
        for (gv_i32 tile = i / a.group; f < a.features && tile < a.num_tiles; tile += strands) {
            const double* of = a.tiles + (gv_i64)tile * step + f;
            n += of[0];
            added += of[0] * of[a.features];
        }
        count[i] = n;
        sum[i] = added;
    }
    gv_add_strands(team, a.group, count, sum);
    GV_FOR(i, GV_ITEMS) {
        const gv_i32 f = first + i % a.group;
        const double n = count[i % a.group], mean = sum[i % a.group] / (n < 1.0 ? 1.0 : n);
        double added = 0.0;
        for (gv_i32 tile = i / a.group; f < a.features && tile < a.num_tiles; tile += strands) {
            const double* of = a.tiles + (gv_i64)tile * step + f;
            const double off = of[a.features] - mean;
            added += of[2 * (gv_i64)a.features] + of[0] * off * off;
        }
        squares[i] = added;
    }
    gv_add_strands(team, a.group, squares);
    GV_FOR(i, a.group) {
        const double n = count[i] < 1.0 ? 1.0 : count[i];
        if (first + i < a.features) gv_merge_feature(a, first + i, before, count[i], sum[i] / n, squares[i] / n);
    }
    if (number == 0 && (a.num_tiles > 0 || a.is_new)) {
        GV_ONCE *a.num_samples = before + count[0];
    }
}

GV_PLAIN_KERNEL(gv_moments, gv_tile_moments)
GV_PLAIN_KERNEL(gv_merge, gv_merge_tiles)
