// The gradient of a minibatch for split networks, whose layers do not fit in the memory of a team together. A minibatch is computed
// in parts of up to GvArgs.room rows, each by three kernels:
//
//   gv_first_units  units and slopes of the first layer
//   gv_deltas       the layers above it, the loss, and derivatives down to the first layer
//   gv_weight_sums  sums over rows of derivatives times units, which are the gradient
//
// A team of gv_deltas sums the gradient of the layers above the first one itself, as in gradient.cu, if its memory has room for that
// (GV_TEAM_SUMS). There is no gv_weight_sums then.
//
// The first layer of a wide network (wide.h) does not fit in the memory of a team. Other kernels compute it, for both networks at a
// time: gv_wide_units and gv_wide_sums, from features that gv_pack_rows has packed before the epochs and from weights that
// gv_pack_first packs before each minibatch. gv_pack_worlds, gv_world_units and gv_world_sums do the same for a shared part, whose
// derivatives gv_world_deltas takes from those of the agents.
//
// and gv_reduce and gv_adam follow as in gradient.cu. For an actor with many heads, gv_pack_heads comes before them (many_heads.h).
// Sums of the gradient of a large layer do not fit in the registers of a team. Therefore units and derivatives of all rows go through
// global memory, as numbers of 16 bits, and a team of gv_weight_sums sums a part of a layer's gradient over a slice of the rows.
#include "learner/backward.h"
#include "learner/load_network.h"
#include "learner/partial.h"
#include "learner/slice.h"
#include "learner/wide.h"
#include "learner/adam.h"
#if GV_CHUNKS > 0
#include "learner/heads_gradient.h"
#endif

// ---- arrays between the kernels --------------------------------------------------------------------------------

// Arrays with a.room rows in stripes: features, then the arrays of each network. Columns of these: units and derivatives of each
// hidden layer, with slopes at the place of derivatives until these replace them; derivatives of the outputs. Wide networks have no
// features here; units and derivatives of the first layer of both lie side by side.
GV_TABLE(gv_array_at, GV_ARRAYS_AT)  // of the units of a layer
GV_TABLE(gv_last_width, GV_LAST_WIDTHS)       // derivatives by the outputs, of a network

GV_FN constexpr gv_i32 gv_array_width(gv_i32 layer) { return GV_WIDE && layer == 1 ? GV_JOINT : gv_width(layer); }

GV_FN GvHalf* gv_array(const GvArgs& a, gv_i32 network, gv_i32 columns) {
    return a.stash + (GV_COMMON_COLUMNS + (gv_i64)network * GV_ARRAY_COLUMNS + columns) * a.room;
}
GV_FN GvStripes<GV_HIGH_COLUMNS> gv_features_of(const GvArgs& a) { return {a.stash}; }
GV_FN GvStripes<GV_JOINT> gv_joint_of(const GvArgs& a, bool deltas) { return {a.stash + (deltas ? (gv_i64)GV_JOINT * a.room : 0)}; }

// Units of a layer, or its derivatives.
template <gv_i32 LAYER>
GV_FN GvStripes<gv_array_width(LAYER)> gv_array_of(const GvArgs& a, gv_i32 network, bool deltas) {
    if constexpr (GV_WIDE && LAYER == 1) return gv_part(gv_joint_of(a, deltas), 0, network * gv_width(1));
    else return {gv_array(a, network, gv_array_at(LAYER) + (deltas ? gv_width(LAYER) : 0))};
}
template <gv_i32 LAYER>
GV_FN auto gv_units_of(const GvArgs& a, gv_i32 network) {
    return gv_array_of<LAYER>(a, network, false);
}
template <gv_i32 LAYER>
GV_FN auto gv_deltas_of(const GvArgs& a, gv_i32 network) {
    return gv_array_of<LAYER>(a, network, true);
}
template <class Head>
GV_FN GvStripes<gv_last_width(Head::NUMBER)> gv_last_deltas_of(const GvArgs& a) {
    return {gv_array(a, Head::NUMBER, gv_array_at(GV_LAST))};
}

// ---- memory of a team ------------------------------------------------------------------------------------------

// Parts of the gradient of a layer, each with a number of units that 16 divides.
GV_FN constexpr gv_i32 gv_gradient_tiles(gv_i32 network, gv_i32 layer) {
    constexpr gv_i32 parts[2][GV_LAST + 1] = GV_GRADIENT_TILES;
    return parts[network][layer];
}
GV_FN constexpr gv_i32 gv_parts_up_to(gv_i32 network, gv_i32 layer) {
    return layer == 0 ? 0 : gv_gradient_tiles(network, layer) + gv_parts_up_to(network, layer - 1);
}
#define GV_ACTOR_TILES gv_parts_up_to(0, GV_LAST)
#define GV_SCRATCH gv_scratch_floats()

GV_FN float* gv_floats(const GvLanes& team) { return (float*)((GvHalf*)team.scratch + GV_HALVES); }

// With GV_TEAM_SUMS, the memory of a team has units and derivatives of a tile of the layers above the first one, and units of the
// first one, of the tile and of the next one.
GV_FN constexpr gv_i32 gv_team_array_at(gv_i32 layer) {
    return layer == 1 ? GV_TEAM_ARRAYS_AT : gv_team_array_at(layer - 1) + 2 * GV_ROWS * gv_width(layer - 1);
}
template <gv_i32 LAYER>
GV_FN GvStripes<gv_width(LAYER)> gv_team_array(GvHalf* memory, bool second) {
    return {memory + gv_team_array_at(LAYER) + (second ? GV_ROWS * gv_width(LAYER) : 0)};
}

