// Stepping protocol shared by every env: autoreset, finished worlds, both views, flags, masks, invalid actions.
// An env's .cu includes this file and defines the four hooks below; nothing else is asked of it.
#pragma once
#include "gv_device.h"
#include "gv_math.h"
#include "gv_rng.h"
#if !defined(__CUDACC_RTC__) && !defined(__CUDACC__)
#include "gv_largest.h"
#include "gv_order.h"
#endif

#define GV_NEXT_STEP 0
#define GV_SAME_STEP 1
#define GV_DISABLED 2

#include "gv_args.h"  // generated from the env's spec: GvArgs, gv_row, gv_alive, one function per size

// ---- hooks, each called by every lane of the team -------------------------------------------------------------

// Draw the start of the episode a.episode[world]: all of the state, from nothing of the episode before.
GV_FN void env_reset(const GvArgs& a, const GvTeam& team);
// Advance one step; a.t[world] counts this step already. Write agent_reward rows and, once, a.terminated/a.truncated, 0 before.
GV_FN void env_step(const GvArgs& a, const GvTeam& team);
// Write the observation rows of this world into obs.
GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs);
// Apply what becomes visible only after the observation of this step (an agent leaving the game), each agent by its lane of
// GV_FOR; often empty.
GV_FN void env_settle(const GvArgs& a, const GvTeam& team);
// The observation of a step. An env that finds in scratch what its env_step left there defines this before it includes this file.
#ifndef GV_OBSERVE_STEP
#define GV_OBSERVE_STEP env_observe
#endif
GV_FN void GV_OBSERVE_STEP(const GvArgs& a, const GvTeam& team, float* obs);

// ---- for hooks ------------------------------------------------------------------------------------------------

// Four random words for this world's episode and step. Streams (0, 1, ...) keep the uses of one env apart.
GV_FN GvDraw gv_draw(const GvArgs& a, const GvTeam& team, gv_u32 stream, gv_u32 agent) {
    const gv_i32 w = team.world;
    return gv_philox(a.seed[w], (gv_u32)a.world_id[w], (gv_u32)a.episode[w], (gv_u32)a.t[w], stream << 16 | agent);
}

// Observation row of an agent.
GV_FN float* gv_obs_row(const GvArgs& a, float* obs, gv_i32 world, gv_i32 agent) {
    return obs + gv_row(a, world, agent) * gv_num_features(a);
}

// What is no index in 64 bits is none in 32.
GV_FN gv_i32 gv_narrow(gv_i64 index) { return index == (gv_i32)index ? (gv_i32)index : -1; }

// Index at place `at` of actions of 4 or 8 bytes.
GV_FN gv_i32 gv_index_at(const void* actions, gv_i64 at, bool wide) {
    return wide ? gv_narrow(((const gv_i64*)actions)[at]) : ((const gv_i32*)actions)[at];
}

// Index given by head `head` of `heads`, which may be none.
GV_FN gv_i32 gv_given_index(const GvArgs& a, gv_i64 row, gv_i32 head, gv_i32 heads) {
    return gv_index_at(a.action, row * heads + head, a.action_bytes == 8);
}

// An index outside [0, n) acts as 0 and is counted.
GV_FN gv_i32 gv_checked_index(const GvArgs& a, gv_i32 index, gv_i32 n) {
    if (index >= 0 && index < n) return index;
    gv_ticket(a.invalid_actions);
    return 0;
}

// Index chosen by a head. With several heads all are better read before one is checked, as each check waits for memory.
GV_FN gv_i32 gv_action_index(const GvArgs& a, gv_i64 row, gv_i32 head, gv_i32 heads, gv_i32 n) {
    return gv_checked_index(a, gv_given_index(a, row, head, heads), n);
}

// Continuous action as given, for the env to clip; NaN acts as 0 and is counted.
GV_FN float gv_action_value(const GvArgs& a, gv_i64 row, gv_i32 head, gv_i32 heads) {
    const float value = ((const float*)a.action)[row * heads + head];
    if (value == value) return value;
    gv_ticket(a.invalid_actions);
    return 0.0f;
}

