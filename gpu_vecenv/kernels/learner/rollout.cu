// A rollout of single-agent worlds in one launch: in each step the policy acts for a tile of worlds, and the env steps them. This
// text follows the .cu of an env.
//
// A group owns the worlds of its rows. One lane holds the state of a world in variables from the first step to the last, and
// reads the outputs of the network from the memory of the team. Results have the bits of gv_act (act.cu) and gv_step in turn.
#include "learner/choose.h"
#include "learner/load_network.h"
#include "learner/rows.h"
#include "protocol.h"
#include "single/step.h"

// gpu_vecenv/train/fused/rollout.py fills this struct.
struct GvRolloutArgs {
    GvArgs env;  // outputs are those of the first step; others follow row by row
    GvLayer layers[4];
    GvNorm norm;
    GvBox box;
    void* action;     // [steps, worlds, entries]
    float* log_prob;  // [steps, worlds]
    gv_i32* invalid_actions;  // unused; GV_KERNEL expects it
    gv_i32 num_worlds, num_agents;  // teams; 1
    gv_i32 steps, unused;
};
static_assert(sizeof(GvRolloutArgs) == GV_ARGS_SIZE, "as in gpu_vecenv/train/fused/arguments.py");
#undef GV_KERNEL_ARGS
#define GV_KERNEL_ARGS GvRolloutArgs

// Memory of a team: the network and features of 16 bits, then outputs.
#define GV_HALVES (GvNetwork<GV_OUTPUTS>::HALVES + GV_ROWS * GV_FEATURE_STRIDE)
#define GV_FLOATS (GvNetwork<GV_OUTPUTS>::FLOATS + GV_ROWS * GV_OUTPUT_STRIDE)
#undef GV_SCRATCH
#define GV_SCRATCH (GV_HALVES * (gv_i32)sizeof(GvHalf) / 4 + GV_FLOATS)
static_assert(GV_HALVES == GV_PLANNED_HALVES && GV_FLOATS == GV_PLANNED_FLOATS, "as in gpu_vecenv/train/fused/program.py");

// A world of a row. `number` is -1 for a row without one.
struct GvOwnWorld {
    gv_i32 number;
    GvHeld held;
    GvStart start;
    GvHeldObs obs;
    GvRowCounters counters;  // seed and world_id do not change
    GvNoise noise[GV_ENTRIES];
};

GV_FN void gv_load_own(const GvArgs& a, GvOwnWorld& own) {
    gv_load_world(a, own.number, own.held);
    gv_load_start(a, own.start);
    gv_load_flags(a, own.number, gv_may_be_finished(a), own.held);
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

// The same step as gv_step_held, but the state is neither loaded nor stored.
GV_FN void gv_step_own(const GvArgs& a, GvOwnWorld& own, GvEntry (&action)[GV_ENTRIES], gv_i32 step, gv_i64 row) {
    GvArgs local = gv_local_args(a, own.number, own.held);
    gv_load_params(local);
    gv_point_outputs(a, local, row);
    local.previous_obs = step == 0 ? a.previous_obs + (gv_i64)own.number * GV_FEATURES
                                   : a.obs + (row - a.num_worlds) * GV_FEATURES;
    local.action = action;
    local.action_bytes = 4;
    float reward = 0.0f;
    local.agent_reward = &reward;
    const GvTeam one_lane = {0, 0, 1, nullptr, nullptr, false};
    gv_hold_obs(local, own.obs);
    const bool restarts = gv_advance(local, one_lane);
    if (restarts) {
        gv_store_obs(a.final_obs, row, own.obs, gv_obs_aligned(a.final_obs));
        gv_autoreset_held(local, one_lane, own.start, own.held);
    }
    gv_store_obs(a.obs, row, own.obs, gv_obs_aligned(a.obs));
    gv_store_once(a.agent_reward + row, reward);
}

GV_FN void gv_rollout_tile(const GvRolloutArgs& r, const GvTeam& team) {
    const GvArgs& a = r.env;
    const GvGroup group = gv_group(team);
    GvHalf* halves = (GvHalf*)team.scratch;
    float* floats = (float*)(halves + GV_HALVES);
    const GvNetwork<GV_OUTPUTS> network = {halves, floats};
    const gv_i32 row = group.number * GV_OWN;
    const GvTile<GV_FEATURE_STRIDE> all = {halves + GvNetwork<GV_OUTPUTS>::HALVES}, features = gv_part(all, row, 0);
    float* outputs = floats + GvNetwork<GV_OUTPUTS>::FLOATS + row * GV_OUTPUT_STRIDE;
    GvValues<GvOwnWorld, GV_OWN> worlds;
    gv_each_value(worlds, group, [&](gv_i32 i, GvOwnWorld& own) {
        const gv_i64 number = (gv_i64)team.world * GV_ROWS + row + i;
        own.number = number < a.num_worlds ? (gv_i32)number : -1;
        if (own.number >= 0) gv_load_own(a, own);
    });
    gv_clear_halves(team, all.at, GV_ROWS * GV_FEATURE_STRIDE);  // columns behind features, and rows without a world, stay 0
    gv_load_network<GV_OUTPUTS, GV_WHOLE>(team, network, r.layers, r.norm);
    gv_block_barrier(team);
    GV_LOOP for (gv_i32 step = 0; step < r.steps; ++step) {
        gv_each_value(worlds, group, [&](gv_i32 i, GvOwnWorld& own) {
            if (own.number < 0) return;
            GV_UNROLL for (gv_i32 f = 0; f < GV_FEATURES; ++f) {
                gv_set_feature(network, features, i, f, gv_feature(a, own, step, f), r.norm.limit);
            }
            own.counters.episode = own.held.episode;
            own.counters.t = own.held.t;
            GV_UNROLL for (gv_i32 entry = 0; entry < GV_ENTRIES; ++entry) {
                own.noise[entry] = gv_noise(gv_policy_draw(own.counters, entry), entry);
            }
        });
        gv_group_barrier(group);
        GvForget forget;
        auto sums = gv_forward<GV_OWN>(network, group, features, forget);
        gv_store_outputs<GV_OUTPUTS>(sums, group, outputs);
        gv_group_barrier(group);
        gv_each_value(worlds, group, [&](gv_i32 i, GvOwnWorld& own) {
            if (own.number < 0) return;
            const gv_i64 at = (gv_i64)step * a.num_worlds + own.number;
            GvEntry action[GV_ENTRIES];
            gv_choose_own(r, own, at, outputs + i * GV_OUTPUT_STRIDE, action);
            gv_step_own(a, own, action, step, at);
        });
    }
    gv_each_value(worlds, group, [&](gv_i32, GvOwnWorld& own) {
        if (own.number >= 0) gv_store_world(a, own.number, own.held);
    });
}

GV_TILE_KERNEL(gv_rollout_with_policy, gv_rollout_tile)

#ifdef GV_PACK
#include "launch/threads.h"
#endif
