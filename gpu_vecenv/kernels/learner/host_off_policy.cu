// A gradient step of SAC, TD3 or DDPG on the host, in float32 and for networks of any sizes. Its phases follow each other, and the
// teams of a phase are independent:
//
//   GV_FORMS                copies the weights to the forms of factors
//   GV_LEARN                computes the gradient of the critics, or of the policy, over a team's tiles of rows
//   GV_ADD_UP               adds the sums of all teams, in a fixed order, and computes the terms
//   GV_DECIDE, GV_TAKE      decides whether a step of Adam is taken, and takes it
//   GV_FOLLOW               moves the target networks
//
// gv_phase computes a phase, and gv_gradient_step all of them on one thread. gv_weigh prepares the rows of a batch, and gv_act
// draws actions of the policy in rollouts.
//
// Numbers of teams and tiles follow from shapes alone, so results do not depend on the number of threads. Semantics are those of
// gpu_vecenv/train/algorithms: SAC.gradient_step() and TD3.gradient_step(). SAC has a temperature, the others do not.
#include "learner/host_adam.h"
#include "learner/host_network.h"
#include "policy/draw.h"
#include "policy/squash.h"

// Sums of a team behind those of its gradient.
enum { GV_LOSS = 0, GV_VALUE = 1, GV_WEIGHT = 2, GV_ENTROPY = 3 };

GV_FN const GvHostTensor* gv_network(const GvArgs& a, gv_i32 number) { return a.tensors + 2 * a.num_layers * number; }
GV_FN gv_i32 gv_output_columns(const GvArgs& a, const GvHostTensor* network) {
    return GV_UP(gv_weights(network, a.num_layers - 1).outputs);
}

// The memory of a team for a tile of rows. Derivatives by the actions, [rows, entries], are sums over critics.
struct GvTile {
    GvRoom policy, critics[2];
    float *action, *of_action;  // [rows, entries]
    float *target, *log_prob;   // [rows]
    gv_i32 first, rows;
    bool is_first;  // of its team
};
GV_FN GvTile gv_tile_of(const GvArgs& a, gv_i32 team) {
    float* at = a.room + (gv_i64)team * a.room_floats;
    const auto take = [&](gv_i32 columns) {
        float* taken = at;
        at += GV_ROWS * (gv_i64)columns;
        return taken;
    };
    GvTile tile = {};
    tile.policy = gv_units_room(a, gv_network(a, 0), at);
    for (gv_i32 i = 0; i < a.critics; ++i) tile.critics[i] = gv_units_room(a, gv_network(a, a.first_critic), at);
    float *deltas = take(a.most_columns), *other = take(a.most_columns);
    GvRoom* rooms[] = {&tile.policy, &tile.critics[0], &tile.critics[1]};
    for (GvRoom* room : rooms) {
        room->deltas = deltas;
        room->other = other;
    }
    tile.action = take(a.entries);
    tile.of_action = take(a.entries);
    tile.target = take(1);
    tile.log_prob = take(1);
    return tile;
}

// Calls learn(tile) for the tiles of a team.
template <class Learn>
GV_FN void gv_each_tile(const GvArgs& a, gv_i32 block, const Learn& learn) {
    GvTile tile = gv_tile_of(a, block);
    const gv_i32 tiles = (a.rows + GV_ROWS - 1) / GV_ROWS;
    for (gv_i32 number = tiles * block / a.blocks; number < tiles * (block + 1) / a.blocks; ++number) {
        tile.first = number * GV_ROWS;
        tile.is_first = number == tiles * block / a.blocks;
        tile.rows = a.rows - tile.first < GV_ROWS ? a.rows - tile.first : GV_ROWS;
        learn(tile);
    }
}

// Writes the numbers of rows behind each other, with zeros up to the end of a row of features.
GV_FN void gv_join(const float* first, gv_i32 count, const float* second, gv_i32 more, gv_i32 rows, float* to) {
    const gv_i32 columns = GV_UP(count + more);
    for (gv_i32 row = 0; row < rows; ++row, to += columns) {
        for (gv_i32 i = 0; i < count; ++i) to[i] = first[(gv_i64)row * count + i];
        for (gv_i32 i = 0; i < more; ++i) to[count + i] = second[(gv_i64)row * more + i];
        for (gv_i32 i = count + more; i < columns; ++i) to[i] = 0.0f;
    }
}