template <class Value>
GV_FN void gv_sum_parts(const GvTeam& team, gv_i32 n, Value value) {
    GV_FOR(slot, n < 32 ? n : 32) {
        float part = 0.0f;
        for (gv_i32 i = slot; i < n; i += 32) part += value(i);
        team.slots[slot] = part;
    }
}

GV_FN float gv_sum_of_parts(const GvTeam& team, gv_i32 n) {
    float sum = 0.0f;
    for (gv_i32 slot = 0; slot < (n < 32 ? n : 32); ++slot) sum += team.slots[slot];
    return sum;
}

// Sum of value(0) .. value(n - 1) through 32 slots: the same order of additions for every team size.
template <class Value>
GV_FN float gv_sum(const GvTeam& team, gv_i32 n, Value value) {
    gv_barrier(team);  // the slots may still be read from an earlier sum
    gv_sum_parts(team, n, value);
    gv_barrier(team);
    return gv_sum_of_parts(team, n);
}

// Number of i in [0, n) for which test(i) is true; every lane gets it.
template <class Test>
GV_FN gv_i32 gv_tally(const GvTeam& team, gv_i32 n, Test test) {
    gv_i32 total = 0;
    for (gv_i32 first = 0; first < n; first += team.lanes) {
        const gv_i32 i = first + team.lane;
        total += gv_vote(team, i < n && test(i));
    }
    return total;
}

// Whether any lane says so; every lane gets it, and has met a barrier.
GV_FN bool gv_any(const GvTeam& team, bool said) { return gv_vote(team, said) != 0; }

// Shares out the cells of a table in the order of memory: body(row, column). Where whole rows keep most lanes busy, each lane
// stays in its column, and nothing is computed anew from row to row.
template <class Body>
GV_FN void gv_cells(const GvTeam& team, gv_i32 rows, gv_i32 columns, Body body) {
    const gv_i32 step = team.lanes / columns, rest = team.lanes - step * columns;  // rows and columns from cell to cell
    gv_i32 row = team.lane / columns, column = team.lane - row * columns;
    if (8 * rest <= team.lanes) {
        GV_LOOP for (gv_i32 end = row < step ? rows : 0; row < end; row += step) body(row, column);
        return;
    }
    GV_LOOP while (row < rows) {
        body(row, column);
        row += step;
        column += rest;
        if (column >= columns) {
            column -= columns;
            ++row;
        }
    }
}

// A team of whose warp others may not come along.
GV_FN GvTeam gv_apart(const GvTeam& team) {
    GvTeam own = team;
    own.apart = true;
    return own;
}

// ---- the protocol ---------------------------------------------------------------------------------------------

#define GV_POOL_STREAM 0xFFFFu  // of random numbers; envs count theirs from 0

// Where there is a reset pool, the fields of one of its entries replace what env_reset drew.
GV_FN void gv_start_from_pool(const GvArgs& a, const GvTeam& team) {
    const gv_i32 size = a.pool_size[0];
    if (size == 0) return;  // every pool_entry is -1
    const gv_i32 entry = size > 0 ? gv_below(gv_draw(a, team, GV_POOL_STREAM, 0).word[0], size) : -1;
    if (entry >= 0) gv_take(a, team, a.pool_fields, entry);
    GV_ONCE a.pool_entry[team.world] = entry;
}

GV_FN void gv_restart(const GvArgs& a, const GvTeam& team) {
    const gv_i32 w = team.world;
    gv_barrier(team);  // nobody may still be reading what is overwritten here
    GV_ONCE {
        a.episode[w] += 1;
        a.t[w] = 0;
        a.terminated[w] = 0;
        a.truncated[w] = 0;
    }
    gv_barrier(team);
    env_reset(a, team);
    gv_barrier(team);
    gv_start_from_pool(a, team);
    gv_barrier(team);
}

