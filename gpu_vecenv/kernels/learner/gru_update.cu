// The update of PPO for a GRU with two heads, from sequences of a.length steps that begin with stored states.
//
//   gv_walk          goes through a rollout: values, log-probabilities, and states where sequences begin
//   gv_gru_gradient  forward through the steps of a sequence, the loss, and back; writes derivatives of the gates to a.stash
//   gv_gru_sums      sums over rows of these derivatives times features and states: the gradient of the GRU's weights
//
// and gv_reduce and gv_adam follow as in gradient.cu. A tile has 16 sequences, whose steps follow each other, so a team's groups
// share the units of one step (gru.h). What needs no step before, the heads and the loss, is computed for GV_STEPS steps at a time,
// one for each group. Rows of these are numbered step by step, and so are the rows of a.stash.
#include "learner/adam.h"
#include "learner/gru.h"
#include "learner/partial.h"
#include "learner/slice.h"

#define GV_SCRATCH (GV_HALVES * (gv_i32)sizeof(GvHalf) / 4 + GV_FLOATS)
#define GV_STEPS (GV_ROWS / 16)
#define GV_HEAD_ROWS GvGru::ROWS

// Step and sequence of a row of a group.
GV_FN gv_i32 gv_step_of_row(const GvGroup& group, gv_i32 i) { return (group.number * GV_OWN + i) / 16; }
GV_FN gv_i32 gv_sequence_of_row(const GvGroup& group, gv_i32 i) { return (group.number * GV_OWN + i) % 16; }

// ---- memory ----------------------------------------------------------------------------------------------------

// Memory of a team: the network; weights of the heads for derivatives; features, states and derivatives by outputs of GV_STEPS steps;
// states that the next step reads, in turn of two. `keep` has 0 where the state begins anew after a step, else 1.
struct GvMemory {
    GvGru gru;
    GvStateTile head_back;  // [GV_HEAD_ROWS, GV_STATE]
    GvTile<GV_FEATURE_STRIDE> features;
    GvStateTile high, low, next;
    GvTile<GV_DELTA_STRIDE> deltas;
    float *outputs, *keep, *prefetch;
};
GV_FN GvMemory gv_memory(const GvLanes& team) {
    GvHalf* halves = (GvHalf*)team.scratch;
    float* floats = (float*)(halves + GV_HALVES);
    return {{halves, floats},
            {halves + GV_HEAD_BACK_AT},
            {halves + GV_FEATURES_AT},
            {halves + GV_HIGH_AT},
            {halves + GV_LOW_AT},
            {halves + GV_NEXT_AT},
            {halves + GV_DELTAS_AT},
            floats + GV_OUTPUTS_AT,
            floats + GV_KEEP_AT,
            floats + GV_PREFETCH_AT};
}
GV_FN GvStateTile gv_next(const GvMemory& memory, gv_i32 t) { return gv_part(memory.next, (t & 1) * 16, 0); }

// Derivatives of the gates r, z and of W_hn h of one step, where the states of the forward pass were; in turn of two.
#define GV_GATE_STRIDE (3 * GV_STATE + 8)
GV_FN GvTile<GV_GATE_STRIDE> gv_gate_deltas(const GvMemory& memory, gv_i32 t) {
    return {memory.high.at + (t & 1) * 16 * GV_GATE_STRIDE};
}

// Arrays with a.room rows in stripes: features and the state before the step; factors of derivatives (GvUnitStep), which the
// derivatives by r, z, n and W_hn h replace; derivatives by the outputs. A sequence has a multiple of GV_STEPS steps here; those
// behind its end are 0.
#define GV_INPUTS (GV_HIGH_COLUMNS + GV_STATE)
#define GV_FACTORS (5 * GV_STATE)
GV_FN GvStripes<GV_INPUTS> gv_inputs_of(const GvArgs& a) { return {a.stash}; }
GV_FN GvStripes<GV_FACTORS> gv_factors_of(const GvArgs& a) { return {a.stash + (gv_i64)GV_INPUTS * a.room}; }
GV_FN GvStripes<GV_HEAD_ROWS> gv_outputs_of(const GvArgs& a) { return {a.stash + (gv_i64)(GV_INPUTS + GV_FACTORS) * a.room}; }
GV_FN gv_i32 gv_stash_row(const GvArgs& a, gv_i32 tile, gv_i32 t) {
    return (tile * ((a.length + GV_STEPS - 1) / GV_STEPS * GV_STEPS) + t) * 16;
}

