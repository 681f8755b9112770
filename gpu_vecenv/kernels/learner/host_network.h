// Networks on the host in float32: a team computes tiles of GV_ROWS rows, whose features, units and derivatives lie in its room.
// A matrix of a tile has a row for each row, and a multiple of GV_STEP columns; those behind its units are zeros.
#pragma once
#include "learner/host_products.h"
#include "learner/slab.h"
#include "lib/host_powers.h"

#define GV_UP(n) (((n) + GV_STEP - 1) / GV_STEP * GV_STEP)

// Pairs of weights and biases of network 0, the actor, or 1, the critic.
GV_FN const GvHostTensor* gv_network(const GvArgs& a, gv_i32 number) { return a.tensors + (number != 0 ? a.critic_first : 0); }
GV_FN const GvHostTensor& gv_weights(const GvHostTensor* network, gv_i32 layer) { return network[2 * layer]; }
GV_FN const GvHostTensor& gv_biases(const GvHostTensor* network, gv_i32 layer) { return network[2 * layer + 1]; }

// The arrays of a team, for one network at a time. `units[i]` are the units of layer i, from the features to the outputs.
// `slopes[i]` are the derivatives of hidden units of SiLU by their sums; those of other activations follow from the units.
struct GvRoom {
    float* units[GV_MOST_LAYERS + 1];
    float* slopes[GV_MOST_LAYERS];
    float *deltas, *other;  // derivatives by the units of two neighbouring layers
    float* rest;            // see gv_loss_room
};
GV_FN GvRoom gv_room(const GvArgs& a, gv_i32 team) {
    float* at = a.room + (gv_i64)team * a.room_floats;
    const auto take = [&](gv_i32 columns) {
        float* taken = at;
        at += GV_ROWS * (gv_i64)columns;
        return taken;
    };
    GvRoom room;
    room.units[0] = take(GV_UP(a.features));
    for (gv_i32 layer = 0; layer < a.num_layers; ++layer) {
        room.units[layer + 1] = take(GV_UP(gv_weights(a.tensors, layer).outputs));  // a critic has fewer outputs
    }
    for (gv_i32 layer = 1; layer < a.num_layers; ++layer) {
        room.slopes[layer] = a.activation == GV_SILU ? take(GV_UP(gv_weights(a.tensors, layer - 1).outputs)) : nullptr;
    }
    room.deltas = take(a.most_columns);
    room.other = take(a.most_columns);
    room.rest = at;
    return room;
}

// Copies a parameter to the two forms of its factors: columns are units of the layer, or units of the layer below.
GV_FN void gv_pack_tensor(const GvArgs& a, const GvHostTensor& tensor) {
    const gv_i32 units = GV_UP(tensor.outputs), below = GV_UP(tensor.inputs);
    float *forward = a.packed + tensor.forward_at, *backward = a.packed + tensor.backward_at;
    for (gv_i32 n = 0; n < tensor.outputs; ++n) {
        for (gv_i32 k = 0; k < tensor.inputs; ++k) {
            const float x = tensor.weight[(gv_i64)n * tensor.inputs + k];
            if (tensor.forward_at >= 0) forward[(gv_i64)k * units + n] = x;
            if (tensor.backward_at >= 0) backward[(gv_i64)n * below + k] = x;
        }
    }
}

// Normalised features of samples; zeros for rows without one, which have the number -1.
GV_FN void gv_features(const GvArgs& a, const gv_i32* samples, gv_i32 rows, float* features) {
    const gv_i32 count = a.features, columns = GV_UP(count);
    const float limit = a.norm.limit;
    for (gv_i32 row = 0; row < rows; ++row) {
        float* to = features + (gv_i64)row * columns;
        for (gv_i32 i = count; i < columns; ++i) to[i] = 0.0f;
        if (samples[row] < 0) {
            for (gv_i32 i = 0; i < count; ++i) to[i] = 0.0f;
            continue;
        }
        const float* from = gv_sample(a.obs, samples[row], a.samples_per_step);
        GV_INDEPENDENT
        for (gv_i32 i = 0; i < count; ++i) {
            to[i] = gv_clamp((from[i] - a.norm.offset[i]) * a.norm.scale[i] + a.norm.shift[i], -limit, limit);
        }
    }
}