// ---- forward and backward --------------------------------------------------------------------------------------

// Units and slopes go to global memory.
struct GvKept {
    const GvArgs& a;
    gv_i32 network;
    gv_i64 row;      // first row of the group
    GvHalf* memory;  // of the team, for layers whose sums it adds up; the group's first row there
    gv_i32 in_tile;
};

// Units of a layer of the group's rows, or its derivatives, from a column on.
template <gv_i32 LAYER>
GV_FN auto gv_kept_array(const GvKept& kept, bool deltas, gv_i32 first) {
    if constexpr (GV_TEAM_SUMS && LAYER > 1) return gv_part(gv_team_array<LAYER>(kept.memory, deltas), kept.in_tile, first);
    else return gv_part(gv_array_of<LAYER>(kept.a, kept.network, deltas), kept.row, first);
}
template <gv_i32 LAYER, gv_i32 ROWS, gv_i32 N>
GV_FN void gv_keep_units(GvKept& kept, const GvGroup& group, const GvRows<ROWS, N>& units, gv_i32 first) {
    gv_store(units, group, gv_kept_array<LAYER>(kept, false, first));
}
template <gv_i32 LAYER>
GV_FN void gv_keep_slopes(GvKept& kept, const GvPlace& place, gv_i32 first, float x, float y) {
    gv_put_pair(gv_kept_array<LAYER>(kept, true, first), place, x, y);
}
template <gv_i32 LAYER, gv_i32 N>
GV_FN GvRows<GV_OWN, N> gv_kept_slopes(GvKept& kept, const GvGroup& group, gv_i32 first) {
    GvRows<GV_OWN, N> slopes;
    gv_load(slopes, group, gv_kept_array<LAYER>(kept, true, first));
    return slopes;
}
template <gv_i32 LAYER, gv_i32 N>
GV_FN void gv_keep_deltas(GvKept& kept, const GvGroup& group, const GvRows<GV_OWN, N>& deltas, gv_i32 first) {
    gv_store(deltas, group, gv_kept_array<LAYER>(kept, true, first));
}

#if !GV_WIDE
// Units and slopes of the first layer of network 0, the actor, or 1, in the tiles `first`, `first` + `blocks`, ... The actor's
// teams also write the features.
GV_FN void gv_first_of(const GvArgs& a, const GvLanes& team, gv_i32 number, gv_i32 first, gv_i32 blocks) {
    const GvGroup group = gv_group(team);
    const GvNetwork<1> network = {(GvHalf*)team.scratch, gv_floats(team)};  // biases of the outputs are not needed
    const gv_i32 row = group.number * GV_OWN, tiles = (a.rows + GV_ROWS - 1) / GV_ROWS;
    const GvTile<GV_FEATURE_STRIDE> all = {network.weights + GV_FEATURES_AT}, own = gv_part(all, row, 0);
    GvOwnSamples samples;
    GvOwnFeatures features;
    const auto load = [&](gv_i32 tile) {
        gv_load_samples(samples, a, group, tile);
        gv_load_features(features, group, samples, a.obs, a.samples_per_step);
    };
    load(first);
    gv_clear_halves(team, all.at, GV_ROWS * GV_FEATURE_STRIDE);  // columns behind features stay 0
    gv_load_network<1, GV_FIRST>(team, network, a.layers[number], a.norm);
    gv_barrier(team);
    GV_LOOP for (gv_i32 tile = first; tile < tiles; tile += blocks) {
        gv_store_features(features, group, samples, a.obs, a.samples_per_step, network, a.norm.limit, own);
        gv_group_barrier(group);
        load(tile + blocks);
        GvKept kept = {a, number, (gv_i64)tile * GV_ROWS + row};
        GvSums<GV_OWN, GvNetwork<1>::COLUMNS> none;
        gv_forward_from<1>(network, group, own, kept, none);
        if (number == 0) gv_copy_rows<GV_OWN, GV_HIGH_COLUMNS>(group, own, gv_part(gv_features_of(a), kept.row, 0));
        gv_group_barrier(group);
    }
}
#endif

// Sums of the gradient of the layers above the first one, over all tiles of a team.
template <class Head, gv_i32 LAYER>
struct GvTeamSums : GvTeamSums<Head, LAYER - 1> {
    GvSpread<gv_width(LAYER), gv_width(LAYER - 1)> sums;
};
template <class Head>
struct GvTeamSums<Head, GV_LAST> : GvTeamSums<Head, GV_LAYERS> {
    GvSpread<GvNetwork<Head::OUTPUTS>::ROWS, gv_width(GV_LAYERS)> sums;
};
template <class Head>
struct GvTeamSums<Head, 1> {};
template <class Head, gv_i32 LAYER>
GV_FN void gv_clear_team_sums(GvTeamSums<Head, LAYER>& of) {
    gv_clear(of.sums);
    if constexpr (LAYER > 2) gv_clear_team_sums(static_cast<GvTeamSums<Head, LAYER - 1>&>(of));
}
// Adds those of a tile. `last` has the derivatives by the outputs. Units of the first layer are in the second array if `second`.
template <class Head, gv_i32 LAYER, class Last>
GV_FN void gv_add_team_sums(GvTeamSums<Head, LAYER>& of, const GvGroup& group, GvHalf* memory, const Last& last, bool second) {
    const auto units = gv_team_array<LAYER - 1>(memory, LAYER == 2 && second);
    if constexpr (LAYER == GV_LAST) gv_add_columns<GV_ROWS>(of.sums, group, last, units);
    else gv_add_columns<GV_ROWS>(of.sums, group, gv_team_array<LAYER>(memory, true), units);
    if constexpr (LAYER > 2) gv_add_team_sums(static_cast<GvTeamSums<Head, LAYER - 1>&>(of), group, memory, last, second);
}
template <class Head, gv_i32 LAYER>
GV_FN void gv_write_team_sums(const GvTeamSums<Head, LAYER>& of, const GvArgs& a, const GvGroup& group, float* columns) {
    constexpr gv_i32 UNITS = LAYER == GV_LAST ? Head::OUTPUTS : gv_units(LAYER);
    const float unscale = 1.0f / (a.scales[Head::NUMBER] * (LAYER == GV_LAST ? 1.0f : GV_SCALE));
    gv_write_sums(of.sums, group, columns + gv_weight_column(LAYER), 0, UNITS, gv_units(LAYER - 1), unscale, a.adds != 0);
    if constexpr (LAYER > 2) gv_write_team_sums(static_cast<const GvTeamSums<Head, LAYER - 1>&>(of), a, group, columns);
}