// ---- sequences -------------------------------------------------------------------------------------------------

// Number of a sequence of a tile among a segment's samples, segment after segment; -1 without one.
GV_FN gv_i32 gv_sequence(const GvArgs& a, gv_i32 tile, gv_i32 number) {
    const gv_i32 at = tile * 16 + number;
    return at >= a.rows ? -1 : a.samples != nullptr ? a.samples[at] : at;
}

// Samples of the first step of the sequences of a group's rows.
GV_FN void gv_load_firsts(GvOwnSamples& firsts, const GvArgs& a, const GvGroup& group, gv_i32 tile) {
    gv_each_value(firsts, group, [&](gv_i32 i, gv_i32& first) {
        const gv_i32 sequence = gv_sequence(a, tile, gv_sequence_of_row(group, i)), segment = sequence / a.samples_per_step;
        first = sequence < 0 ? -1 : segment * a.length * a.samples_per_step + sequence % a.samples_per_step;
    });
}

// Numbers of the group's rows from step `t` on, of `steps`: samples that count, -1 for the others, and where states begin anew.
struct GvSteps {
    GvOwnSamples firsts, ends;
};
GV_FN void gv_load_steps(GvSteps& rows, GvOwnSamples& samples, const GvArgs& a, const GvGroup& group, gv_i32 t, gv_i32 steps) {
    const auto same = [](gv_i32 i) { return i; };
    gv_each_value_with(samples, group, rows.firsts, same, [&](gv_i32 i, gv_i32& sample, gv_i32 first) {
        const gv_i32 step = t + gv_step_of_row(group, i);
        sample = first < 0 || step >= steps ? -1 : first + step * a.samples_per_step;
        if (sample >= 0 && step < a.length && a.valid != nullptr && a.valid[sample] == 0) sample = -1;
    });
    gv_each_value_with(rows.ends, group, rows.firsts, same, [&](gv_i32 i, gv_i32& ends, gv_i32 first) {
        const gv_i32 step = t + gv_step_of_row(group, i);
        ends = first >= 0 && step < a.length && a.episode_end[first + step * a.samples_per_step] != 0;
    });
}
GV_FN void gv_store_ends(GvSteps& rows, const GvGroup& group, const GvMemory& memory) {
    gv_each_value(rows.ends, group, [&](gv_i32 i, gv_i32& ends) { memory.keep[group.number * GV_OWN + i] = ends != 0 ? 0.0f : 1.0f; });
}

// ---- forward ---------------------------------------------------------------------------------------------------