GV_FN GvSquashed gv_squashed_output(const GvArgs& a, const float* outputs, gv_i32 entry, float noise) {
    return gv_squashed(outputs[entry], outputs[a.entries + entry], noise, a.low, a.high);
}

// Actions of a policy for the features of the tile, and their log-densities. Those of TD3's target policy are smoothed.
GV_FN void gv_choose(const GvArgs& a, const GvHostTensor* network, const GvTile& tile, const float* noise, bool smooths) {
    gv_forward(a, network, tile.rows, tile.policy);
    const gv_i32 columns = gv_output_columns(a, network);
    const bool draws = smooths || a.log_temperature != nullptr;  // otherwise there is no noise
    for (gv_i32 row = 0; row < tile.rows; ++row) {
        const float* outputs = tile.policy.units[a.num_layers] + (gv_i64)row * columns;
        float sum = 0.0f;
        for (gv_i32 entry = 0; entry < a.entries; ++entry) {
            const gv_i64 at = (gv_i64)row * a.entries + entry;
            const float drawn = draws ? noise[(gv_i64)tile.first * a.entries + at] : 0.0f;
            float action;
            if (a.log_temperature != nullptr) {
                const GvSquashed now = gv_squashed_output(a, outputs, entry, drawn);
                sum += gv_log_density(now, drawn);
                action = now.action;
            } else {
                action = gv_tanh(outputs[entry]);
                // Equation 14 of Fujimoto et al. 2018.
                if (smooths) action = gv_clamp(action + gv_clamp(a.target_noise * drawn, -a.noise_clip, a.noise_clip), -1.0f, 1.0f);
            }
            tile.action[at] = action;
        }
        tile.log_prob[row] = sum;
    }
}

// The value of a critic for a row of its tile.
GV_FN float gv_value(const GvArgs& a, const GvRoom& room, gv_i32 row) { return room.units[a.num_layers][(gv_i64)row * GV_STEP]; }

// True if a value is less than the smallest one so far; NaN stays.
GV_FN bool gv_is_less(float value, float least) { return value < least || value != value; }

GV_FN float gv_temperature(const GvArgs& a) { return a.log_temperature == nullptr ? 0.0f : gv_exp(*a.log_temperature); }

// Targets of the critics: reward plus discounted value of the next observation.
GV_FN void gv_find_targets(const GvArgs& a, const GvTile& tile) {
    const float *after = a.after + (gv_i64)tile.first * a.features, alpha = gv_temperature(a);
    gv_join(after, a.features, nullptr, 0, tile.rows, tile.policy.units[0]);
    gv_choose(a, gv_network(a, a.next_policy), tile, a.noise, a.target_noise != 0.0f);
    const GvRoom& room = tile.critics[0];
    gv_join(after, a.features, tile.action, a.entries, tile.rows, room.units[0]);
    for (gv_i32 critic = 0; critic < a.critics; ++critic) {
        gv_forward(a, gv_network(a, a.first_critic + a.critics + critic), tile.rows, room);
        for (gv_i32 row = 0; row < tile.rows; ++row) {
            const float value = gv_value(a, room, row);
            if (critic == 0 || gv_is_less(value, tile.target[row])) tile.target[row] = value;
        }
    }
    for (gv_i32 row = 0; row < tile.rows; ++row) {
        const gv_i32 at = tile.first + row;
        tile.target[row] = a.reward[at] + a.discount[at] * (tile.target[row] - alpha * tile.log_prob[row]);
    }
}

