// Networks on the host in float32: a team computes tiles of GV_ROWS rows, whose features, units and derivatives lie in its room.
// A matrix of a tile has a row for each row, and a multiple of GV_STEP columns; those behind its units are zeros.
#pragma once
#include "learner/host_products.h"
#include "learner/host_transpose.h"
#include "lib/host_powers.h"
#include "program_args.h"

#define GV_UP(n) (((n) + GV_STEP - 1) / GV_STEP * GV_STEP)

// A network is a row of tensors: the weights and the biases of each layer.
GV_FN const GvHostTensor& gv_weights(const GvHostTensor* network, gv_i32 layer) { return network[2 * layer]; }
GV_FN const GvHostTensor& gv_biases(const GvHostTensor* network, gv_i32 layer) { return network[2 * layer + 1]; }

// A parameter as it is stored: a row has the weights of an output, or of an input.
GV_FN gv_i32 gv_rows(const GvHostTensor& tensor) { return tensor.by_inputs != 0 ? tensor.inputs : tensor.outputs; }
GV_FN gv_i32 gv_columns(const GvHostTensor& tensor) { return tensor.by_inputs != 0 ? tensor.outputs : tensor.inputs; }

// The arrays of a team, for one network at a time. `units[i]` are the units of layer i, from the features to the outputs.
// `slopes[i]` are the derivatives of hidden units of SiLU by their sums; those of other activations follow from the units.
struct GvRoom {
    float* units[GV_MOST_LAYERS + 1];
    float* slopes[GV_MOST_LAYERS];
    float *deltas, *other;  // derivatives by the units of two neighbouring layers
    float* rest;            // what else a loss needs
};

// Takes memory of a team for the units of a network, and moves `at` behind it.
GV_FN GvRoom gv_units_room(const GvArgs& a, const GvHostTensor* network, float*& at) {
    const auto take = [&](gv_i32 columns) {
        float* taken = at;
        at += GV_ROWS * (gv_i64)columns;
        return taken;
    };
    GvRoom room = {};
    room.units[0] = take(GV_UP(gv_weights(network, 0).inputs));
    for (gv_i32 layer = 0; layer < a.num_layers; ++layer) room.units[layer + 1] = take(GV_UP(gv_weights(network, layer).outputs));
    for (gv_i32 layer = 1; layer < a.num_layers && a.activation == GV_SILU; ++layer) {
        room.slopes[layer] = take(GV_UP(gv_weights(network, layer - 1).outputs));
    }
    return room;
}

// A form of a parameter: its packed numbers, or the parameter itself.
GV_FN const float* gv_form(const GvArgs& a, const GvHostTensor& tensor, gv_i32 at) {
    return at == GV_AS_STORED ? tensor.weight : a.packed + at;
}

// Copies a matrix to rows of `to_row` numbers.
GV_FN void gv_copy_rows(const float* from, gv_i32 rows, gv_i32 columns, float* to, gv_i64 to_row) {
    for (gv_i32 row = 0; row < rows; ++row) __builtin_memcpy(to + row * to_row, from + (gv_i64)row * columns, 4 * (gv_i64)columns);
}

// Copies a parameter to the two forms of its factors: columns are units of the layer, or units of the layer below.
GV_FN void gv_pack_tensor(const GvArgs& a, const GvHostTensor& tensor) {
    const gv_i32 rows = gv_rows(tensor), columns = gv_columns(tensor);
    const auto copy = [&](gv_i32 at, bool by_inputs, gv_i32 to_row) {
        if (at < 0) return;  // none, or the parameter itself
        if (by_inputs == (tensor.by_inputs != 0)) gv_copy_rows(tensor.weight, rows, columns, a.packed + at, to_row);
        else gv_copy_columns(tensor.weight, rows, columns, a.packed + at, to_row);
    };
    copy(tensor.forward_at, true, GV_UP(tensor.outputs));
    copy(tensor.backward_at, false, GV_UP(tensor.inputs));
}

// Replaces sums by units, but for those of ReLU, and stores slopes of SiLU: of y = x s with s = 1 / (1 + exp(-x)) it is s + y (1 - s).
GV_FN void gv_activate(gv_i32 activation, float* x, float* slopes, gv_i64 count) {
    const auto each = [&](auto activated) {
        for (gv_i64 i = 0; i < count; i += GV_WIDTH) gv_store_vector(x + i, activated(gv_load_vector(x + i)));
    };
    if (activation == GV_TANH) each([](const GvVector& y) GV_LAMBDA { return gv_tanh(y); });
    if (activation == GV_ELU) each([](const GvVector& y) GV_LAMBDA { return y < 0.0f ? gv_exp(y) - 1.0f : y; });
    for (gv_i64 i = 0; activation == GV_SILU && i < count; i += GV_WIDTH) {
        const GvVector sum = gv_load_vector(x + i), share = 1.0f / (1.0f + gv_exp(-sum)), y = sum * share;
        gv_store_vector(x + i, y);
        gv_store_vector(slopes + i, share + y * (1.0f - share));
    }
}

// Multiplies derivatives by units to those by their sums, but for those of ReLU.
GV_FN void gv_multiply_slopes(gv_i32 activation, float* deltas, const float* units, const float* slopes, gv_i64 count) {
    if (activation == GV_SILU) units = slopes;
    const auto each = [&](auto product) {
        for (gv_i64 i = 0; i < count; i += GV_WIDTH) {
            gv_store_vector(deltas + i, product(gv_load_vector(deltas + i), gv_load_vector(units + i)));
        }
    };
    if (activation == GV_TANH) each([](const GvVector& d, const GvVector& y) GV_LAMBDA { return d * (1.0f - y * y); });
    if (activation == GV_ELU) each([](const GvVector& d, const GvVector& y) GV_LAMBDA { return y > 0.0f ? d : d * (y + 1.0f); });
    if (activation == GV_SILU) each([](const GvVector& d, const GvVector& slope) GV_LAMBDA { return d * slope; });
}