// Results of a step of a chunk that the way back reads.
struct GvFactorRows {
    GvRows<16, 16> by_r, by_z, by_n, r, z;
};
GV_FN void gv_put_factors(GvFactorRows& rows, const GvPlace& place, const GvUnitStep& one, const GvUnitStep& two) {
    gv_put(rows.by_r, place, 0, one.by_r, two.by_r);
    gv_put(rows.by_z, place, 0, one.by_z, two.by_z);
    gv_put(rows.by_n, place, 0, one.by_n, two.by_n);
    gv_put(rows.r, place, 0, one.r, two.r);
    gv_put(rows.z, place, 0, one.z, two.z);
}
GV_FN GvStripes<GV_FACTORS> gv_factors_at(const GvArgs& a, gv_i32 row, gv_i32 chunk, gv_i32 number) {
    return gv_part(gv_factors_of(a), row, number * GV_STATE + 16 * chunk);
}
GV_FN void gv_store_factors(const GvFactorRows& rows, const GvGroup& group, const GvArgs& a, gv_i32 row, gv_i32 chunk) {
    gv_store(rows.by_r, group, gv_factors_at(a, row, chunk, 0));
    gv_store(rows.by_z, group, gv_factors_at(a, row, chunk, 1));
    gv_store(rows.by_n, group, gv_factors_at(a, row, chunk, 2));
    gv_store(rows.r, group, gv_factors_at(a, row, chunk, 3));
    gv_store(rows.z, group, gv_factors_at(a, row, chunk, 4));
}
GV_FN void gv_load_factors(GvFactorRows& rows, const GvGroup& group, const GvArgs& a, gv_i32 row, gv_i32 chunk) {
    gv_load(rows.by_r, group, gv_factors_at(a, row, chunk, 0));
    gv_load(rows.by_z, group, gv_factors_at(a, row, chunk, 1));
    gv_load(rows.by_n, group, gv_factors_at(a, row, chunk, 2));
    gv_load(rows.r, group, gv_factors_at(a, row, chunk, 3));
    gv_load(rows.z, group, gv_factors_at(a, row, chunk, 4));
}

// One step of the group's chunks: step t of a tile, number `number` of those in the memory of the team. If it LEARNS, the state
// before the step and factors go to a.stash.
template <bool LEARNS>
GV_FN void gv_step_tile(const GvArgs& a, const GvGroup& group, const GvMemory& memory, GvOwnState& state, gv_i32 tile, gv_i32 t,
                        gv_i32 number) {
    const gv_i32 row = gv_stash_row(a, tile, t);
    gv_each_chunk(group, [&](gv_i32 turn, gv_i32 chunk) {
        GvChunk& own = state.chunk[turn];
        GvGates<16> gates;
        gv_begin_gates(gates, memory.gru, group, gv_part(memory.features, 16 * number, 0), chunk);
        gv_end_gates(gates, memory.gru, group, gv_next(memory, t), chunk);
        if constexpr (LEARNS) {
            GvRows<16, 16> before;
            gv_each_pair(own, group, [&](const GvPlace& place, float& x, float& y) { gv_put(before, place, 0, x, y); });
            gv_store(before, group, gv_part(gv_inputs_of(a), row, GV_HIGH_COLUMNS + 16 * chunk));
        }
        GvHighLow<16> parts;
        GvRows<16, 16> next;
        GvFactorRows factors;
        gv_each_unit(gates, group, own, [&](const GvPlace& place, const GvUnitStep& one, const GvUnitStep& two) {
            const bool goes_on = memory.keep[16 * number + place.row] != 0.0f;
            float* now = gv_at(own, place);
            now[0] = goes_on ? one.state : 0.0f;  // not a product, as the state of a row that does not count may be NaN
            now[1] = goes_on ? two.state : 0.0f;
            gv_put_high_low(parts, place, one.state, two.state);
            gv_put(next, place, 0, now[0], now[1]);
            if constexpr (LEARNS) gv_put_factors(factors, place, one, two);
        });
        gv_store(parts.high, group, gv_part(memory.high, 16 * number, 16 * chunk));
        gv_store(parts.low, group, gv_part(memory.low, 16 * number, 16 * chunk));
        gv_store(next, group, gv_part(gv_next(memory, t + 1), 0, 16 * chunk));
        if constexpr (LEARNS) gv_store_factors(factors, group, a, row, chunk);
    });
}