GV_FN void gv_copy_obs(const GvArgs& a, const GvTeam& team) {
    const gv_i32 features = gv_num_features(a);
    for (gv_i32 agent = 0; agent < gv_num_agents(a); ++agent) {
        const float* from = a.previous_obs + gv_row(a, team.world, agent) * features;
        float* to = gv_obs_row(a, a.obs, team.world, agent);
        GV_FOR(f, features) to[f] = from[f];
    }
}

GV_FN void gv_put_flags(const GvArgs& a, gv_i64 row, bool terminated, bool truncated, bool finishing) {
    gv_put(a.out_terminated + row, (gv_u8)terminated);
    gv_put(a.out_truncated + row, (gv_u8)truncated);
    gv_put(a.out_finished + row, (gv_u8)finishing);
}

// In the worlds view, the mean of the rewards, which are all written.
GV_FN void gv_emit_mean(const GvArgs& a, const GvTeam& team) {
    const gv_i32 w = team.world, agents = gv_num_agents(a);
    if (agents == 1 || a.agents_view) return;
    gv_sum_parts(team, agents, [&](gv_i32 agent) { return a.agent_reward[gv_row(a, w, agent)]; });
    gv_barrier_slots(team);
    GV_ONCE a.reward[w] = gv_sum_of_parts(team, agents) / (float)agents;
}

// Flags and masks. `finishing` is true in the step that ends the episode.
GV_FN void gv_emit(const GvArgs& a, const GvTeam& team, bool terminated, bool truncated, bool finishing) {
    const gv_i32 w = team.world, agents = gv_num_agents(a);
    if (agents > 1) {
        GV_FOR(agent, agents) {
            const gv_i64 row = gv_row(a, w, agent);
            const gv_u8 alive = gv_alive(a, w, agent);
            if (a.agents_view) gv_put_flags(a, row, terminated, truncated, finishing);
            a.agent_alive[row] = alive;
        }
    }
    if (agents == 1 || !a.agents_view) {  // one agent has its world's row in either view
        GV_ONCE gv_put_flags(a, w, terminated, truncated, finishing);
    }
}

GV_FN void gv_stand_still(const GvArgs& a, const GvTeam& team, bool terminated, bool truncated) {
    gv_copy_obs(a, team);
    gv_barrier(team);  // the rewards are added up by others than wrote them
    gv_emit_mean(a, team);
    gv_emit(a, team, terminated, truncated, false);
}

// Returns whether a new episode must begin at once.
GV_FN bool gv_run(const GvArgs& a, const GvTeam& team) {
    const gv_i32 w = team.world;
    env_step(a, team);
    gv_barrier(team);
    const bool terminated = a.terminated[w] != 0, truncated = a.truncated[w] != 0;
    const bool restart = (terminated || truncated) && a.autoreset == GV_SAME_STEP;
    gv_emit_mean(a, team);  // waits for memory together with the marks
    GV_OBSERVE_STEP(a, team, restart ? a.final_obs : a.obs);
    gv_barrier(team);
    env_settle(a, team);
    gv_emit(a, team, terminated, truncated, terminated || truncated);
    return restart;
}

// The step that is next, to the lane that counts it.
GV_FN gv_i32 gv_next_t(const GvArgs& a, const GvTeam& team) {
    gv_i32 t = 0;
    GV_ONCE t = a.t[team.world] + 1;
    return t;
}

// A step of a world that goes on.
GV_FN bool gv_count_and_run(const GvArgs& a, const GvTeam& team, gv_i32 t) {
    GV_ONCE a.t[team.world] = t;
    gv_barrier(team);  // every lane has read the marks before one of them changes
    return gv_run(a, team);
}

// Everything but the beginning of a new episode; returns whether there is to be one.
GV_FN bool gv_advance(const GvArgs& a, const GvTeam& team) {
    const bool terminated = a.terminated[team.world] != 0, truncated = a.truncated[team.world] != 0;
    const gv_i32 t = gv_next_t(a, team);
    if (!terminated && !truncated) return gv_count_and_run(a, team, t);
    gv_barrier(team);
    GV_FOR(agent, gv_num_agents(a)) a.agent_reward[gv_row(a, team.world, agent)] = 0.0f;
    if (a.autoreset == GV_NEXT_STEP) return true;
    gv_stand_still(a, team, terminated, truncated);  // until it is reset
    return false;
}