GV_FN void gv_learn_critics_block(const GvArgs& a, const GvLanes&, gv_i32 block) {
    float *sums = a.partial + (gv_i64)block * a.partial_floats, *terms = sums + a.terms_at;
    __builtin_memset(terms, 0, sizeof(float) * GV_STEP);
    gv_each_tile(a, block, [&](const GvTile& tile) {
        gv_find_targets(a, tile);
        const GvRoom& room = tile.critics[0];
        gv_join(a.before + (gv_i64)tile.first * a.features, a.features, a.action + (gv_i64)tile.first * a.entries, a.entries,
                tile.rows, room.units[0]);
        for (gv_i32 critic = 0; critic < a.critics; ++critic) {
            const GvHostTensor* network = gv_network(a, a.first_critic + critic);
            gv_forward(a, network, tile.rows, room);
            __builtin_memset(room.deltas, 0, sizeof(float) * tile.rows * GV_STEP);
            for (gv_i32 row = 0; row < tile.rows; ++row) {
                const gv_i32 at = tile.first + row;
                const float value = gv_value(a, room, row), error = value - tile.target[row], share = a.weighted[at];
                terms[GV_LOSS] += share * error * error;
                terms[GV_VALUE] += share * value;
                terms[GV_WEIGHT] += share;
                room.deltas[(gv_i64)row * GV_STEP] = 2.0f * a.factor * share * error;
                if (a.error != nullptr) a.error[at] = (critic == 0 ? 0.0f : a.error[at]) + gv_abs(error) / (float)a.critics;
            }
            gv_backward(a, network, tile.rows, room, {sums, tile.is_first ? a.packed : nullptr});  // it begins with zeros
        }
    });
}

// Moves the units of a row of hidden layers to an earlier row.
GV_FN void gv_move_units(const GvArgs& a, const GvHostTensor* network, const GvRoom& room, gv_i32 from, gv_i32 to) {
    for (gv_i32 layer = 1; layer < a.num_layers && from != to; ++layer) {
        const gv_i64 columns = GV_UP(gv_weights(network, layer).inputs);
        __builtin_memcpy(room.units[layer] + to * columns, room.units[layer] + from * columns, sizeof(float) * columns);
        if (a.activation == GV_SILU) {
            __builtin_memcpy(room.slopes[layer] + to * columns, room.slopes[layer] + from * columns, sizeof(float) * columns);
        }
    }
}

// Derivatives by the actions: of SAC those of the smallest value, of the others those of the first one. A critic computes those of
// its own rows alone.
GV_FN void gv_climb(const GvArgs& a, const GvTile& tile, float* terms) {
    const float alpha = gv_temperature(a), *share = a.share + tile.first;
    const gv_i32 judges = a.log_temperature == nullptr ? 1 : a.critics, columns = GV_UP(a.features + a.entries);
    gv_i32 chosen[GV_ROWS];
    for (gv_i32 critic = 0; critic < judges; ++critic) {
        const GvRoom& room = tile.critics[critic];
        gv_join(a.before + (gv_i64)tile.first * a.features, a.features, tile.action, a.entries, tile.rows, room.units[0]);
        gv_forward(a, gv_network(a, a.first_critic + critic), tile.rows, room);
        for (gv_i32 row = 0; row < tile.rows; ++row) {
            const float value = gv_value(a, room, row);
            if (critic > 0 && !gv_is_less(value, tile.target[row])) continue;
            tile.target[row] = value;
            chosen[row] = critic;
        }
    }
    for (gv_i32 row = 0; row < tile.rows; ++row) {
        terms[GV_LOSS] += share[row] * (alpha * tile.log_prob[row] - tile.target[row]);
        terms[GV_ENTROPY] -= share[row] * tile.log_prob[row];
    }
    for (gv_i32 critic = 0; critic < judges; ++critic) {
        const GvHostTensor* network = gv_network(a, a.first_critic + critic);
        const GvRoom& room = tile.critics[critic];
        gv_i32 count = 0;
        for (gv_i32 row = 0; row < tile.rows; ++row) {
            if (chosen[row] != critic) continue;
            gv_move_units(a, network, room, row, count);
            float* deltas = room.deltas + GV_STEP * (gv_i64)count++;
            __builtin_memset(deltas, 0, sizeof(float) * GV_STEP);
            deltas[0] = -share[row];
        }
        const float* of_inputs = gv_backward(a, network, count, room, {nullptr, nullptr});
        for (gv_i32 row = 0; row < tile.rows; ++row) {
            if (chosen[row] != critic) continue;
            for (gv_i32 entry = 0; entry < a.entries; ++entry) {
                tile.of_action[(gv_i64)row * a.entries + entry] = of_inputs[a.features + entry];
            }
            of_inputs += columns;
        }
    }
}