// Goes through `steps` steps of a tile. `start_rows()` starts the copies of what the loss reads of prefetched.samples, `before(t)` is
// called before each step, and `use(t, samples)` after every GV_STEPS steps, whose first one is t.
template <bool LEARNS, class StartRows, class Before, class Use>
GV_FN void gv_go_through(const GvArgs& a, const GvLanes& team, const GvMemory& memory, GvPrefetched& prefetched, GvOwnState& state,
                         gv_i32 tile, gv_i32 steps, StartRows start_rows, Before before, Use use) {
    const GvGroup group = gv_group(team);
    GvSteps rows;
    gv_load_firsts(rows.firsts, a, group, tile);
    gv_load_steps(rows, prefetched.samples, a, group, 0, steps);
    gv_start_features(prefetched, a, group);
    start_rows();
    gv_load_state(state, group, gv_next(memory, 0), LEARNS ? a.starts : a.state, [&](gv_i32 row) { return gv_sequence(a, tile, row); });
    GV_LOOP for (gv_i32 first = 0; first < steps; first += GV_STEPS) {
        GvOwnSamples present = prefetched.samples;
        gv_wait_copies<1>();  // for the features
        gv_take_features(prefetched, present, a, group, memory.gru, gv_part(memory.features, group.number * GV_OWN, 0));
        gv_store_ends(rows, group, memory);
        gv_load_steps(rows, prefetched.samples, a, group, first + GV_STEPS, steps);
        gv_start_features(prefetched, a, group);
        gv_barrier(team);
        GV_LOOP for (gv_i32 number = 0; number < GV_STEPS && first + number < steps; ++number) {
            before(first + number);
            gv_step_tile<LEARNS>(a, group, memory, state, tile, first + number, number);
            gv_barrier(team);
        }
        use(first, present);
    }
    gv_wait_copies<0>();
}

// ---- values and log-probabilities ------------------------------------------------------------------------------

// Log-probability of the action of a sample.
GV_FN float gv_taken_log_prob(const GvArgs& a, gv_i32 sample, float* outputs) {
    const GvAction* taken = (const GvAction*)gv_sample(a.action, sample, a.samples_per_step);
    GvAction action[GV_ENTRIES];
#ifdef GV_CHOICES
    float entropy[GV_ENTRIES];
    bool none[GV_ENTRIES];
    const gv_u8* mask = nullptr;
    if (GV_MASKED && a.mask.at != nullptr) mask = (const gv_u8*)a.mask.at + gv_place_in(a.mask, sample, a.samples_per_step);
    GV_UNROLL for (gv_i32 i = 0; i < GV_ENTRIES; ++i) action[i] = taken[i];
    return gv_action_log_prob(outputs, action, mask, entropy, none);
#else
    float z[GV_ENTRIES];
    GV_UNROLL for (gv_i32 i = 0; i < GV_ENTRIES; ++i) action[i] = (taken[i] - a.box.centre[i]) / a.box.half_width[i];
    return gv_action_log_prob(outputs, action, a.box.log_std, z);
#endif
}

// Values of final observations of the group's rows, from the states after their steps, where a.timed_out says so.
GV_FN void gv_final_values(const GvArgs& a, const GvGroup& group, const GvMemory& memory, gv_i32 t, GvOwnSamples& samples) {
    const gv_i32 row = group.number * GV_OWN;
    const auto features = gv_part(memory.features, row, 0);
    const GvStateTile high = gv_part(memory.high, row, 0), low = gv_part(memory.low, row, 0);
    float* outputs = memory.outputs + row * GV_OUTPUT_STRIDE;
    bool any = false;
    GvOwnSamples wanted = samples;
    gv_each_value(wanted, group, [&](gv_i32 i, gv_i32& sample) {
        const bool ends = sample >= 0 && t + gv_step_of_row(group, i) < a.length && a.timed_out[sample] != 0;
        sample = ends ? sample : -1;
        any = any || ends;
    });
    if (!gv_group_any(group, any)) return;
    GvOwnFeatures read;
    gv_load_features(read, group, wanted, a.final_obs, a.samples_per_step);
    gv_store_features(read, group, wanted, a.final_obs, a.samples_per_step, memory.gru, a.norm.limit, features);
    gv_group_barrier(group);
    GvSums<GV_OWN, GvGru::COLUMNS> sums;
    gv_fill(sums, group, memory.gru.floats + gv_biases_at(GV_LAST));
    GV_LOOP for (gv_i32 chunk = 0; chunk < GV_CHUNKS; ++chunk) {
        GvGates<GV_OWN> gates;
        gv_begin_gates(gates, memory.gru, group, features, chunk);
        gv_end_gates(gates, memory.gru, group, high, chunk);
        GvSums<GV_OWN, 16> before;
        gv_each_pair(before, group, [&](const GvPlace& place, float& x, float& y) {
            const gv_i32 at = place.row * gv_unit_stride(1) + 16 * chunk + place.column;
            x = gv_float(high.at[at]) + gv_float(low.at[at]);
            y = gv_float(high.at[at + 1]) + gv_float(low.at[at + 1]);
        });
        GvHighLow<GV_OWN> parts;
        gv_each_unit(gates, group, before, [&](const GvPlace& place, const GvUnitStep& one, const GvUnitStep& two) {
            gv_put_high_low(parts, place, one.state, two.state);
        });
        gv_add_to_outputs(memory.gru, group, parts.high, parts.low, 16 * chunk, sums);
    }
    gv_store_outputs<GV_HEADS>(sums, group, outputs);
    gv_group_barrier(group);
    gv_each_value(wanted, group, [&](gv_i32 i, gv_i32& sample) {
        if (sample >= 0) a.final_value[sample] = outputs[i * GV_OUTPUT_STRIDE + GV_OUTPUTS];
    });
}