GV_FN void gv_begin(const GvArgs& a, const GvTeam& team) {
    gv_restart(a, team);
    env_observe(a, team, a.obs);
    if (a.autoreset == GV_NEXT_STEP) {
        gv_emit_mean(a, team);
        gv_emit(a, team, false, false, false);
    }
}

#ifndef GV_TOGETHER  // on the host a team waits for itself only
#define GV_TOGETHER(said) false
#define GV_ASKED()
#define GV_BESIDE(worlds, said) ((void)(worlds), said)
GV_FN void gv_block_barrier(const GvTeam& team) { gv_barrier(team); }
#endif

#include "gv_solo.h"

GV_FN void gv_step_world(const GvArgs& a, const GvTeam& team) {
#if defined(GV_SOLO) && GV_ONE_LANE
    gv_step_held(a, team);
#else
    const bool finished = (a.terminated[team.world] | a.truncated[team.world]) != 0;
    const gv_i32 t = gv_next_t(a, team);
    bool begins;
    if (GV_TOGETHER(!finished)) begins = gv_count_and_run(a, team, t);
    else begins = gv_advance(a, gv_apart(team));
    if (begins) gv_begin(a, gv_apart(team));
#endif
}

// Start a new episode in the worlds of reset_mask (null: all); the others keep their last observation.
GV_FN void gv_reset_world(const GvArgs& a, const GvTeam& team) {
    if (a.reset_mask == nullptr || a.reset_mask[team.world]) {
        gv_restart(a, gv_apart(team));
        env_observe(a, gv_apart(team), a.obs);
    } else if (a.previous_obs != a.obs) {
        gv_copy_obs(a, team);
    }
}

// Observe the state as it stands.
GV_FN void gv_observe_world(const GvArgs& a, const GvTeam& team) { env_observe(a, team, a.obs); }

// Copy a world over this one where copy_source says so, then observe. No world is both copied and overwritten.
GV_FN void gv_copy_world(const GvArgs& a, const GvTeam& team) {
    const gv_i32 w = team.world, source = a.copy_source[w];
    if (source >= 0) gv_take(a, team, a.copy_fields, source);
    gv_barrier(team);
    if (source >= 0 && a.fork_world >= 0) {
        GV_ONCE {
            a.seed[w] = a.fork_seed;
            a.world_id[w] = a.fork_world + w;
        }
    }
    gv_barrier(team);
    env_observe(a, team, a.obs);
}

#include "gv_rollout.h"

// On the host by blocks of worlds, as far as they go and where a block's observations fit the stack; with sizes as constants
// (tests) each by itself, as on CUDA.
#if defined(GV_SOLO) && defined(GV_BLOCK) && !defined(GV_num_features) && GV_SOLO_FEATURES <= 1024
#include "gv_block.h"
#define GV_KERNEL_BY_BLOCK(name, world, alone, blocks)                                               \
    GV_KERNEL_OF(name, { GV_HOST_TEAM w = blocks(a, team, hi); }                                      \
                       for (; w < hi; ++w) { GV_HOST_TEAM alone(a, team); })
#else
#define GV_KERNEL_BY_BLOCK(name, world, alone, blocks) GV_KERNEL(name, world)
#endif

// On CUDA rollouts are compiled by themselves (GV_PART 1), when the first is asked for: they hold every hook once more.
#if !defined(GV_PART) || GV_PART == 0
GV_KERNEL_BY_BLOCK(gv_step, gv_step_world, gv_step_alone, gv_step_blocks)
GV_KERNEL(gv_reset, gv_reset_world)
GV_KERNEL(gv_observe, gv_observe_world)
GV_KERNEL(gv_copy, gv_copy_world)
#endif
#ifdef GV_BLOCK
#include "gv_threads.h"
#endif
#if !defined(GV_PART) || GV_PART == 1
GV_KERNEL_BY_BLOCK(gv_rollout, gv_rollout_world, gv_rollout_alone, gv_rollout_blocks)
#endif