// Starts the copies of the units of the first layer of the group's rows.
GV_FN void gv_start_units(const GvArgs& a, const GvGroup& group, gv_i32 network, gv_i32 tile, GvHalf* memory, bool second) {
    constexpr gv_i32 FLOATS = 16 * gv_width(1) * (gv_i32)sizeof(GvHalf) / 4;  // of a stripe
    const auto from = gv_part(gv_units_of<1>(a, network), (gv_i64)tile * GV_ROWS + group.number * GV_OWN, 0);
    const auto to = gv_part(gv_team_array<1>(memory, second), group.number * GV_OWN, 0);
    GV_GROUP_FOR(i, GV_OWN / 16 * FLOATS / 4) {
        const gv_i32 stripe = i / (FLOATS / 4), at = i % (FLOATS / 4) * 4;
        gv_start_copy<4>((float*)(to.at + stripe * to.NEXT) + at, (const float*)(from.at + stripe * from.NEXT) + at, true);
    }
}

// Sums of the gradient that a team adds up over its tiles; empty without GV_TEAM_SUMS. Units of the first layer have two arrays: those
// of the present tile are in the second one if `second`.
template <class Head>
struct GvTeamGradient {
    GvTeamSums<Head, GV_TEAM_SUMS ? GV_LAST : 1> sums;
    bool second = false;
};
template <class Head>
GV_FN void gv_begin_team_gradient(GvTeamGradient<Head>& of, const GvArgs& a, const GvGroup& group, gv_i32 first, gv_i32 tiles,
                                  GvHalf* memory) {
    if constexpr (GV_TEAM_SUMS) {
        gv_clear_team_sums(of.sums);
        if (first < tiles) gv_start_units(a, group, Head::NUMBER, first, memory, of.second);
        gv_end_copies();
    }
}
template <class Head, class Last>
GV_FN void gv_add_team_tile(GvTeamGradient<Head>& of, const GvLanes& team, const GvGroup& group, GvHalf* memory, const Last& last) {
    if constexpr (GV_TEAM_SUMS) {
        gv_barrier(team);
        gv_add_team_sums(of.sums, group, memory, last, of.second);
        gv_barrier(team);
        of.second = !of.second;
    }
}

// Keeps the derivatives by the outputs, which are in registers, for the sums of the gradient.
template <class Head, gv_i32 N>
GV_FN void gv_end_held_tile(GvTeamGradient<Head>& of, const GvArgs& a, const GvLanes& team, const GvGroup& group, const GvKept& kept,
                            const GvRows<GV_OWN, N>& of_outputs) {
    if constexpr (GV_TEAM_SUMS) {
        const GvStripes<N> in_memory = {kept.memory + GV_DELTAS_AT};
        gv_store(of_outputs, group, gv_part(in_memory, kept.in_tile, 0));
        gv_add_team_tile(of, team, group, kept.memory, in_memory);
    } else {
        gv_store(of_outputs, group, gv_part(gv_last_deltas_of<Head>(a), kept.row, 0));
    }
}

// Loads the units of the first layer of the group's rows. With GV_TEAM_SUMS it starts the copies of those of tile `next`, too.
template <class Head>
GV_FN void gv_load_first_units(GvRows<GV_OWN, gv_width(1)>& units, const GvTeamGradient<Head>& of, const GvArgs& a,
                               const GvGroup& group, const GvKept& kept, gv_i32 next, gv_i32 tiles) {
    if constexpr (GV_TEAM_SUMS) {
        gv_wait_copies<0>();
        gv_group_barrier(group);
        gv_load(units, group, gv_part(gv_team_array<1>(kept.memory, of.second), kept.in_tile, 0));
        if (next < tiles) gv_start_units(a, group, Head::NUMBER, next, kept.memory, !of.second);
        gv_end_copies();
    } else {
        gv_load(units, group, gv_part(gv_units_of<1>(a, Head::NUMBER), kept.row, 0));
    }
}