GV_FN void gv_learn_actor_block(const GvArgs& a, const GvLanes&, gv_i32 block) {
    float *sums = a.partial + (gv_i64)block * a.partial_floats, *terms = sums + a.terms_at;
    __builtin_memset(terms, 0, sizeof(float) * GV_STEP);
    const GvHostTensor* network = gv_network(a, 0);
    const gv_i32 columns = gv_output_columns(a, network);
    const float alpha = gv_temperature(a);
    const float* noise = a.noise + (gv_i64)a.rows * a.entries;  // the second numbers of each row
    gv_each_tile(a, block, [&](const GvTile& tile) {
        const GvRoom& room = tile.policy;
        gv_join(a.before + (gv_i64)tile.first * a.features, a.features, nullptr, 0, tile.rows, room.units[0]);
        gv_choose(a, network, tile, noise, false);
        gv_climb(a, tile, terms);
        __builtin_memset(room.deltas, 0, sizeof(float) * tile.rows * columns);
        for (gv_i32 row = 0; row < tile.rows; ++row) {
            const float *outputs = room.units[a.num_layers] + (gv_i64)row * columns, share = a.share[tile.first + row];
            float* deltas = room.deltas + (gv_i64)row * columns;
            for (gv_i32 entry = 0; entry < a.entries; ++entry) {
                const gv_i64 at = (gv_i64)row * a.entries + entry;
                const float of_action = tile.of_action[at], action = tile.action[at];
                if (a.log_temperature == nullptr) {
                    deltas[entry] = of_action * (1.0f - action * action);
                    continue;
                }
                const float drawn = noise[(gv_i64)tile.first * a.entries + at], log_std = outputs[a.entries + entry];
                const bool within = log_std >= a.low && log_std <= a.high;
                const GvSquashed now = gv_squashed_output(a, outputs, entry, drawn);
                const GvSquashSlopes slopes = gv_squash_slopes(now, drawn, within, of_action, alpha * share);
                deltas[entry] = slopes.mean;
                deltas[a.entries + entry] = slopes.log_std;
            }
        }
        gv_backward(a, network, tile.rows, room, {sums, tile.is_first ? a.packed : nullptr});
    });
}

// The tensors of an optimiser, which follow each other: 0 critics, 1 policy, 2 temperature.
GV_FN const GvHostGroup& gv_group(const GvArgs& a) { return a.groups[a.group]; }

// True if the sums of the only team are those of all teams, without gaps.
GV_FN bool gv_is_added_up(const GvArgs& a, const GvHostTensor& tensor) {
    return a.blocks == 1 && gv_columns(tensor) % GV_STEP == 0;
}
GV_FN const float* gv_gradient(const GvArgs& a, const GvHostTensor& tensor) {
    return gv_is_added_up(a, tensor) ? a.partial + tensor.partial_at : a.sums + tensor.first;
}

