// Policies of pages: from observations to actions, a row at a time. Normalisation, layers and head are those of
// gpu_vecenv/train/policies, and the draws are those of policy/draw.cu. Sums of layers have another order than torch's.
#include "lib/powers.h"
#include "policy/draw.h"

// Kinds of activations and heads; policy_program.py has their names.
enum GvActivation { GV_NONE, GV_TANH, GV_RELU, GV_ELU, GV_SILU };
enum GvHead { GV_CHOICES, GV_GREEDY, GV_NORMAL, GV_SQUASHED, GV_TANGENT, GV_UNIFORM };

GV_FN float gv_activation(float x, gv_i32 kind) {
    if (kind == GV_TANH) return gv_tanh(x);
    if (kind == GV_RELU) return gv_max(x, 0.0f);
    if (kind == GV_SILU) return x / (1.0f + gv_exp(-x));
    return kind == GV_ELU && x < 0.0f ? gv_exp(x) - 1.0f : x;
}

// SIZE outputs of a layer, whose sums stay in registers.
template <gv_i32 SIZE>
GV_FN void gv_linear_part(const float* weights, const float* in, gv_i32 inputs, float* out, gv_i32 padded) {
    float sums[SIZE];
    GV_UNROLL for (gv_i32 k = 0; k < SIZE; ++k) sums[k] = weights[k];
    for (gv_i32 i = 0; i < inputs; ++i) {
        weights += padded;
        GV_UNROLL for (gv_i32 k = 0; k < SIZE; ++k) sums[k] += in[i] * weights[k];
    }
    GV_UNROLL for (gv_i32 k = 0; k < SIZE; ++k) out[k] = sums[k];
}

// out = bias + weights in, for outputs that are padded to a multiple of four. Four vectors of sums do not wait for each other.
GV_FN void gv_linear(const float* weights, const float* in, gv_i32 inputs, float* out, gv_i32 padded) {
    gv_i32 o = 0;
    for (; o + 16 <= padded; o += 16) gv_linear_part<16>(weights + o, in, inputs, out + o, padded);
    for (; o < padded; o += 4) gv_linear_part<4>(weights + o, in, inputs, out + o, padded);
}

// Layer normalisation, by its gains and then its shifts.
GV_FN void gv_layer_norm(const float* gains, float* x, gv_i32 size, gv_i32 padded) {
    float mean = 0.0f, variance = 0.0f;
    for (gv_i32 i = 0; i < size; ++i) mean += x[i];
    mean /= (float)size;
    for (gv_i32 i = 0; i < size; ++i) variance += (x[i] - mean) * (x[i] - mean);
    const float scale = 1.0f / gv_sqrt(variance / (float)size + 1e-5f);
    for (gv_i32 i = 0; i < size; ++i) x[i] = (x[i] - mean) * scale * gains[i] + gains[padded + i];
}

// Computes the outputs of the network for a row, and returns where they are among its hidden values.
GV_FN const float* gv_outputs(const GvArgs& a, gv_i64 row) {
    float *in = a.hidden + row * 2 * a.widest, *out = in + a.widest;
    const float* obs = a.obs + row * a.features;
    if (a.layers == 0) {  // all choices are equally likely
        for (gv_i32 i = 0; i < a.columns; ++i) in[i] = 0.0f;
        return in;
    }
    for (gv_i32 i = 0; i < a.features; ++i) {
        const float x = (obs[i] - a.offset[i]) * a.scale[i] + a.shift[i];
        in[i] = a.clip > 0.0f ? gv_clamp(x, -a.clip, a.clip) : x;
    }
    for (gv_i32 i = 0; i < a.num_ids; ++i) in[a.features + i] = i == a.draw.agent[row] ? 1.0f : 0.0f;
    const float* weights = a.weights;
    for (gv_i32 layer = 0; layer < a.layers; ++layer) {
        const gv_i32 inputs = a.sizes[layer], size = a.sizes[layer + 1], padded = (size + 3) & ~3;
        gv_linear(weights, in, inputs, out, padded);
        weights += (inputs + 1) * padded;
        if (layer + 1 < a.layers) {
            if (a.layer_norm != 0) {
                gv_layer_norm(weights, out, size, padded);
                weights += 2 * padded;
            }
            for (gv_i32 i = 0; i < size; ++i) out[i] = gv_activation(out[i], a.activation);
        }
        float* const swap = in;
        in = out, out = swap;
    }
    return in;
}

GV_FN gv_i32 gv_choice_of(const GvArgs& a, gv_i64 row, gv_i32 entry, const float* outputs) {
    const gv_i32 masked_from = a.mask_first[entry];
    const gv_u8* mask = masked_from >= 0 ? a.mask + row * a.mask_columns + masked_from : nullptr;
    const float* logits = outputs + a.first[entry];
    const gv_u32 word = gv_entry_word(gv_policy_draw(a.draw, row, entry), entry);
    if (a.head == GV_GREEDY) return gv_draw_greedy(logits, mask, a.choices[entry], word, 0.0f).index;
    const bool likeliest = a.likeliest != 0 && a.layers > 0;  // random actions stay random
    return gv_draw_choice<false>(logits, nullptr, mask, a.choices[entry], word, likeliest).index;
}

GV_FN float gv_number_of_entry(const GvArgs& a, gv_i64 row, gv_i32 entry, const float* outputs) {
    const GvDraw draw = gv_policy_draw(a.draw, row, entry);
    const float low = a.low[entry], high = a.high[entry];
    if (a.head == GV_UNIFORM) return gv_draw_uniform(low, high, gv_entry_word(draw, entry)).value;
    float x = outputs[entry];
    if (a.head == GV_NORMAL) {
        return gv_draw_normal(x, a.log_std[entry], draw, entry, a.likeliest != 0).value * a.half[entry] + a.centre[entry];
    }
    if (a.head == GV_SQUASHED && a.likeliest == 0) {
        x += gv_exp(gv_clamp(outputs[a.entries + entry], -20.0f, 2.0f)) * gv_normal(draw, entry);
    }
    return gv_clamp(a.centre[entry] + a.half[entry] * gv_tanh(x), low, high);
}

GV_FN void gv_act_row(const GvArgs& a, const GvLanes& team, gv_i32 row) {
    const float* outputs = gv_outputs(a, row);
    GV_FOR(i, a.columns) a.outputs[(gv_i64)row * a.columns + i] = outputs[i];
    GV_FOR(entry, a.entries) {
        const gv_i64 at = (gv_i64)row * a.entries + entry;
        if (a.head == GV_CHOICES || a.head == GV_GREEDY) {
            ((gv_i32*)a.action)[at] = gv_choice_of(a, row, entry, outputs);
        } else {
            ((float*)a.action)[at] = gv_number_of_entry(a, row, entry, outputs);
        }
    }
}

GV_PLAIN_KERNEL(gv_act, gv_act_row)
