// The update of PPO on the host, in float32 and for networks of any sizes.
//
//   gv_pack      copies the weights to the forms of factors
//   gv_gradient  a team computes the gradient of one network over its tiles of rows
//   gv_reduce    adds the sums of all teams, in a fixed order
//   gv_square    squares of the sums of several processes
//   gv_adam      clips the gradient and takes the step, or leaves it out, and packs the weights
//   gv_outputs   outputs of one network for all rows
//
// Numbers of teams and tiles follow from shapes alone, so results do not depend on the number of threads.
#include "learner/host_loss.h"
#include "learner/totals.h"

// Pairs of weights and biases of network 0, the actor, or 1, the critic.
GV_FN const GvHostTensor* gv_network(const GvArgs& a, gv_i32 number) { return a.tensors + (number != 0 ? a.critic_first : 0); }
GV_FN GvRoom gv_room(const GvArgs& a, gv_i32 team) {
    float* at = a.room + (gv_i64)team * a.room_floats;
    GvRoom room = gv_units_room(a, a.tensors, at);  // a critic has fewer outputs
    room.deltas = at;
    room.other = at + GV_ROWS * (gv_i64)a.most_columns;
    room.rest = room.other + GV_ROWS * (gv_i64)a.most_columns;
    return room;
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

// Sums of a team: those of the actor, then those of the critic. The terms of a network are the last ones.
GV_FN float* gv_partial_of(const GvArgs& a, gv_i32 network, gv_i32 block) {
    return a.partial + (gv_i64)block * (a.actor_partial + a.critic_partial) + (network == 0 ? 0 : a.actor_partial);
}
GV_FN gv_i32 gv_terms_at(const GvArgs& a, gv_i32 network) {
    return (network == 0 ? a.actor_partial : a.critic_partial) - GV_MOST_TERMS;
}

// Learns from a tile for one network. `rows` have their features in the room.
GV_FN void gv_learn(const GvArgs& a, const GvHostSettings& settings, gv_i32 number, gv_i32 rows, const GvRoom& room,
                    const GvLossRows& loss, float* partial, GvSums& sums) {
    const GvHostTensor* network = gv_network(a, number);
    const GvLossRoom of_loss = gv_loss_room(a, room);
    const gv_i32 outputs = number == 0 ? a.outputs : 1;
    gv_forward(a, network, rows, room);
    gv_transpose(room.units[a.num_layers], GV_UP(outputs), outputs, rows, of_loss.outputs);
    __builtin_memset(room.deltas, 0, sizeof(float) * rows * GV_UP(outputs));
    if (number == 1) gv_values_loss(a, settings, loss, rows, of_loss.outputs, room.deltas, sums);
    else if (a.box.log_std != nullptr) gv_numbers_loss(a, settings, loss, rows, of_loss, room.deltas, sums);
    else gv_choices_loss(a, settings, loss, rows, of_loss, room.deltas, sums);
    gv_backward(a, network, rows, room, {partial, nullptr});
}

// A team learns for both networks, as they read the same features, from adjacent tiles.
GV_FN void gv_gradient_block(const GvArgs& a, const GvLanes&, gv_i32 block) {
    const GvRoom room = gv_room(a, block);
    const GvHostSettings settings = {*a.clip_coef, *a.entropy_coef, a.value_coef, a.moments[0], a.moments[1]};
    const gv_i32 tiles = (a.rows + GV_ROWS - 1) / GV_ROWS;
    __builtin_memset(gv_partial_of(a, 0, block), 0, sizeof(float) * (a.actor_partial + a.critic_partial));
    GvSums sums = {};
    GvLossRows loss;
    for (gv_i32 tile = tiles * block / a.blocks; tile < tiles * (block + 1) / a.blocks; ++tile) {
        const gv_i32 first = tile * GV_ROWS, rest = a.rows - first, rows = rest < GV_ROWS ? GV_UP(rest) : GV_ROWS;
        gv_load_rows(a, settings, first, rows, loss);
        gv_features(a, loss.sample, rows, room.units[0]);
        for (gv_i32 network = 0; network < 2; ++network) {
            gv_learn(a, settings, network, rows, room, loss, gv_partial_of(a, network, block), sums);
        }
    }
    for (gv_i32 term = 0; term < GV_MOST_TERMS; ++term) {
        float sum = 0.0f;
        for (gv_i32 i = 0; i < GV_LANES_OF_SUMS; ++i) sum += sums.terms[term][i];
        for (gv_i32 network = 0; network < 2; ++network) gv_partial_of(a, network, block)[gv_terms_at(a, network) + term] = sum;
    }
}

GV_FN void gv_square_tensor(const GvArgs& a, const GvLanes&, gv_i32 t) {
    const GvHostTensor& tensor = a.tensors[t];
    a.squares[t] = gv_squares(a.sums + tensor.first, tensor.outputs * tensor.inputs);
}

// Adds up a parameter. One team more, the last one, adds up the terms.
GV_FN void gv_reduce_tensor(const GvArgs& a, const GvLanes& team, gv_i32 t) {
    const auto add = [&](gv_i32 network, gv_i32 at, gv_i32 count, float* sum) {
        for (gv_i32 i = 0; i < count; ++i) sum[i] = 0.0f;
        for (gv_i32 block = 0; block < a.blocks; ++block) {
            const float* partial = gv_partial_of(a, network, block) + at;
            GV_INDEPENDENT
            for (gv_i32 i = 0; i < count; ++i) sum[i] += partial[i];
        }
    };
    if (t == a.num_tensors) {
        add(0, gv_terms_at(a, 0), GV_VALUE_LOSS, a.sums + a.actor_terms);
        add(1, gv_terms_at(a, 1) + GV_VALUE_LOSS, 1 + a.two_counts, a.sums + a.critic_terms);
        return;
    }
    const GvHostTensor& tensor = a.tensors[t];
    const gv_i32 network = t >= a.critic_first ? 1 : 0;
    for (gv_i32 n = 0; n < tensor.outputs; ++n) {
        add(network, tensor.partial_at + n * GV_UP(tensor.inputs), tensor.inputs, a.sums + tensor.first + n * tensor.inputs);
    }
    gv_square_tensor(a, team, t);
}

GV_FN GvStep gv_step_of(const GvArgs& a) {
    const float choices = a.sums[a.actor_terms + GV_COUNT], count = a.two_counts ? a.sums[a.critic_terms + 1] : choices;
    const float of_actor = 1.0f / gv_max(choices, 1.0f), of_critic = 1.0f / gv_max(count, 1.0f);
    float actor = 0.0f, critic = 0.0f;
    for (gv_i32 t = 0; t < a.num_tensors; ++t) (t < a.critic_first ? actor : critic) += a.squares[t];
    const float norm = gv_sqrt(actor * (of_actor * of_actor) + critic * (of_critic * of_critic));
    const float excess = gv_max(norm / a.max_grad_norm, 1.0f);
    const bool wanted = count > 0.0f && a.stopped[a.epoch] == 0;
    return {wanted, wanted && norm < GV_INFINITY, norm, of_actor / excess, of_critic / excess, a.steps[a.minibatch]};
}

// Adam of a parameter. torch.optim.Adam computes the same. One team more, the last one, adds to the totals.
GV_FN void gv_adam_tensor(const GvArgs& a, const GvLanes&, gv_i32 t) {
    const GvStep step = gv_step_of(a);
    if (t == a.num_tensors) {
        GvTotals now = {};
        for (gv_i32 i = 0; i < 9; ++i) now.totals[i] = a.totals[i];
        for (gv_i32 i = 0; i < 2; ++i) now.started[i] = a.epoch_start[i];
        for (gv_i32 i = 0; i < 5; ++i) now.terms[i] = a.sums[a.actor_terms + i];
        now.value_loss = a.sums[a.critic_terms];
        now.count = a.two_counts ? a.sums[a.critic_terms + 1] : now.terms[GV_COUNT];
        gv_add_to_totals(a, step, a.stopped[a.epoch] == 0, now);
        return;
    }
    if (!step.taken) return;
    const GvHostTensor& tensor = a.tensors[t];
    const float factor = t >= a.critic_first ? step.of_critic : step.of_actor;
    gv_take_step(tensor, a.sums + tensor.first, factor, *a.rate, a.eps, step.before + 1.0f);
    *tensor.step = step.before + 1.0f;
    gv_pack_tensor(a, tensor);
}

GV_FN void gv_pack_one(const GvArgs& a, const GvLanes&, gv_i32 t) { gv_pack_tensor(a, a.tensors[t]); }

// A team computes tiles at a distance of a.teams.
GV_FN void gv_output_tiles(const GvArgs& a, const GvLanes&, gv_i32 team) {
    const GvHostTensor* network = gv_network(a, a.network);
    const GvRoom room = gv_room(a, team);
    const gv_i32 outputs = a.network == 0 ? a.outputs : 1, columns = GV_UP(outputs);
    for (gv_i32 first = team * GV_ROWS; first < a.rows; first += a.teams * GV_ROWS) {
        const gv_i32 rest = a.rows - first, used = rest < GV_ROWS ? rest : GV_ROWS, rows = GV_UP(used);
        gv_i32 samples[GV_ROWS];
        bool any = a.mask.at == nullptr;
        for (gv_i32 row = 0; row < rows; ++row) {
            samples[row] = row < used ? first + row : -1;
            if (a.mask.at == nullptr || row >= used) continue;
            any = any || ((const gv_u8*)a.mask.at)[gv_place_in(a.mask, first + row, a.samples_per_step)] != 0;
        }
        if (!any) continue;  // nobody reads them
        gv_features(a, samples, rows, room.units[0]);
        gv_forward(a, network, rows, room);
        for (gv_i32 row = 0; row < used; ++row) {
            const float* from = room.units[a.num_layers] + (gv_i64)row * columns;
            for (gv_i32 i = 0; i < outputs; ++i) a.result[(gv_i64)(first + row) * outputs + i] = from[i];
        }
    }
}

GV_PLAIN_KERNEL(gv_pack, gv_pack_one)
GV_PLAIN_KERNEL(gv_gradient, gv_gradient_block)
GV_PLAIN_KERNEL(gv_reduce, gv_reduce_tensor)
GV_PLAIN_KERNEL(gv_square, gv_square_tensor)
GV_PLAIN_KERNEL(gv_adam, gv_adam_tensor)
GV_PLAIN_KERNEL(gv_outputs, gv_output_tiles)
