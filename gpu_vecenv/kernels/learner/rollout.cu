// A rollout of single-agent worlds in one launch: in each step the policy acts for a tile of worlds, and the env steps them. This
// text follows the .cu of an env.
//
// One lane holds the state of a world in variables from the first step to the last, and reads the outputs of the network from the
// memory of the team. With many worlds, each group computes the network for worlds of its own. With few worlds a multiprocessor has
// so few groups that they mostly wait for results; then specialised groups share the network of a tile (GV_WORKERS > 0). Results
// have the bits of gv_act (act.cu) and gv_step in turn.
#include "learner/choose.h"
#include "learner/warp_specialised.h"
#include "learner/load_network.h"
#include "learner/rows.h"
#include "protocol.h"
#include "single/step.h"

// Memory of a team: the network, features and units of the workers of 16 bits, then outputs and their shares.
#undef GV_SCRATCH
#define GV_SCRATCH (GV_HALVES * (gv_i32)sizeof(GvHalf) / 4 + GV_FLOATS)

// A world of a row. `number` is -1 for a row without one.
struct GvOwnWorld {
    gv_i32 number;
    GvRegisterWorld registers;
    GvStart start;
    GvRegisterObs obs;
    GvRowCounters counters;  // seed and world_id do not change
    GvNoise noise[GV_ENTRIES];
};

GV_FN void gv_load_own(const GvArgs& a, GvOwnWorld& own) {
    gv_load_world(a, own.number, own.registers);
    gv_load_start(a, own.start);
    gv_load_flags(a, own.number, gv_may_be_finished(a), own.registers);
    own.counters = {a.seed[own.number], a.world_id[own.number], 0, 0, 0};
}

// Features that the policy acts on in a step: those that the step before has left in variables, or else those in memory.
GV_FN float gv_feature(const GvArgs& a, const GvOwnWorld& own, gv_i32 step, gv_i32 i) {
#if GV_FEATURES <= 32  // as in single/step.h
    if (step > 0) return own.obs.value[i];
#endif
    const gv_i64 row = (gv_i64)(step - 1) * a.num_worlds + own.number;
    return step == 0 ? a.previous_obs[(gv_i64)own.number * GV_FEATURES + i] : a.obs[row * GV_FEATURES + i];
}

// Draws the action of a world and stores it with its log-probability.
GV_FN void gv_choose_own(const GvRolloutArgs& r, const GvOwnWorld& own, gv_i64 row, float* outputs,
                         GvEntry (&action)[GV_ENTRIES]) {
    GV_UNROLL for (gv_i32 entry = 0; entry < GV_ENTRIES; ++entry) {
        const GvAction chosen = gv_choose(r.box, entry, outputs, nullptr, own.noise[entry], false);
#ifdef GV_CHOICES
        action[entry].index = chosen;
#else
        action[entry].value = chosen;
#endif
        gv_store_once((GvAction*)r.action + row * GV_ENTRIES + entry, chosen);
    }
    gv_store_once(r.log_prob + row, gv_sum_of_terms(outputs));
}

// The same step as gv_step_in_registers, but the state is neither loaded nor stored.
GV_FN void gv_step_own(const GvArgs& a, GvOwnWorld& own, GvEntry (&action)[GV_ENTRIES], gv_i32 step, gv_i64 row) {
    GvArgs local = gv_local_args(a, own.number, own.registers);
    gv_load_params(local);
    gv_point_outputs(a, local, row);
    local.previous_obs = step == 0 ? a.previous_obs + (gv_i64)own.number * GV_FEATURES
                                   : a.obs + (row - a.num_worlds) * GV_FEATURES;
    local.action = action;
    local.action_type = GV_INT32;
    float reward = 0.0f;
    local.agent_reward = &reward;
    const GvTeam one_lane = {{0, 1, nullptr, nullptr}, 0, nullptr, nullptr, own.number};
    gv_point_obs(local, own.obs);
    const bool restarts = gv_advance_in_registers(local, one_lane);
    if (restarts) {
        gv_store_obs(a.final_obs, row, own.obs, gv_obs_aligned(a.final_obs));
        gv_autoreset_in_registers(local, one_lane, own.start, own.registers);
    }
    gv_store_obs(a.obs, row, own.obs, gv_obs_aligned(a.obs));
    gv_store_once(a.agent_reward + row, reward);
}

// Worlds of the rows of a group.
typedef GvValues<GvOwnWorld, GV_OWN> GvOwnWorlds;

GV_FN void gv_load_worlds(const GvArgs& a, const GvGroup& group, gv_i64 first, GvOwnWorlds& worlds) {
    gv_each_value(worlds, group, [&](gv_i32 i, GvOwnWorld& own) {
        own.number = first + i < a.num_worlds ? (gv_i32)(first + i) : -1;
        if (own.number >= 0) gv_load_own(a, own);
    });
}