// Writes the states before a step, where a segment begins.
GV_FN void gv_store_starts(const GvArgs& a, const GvGroup& group, GvOwnState& state, gv_i32 tile, gv_i32 t) {
    if (t >= a.length || t % a.segment != 0) return;
    float* starts = a.starts + (gv_i64)(t / a.segment) * a.samples_per_step * gv_units(1);
    gv_store_state(state, group, starts, [&](gv_i32 row) { return gv_sequence(a, tile, row); });
}

// Values of all steps and behind them, log-probabilities, and states where segments begin. A sequence is a sample's whole rollout.
GV_FN void gv_walk_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const GvGroup group = gv_group(team);
    const GvMemory memory = gv_memory(team);
    const gv_i32 row = group.number * GV_OWN;
    float* outputs = memory.outputs + row * GV_OUTPUT_STRIDE;
    GvPrefetched prefetched = gv_prefetched(group, memory.prefetch);
    GvOwnState state;
    gv_clear_halves(team, memory.features.at, GV_TILES_END_AT - GV_FEATURES_AT);  // columns behind features stay 0
    gv_load_gru(team, memory.gru, a.layers[0], a.norm);
    gv_barrier(team);
    const auto no_rows = [&] { gv_end_copies(); };
    const auto before = [&](gv_i32 t) { gv_store_starts(a, group, state, tile, t); };
    gv_go_through<false>(a, team, memory, prefetched, state, tile, a.length + 1, no_rows, before, [&](gv_i32 t, GvOwnSamples& samples) {
        auto sums = gv_head_outputs<GV_OWN>(memory.gru, group, gv_part(memory.high, row, 0), gv_part(memory.low, row, 0));
        gv_store_outputs<GV_HEADS>(sums, group, outputs);
        gv_group_barrier(group);
        gv_each_value(samples, group, [&](gv_i32 i, gv_i32& sample) {
            if (sample < 0) return;
            float* own = outputs + i * GV_OUTPUT_STRIDE;
            a.value[sample] = own[GV_OUTPUTS];
            if (a.log_prob != nullptr && t + gv_step_of_row(group, i) < a.length) {
                a.log_prob[sample] = gv_taken_log_prob(a, sample, own);
            }
        });
        gv_group_barrier(group);
        if (a.timed_out != nullptr) gv_final_values(a, group, memory, t, samples);
        gv_end_copies();
    });
}

// ---- gradient --------------------------------------------------------------------------------------------------