// Rectified units, and derivatives by their sums, as products store them.
struct GvRectified {
    GV_METHOD GvVector operator()(const GvVector& y, const float* /*place*/) const { return y < 0.0f ? GvVector{} : y; }
};
struct GvRectifiedSlopes {
    const float *units, *deltas;  // units at the same places as the derivatives
    GV_METHOD GvVector operator()(const GvVector& d, const float* place) const {
        return gv_load_vector(units + (place - deltas)) > 0.0f ? d : GvVector{};
    }
};

// Units of all layers from the features. A last layer without a form for this has few outputs.
GV_FN void gv_forward(const GvArgs& a, const GvHostTensor* network, gv_i32 rows, const GvRoom& room) {
    for (gv_i32 layer = 0; layer < a.num_layers; ++layer) {
        const GvHostTensor& weights = gv_weights(network, layer);
        const gv_i32 columns = GV_UP(weights.outputs);
        const GvFactor below = {room.units[layer], GV_UP(weights.inputs), 1};
        const GvHostTensor& biases = gv_biases(network, layer);
        const float* start = gv_form(a, biases, biases.backward_at);
        float* units = room.units[layer + 1];
        const bool hidden = layer + 1 < a.num_layers;
        if (weights.forward_at == GV_NO_FORM) {
            gv_few_products(rows, weights.outputs, weights.inputs, below.at, gv_form(a, weights, weights.backward_at), start, units,
                            columns);
            continue;
        }
        const float* factor = gv_form(a, weights, weights.forward_at);
        if (hidden && a.activation == GV_RELU) {
            gv_product(rows, columns, weights.inputs, below, factor, columns, start, 0, units, columns, GvRectified());
            continue;
        }
        gv_product(rows, columns, weights.inputs, below, factor, columns, start, 0, units, columns);
        if (hidden) gv_activate(a.activation, units, room.slopes[layer + 1], (gv_i64)rows * columns);
    }
}

// Sums of a gradient. Those of the first tile begin at zeros, of which there are as many as columns.
struct GvGradientSums {
    float* at;          // null: the gradient is not wanted
    const float* zeros;  // null: the numbers in `at` count
};

// Adds the products of derivatives and units of a layer over the rows, as its weights are stored, and the derivatives.
GV_FN void gv_add_gradient(const GvHostTensor& weights, const GvHostTensor& biases, gv_i32 rows, const GvRoom& room, gv_i32 layer,
                           const GvGradientSums& sums) {
    const gv_i32 columns = GV_UP(weights.outputs), below = GV_UP(weights.inputs);
    const float* units = room.units[layer];
    float *products = sums.at + weights.partial_at, *total = sums.at + biases.partial_at;
    const bool is_first = sums.zeros != nullptr;
    const float* start = is_first ? sums.zeros : products;
    if (weights.by_inputs != 0) {
        gv_product(weights.inputs, columns, rows, {units, 1, below}, room.deltas, columns, start, is_first ? 0 : columns, products,
                   columns);
    } else {
        gv_product(weights.outputs, below, rows, {room.deltas, 1, columns}, units, below, start, is_first ? 0 : below, products, below);
    }
    for (gv_i32 first = 0; first < columns; first += GV_WIDTH) {
        GvVector sum = gv_load_vector(is_first ? sums.zeros : total + first);
        for (gv_i32 row = 0; row < rows; ++row) sum += gv_load_vector(room.deltas + (gv_i64)row * columns + first);
        gv_store_vector(total + first, sum);
    }
}

// Adds the products of derivatives and units over the rows to `sums`, layer by layer from the outputs on.
// room.deltas are the derivatives by the outputs; they change. Returns those by the features, or null if their weights have no form.
GV_FN const float* gv_backward(const GvArgs& a, const GvHostTensor* network, gv_i32 rows, GvRoom room,
                               const GvGradientSums& sums) {
    for (gv_i32 layer = a.num_layers - 1; layer >= 0; --layer) {
        const GvHostTensor& weights = gv_weights(network, layer);
        const gv_i32 columns = GV_UP(weights.outputs), below = GV_UP(weights.inputs);
        if (sums.at != nullptr) gv_add_gradient(weights, gv_biases(network, layer), rows, room, layer, sums);
        if (weights.backward_at == GV_NO_FORM) return nullptr;
        const GvFactor deltas_of = {room.deltas, columns, 1};
        const float *factor = gv_form(a, weights, weights.backward_at), *zeros = a.packed;  // it begins with zeros
        if (layer > 0 && a.activation == GV_RELU) {
            const GvRectifiedSlopes slopes = {room.units[layer], room.other};
            gv_product(rows, below, weights.outputs, deltas_of, factor, below, zeros, 0, room.other, below, slopes);
        } else {
            gv_product(rows, below, weights.outputs, deltas_of, factor, below, zeros, 0, room.other, below);
            if (layer == 0) return room.other;
            gv_multiply_slopes(a.activation, room.other, room.units[layer], room.slopes[layer], (gv_i64)rows * below);
        }
        float* deltas = room.deltas;
        room.deltas = room.other;
        room.other = deltas;
    }
    return nullptr;
}
