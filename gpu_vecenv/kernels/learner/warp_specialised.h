// A network on one tile of rows that the groups of a team compute side by side.
//
// A single group computes the columns of a layer one after the other. Specialised groups divide them: GV_WORKERS groups compute
// chunks of columns, and another one, the leader, prepares the rows and uses the outputs.
// Units of a layer go to the memory of the team, where all workers read them for the next layer. On the host the only group
// leads and works.
#pragma once
#include "learner/rows.h"

GV_FN bool gv_leads(const GvGroup& group) { return group.number == GV_GROUPS - 1; }
GV_FN bool gv_works(const GvGroup& group) { return GV_GROUPS == 1 || !gv_leads(group); }
#define GV_WORKING (GV_GROUPS == 1 ? 1 : GV_GROUPS - 1)

// Memory of the workers: tiles of units of the layers below the last hidden one, and shares of the outputs.
GV_TABLE(gv_worker_units_at, GV_WORKER_UNITS_AT)
#define GV_WORKER_SHARES (gv_width(GV_LAYERS) / GV_LAST_CHUNK)
#define GV_SHARE_FLOATS (GV_ROWS * GV_OUTPUT_STRIDE)
struct GvWorkerMemory {
    GvHalf* units;
    float* shares;  // [GV_WORKER_SHARES, GV_ROWS, GV_OUTPUT_STRIDE]
};
template <gv_i32 LAYER>
GV_FN GvTile<gv_unit_stride(LAYER)> gv_worker_tile(const GvWorkerMemory& workers) {
    return {workers.units + gv_worker_units_at(LAYER)};
}

// Computes the group's chunks of a hidden layer; those of the last one become shares of the outputs.
template <gv_i32 LAYER, gv_i32 OUTPUTS, gv_i32 STRIDE>
GV_FN void gv_work_on_layer(const GvNetwork<OUTPUTS>& network, const GvGroup& group, GvTile<STRIDE> input, const GvWorkerMemory& workers) {
    constexpr bool LAST = LAYER == GV_LAYERS;
    constexpr gv_i32 CHUNK = LAST ? GV_LAST_CHUNK : 16, CHUNKS = gv_width(LAYER) / CHUNK;
    GV_UNROLL for (gv_i32 turn = 0; turn < (CHUNKS + GV_WORKING - 1) / GV_WORKING; ++turn) {
        const gv_i32 number = turn * GV_WORKING + group.number, first = number * CHUNK;
        if (number >= CHUNKS) continue;
        GvRows<GV_ROWS, CHUNK> high, low;
        GvForget forget;
        auto sums = gv_chunk_sums<LAYER, CHUNK, GV_ROWS>(network, group, input, first);
        gv_activate<LAYER>(sums, group, forget, first, high, 0, low);
        if constexpr (LAST) {
            GvSums<GV_ROWS, GvNetwork<OUTPUTS>::COLUMNS> share;
            gv_clear(share);
            gv_add_to_outputs(network, group, high, low, first, share);
            gv_store_outputs<OUTPUTS>(share, group, workers.shares + number * GV_SHARE_FLOATS);
        } else {
            gv_store(high, group, gv_part(gv_worker_tile<LAYER>(workers), 0, first));
        }
    }
}

// Computes a hidden layer and those above it, up to the shares of the outputs. All groups call it; the leader calls `meanwhile()`
// during the first layer. There is a barrier before each layer and after the last one.
template <gv_i32 LAYER, gv_i32 OUTPUTS, gv_i32 STRIDE, class Meanwhile>
GV_FN void gv_specialised_forward(const GvNetwork<OUTPUTS>& network, const GvLanes& team, const GvGroup& group, GvTile<STRIDE> input,
                           const GvWorkerMemory& workers, Meanwhile meanwhile) {
    gv_block_barrier(team);
    if (LAYER == 1 && gv_leads(group)) meanwhile();
    if (gv_works(group)) gv_work_on_layer<LAYER>(network, group, input, workers);
    if constexpr (LAYER < GV_LAYERS) {
        gv_specialised_forward<LAYER + 1>(network, team, group, gv_worker_tile<LAYER>(workers), workers, meanwhile);
    } else {
        gv_block_barrier(team);
    }
}

// Adds up the shares of a row: writes its GV_OUTPUTS outputs.
template <gv_i32 OUTPUTS>
GV_FN void gv_sum_shares(const GvNetwork<OUTPUTS>& network, const GvWorkerMemory& workers, gv_i32 row, float* outputs) {
    GV_UNROLL for (gv_i32 i = 0; i < OUTPUTS; ++i) {
        float sum = network.floats[gv_biases_at(GV_LAST) + i];
        GV_UNROLL for (gv_i32 number = 0; number < GV_WORKER_SHARES; ++number) {
            sum += workers.shares[number * GV_SHARE_FLOATS + row * GV_OUTPUT_STRIDE + i];
        }
        outputs[i] = sum;
    }
}