// Replaces sums by units, and stores slopes of SiLU: of y = x s with s = 1 / (1 + exp(-x)) it is s + y (1 - s).
GV_FN void gv_activate(gv_i32 activation, float* x, float* slopes, gv_i64 count) {
    const auto each = [&](auto activated) {
        for (gv_i64 i = 0; i < count; i += GV_WIDTH) gv_store_vector(x + i, activated(gv_load_vector(x + i)));
    };
    if (activation == GV_TANH) each([](const GvVector& y) GV_LAMBDA { return gv_tanh(y); });
    if (activation == GV_RELU) each([](const GvVector& y) GV_LAMBDA { return y < 0.0f ? GvVector{} : y; });
    if (activation == GV_ELU) each([](const GvVector& y) GV_LAMBDA { return y < 0.0f ? gv_exp(y) - 1.0f : y; });
    for (gv_i64 i = 0; activation == GV_SILU && i < count; i += GV_WIDTH) {
        const GvVector sum = gv_load_vector(x + i), share = 1.0f / (1.0f + gv_exp(-sum)), y = sum * share;
        gv_store_vector(x + i, y);
        gv_store_vector(slopes + i, share + y * (1.0f - share));
    }
}

// Multiplies derivatives by units to those by their sums.
GV_FN void gv_multiply_slopes(gv_i32 activation, float* deltas, const float* units, const float* slopes, gv_i64 count) {
    if (activation == GV_SILU) units = slopes;
    const auto each = [&](auto product) {
        for (gv_i64 i = 0; i < count; i += GV_WIDTH) {
            gv_store_vector(deltas + i, product(gv_load_vector(deltas + i), gv_load_vector(units + i)));
        }
    };
    if (activation == GV_TANH) each([](const GvVector& d, const GvVector& y) GV_LAMBDA { return d * (1.0f - y * y); });
    if (activation == GV_RELU) each([](const GvVector& d, const GvVector& y) GV_LAMBDA { return y > 0.0f ? d : GvVector{}; });
    if (activation == GV_ELU) each([](const GvVector& d, const GvVector& y) GV_LAMBDA { return y > 0.0f ? d : d * (y + 1.0f); });
    if (activation == GV_SILU) each([](const GvVector& d, const GvVector& slope) GV_LAMBDA { return d * slope; });
}

// Units of all layers from the features.
GV_FN void gv_forward(const GvArgs& a, const GvHostTensor* network, gv_i32 rows, const GvRoom& room) {
    for (gv_i32 layer = 0; layer < a.num_layers; ++layer) {
        const GvHostTensor& weights = gv_weights(network, layer);
        const gv_i32 columns = GV_UP(weights.outputs);
        const GvFactor below = {room.units[layer], GV_UP(weights.inputs), 1};
        gv_product(rows, columns, weights.inputs, below, a.packed + weights.forward_at, columns,
                   a.packed + gv_biases(network, layer).backward_at, 0, room.units[layer + 1], columns);
        if (layer + 1 == a.num_layers) return;
        gv_activate(a.activation, room.units[layer + 1], room.slopes[layer + 1], (gv_i64)rows * columns);
    }
}

// Adds the products of derivatives and units over the rows to `sums`, layer by layer from the outputs on. room.deltas are the
// derivatives by the outputs; they change.
GV_FN void gv_backward(const GvArgs& a, const GvHostTensor* network, gv_i32 rows, GvRoom room, float* sums) {
    for (gv_i32 layer = a.num_layers - 1; layer >= 0; --layer) {
        const GvHostTensor& weights = gv_weights(network, layer);
        const gv_i32 columns = GV_UP(weights.outputs), below = GV_UP(weights.inputs);
        float *products = sums + weights.partial_at, *total = sums + gv_biases(network, layer).partial_at;
        gv_product(weights.outputs, below, rows, {room.deltas, 1, columns}, room.units[layer], below, products, below, products,
                   below);
        for (gv_i32 first = 0; first < columns; first += GV_WIDTH) {
            GvVector sum = gv_load_vector(total + first);
            for (gv_i32 row = 0; row < rows; ++row) sum += gv_load_vector(room.deltas + (gv_i64)row * columns + first);
            gv_store_vector(total + first, sum);
        }
        if (layer == 0) return;
        gv_product(rows, below, weights.outputs, {room.deltas, columns, 1}, a.packed + weights.backward_at, below, a.packed, 0,
                   room.other, below);  // a.packed begins with zeros
        gv_multiply_slopes(a.activation, room.other, room.units[layer], room.slopes[layer], (gv_i64)rows * below);
        float* deltas = room.deltas;
        room.deltas = room.other;
        room.other = deltas;
    }
}