// The layers above, the loss and the derivatives of one network in such tiles. `columns` get the sums of the loss, and with
// GV_TEAM_SUMS those of the gradient of these layers.
template <class Head>
GV_FN void gv_deltas_of_network(const GvArgs& a, const GvLanes& team, gv_i32 first, gv_i32 blocks, float* columns) {
    constexpr gv_i32 OUTPUTS = Head::OUTPUTS, LAST_ROWS = GvNetwork<OUTPUTS>::ROWS;
    const GvGroup group = gv_group(team);
    const GvNetwork<OUTPUTS> network = {(GvHalf*)team.scratch, gv_floats(team)};
    const gv_i32 row = group.number * GV_OWN, tiles = (a.rows + GV_ROWS - 1) / GV_ROWS;
    GvPrefetched prefetched = gv_prefetched(group, gv_floats(team) + GV_PREFETCH_AT);
    gv_load_samples(prefetched.samples, a, group, first);
    gv_start_rows(prefetched, a, group, Head::NUMBER == 0);
    Head head = {};
    gv_load_settings(prefetched, a, team, Head::NUMBER);
    const GvTile<GV_DELTA_STRIDE> all = {network.weights + GV_DELTAS_AT}, deltas = gv_part(all, row, 0);
    float* outputs = gv_floats(team) + GV_OUTPUTS_AT + row * GV_OUTPUT_STRIDE;
    gv_clear_halves(team, all.at, GV_ROWS * GV_DELTA_STRIDE);  // columns behind outputs stay 0
    gv_load_network<OUTPUTS, GV_UPPER>(team, network, a.layers[Head::NUMBER], a.norm);
    gv_barrier(team);
    GvTeamGradient<Head> gradient;
    gv_begin_team_gradient(gradient, a, group, first, tiles, network.weights);
    GV_LOOP for (gv_i32 tile = first; tile < tiles; tile += blocks) {
        GvOwnSamples present = prefetched.samples;
        GvKept kept = {a, Head::NUMBER, (gv_i64)tile * GV_ROWS + row, network.weights, row};
        GvSums<GV_OWN, GvNetwork<OUTPUTS>::COLUMNS> sums;
        {
            GvRows<GV_OWN, gv_width(1)> units;
            gv_load_first_units(units, gradient, a, group, kept, tile + blocks, tiles);
            gv_forward_above(network, group, units, kept, sums);
        }
        const auto start_next = [&] {
            gv_group_barrier(group);
            gv_load_samples(prefetched.samples, a, group, tile + blocks);
            gv_start_rows(prefetched, a, group, Head::NUMBER == 0);
        };
        if constexpr (!GV_TEAM_SUMS) gv_wait_copies<0>();  // for the rows
#if GV_HELD
        if constexpr (Head::NUMBER == 0) {
            gv_group_barrier(group);
            gv_held_loss(head, a, group, prefetched, present, sums);
            start_next();
            GvRows<GV_OWN, LAST_ROWS> of_outputs = {};
            gv_each_pair(sums, group, [&](const GvPlace& at, float& x, float& y) { gv_put_finite(of_outputs, at, 0, x, y); });
            gv_backward_from<GV_LAYERS, LAST_ROWS>(network, group, of_outputs, kept);
            gv_end_held_tile(gradient, a, team, group, kept, of_outputs);
            continue;
        }
#endif
        gv_store_outputs<OUTPUTS>(sums, group, outputs);
        gv_group_barrier(group);
        gv_group_loss(head, a, group, prefetched, present, outputs, deltas);
        start_next();
        gv_backward_from<GV_LAYERS, LAST_ROWS>(network, group, deltas, kept);
        if constexpr (!GV_TEAM_SUMS) gv_copy_rows<GV_OWN, LAST_ROWS>(group, deltas, gv_part(gv_last_deltas_of<Head>(a), kept.row, 0));
        gv_group_barrier(group);
        gv_add_team_tile(gradient, team, group, network.weights, all);
    }
    gv_wait_copies<0>();
    gv_barrier(team);
    if constexpr (GV_TEAM_SUMS) gv_write_team_sums(gradient.sums, a, group, columns);
    gv_write_terms(head, team, team.scratch, columns + gv_weight_columns(Head::NUMBER), a.adds != 0);
}

#if GV_CHUNKS > 0
// Finds the chunks that are computed for tile `number`, and writes their flags. Derivatives in the others are undefined.
GV_FN void gv_begin_chunks(const GvArgs& a, const GvLanes& team, const GvGroup& group, const GvHeads& heads,
                           const GvLossTile& tile, gv_i32 number) {
    gv_find_chunks(team, group, heads, tile.masks, [&](gv_i32 i) -> const GvHeadRow& { return tile.rows[i].at; });
    if (!GV_MASKED) return;
    GV_FOR(chunk, GV_CHUNKS) a.computed[number * GV_CHUNKS + chunk] = gv_next_chunk(heads, chunk) == chunk;
}

// Flags of a chunk by stage.
struct GvComputedStages {
    static constexpr bool ALL = !GV_MASKED;
    const gv_i32* computed;  // of the chunk in the first tile
    GV_METHOD gv_i32 operator()(gv_i32 stage) const { return ALL ? 1 : computed[stage / (GV_ROWS / GV_STAGE_ROWS) * GV_CHUNKS]; }
};

