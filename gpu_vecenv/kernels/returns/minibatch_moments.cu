// Mean and deviation of numbers in each minibatch. A team has a minibatch. The order of additions depends on the size of
// a minibatch alone.
#include "program_args.h"

#define GV_ITEMS 512  // sums of a team
#define GV_PREFETCH 8    // samples that a lane reads before it uses the first

// double: a mean may be large beside the deviation.
GV_FN double* gv_sums(const GvLanes& team, gv_i32 which) { return (double*)team.scratch + which * GV_ITEMS; }

// Adds up the sums of all items; the first one gets the total.
// double: as above.
GV_FN void gv_add_items(const GvLanes& team, double* sums) {
    for (gv_i32 half = GV_ITEMS / 2; half > 0; half /= 2) {
        gv_barrier(team);
        GV_FOR(i, half) sums[i] += sums[i + half];
    }
    gv_barrier(team);
}

// Calls use(number) for the samples of an item.
template <class Use>
GV_FN void gv_for_item(const GvArgs& a, const gv_i32* samples, gv_i32 item, Use use) {
    GV_LOOP for (gv_i32 first = item; first < a.places; first += GV_PREFETCH * GV_ITEMS) {
        gv_i32 sample[GV_PREFETCH];
        float number[GV_PREFETCH];
        GV_UNROLL for (gv_i32 k = 0; k < GV_PREFETCH; ++k) {
            const gv_i32 place = first + k * GV_ITEMS;
            sample[k] = place < a.places ? samples[place] : -1;
            if (a.counts != nullptr && sample[k] >= 0 && a.counts[sample[k]] == 0) sample[k] = -1;
        }
        GV_UNROLL for (gv_i32 k = 0; k < GV_PREFETCH; ++k) number[k] = a.numbers[(sample[k] < 0 ? 0 : sample[k]) * a.stride];
        GV_UNROLL for (gv_i32 k = 0; k < GV_PREFETCH; ++k) {
            if (sample[k] >= 0) use(number[k]);
        }
    }
}

// By two passes: squares about another point than the mean would cancel if the mean is far from 0.
// double: as above.
GV_FN void gv_moments_of_minibatch(const GvArgs& a, const GvLanes& team, gv_i32 minibatch) {
    const gv_i32* samples = a.samples + (gv_i64)minibatch * a.places;
    double *count = gv_sums(team, 0), *sum = gv_sums(team, 1), *squares = gv_sums(team, 2);
    GV_FOR(i, GV_ITEMS) {
        double n = 0.0, added = 0.0;
        gv_for_item(a, samples, i, [&](float x) {
            n += 1.0;
            added += x;
        });
        count[i] = n;
        sum[i] = added;
    }
    gv_add_items(team, count);
    gv_add_items(team, sum);
    const double n = *count < 1.0 ? 1.0 : *count, mean = *sum / n;
    GV_FOR(i, GV_ITEMS) {
        double added = 0.0;
        gv_for_item(a, samples, i, [&](float x) { added += (x - mean) * (x - mean); });
        squares[i] = added;
    }
    gv_add_items(team, squares);
    GV_ONCE {
        float* minibatch_moments = a.minibatch_moments + 2 * (gv_i64)minibatch;
        minibatch_moments[0] = (float)mean;
        minibatch_moments[1] = (float)(1.0 / (gv_sqrt(*squares / n) + 1e-8));
    }
}

GV_PLAIN_KERNEL(gv_minibatch_moments, gv_moments_of_minibatch)