template <gv_i32 OUTPUTS>
GV_FN void gv_set_features(const GvRolloutArgs& r, const GvGroup& group, const GvNetwork<OUTPUTS>& network, GvOwnWorlds& worlds,
                           GvTile<GV_FEATURE_STRIDE> features, gv_i32 step) {
    gv_each_value(worlds, group, [&](gv_i32 i, GvOwnWorld& own) {
        if (own.number < 0) return;
        GV_UNROLL for (gv_i32 f = 0; f < GV_FEATURES; ++f) {
            gv_set_feature(network, features, i, f, gv_feature(r.env, own, step, f), r.norm.limit);
        }
    });
}

// Draws the noise of a step, which needs no outputs.
GV_FN void gv_draw_noise(const GvGroup& group, GvOwnWorlds& worlds) {
    gv_each_value(worlds, group, [&](gv_i32, GvOwnWorld& own) {
        if (own.number < 0) return;
        own.counters.episode = own.registers.episode;
        own.counters.t = own.registers.t;
        GV_UNROLL for (gv_i32 entry = 0; entry < GV_ENTRIES; ++entry) {
            own.noise[entry] = gv_noise(gv_policy_draw(own.counters, entry), entry);
        }
    });
}

// Chooses an action from the outputs of a world, and steps it.
GV_FN void gv_choose_and_step(const GvRolloutArgs& r, GvOwnWorld& own, gv_i32 step, float* outputs) {
    const gv_i64 at = (gv_i64)step * r.env.num_worlds + own.number;
    GvEntry action[GV_ENTRIES];
    gv_choose_own(r, own, at, outputs, action);
    gv_step_own(r.env, own, action, step, at);
}

#if GV_GRU_COLUMNS > 0
#include "learner/gru_tile.h"

// ---- a GRU -----------------------------------------------------------------------------------------------------

// All groups share the units of a tile of 16 worlds, and the leader steps the worlds. States of units stay in registers from the
// first step to the last.

// Begins the states anew where `keep` is 0; gv_end_step() has done so for their tile.
GV_FN void gv_forget(const GvGruTile& tile, const GvGroup& group, GvOwnState& state) {
    gv_each_chunk(group, [&](gv_i32 turn, gv_i32) {
        gv_each_pair(state.chunk[turn], group, [&](const GvPlace& place, float& x, float& y) {
            const bool goes_on = tile.keep[place.row] != 0.0f;
            x = goes_on ? x : 0.0f;
            y = goes_on ? y : 0.0f;
        });
    });
}

// Chooses the actions of a step from the outputs, and steps the worlds.
GV_FN void gv_end_step(const GvRolloutArgs& r, const GvGroup& group, const GvGruTile& tile, GvOwnWorlds& worlds, gv_i32 step) {
    gv_each_value(worlds, group, [&](gv_i32 i, GvOwnWorld& own) {
        if (own.number < 0) return;
        gv_choose_and_step(r, own, step, tile.outputs + i * GV_OUTPUT_STRIDE);
        const bool goes_on = own.registers.t != 0;  // as RowStates (train/storage/row_states.py) has it
        tile.keep[i] = goes_on ? 1.0f : 0.0f;
        if (goes_on) return;
        for (gv_i32 unit = 0; unit < GV_STATE; ++unit) gv_set(gv_state_after(tile, step), i, unit, 0.0f);
    });
}

GV_FN void gv_rollout_tile(const GvRolloutArgs& r, const GvLanes& team, gv_i32 number) {
    gv_wait_for_previous();
    const GvGroup group = gv_group(team);
    const GvGruTile tile = gv_gru_tile(team);
    const bool leads = gv_leads(group);
    const gv_i32 first = 16 * number;
    const auto world_of = [&](gv_i32 row) { return first + row < r.env.num_worlds ? first + row : -1; };
    GvOwnWorlds worlds;
    GvOwnState state;
    if (leads) gv_load_worlds(r.env, group, first, worlds);
    gv_clear_halves(team, tile.features.at, 16 * GV_FEATURE_STRIDE);  // columns behind features and rows of no world stay 0
    GV_FOR(i, 16) tile.keep[i] = 1.0f;
    gv_load_gru(team, tile.gru, r.layers, r.norm);
    gv_load_state(state, group, gv_state_before(tile, 0), r.state, world_of);
    gv_block_barrier(team);
    GV_LOOP for (gv_i32 step = 0; step < r.steps; ++step) {
        if (leads) gv_set_features(r, group, tile.gru, worlds, tile.features, step);
        gv_block_barrier(team);
        if (leads) gv_draw_noise(group, worlds);
        gv_forget(tile, group, state);
        gv_step_gru(tile, group, state, step);
        gv_block_barrier(team);
        if (!leads) continue;
        gv_gru_outputs(tile, group, step);
        gv_end_step(r, group, tile, worlds, step);
    }
    gv_start_next();
    gv_block_barrier(team);
    gv_forget(tile, group, state);
    gv_store_state(state, group, r.state, world_of);
    if (!leads) return;
    gv_each_value(worlds, group, [&](gv_i32, GvOwnWorld& own) {
        if (own.number >= 0) gv_store_world(r.env, own.number, own.registers);
    });
}