// Derivatives of the loss by the outputs of a chunk, and their part of those by the last hidden units, which is added to `sums`.
GV_FN void gv_deltas_of_chunk(GvSums<GV_OWN, GV_TOP_WIDTH>& sums, GvActor& head, const GvArgs& a, const GvGroup& group, const GvKept& kept,
                              const GvChunk& chunk, GvTopUnits& top, const GvLossTile& tile, const GvSettings& settings) {
    const auto deltas = gv_part(gv_last_deltas_of<GvActor>(a), kept.row, chunk.number * GV_HEAD_COLUMNS);
#if GV_HELD_HEADS
    GvRows<GV_OWN, GV_HEAD_COLUMNS> of_chunk;
    head.terms.entropy += gv_held_slopes(of_chunk, group, chunk, top, tile, settings);
    gv_store(of_chunk, group, deltas);
    gv_add_product<GV_HEAD_COLUMNS>(sums, group, of_chunk, chunk.high);
#else
    if (gv_outputs_of_chunk<false>(group, chunk, top, tile)) {
        head.terms.entropy += gv_slopes_of_chunk(group, chunk, tile, settings);
        gv_add_product<GV_HEAD_COLUMNS>(sums, group, tile.deltas, chunk.high);
        gv_copy_rows<GV_OWN, GV_HEAD_COLUMNS>(group, tile.deltas, deltas);
    } else {
        gv_clear_rows<GV_OWN, GV_HEAD_COLUMNS>(group, deltas);
    }
#endif
}

// gv_deltas_of_network() for an actor with many heads.
GV_FN void gv_deltas_of_heads(const GvArgs& a, const GvLanes& team, gv_i32 first, gv_i32 blocks, float* columns) {
    const GvGroup group = gv_group(team);
    const GvNetwork<GV_OUTPUTS> network = {(GvHalf*)team.scratch, gv_floats(team)};
    const gv_i32 row = group.number * GV_OWN, tiles = (a.rows + GV_ROWS - 1) / GV_ROWS;
    GvPrefetched prefetched = gv_prefetched(group, gv_floats(team) + GV_PREFETCH_AT);
    gv_load_samples(prefetched.samples, a, group, first);
    gv_start_rows(prefetched, a, group, false);
    GvHeads heads = gv_start_heads(team, a.packed, a.layers[0], network.weights, network.floats);
    GvActor head = {};
    gv_load_settings(prefetched, a, team, 0);
    const GvTile<GV_DELTA_STRIDE> all = {network.weights + GV_DELTAS_AT};
    const GvLossTile tile_of_group = {
        (GvLossRow*)(network.floats + GV_HEAD_ROWS_AT + row * GV_HEAD_ROW_FLOATS),
        network.floats + GV_OUTPUTS_AT + row * GV_OUTPUT_STRIDE,
        gv_part(all, row, 0), GV_MASKED && a.mask.at != nullptr ? (const gv_u32*)a.allowed : nullptr, (const gv_i32*)a.action.at,
        (gv_i32*)(network.floats + GV_HEAD_TAKEN_AT + row * GV_TAKEN_ENTRIES),
    };
    gv_clear_halves(team, all.at, GV_ROWS * GV_DELTA_STRIDE);  // columns behind outputs stay finite; their weights are 0
    gv_load_network<GV_OUTPUTS, GV_UPPER>(team, network, a.layers[0], a.norm);
    gv_barrier(team);
    GV_LOOP for (gv_i32 tile = first; tile < tiles; tile += blocks) {
        GvOwnSamples present = prefetched.samples;
        GvKept kept = {a, 0, (gv_i64)tile * GV_ROWS + row};
        gv_each_value(present, group, [&](gv_i32 i, gv_i32& sample) { tile_of_group.rows[i] = gv_loss_row(a, sample); });
        gv_begin_chunks(a, team, group, heads, tile_of_group, tile);
        GvTopUnits top;
        {
            GvRows<GV_OWN, gv_width(1)> units;
            gv_load(units, group, gv_part(gv_units_of<1>(a, 0), kept.row, 0));
            gv_top_units<2>(network, group, units, kept, top);
        }
        GvRowSums log_prob;
#if GV_HELD_HEADS
        gv_held_log_probs(log_prob, team, group, heads, top, tile_of_group);
#else
        gv_log_probs_of_rows(log_prob, team, group, heads, top, tile_of_group);
#endif
        gv_each_value(log_prob, group, [&](gv_i32 i, float& sum) {
            if (tile_of_group.rows[i].counts == 0) return;
            GvRow numbers = gv_take_row(prefetched, i, 0);
            numbers.advantage = (numbers.advantage - prefetched.settings->mean) * prefetched.settings->factor;
            tile_of_group.rows[i].push = gv_surrogate(numbers, sum, *prefetched.settings, head.terms);
        });
        gv_load_samples(prefetched.samples, a, group, tile + blocks);
        gv_start_rows(prefetched, a, group, false);
        GvSums<GV_OWN, GV_TOP_WIDTH> sums;
        gv_clear(sums);
        gv_each_chunk<false, true>(team, heads, [&](const GvChunk& chunk) {
            gv_deltas_of_chunk(sums, head, a, group, kept, chunk, top, tile_of_group, *prefetched.settings);
        });
        gv_backward_from_top(network, group, sums, kept);
        gv_group_barrier(group);
    }
    gv_wait_copies<0>();
    gv_barrier(team);
    gv_write_terms(head, team, team.scratch, columns + gv_weight_columns(0), a.adds != 0);
}
#endif

// ---- sums of the gradient --------------------------------------------------------------------------------------