// Weights of the heads for derivatives. Those by outputs of actor and critic have scales of their own; the products have the
// smaller one.
GV_FN float gv_common_scale(const GvArgs& a) { return gv_min(a.scales[0], a.scales[1]); }
GV_FN void gv_load_head_back(const GvLanes& team, const GvMemory& memory, const GvArgs& a) {
    const float common = gv_common_scale(a), actor = common / a.scales[0], critic = common / a.scales[1];
    GV_FOR(i, GV_HEAD_ROWS * GV_STATE) {
        const gv_i32 output = i / GV_STATE;
        gv_set(memory.head_back, output, i % GV_STATE, gv_head_weight(a.layers[0], i) * (output < GV_OUTPUTS ? actor : critic));
    }
}

// Derivatives of a step of the group's chunks by the gates: `by_state` has those by the state after the step, and gets those by
// the state before it that do not go through the gates.
GV_FN void gv_gate_derivatives(const GvArgs& a, const GvGroup& group, const GvMemory& memory, GvChunk& by_state, gv_i32 row, gv_i32 t,
                               gv_i32 chunk) {
    GvFactorRows factors;
    GvRows<16, GV_HEAD_ROWS> outputs;
    gv_load_factors(factors, group, a, row, chunk);
    gv_load(outputs, group, gv_part(gv_outputs_of(a), row, 0));
    gv_add_product<GV_HEAD_ROWS>(by_state, group, outputs, gv_part(memory.head_back, 0, 16 * chunk));
    GvRows<16, 16> r, z, n, hn;
    gv_each_pair(by_state, group, [&](const GvPlace& place, float& x, float& y) {
        float first, second, by_n_x, by_n_y;
        gv_get(factors.by_n, place, 0, by_n_x, by_n_y);
        by_n_x *= x;
        by_n_y *= y;
        gv_put_finite(n, place, 0, by_n_x, by_n_y);
        gv_get(factors.r, place, 0, first, second);
        gv_put_finite(hn, place, 0, by_n_x * first, by_n_y * second);
        gv_get(factors.by_r, place, 0, first, second);
        gv_put_finite(r, place, 0, by_n_x * first, by_n_y * second);
        gv_get(factors.by_z, place, 0, first, second);
        gv_put_finite(z, place, 0, x * first, y * second);
        gv_get(factors.z, place, 0, first, second);
        x *= first;
        y *= second;
    });
    const auto deltas = gv_part(gv_gate_deltas(memory, t), 0, 16 * chunk);
    gv_store(r, group, gv_part(deltas, 0, GV_GATE_R * GV_STATE));
    gv_store(z, group, gv_part(deltas, 0, GV_GATE_Z * GV_STATE));
    gv_store(hn, group, gv_part(deltas, 0, GV_GATE_N * GV_STATE));
    gv_store(r, group, gv_factors_at(a, row, chunk, 0));
    gv_store(z, group, gv_factors_at(a, row, chunk, 1));
    gv_store(n, group, gv_factors_at(a, row, chunk, 2));
    gv_store(hn, group, gv_factors_at(a, row, chunk, 3));
}

// Goes back through the steps of a tile.
GV_FN void gv_go_back(const GvArgs& a, const GvLanes& team, const GvMemory& memory, GvOwnState& by_state, gv_i32 tile) {
    const GvGroup group = gv_group(team);
    GvSteps rows;
    GvOwnSamples unused;
    gv_load_firsts(rows.firsts, a, group, tile);
    gv_each_chunk(group, [&](gv_i32 turn, gv_i32) { gv_clear(by_state.chunk[turn]); });
    const gv_i32 last = (a.length - 1) / GV_STEPS * GV_STEPS;
    gv_load_steps(rows, unused, a, group, last, a.length);
    GV_LOOP for (gv_i32 first = last; first >= 0; first -= GV_STEPS) {
        gv_store_ends(rows, group, memory);
        if (first > 0) gv_load_steps(rows, unused, a, group, first - GV_STEPS, a.length);
        gv_barrier(team);
        GV_LOOP for (gv_i32 number = GV_STEPS - 1; number >= 0; --number) {
            const gv_i32 t = first + number, row = gv_stash_row(a, tile, t);
            if (t >= a.length) continue;
            gv_each_chunk(group, [&](gv_i32 turn, gv_i32 chunk) {
                GvChunk& own = by_state.chunk[turn];
                gv_each_pair(own, group, [&](const GvPlace& place, float& x, float& y) {
                    const float keep = memory.keep[16 * number + place.row];
                    x *= keep;
                    y *= keep;
                });
                gv_gate_derivatives(a, group, memory, own, row, t, chunk);
            });
            gv_barrier(team);
            gv_each_chunk(group, [&](gv_i32 turn, gv_i32 chunk) {
                const auto weights = gv_part(gv_state_weights(memory.gru), 0, 16 * chunk);
                gv_add_product<3 * GV_STATE>(by_state.chunk[turn], group, gv_gate_deltas(memory, t), weights);
            });
        }
    }
}