#else

// Memory that the groups of a team share.
struct GvRolloutMemory {
    GvNetwork<GV_OUTPUTS> network;
    GvTile<GV_FEATURE_STRIDE> features;  // GV_ROWS rows
    float* outputs;                      // [GV_ROWS, GV_OUTPUT_STRIDE]
    GvWorkerMemory workers;
};

#if GV_WORKERS > 0

// Steps worlds: the workers compute the network, the leader does the rest.
GV_FN void gv_step_worlds(const GvRolloutArgs& r, const GvLanes& team, const GvGroup& group, const GvRolloutMemory& memory,
                          GvOwnWorlds& worlds) {
    GV_LOOP for (gv_i32 step = 0; step < r.steps; ++step) {
        if (gv_leads(group)) gv_set_features(r, group, memory.network, worlds, memory.features, step);
        gv_specialised_forward<1>(memory.network, team, group, memory.features, memory.workers, [&] { gv_draw_noise(group, worlds); });
        if (!gv_leads(group)) continue;
        gv_each_value(worlds, group, [&](gv_i32 i, GvOwnWorld& own) {
            if (own.number < 0) return;
            float* outputs = memory.outputs + i * GV_OUTPUT_STRIDE;
            gv_sum_shares(memory.network, memory.workers, i, outputs);
            gv_choose_and_step(r, own, step, outputs);
        });
    }
}

#else

// The same; each group computes the network for worlds of its own.
GV_FN void gv_step_worlds(const GvRolloutArgs& r, const GvLanes&, const GvGroup& group, const GvRolloutMemory& memory,
                          GvOwnWorlds& worlds) {
    const gv_i32 row = group.number * GV_OWN;
    const GvTile<GV_FEATURE_STRIDE> features = gv_part(memory.features, row, 0);
    float* outputs = memory.outputs + row * GV_OUTPUT_STRIDE;
    GV_LOOP for (gv_i32 step = 0; step < r.steps; ++step) {
        gv_set_features(r, group, memory.network, worlds, features, step);
        gv_draw_noise(group, worlds);
        gv_group_barrier(group);
        GvForget forget;
        auto sums = gv_forward<GV_OWN>(memory.network, group, features, forget);
        gv_store_outputs<GV_OUTPUTS>(sums, group, outputs);
        gv_group_barrier(group);
        gv_each_value(worlds, group, [&](gv_i32 i, GvOwnWorld& own) {
            if (own.number >= 0) gv_choose_and_step(r, own, step, outputs + i * GV_OUTPUT_STRIDE);
        });
    }
}

#endif

GV_FN void gv_rollout_tile(const GvRolloutArgs& r, const GvLanes& team, gv_i32 tile) {
    gv_wait_for_previous();
    const GvGroup group = gv_group(team);
    GvHalf* halves = (GvHalf*)team.scratch;
    float* floats = (float*)(halves + GV_HALVES);
    const GvRolloutMemory memory = {{halves, floats},
                                    {halves + GV_FEATURES_AT},
                                    floats + GV_OUTPUTS_AT,
                                    {halves + GV_WORKER_AT, floats + GV_SHARES_AT}};
    const bool steps_worlds = GV_WORKERS == 0 || gv_leads(group);
    GvOwnWorlds worlds;
    if (steps_worlds) {
        gv_load_worlds(r.env, group, (gv_i64)tile * GV_ROWS + (GV_WORKERS > 0 ? 0 : group.number * GV_OWN), worlds);
    }
    gv_clear_halves(team, memory.features.at, GV_ROWS * GV_FEATURE_STRIDE);  // columns behind features and rows of no world stay 0
    gv_load_network<GV_OUTPUTS, GV_WHOLE>(team, memory.network, r.layers, r.norm);
    gv_block_barrier(team);
    gv_step_worlds(r, team, group, memory, worlds);
    gv_start_next();
    if (!steps_worlds) return;
    gv_each_value(worlds, group, [&](gv_i32, GvOwnWorld& own) {
        if (own.number >= 0) gv_store_world(r.env, own.number, own.registers);
    });
}

#endif

GV_EARLY_KERNEL(gv_rollout_with_policy, gv_rollout_tile)