// Sums of M columns of derivatives, from column `first` on, over the stages of a slice. Rows that fill up the last tile have
// derivatives of 0. The layer has `count` units, and unit_of(column) is the one of a column, or -1.
template <gv_i32 M, gv_i32 N, class Deltas, class Units, class UnitOf, class Wanted = GvAllStages>
GV_FN void gv_sum_units(const GvArgs& a, const GvLanes& team, gv_i32 slice, Deltas deltas, Units units, float* columns, gv_i32 first,
                        gv_i32 count, gv_i32 from, float unscale, UnitOf unit_of, Wanted wanted = {}) {
    const gv_i32 stages = (a.rows + GV_ROWS - 1) / GV_ROWS * (GV_ROWS / GV_STAGE_ROWS);
    GvSpread<M, N> sums;
    gv_sum_slice(sums, team, slice, a.slices, stages, deltas, first, units, wanted);
    gv_write_sums(sums, gv_group(team), columns, first, count, from, unscale, a.adds != 0, unit_of);
}

template <gv_i32 LAYER>
GV_FN auto gv_below_of(const GvArgs& a, gv_i32 network) {
    if constexpr (LAYER == 1) return gv_features_of(a);
    else return gv_units_of<LAYER - 1>(a, network);
}

// Output of a column of the derivatives by the outputs of a network.
template <gv_i32 NETWORK>
GV_FN gv_i32 gv_output_of_column(gv_i32 column) {
#if GV_CHUNKS > 0
    if (NETWORK == 0) return gv_output_of(column);
#endif
    return column;
}

// Stages in which derivatives by the outputs of a network are defined, of M columns from `first` on.
template <gv_i32 NETWORK, gv_i32 M>
GV_FN auto gv_stages_of_last(const GvArgs& a, gv_i32 first) {
#if GV_CHUNKS > 0
    static_assert(NETWORK != 0 || !GV_MASKED || GV_HEAD_COLUMNS % M == 0, "the columns lie in one chunk");
    if constexpr (NETWORK == 0) return GvComputedStages{a.computed + first / GV_HEAD_COLUMNS};
#endif
    if constexpr (NETWORK != 0 || GV_CHUNKS == 0) return GvAllStages{};
}

// Part number `part` of a network's gradient: parts of its hidden layers from the first on, then those of the last layer.
template <class Head, gv_i32 LAYER>
GV_FN void gv_sum_gradient_tile(const GvArgs& a, const GvLanes& team, gv_i32 slice, gv_i32 part, float* columns) {
    constexpr gv_i32 NETWORK = Head::NUMBER, FROM = gv_width(LAYER - 1);
    constexpr gv_i32 UNITS = LAYER == GV_LAST ? gv_last_width(NETWORK) : gv_width(LAYER);
    constexpr gv_i32 TILES = gv_gradient_tiles(NETWORK, LAYER), M = UNITS / TILES;
    float* own = columns + gv_weight_column(LAYER);
    const float unscale = 1.0f / a.scales[NETWORK];
    if constexpr (LAYER == GV_LAST) {
        gv_sum_units<M, FROM>(a, team, slice, gv_last_deltas_of<Head>(a), gv_below_of<LAYER>(a, NETWORK), own, part * M,
                              Head::OUTPUTS, gv_units(LAYER - 1), unscale, gv_output_of_column<NETWORK>,
                              gv_stages_of_last<NETWORK, M>(a, part * M));
    } else if (part < TILES) {
        gv_sum_units<M, FROM>(a, team, slice, gv_deltas_of<LAYER>(a, NETWORK), gv_below_of<LAYER>(a, NETWORK), own, part * M,
                              gv_units(LAYER), gv_units(LAYER - 1), unscale / GV_SCALE, gv_same_unit);
    } else {
        gv_sum_gradient_tile<Head, LAYER + 1>(a, team, slice, part - TILES, columns);
    }
}

// ---- kernels ---------------------------------------------------------------------------------------------------

GV_FN float* gv_actor_columns(const GvArgs& a, gv_i32 row) { return a.partial + (gv_i64)row * GV_ACTOR_COLUMNS; }
GV_FN float* gv_critic_columns(const GvArgs& a, gv_i32 row) {
    return gv_actor_columns(a, a.actor_blocks) + (gv_i64)row * GV_CRITIC_COLUMNS;
}

#if GV_WIDE
// Unit of a column of the first layer, behind the last unit for columns of the padding.
GV_FN gv_i32 gv_unit_of(gv_i32 column) { return column < 2 * gv_width(1) ? column % gv_width(1) : gv_units(1); }

GV_FN void gv_pack_rows_of(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    gv_pack_features<GV_AGENT_PART>(team, a.obs, a.norm, a.all_rows, a.samples_per_step, tile * GV_PACK_ROWS, a.packed_rows);
}
GV_FN void gv_pack_first_of(const GvArgs& a, const GvLanes& team, gv_i32 column) {
    const gv_i32 unit = gv_unit_of(column);
    const GvLayer& layer = column < gv_width(1) ? a.layers[0][0] : a.layers[1][0];
    gv_pack_column(team, layer, unit, a.first_weights + column * GV_PACKED_COLUMNS, a.first_biases + column);
}

// Calls f(tile, first column) for the parts of the columns of the tiles of `rows` rows, in turn.
template <class F>
GV_FN void gv_each_part(const GvArgs& a, gv_i32 block, gv_i32 rows, F f) {
    const gv_i32 items = (rows + GV_ROWS - 1) / GV_ROWS * GV_COLUMN_PARTS;
    GV_LOOP for (gv_i32 item = block; item < items; item += a.teams) {
        f(item / GV_COLUMN_PARTS, item % GV_COLUMN_PARTS * GV_COLUMN_PART);
    }
}