// Sums of the heads, and the terms of the loss.
struct GvHeadSums {
    GvSpread<GV_HEAD_ROWS, GV_STATE> weights;
    GvActor actor;
    GvCritic critic;
};
GV_FN void gv_write_head_sums(const GvHeadSums& sums, const GvArgs& a, const GvLanes& team, const GvMemory& memory, gv_i32 block) {
    float* actor = a.partial + (gv_i64)block * GV_ACTOR_COLUMNS;
    float* critic = a.partial + (gv_i64)a.actor_blocks * GV_ACTOR_COLUMNS + (gv_i64)block * GV_CRITIC_COLUMNS;
    const float of_actor = 1.0f / a.scales[0], of_critic = 1.0f / a.scales[1];
    float* head = actor + GV_GRU_COLUMNS;
    const auto write = [&](gv_i32 output, gv_i32 unit, float sum) {
        if (unit >= gv_units(1)) return;
        if (output < GV_OUTPUTS) head[output * gv_units(1) + unit] = of_actor * sum;
        if (output == GV_OUTPUTS) critic[unit] = of_critic * sum;
    };
    const auto write_total = [&](gv_i32 output, float total) {
        if (output < GV_OUTPUTS) head[GV_OUTPUTS * gv_units(1) + output] = of_actor * total;
        if (output == GV_OUTPUTS) critic[gv_units(1)] = of_critic * total;
    };
    gv_each_sum(sums.weights, gv_group(team), write, write_total);
    gv_write_terms(sums.actor, team, (float*)memory.features.at, actor + gv_weight_columns(0), false);
    gv_barrier(team);
    gv_write_terms(sums.critic, team, (float*)memory.features.at, critic + gv_weight_columns(1), false);
}

GV_FN void gv_gru_gradient_block(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    gv_wait_for_previous();
    const GvGroup group = gv_group(team);
    const GvMemory memory = gv_memory(team);
    const gv_i32 row = group.number * GV_OWN, tiles = (a.rows + 15) / 16;
    const GvStateTile high = gv_part(memory.high, row, 0), low = gv_part(memory.low, row, 0);
    const auto features = gv_part(memory.features, row, 0);
    const auto deltas = gv_part(memory.deltas, row, 0);
    const GvTile<GV_DELTA_STRIDE> of_value = {deltas.at + GV_OUTPUTS};
    float* outputs = memory.outputs + row * GV_OUTPUT_STRIDE;
    GvPrefetched prefetched = gv_prefetched(group, memory.prefetch), of_critic = prefetched;
    of_critic.settings += 1;
    gv_load_settings(prefetched, a, team, 0);
    gv_load_settings(of_critic, a, team, 1);
    gv_clear_halves(team, memory.features.at, GV_TILES_END_AT - GV_FEATURES_AT);  // columns behind features and outputs stay 0
    gv_load_gru(team, memory.gru, a.layers[0], a.norm);
    gv_load_head_back(team, memory, a);
    GvHeadSums sums = {};
    GvOwnState state;
    gv_clear(sums.weights);
    gv_barrier(team);
    const auto start_rows = [&] { gv_start_rows(prefetched, a, group, true); };
    const auto nothing = [](gv_i32) {};
    GV_LOOP for (gv_i32 tile = block; tile < tiles; tile += a.actor_blocks) {
        gv_go_through<true>(a, team, memory, prefetched, state, tile, a.length, start_rows, nothing, [&](gv_i32 t, GvOwnSamples& samples) {
            auto found = gv_head_outputs<GV_OWN>(memory.gru, group, high, low);
            gv_store_outputs<GV_HEADS>(found, group, outputs);
            gv_group_barrier(group);
            gv_wait_copies<1>();  // for the rows of these steps, not for the features of the next ones
            gv_group_loss(sums.actor, a, group, prefetched, samples, outputs, deltas);
            gv_group_loss(sums.critic, a, group, of_critic, samples, outputs + GV_OUTPUTS, of_value);
            start_rows();
            gv_group_barrier(group);
            const gv_i32 to = gv_stash_row(a, tile, t) + row;
            gv_copy_rows<GV_OWN, GV_HEAD_ROWS>(group, deltas, gv_part(gv_outputs_of(a), to, 0));
            gv_copy_rows<GV_OWN, GV_HIGH_COLUMNS>(group, features, gv_part(gv_inputs_of(a), to, 0));
            gv_barrier(team);
            gv_add_columns<GV_ROWS>(sums.weights, group, memory.deltas, memory.high);
        });
        gv_barrier(team);
        gv_go_back(a, team, memory, state, tile);
        gv_barrier(team);
    }
    gv_start_next();
    gv_write_head_sums(sums, a, team, memory, block);
}

