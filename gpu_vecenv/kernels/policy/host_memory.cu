// All steps of a GRU or an LSTM along sequences, and their derivatives, on the host in float32. The equations are those of
// gpu_vecenv/train/policies/memory.py.
//
//   gv_remember       states after each step, of what was read in it and of the state before the first one
//   gv_remember_back  derivatives by what was read, by the recurrent products and by the first state
//
// A team goes through all steps of a tile of rows, so the weights stay in the caches. Rows do not depend on each other, so results
// do not depend on the number of threads. Numbers of units are multiples of GV_STEP.
#include "learner/host_products.h"
#include "lib/host_powers.h"
#include "program_args.h"

GV_INLINE GvVector gv_sigma(const GvVector& x) { return 1.0f / (1.0f + gv_exp(-x)); }

// The arrays of a row in a step. `kept` are r, z, h_n and n of a GRU, and i, f, g and o of an LSTM.
struct GvRowStep {
    const float* read;
    float *kept, *before, *after;
};
GV_FN GvRowStep gv_row_step(const GvArgs& a, gv_i32 step, gv_i32 row) {
    const gv_i64 at = (gv_i64)step * a.rows + row, kept = a.kept_steps == 1 ? row : at, state = (gv_i64)a.parts * a.units;
    return {a.read + at * a.gates * a.units, a.kept + kept * 4 * a.units, a.before + kept * state, a.states + at * state};
}

// Steps of a row, whose recurrent products are the first numbers of `kept`.
GV_FN void gv_gru_step(gv_i32 units, const GvRowStep& row) {
    for (gv_i32 i = 0; i < units; i += GV_WIDTH) {
        float* kept = row.kept + i;
        const float* read = row.read + i;
        const GvVector r = gv_sigma(gv_load_vector(read) + gv_load_vector(kept));
        const GvVector z = gv_sigma(gv_load_vector(read + units) + gv_load_vector(kept + units));
        const GvVector n = gv_tanh(gv_load_vector(read + 2 * units) + r * gv_load_vector(kept + 2 * units));
        gv_store_vector(kept, r);
        gv_store_vector(kept + units, z);
        gv_store_vector(kept + 3 * units, n);
        gv_store_vector(row.after + i, n + z * (gv_load_vector(row.before + i) - n));
    }
}
GV_FN void gv_lstm_step(gv_i32 units, const GvRowStep& row) {
    for (gv_i32 i = 0; i < units; i += GV_WIDTH) {
        float* kept = row.kept + i;
        const float* read = row.read + i;
        const auto sum = [&](gv_i32 gate) GV_LAMBDA {
            return gv_load_vector(read + gate * units) + gv_load_vector(kept + gate * units);
        };
        const GvVector in = gv_sigma(sum(0)), forget = gv_sigma(sum(1)), added = gv_tanh(sum(2)), out = gv_sigma(sum(3));
        const GvVector cell = forget * gv_load_vector(row.before + units + i) + in * added;
        gv_store_vector(kept, in);
        gv_store_vector(kept + units, forget);
        gv_store_vector(kept + 2 * units, added);
        gv_store_vector(kept + 3 * units, out);
        gv_store_vector(row.after + i, out * gv_tanh(cell));
        gv_store_vector(row.after + units + i, cell);
    }
}

GV_FN gv_i32 gv_rows_of(const GvArgs& a, gv_i32 first) { return a.rows - first < GV_ROWS ? a.rows - first : GV_ROWS; }

GV_FN void gv_remember_tile(const GvArgs& a, const GvLanes&, gv_i32 tile) {
    const gv_i32 first = tile * GV_ROWS, rows = gv_rows_of(a, first), state = a.parts * a.units, columns = a.gates * a.units;
    for (gv_i32 step = 0; step < a.steps; ++step) {
        const GvRowStep at = gv_row_step(a, step, first);
        const float* from = (step == 0 ? a.state : a.states + (gv_i64)(step - 1) * a.rows * state) + (gv_i64)first * state;
        __builtin_memcpy(at.before, from, sizeof(float) * rows * state);
        for (gv_i32 row = 0; row < rows && step > 0; ++row) {
            const bool begins = a.episode_end[(gv_i64)(step - 1) * a.rows + first + row] != 0;
            if (begins) __builtin_memset(at.before + (gv_i64)row * state, 0, sizeof(float) * state);
        }
        gv_product(rows, columns, a.units, {at.before, state, 1}, a.by_inputs, columns, a.bias, 0, at.kept, 4 * a.units);
        for (gv_i32 row = 0; row < rows; ++row) {
            if (a.parts == 1) gv_gru_step(a.units, gv_row_step(a, step, first + row));
            else gv_lstm_step(a.units, gv_row_step(a, step, first + row));
        }
    }
}