// Units and slopes of the first layer.
GV_FN void gv_wide_units_block(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    const GvGroup group = gv_group(team);
    gv_each_part(a, block, a.rows, [&](gv_i32 tile, gv_i32 first) {
        const gv_i32 row = tile * GV_ROWS + gv_first_row(group), column = first + gv_first_column(group);
        GvOwnSamples samples;
        gv_load_samples(samples, a, group, tile);
        auto rows = gv_packed_rows<GV_AGENT_PART>(group, a.packed_rows, samples);
        GvFirstSums sums;
        gv_begin_sums<GV_AGENT_PART>(sums, group, a.first_biases, a.world_sums, row, a.rows, a.agents, column);
        gv_add_features<GV_AGENT_PART>(sums, team, group, rows, a.first_weights, first);
        GvRows<GV_FIRST_ROWS, GV_FIRST_COLUMNS> units, slopes;
        gv_each_pair(sums, group, [&](const GvPlace& place, float& x, float& y) {
            const GvUnit one = gv_activated<1>(x), two = gv_activated<1>(y);
            gv_put(units, place, 0, one.value, two.value);
            gv_put_finite(slopes, place, 0, one.slope, two.slope);
        });
        gv_store(units, group, gv_part(gv_joint_of(a, false), row, column));
        gv_store(slopes, group, gv_part(gv_joint_of(a, true), row, column));
    });
}

// Sums of the gradient of the first layer by a part of the features. Teams: for each part of the columns and each part of the
// features, its slices. `times` multiplies the sums of `rows` rows of derivatives.
template <gv_i32 PART, class SampleOf>
GV_FN void gv_sum_part(const GvArgs& a, const GvLanes& team, gv_i32 block, gv_i32 slices, gv_i32 rows, GvStripes<GV_JOINT> deltas,
                       const GvHalf* packed, float times, SampleOf sample_of) {
    constexpr gv_i32 N = GV_FEATURE_PART, FROM = gv_part_first(PART), PARTS = (gv_part_features(PART) + N - 1) / N;
    const gv_i32 slice = block % slices, part = block / slices, from = part % PARTS * N;
    const gv_i32 first = part / PARTS * GV_COLUMN_PART, stages = (rows + GV_ROWS - 1) / GV_ROWS * (GV_ROWS / GV_STAGE_ROWS);
    GvSpread<GV_COLUMN_PART, N> sums;
    const bool totals = PART == GV_AGENT_PART && from == 0;  // for the biases
    gv_sum_features<PART>(sums, team, slice, slices, stages, deltas, first, packed, from, totals, sample_of);
    const float of_actor = times / (a.scales[0] * GV_SCALE), of_critic = times / (a.scales[1] * GV_SCALE);
    const auto write = [&](gv_i32 column, gv_i32 at, float sum) {
        const bool actor = column < gv_width(1);
        float* columns = actor ? gv_actor_columns(a, slice) : gv_critic_columns(a, slice);
        gv_write_sum(columns[gv_weight_column(1) + at], (actor ? of_actor : of_critic) * sum, a.adds != 0);
    };
    const auto store = [&](gv_i32 row, gv_i32 i, float sum) {
        const gv_i32 unit = gv_unit_of(first + row), feature = from + i;
        if (unit < gv_units(1) && feature < gv_part_features(PART)) write(first + row, unit * GV_FEATURES + FROM + feature, sum);
    };
    const auto store_total = [&](gv_i32 row, float total) {
        const gv_i32 unit = gv_unit_of(first + row);
        if (totals && unit < gv_units(1)) write(first + row, gv_units(1) * GV_FEATURES + unit, total);
    };
    gv_each_sum(sums, gv_group(team), store, store_total);
}
GV_FN void gv_wide_sums_block(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    gv_sum_part<GV_AGENT_PART>(a, team, block, a.wide_slices, a.rows, gv_joint_of(a, true), a.packed_rows, 1.0f,
                               [&](gv_i32 row) { return row < a.rows ? a.samples[row] : -1; });
}

#if GV_SHARED
GV_FN void gv_pack_worlds_of(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i32 worlds = a.all_rows / a.agents;
    gv_pack_features<GV_SHARED_PART>(team, a.shared, a.shared_norm, worlds, a.worlds_per_step, tile * GV_PACK_ROWS, a.packed_worlds);
}

// Sample of a world of the minibatch, from the rows of its agents that count; -1 if none does.
GV_FN gv_i32 gv_world_of(const GvArgs& a, gv_i32 world) {
    for (gv_i32 row = world * a.agents; row < (world + 1) * a.agents && row < a.rows; ++row) {
        if (a.samples[row] >= 0) return a.samples[row] / a.agents;
    }
    return -1;
}

GV_FN void gv_world_units_block(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    const GvGroup group = gv_group(team);
    const gv_i32 worlds = a.rows / a.agents;
    gv_each_part(a, block, worlds, [&](gv_i32 tile, gv_i32 first) {
        const gv_i32 own = tile * GV_ROWS + group.number * GV_OWN;
        const gv_i32 row = tile * GV_ROWS + gv_first_row(group), column = first + gv_first_column(group);
        GvOwnSamples samples;
        gv_each_value(samples, group, [&](gv_i32 i, gv_i32& sample) {
            sample = gv_world_of(a, own + i);
            if (first == 0) a.world_samples[own + i] = sample;
        });
        auto rows = gv_packed_rows<GV_SHARED_PART>(group, a.packed_worlds, samples);
        GvFirstSums sums;
        gv_begin_sums<GV_SHARED_PART>(sums, group, a.first_biases, nullptr, row, worlds, 1, column);
        gv_add_features<GV_SHARED_PART>(sums, team, group, rows, a.first_weights, first);
        gv_store_world_sums(sums, group, a.world_sums, row, worlds, column);
    });
}