// Adds up a parameter. One team more, the last one, adds up the terms.
GV_FN void gv_add_up_tensor(const GvArgs& a, const GvLanes&, gv_i32 team) {
    const auto add = [&](gv_i32 at, gv_i32 count, float* sum) {
        __builtin_memcpy(sum, a.partial + at, sizeof(float) * count);
        for (gv_i32 block = 1; block < a.blocks; ++block) {
            const float* partial = a.partial + (gv_i64)block * a.partial_floats + at;
            GV_INDEPENDENT
            for (gv_i32 i = 0; i < count; ++i) sum[i] += partial[i];
        }
    };
    if (team < gv_group(a).count) {
        const gv_i32 t = gv_group(a).first + team;
        const GvHostTensor& tensor = a.tensors[t];
        const gv_i32 rows = gv_rows(tensor), columns = gv_columns(tensor);
        for (gv_i32 row = 0; row < rows && !gv_is_added_up(a, tensor); ++row) {
            add(tensor.partial_at + row * GV_UP(columns), columns, a.sums + tensor.first + (gv_i64)row * columns);
        }
        a.squares[t] = gv_squares(gv_gradient(a, tensor), rows * columns);
        return;
    }
    float terms[GV_STEP];
    add(a.terms_at, GV_STEP, terms);
    if (a.group == 0) {
        a.results[0] = a.factor * terms[GV_LOSS];
        a.results[1] = terms[GV_VALUE] / terms[GV_WEIGHT];
        return;
    }
    a.results[2] = terms[GV_LOSS];
    if (a.log_temperature == nullptr) return;
    a.results[3] = terms[GV_ENTROPY];
    a.results[4] = gv_temperature(a);
    const gv_i32 t = a.groups[2].first;
    const float slope = a.results[4] * (a.results[3] - a.target_entropy);  // equation 18 of Haarnoja et al. 2018
    a.sums[a.tensors[t].first] = slope;
    a.squares[t] = slope * slope;
}

// Decides whether the step is taken: if it is wanted and the gradient is finite. Counts it.
GV_FN void gv_decide_step(const GvArgs& a, const GvLanes&, gv_i32 /*team*/) {
    const GvHostGroup& group = gv_group(a);
    float squares = 0.0f;
    for (gv_i32 i = 0; i < group.count; ++i) squares += a.squares[group.first + i];
    const bool taken = *a.gate != 0 && squares < GV_INFINITY;  // false for NaN
    *group.taken = taken ? 1 : 0;
    for (gv_i32 i = 0; taken && i < group.parameters; ++i) group.steps[i] += 1.0f;
}

GV_FN void gv_step_tensor(const GvArgs& a, const GvLanes&, gv_i32 team) {
    const GvHostGroup& group = gv_group(a);
    if (*group.taken == 0) return;
    const GvHostTensor& tensor = a.tensors[group.first + team];
    gv_take_step(tensor, gv_gradient(a, tensor), 1.0f, *group.rate, a.eps, *group.steps);
    if (a.group == 0) gv_pack_tensor(a, tensor);  // the policy learns from the new critics
}

// Moves a parameter of a target network by a share of the difference, as torch.lerp() does.
GV_FN void gv_follow_tensor(const GvArgs& a, const GvLanes&, gv_i32 team) {
    if (*a.gate == 0) return;
    const gv_i32 of_network = 2 * a.num_layers, of_policy = of_network * a.next_policy;  // SAC has no target policy
    const gv_i32 t = team < of_policy ? of_network + team : of_network * (a.first_critic + a.critics) + team - of_policy;
    const float* from = a.tensors[t - (team < of_policy ? of_network : of_network * a.critics)].weight;
    float *to = a.tensors[t].weight, share = a.tau;
    GV_INDEPENDENT
    for (gv_i32 i = 0; i < a.tensors[t].outputs * a.tensors[t].inputs; ++i) {
        to[i] = share < 0.5f ? to[i] + share * (from[i] - to[i]) : from[i] - (from[i] - to[i]) * (1.0f - share);
    }
}

// The action of an entry in normalised units, and its log-density: of SAC squashed, of the others with noise that explores.
GV_FN GvNumber gv_explore(const GvArgs& a, const float* outputs, gv_i64 row, gv_i32 entry) {
    const float drawn = a.likeliest != 0 ? 0.0f : gv_normal(gv_policy_draw(a.draw, row, entry), entry);
    if (a.squashes == 0) return gv_number_of(gv_tanh(outputs[entry]), a.log_deviation, drawn, a.likeliest != 0);
    const GvSquashed now = gv_squashed_output(a, outputs, entry, drawn);
    return {now.action, {gv_log_density(now, drawn), 0.0f}};
}