// Derivatives of a row in a step. `carried`, derivatives by the state after it from later steps, become those by the state before
// it, but for what goes through the recurrent products.
struct GvRowSlopes {
    const float* of_after;
    float *of_read, *of_products, *carried;
};
GV_FN void gv_gru_back(gv_i32 units, const GvRowStep& row, const GvRowSlopes& slopes) {
    for (gv_i32 i = 0; i < units; i += GV_WIDTH) {
        const float* kept = row.kept + i;
        const GvVector r = gv_load_vector(kept), z = gv_load_vector(kept + units), n = gv_load_vector(kept + 3 * units);
        const GvVector of_h = gv_load_vector(slopes.of_after + i) + gv_load_vector(slopes.carried + i);
        const GvVector of_n = of_h * (1.0f - z) * (1.0f - n * n), of_r = of_n * gv_load_vector(kept + 2 * units) * r * (1.0f - r);
        const GvVector of_z = of_h * (gv_load_vector(row.before + i) - n) * z * (1.0f - z);
        float* const both[] = {slopes.of_read + i, slopes.of_products + i};
        for (float* to : both) {
            gv_store_vector(to, of_r);
            gv_store_vector(to + units, of_z);
        }
        gv_store_vector(slopes.of_read + 2 * units + i, of_n);
        gv_store_vector(slopes.of_products + 2 * units + i, of_n * r);
        gv_store_vector(slopes.carried + i, of_h * z);
    }
}
GV_FN void gv_lstm_back(gv_i32 units, const GvRowStep& row, const GvRowSlopes& slopes) {
    for (gv_i32 i = 0; i < units; i += GV_WIDTH) {
        const float* kept = row.kept + i;
        const GvVector in = gv_load_vector(kept), forget = gv_load_vector(kept + units);
        const GvVector added = gv_load_vector(kept + 2 * units), out = gv_load_vector(kept + 3 * units);
        const GvVector shown = gv_tanh(gv_load_vector(row.after + units + i));
        const GvVector of_h = gv_load_vector(slopes.of_after + i) + gv_load_vector(slopes.carried + i);
        const GvVector later = gv_load_vector(slopes.of_after + units + i) + gv_load_vector(slopes.carried + units + i);
        const GvVector of_cell = later + of_h * out * (1.0f - shown * shown);
        float* to = slopes.of_read + i;
        gv_store_vector(to, of_cell * added * in * (1.0f - in));
        gv_store_vector(to + units, of_cell * gv_load_vector(row.before + units + i) * forget * (1.0f - forget));
        gv_store_vector(to + 2 * units, of_cell * in * (1.0f - added * added));
        gv_store_vector(to + 3 * units, of_h * shown * out * (1.0f - out));
        gv_store_vector(slopes.carried + i, GvVector{});
        gv_store_vector(slopes.carried + units + i, of_cell * forget);
    }
}

// Derivatives by what an LSTM reads are also those by its recurrent products.
GV_FN void gv_remember_back_tile(const GvArgs& a, const GvLanes&, gv_i32 tile) {
    const gv_i32 first = tile * GV_ROWS, rows = gv_rows_of(a, first), state = a.parts * a.units, columns = a.gates * a.units;
    float* carried = a.of_state + (gv_i64)first * state;
    float* products = a.parts == 1 ? a.of_products : a.of_read;
    __builtin_memset(carried, 0, sizeof(float) * rows * state);
    for (gv_i32 step = a.steps - 1; step >= 0; --step) {
        const gv_i64 at = (gv_i64)step * a.rows + first;
        for (gv_i32 row = 0; row < rows; ++row) {
            float* of_row = carried + (gv_i64)row * state;
            const GvRowSlopes slopes = {a.of_states + (at + row) * state, a.of_read + (at + row) * columns,
                                        products + (at + row) * columns, of_row};
            if (a.episode_end[at + row] != 0) __builtin_memset(of_row, 0, sizeof(float) * state);
            if (a.parts == 1) gv_gru_back(a.units, gv_row_step(a, step, first + row), slopes);
            else gv_lstm_back(a.units, gv_row_step(a, step, first + row), slopes);
        }
        gv_product(rows, a.units, columns, {products + at * columns, columns, 1}, a.by_outputs, a.units, carried, state, carried,
                   state);
    }
}

GV_PLAIN_KERNEL(gv_remember, gv_remember_tile)
GV_PLAIN_KERNEL(gv_remember_back, gv_remember_back_tile)