// Means of the derivatives of a world's agents, 0 behind the last world. Teams: tiles of 16 worlds.
GV_FN void gv_world_deltas_of(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    typedef GvStripes<GV_JOINT> Stripes;
    constexpr gv_i32 SOME = 8;
    const Stripes deltas = gv_joint_of(a, true), means = {a.world_deltas};
    GV_FOR(i, 16 * GV_JOINT / 8) {
        const gv_i32 world = 16 * tile + i % 16, column = i / 16 * 8;
        const gv_i32 first = world * a.agents, end = first + a.agents < a.rows ? first + a.agents : a.rows;
        float sum[8] = {};
        GV_LOOP for (gv_i32 begin = first; begin < end; begin += SOME) {
            GvEight eight[SOME];  // loads that wait together
            GV_UNROLL for (gv_i32 j = 0; j < SOME; ++j) {
                const gv_i32 row = begin + j < end ? begin + j : begin;
                eight[j] = *(const GvEight*)(gv_part(deltas, row / 16 * 16, column).at + row % 16 * Stripes::ROW);
            }
            GV_UNROLL for (gv_i32 j = 0; j < SOME; ++j)
                GV_UNROLL for (gv_i32 k = 0; k < 8; ++k) sum[k] += begin + j < end ? gv_float(eight[j].number[k]) : 0.0f;
        }
        GvEight mean;
        GV_UNROLL for (gv_i32 k = 0; k < 8; ++k) mean.number[k] = gv_half(sum[k] / (float)a.agents);
        *(GvEight*)(gv_part(means, 16 * tile, column).at + i % 16 * Stripes::ROW) = mean;
    }
}

GV_FN void gv_world_sums_block(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    const gv_i32 worlds = a.rows / a.agents;
    gv_sum_part<GV_SHARED_PART>(a, team, block, a.world_slices, worlds, {a.world_deltas}, a.packed_worlds, (float)a.agents,
                                [&](gv_i32 world) { return world < worlds ? a.world_samples[world] : -1; });
}
#endif
#else
GV_FN void gv_first_block(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    const gv_i32 of_critic = block - a.actor_blocks;
    const bool actor = of_critic < 0;
    gv_first_of(a, team, actor ? 0 : 1, actor ? block : of_critic, actor ? a.actor_blocks : a.critic_blocks);
}
#endif
GV_FN void gv_deltas_block(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    const gv_i32 of_critic = block - a.actor_blocks;
#if GV_CHUNKS > 0
    if (of_critic < 0) gv_deltas_of_heads(a, team, block, a.actor_blocks, gv_actor_columns(a, block));
#else
    if (of_critic < 0) gv_deltas_of_network<GvActor>(a, team, block, a.actor_blocks, gv_actor_columns(a, block));
#endif
    else gv_deltas_of_network<GvCritic>(a, team, of_critic, a.critic_blocks, gv_critic_columns(a, of_critic));
}
#if !GV_TEAM_SUMS
// Teams: for each part of the actor its slices, then those of the critic. A slice has a row of the partial sums.
GV_FN void gv_sums_block(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    const gv_i32 slice = block % a.slices, part = block / a.slices, of_critic = part - GV_ACTOR_TILES;
    constexpr gv_i32 LOWEST = GV_WIDE ? 2 : 1;
    if (of_critic < 0) gv_sum_gradient_tile<GvActor, LOWEST>(a, team, slice, part, gv_actor_columns(a, slice));
    else gv_sum_gradient_tile<GvCritic, LOWEST>(a, team, slice, of_critic, gv_critic_columns(a, slice));
}
#endif

#if GV_CHUNKS > 0
GV_FN void gv_pack_block(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    gv_pack_weights(team, block, a.teams, a.layers[0], a.packed);
}
GV_FN void gv_pack_masks_block(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    gv_pack_masks_of_rows(a, team, block, a.num_samples, a.kinds);
}
GV_PLAIN_KERNEL(gv_pack_heads, gv_pack_block)
#if GV_MASKED
GV_PLAIN_KERNEL(gv_pack_masks, gv_pack_masks_block)
#endif
#endif
#if GV_WIDE
GV_PLAIN_KERNEL(gv_pack_rows, gv_pack_rows_of)
GV_PLAIN_KERNEL(gv_pack_first, gv_pack_first_of)
GV_PLAIN_KERNEL(gv_wide_units, gv_wide_units_block)
GV_PLAIN_KERNEL(gv_wide_sums, gv_wide_sums_block)
#if GV_SHARED
GV_PLAIN_KERNEL(gv_pack_worlds, gv_pack_worlds_of)
GV_PLAIN_KERNEL(gv_world_units, gv_world_units_block)
GV_PLAIN_KERNEL(gv_world_deltas, gv_world_deltas_of)
GV_PLAIN_KERNEL(gv_world_sums, gv_world_sums_block)
#endif
#else
GV_PLAIN_KERNEL(gv_first_units, gv_first_block)
#endif
GV_PLAIN_KERNEL(gv_deltas, gv_deltas_block)
#if !GV_TEAM_SUMS
GV_PLAIN_KERNEL(gv_weight_sums, gv_sums_block)
#endif
GV_EARLY_KERNEL(gv_reduce, gv_reduce_columns)
GV_EARLY_KERNEL(gv_adam, gv_adam_columns)