// ---- sums of the gradient of the GRU ---------------------------------------------------------------------------

// Sums of one of the derivatives by r, z, n and W_hn h over a slice of the rows. Those by n are of the features alone, and those by
// W_hn h of the state alone.
GV_FN void gv_gru_sums_block(const GvArgs& a, const GvLanes& team, gv_i32 block) {
    constexpr gv_i32 UNITS = gv_units(1), OF_FEATURES = 3 * UNITS * GV_FEATURES, OF_STATE = OF_FEATURES + 3 * UNITS;
    const gv_i32 slice = block % a.slices, part = block / a.slices, gate = part < GV_GATE_N ? part : GV_GATE_N;
    const gv_i32 stages = gv_stash_row(a, (a.rows + 15) / 16, 0) / GV_STAGE_ROWS;
    const bool reads_features = part < 3, reads_state = part != GV_GATE_N;
    const float unscale = 1.0f / gv_common_scale(a);
    float* columns = a.partial + (gv_i64)slice * GV_ACTOR_COLUMNS;
    GvSpread<GV_STATE, GV_INPUTS> sums;
    gv_sum_slice(sums, team, slice, a.slices, stages, gv_factors_of(a), part * GV_STATE, gv_inputs_of(a));
    const auto write = [&](gv_i32 unit, gv_i32 column, float sum) {
        const gv_i32 place = gate * UNITS + unit, of_state = column - GV_HIGH_COLUMNS;
        if (unit >= UNITS) return;
        if (reads_features && column < GV_FEATURES) columns[place * GV_FEATURES + column] = unscale * sum;
        if (reads_state && of_state >= 0 && of_state < UNITS) columns[OF_STATE + place * UNITS + of_state] = unscale * sum;
    };
    const auto write_total = [&](gv_i32 unit, float total) {
        const gv_i32 place = gate * UNITS + unit;
        if (unit >= UNITS) return;
        if (reads_features) columns[OF_FEATURES + place] = unscale * total;
        if (reads_state) columns[OF_STATE + 3 * UNITS * UNITS + place] = unscale * total;
    };
    gv_each_sum(sums, gv_group(team), write, write_total);
}

GV_PLAIN_KERNEL(gv_walk, gv_walk_tile)
GV_EARLY_KERNEL(gv_gru_gradient, gv_gru_gradient_block)
GV_PLAIN_KERNEL(gv_gru_sums, gv_gru_sums_block)
GV_EARLY_KERNEL(gv_reduce, gv_reduce_columns)
GV_EARLY_KERNEL(gv_adam, gv_adam_columns)