// A team draws for tiles at a distance of a.teams.
GV_FN void gv_act_tiles(const GvArgs& a, const GvLanes&, gv_i32 team) {
    float* at = a.room + (gv_i64)team * a.room_floats;
    const GvHostTensor* network = gv_network(a, 0);
    const GvRoom room = gv_units_room(a, network, at);
    for (gv_i32 first = team * GV_ROWS; first < a.rows; first += a.teams * GV_ROWS) {
        const gv_i32 rows = a.rows - first < GV_ROWS ? a.rows - first : GV_ROWS;
        gv_join(a.before + (gv_i64)first * a.features, a.features, nullptr, 0, rows, room.units[0]);
        gv_forward(a, network, rows, room);
        for (gv_i32 i = 0; i < rows; ++i) {
            const float* outputs = room.units[a.num_layers] + (gv_i64)i * gv_output_columns(a, network);
            float sum = 0.0f;
            for (gv_i32 entry = 0; entry < a.entries; ++entry) {
                const GvNumber number = gv_explore(a, outputs, first + i, entry);
                const float action = a.centre[entry] + a.half_width[entry] * number.value;
                a.drawn[(gv_i64)(first + i) * a.entries + entry] = gv_clamp(action, a.lowest[entry], a.highest[entry]);
                sum += number.terms.log_prob;
            }
            a.log_prob[first + i] = sum;
        }
    }
}

// Weights and normalised actions of the rows of a batch. All rows that count have the same share of a mean.
GV_FN void gv_weigh_rows(const GvArgs& a, const GvLanes&, gv_i32 /*team*/) {
    gv_i32 count = 0;
    for (gv_i32 row = 0; row < a.rows; ++row) count += a.valid[row] != 0;
    const float share = 1.0f / (float)(count > 1 ? count : 1);
    for (gv_i32 row = 0; row < a.rows; ++row) {
        a.share[row] = a.valid[row] != 0 ? share : 0.0f;
        a.weighted[row] = a.share[row] * a.importance[row / a.num_agents];
        for (gv_i32 entry = 0; entry < a.entries; ++entry) {
            const gv_i64 at = (gv_i64)row * a.entries + entry;
            a.action[at] = (a.given[at] - a.centre[entry]) / a.half_width[entry];
        }
    }
}

GV_FN void gv_pack_one(const GvArgs& a, const GvLanes&, gv_i32 t) { gv_pack_tensor(a, a.tensors[t]); }

// Computes a team's part of a phase for the optimiser a.group.
GV_FN void gv_phase_of(const GvArgs& a, const GvLanes& team, gv_i32 number) {
    if (a.phase == GV_FORMS) gv_pack_tensor(a, a.tensors[number]);
    if (a.phase == GV_LEARN && a.group == 0) gv_learn_critics_block(a, team, number);
    if (a.phase == GV_LEARN && a.group == 1) gv_learn_actor_block(a, team, number);
    if (a.phase == GV_ADD_UP) gv_add_up_tensor(a, team, number);
    if (a.phase == GV_DECIDE) gv_decide_step(a, team, number);
    if (a.phase == GV_TAKE) gv_step_tensor(a, team, number);
    if (a.phase == GV_FOLLOW) gv_follow_tensor(a, team, number);
}

GV_FN void gv_all_phases(const GvArgs& given, const GvLanes& team, gv_i32 /*number*/) {
    GvArgs a = given;
    for (gv_i32 i = a.first_phase; i < a.end_phase; ++i) {
        a.phase = a.phases[i].phase;
        a.group = a.phases[i].group;
        for (gv_i32 number = 0; number < a.phases[i].teams; ++number) gv_phase_of(a, team, number);
    }
}

GV_PLAIN_KERNEL(gv_weigh, gv_weigh_rows)
GV_PLAIN_KERNEL(gv_pack, gv_pack_one)
GV_PLAIN_KERNEL(gv_phase, gv_phase_of)
GV_PLAIN_KERNEL(gv_gradient_step, gv_all_phases)
GV_PLAIN_KERNEL(gv_act, gv_act_tiles)
