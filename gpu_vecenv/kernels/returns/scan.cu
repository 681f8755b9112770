// Recurrences over the steps of a rollout: advantages, and sums of rewards within episodes. A column is a row of the rollout. A
// team has the columns of a tile. Columns do not depend on each other, and the steps of a column are in order, so results do not
// depend on the number of lanes.
#include "program_args.h"

#define GV_DEPTH 64  // steps that a team has in its memory
#ifdef GV_PACK
#define GV_PREFETCH 1
#else                // the memory of GPUs answers late, so a lane reads several steps before it uses the first
#define GV_PREFETCH 8
#undef GV_RESIDENT
#define GV_RESIDENT 2  // leaves registers for these steps
#endif

// b + a y, and exactly b if a is 0, whatever y holds.
GV_FN float gv_follow(float b, float a, float y) { return a == 0.0f ? b : b + a * y; }

// Runs a recurrence over the columns of a tile, from the last step to the first if REVERSE. Most of the work does not depend on
// other steps; all lanes share it. `load(at)` is what a step reads, where `at` is its place in an array [steps, columns], and
// `prepare(loaded)` the terms of the recurrence. Then a lane goes through the steps of a column: `follow(terms, state)` returns the
// state after a step, and replaces the terms by its results. `store(at, terms)` writes them. `start(column)` is the state before
// all steps, and `end(column, state)` takes the one after them.
template <bool REVERSE, class Start, class Load, class Prepare, class Follow, class Store, class End>
GV_FN void gv_scan_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile, Start start, Load load, Prepare prepare, Follow follow, Store store,
                        End end) {
    typedef decltype(load(0)) Loaded;
    typedef decltype(prepare(load(0))) Terms;
    typedef decltype(start(0)) State;
    static_assert((GV_DEPTH * sizeof(Terms) + sizeof(State)) * GV_TILE <= GV_SCRATCH * sizeof(float), "memory of a team");
    Terms* terms = (Terms*)team.scratch;                       // [GV_DEPTH, GV_TILE]
    State* states = (State*)(terms + GV_DEPTH * GV_TILE);      // [GV_TILE]
    const gv_i64 first = (gv_i64)tile * GV_TILE, rest = a.columns - first;
    const gv_i32 columns = rest < GV_TILE ? (gv_i32)rest : GV_TILE;
    GV_FOR(k, columns) states[k] = start(first + k);
    for (gv_i32 done = 0; done < a.steps; done += GV_DEPTH) {
        const gv_i32 depth = a.steps - done < GV_DEPTH ? a.steps - done : GV_DEPTH;
        const auto place = [&](gv_i32 i) {  // of step i / GV_TILE from `done` on
            const gv_i32 step = done + i / GV_TILE, t = REVERSE ? a.steps - 1 - step : step;
            return (gv_i64)t * a.columns + first + i % GV_TILE;
        };
        const auto exists = [&](gv_i32 i) { return i < depth * GV_TILE && i % GV_TILE < columns; };
        GV_LOOP for (gv_i32 own = team.lane; own < depth * GV_TILE; own += GV_PREFETCH * team.lanes) {
            Loaded loaded[GV_PREFETCH];
            GV_UNROLL for (gv_i32 j = 0; j < GV_PREFETCH; ++j) {
                const gv_i32 i = own + j * team.lanes;
                loaded[j] = load(place(exists(i) ? i : 0));  // a branch would cost more
            }
            GV_UNROLL for (gv_i32 j = 0; j < GV_PREFETCH; ++j) {
                const gv_i32 i = own + j * team.lanes;
                if (exists(i)) terms[i] = prepare(loaded[j]);
            }
        }
        gv_barrier(team);
        GV_FOR(k, columns) {
            State state = states[k];
            GV_LOOP for (gv_i32 step = 0; step < depth; step += GV_PREFETCH) {
                Terms some[GV_PREFETCH];
                GV_UNROLL for (gv_i32 j = 0; j < GV_PREFETCH; ++j)
                    some[j] = terms[(step + j < depth ? step + j : 0) * GV_TILE + k];
                GV_UNROLL for (gv_i32 j = 0; j < GV_PREFETCH; ++j)
                    if (step + j < depth) state = follow(some[j], state);
                GV_UNROLL for (gv_i32 j = 0; j < GV_PREFETCH; ++j)
                    if (step + j < depth) terms[(step + j) * GV_TILE + k] = some[j];
            }
            states[k] = state;
        }
        gv_barrier(team);
        GV_FOR(i, depth * GV_TILE) {
            if (exists(i)) store(place(i), terms[i]);
        }
    }
    GV_FOR(k, columns) end(first + k, states[k]);
}

// ---- advantages -----------------------------------------------------------------------------------------------

struct GvTransition {
    float reward, value, next_value, final_value;
    gv_u8 valid, episode_end, timed_out;
};
struct GvAdvantage {
    float advantage, decay, value;  // first delta; the factor of the next step's advantage; 0 for a transition that does not count
};

// The reward that an update uses; NaN stays.
GV_FN float gv_scaled(const GvArgs& a, float reward, float scale) {
    if (a.reward_scale == nullptr) return reward;
    const float scaled = reward * scale;
    return scaled < -a.max_reward ? -a.max_reward : scaled > a.max_reward ? a.max_reward : scaled;
}

// Generalised advantage estimation (Schulman et al. 2015, arXiv 1506.02438).
GV_FN void gv_advantages_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 size = (gv_i64)a.steps * a.columns;
    const float scale = a.reward_scale == nullptr ? 1.0f : *a.reward_scale;
    const auto start = [](gv_i64) { return 0.0f; };
    const auto load = [&](gv_i64 at) {
        const float final_value = a.final_value != nullptr ? a.final_value[at] : 0.0f;
        return GvTransition{a.reward[at], a.value[at], a.value[at + a.columns], final_value, a.valid[at], a.episode_end[at], a.timed_out[at]};
    };
    const auto prepare = [&](const GvTransition& x) {
        const float decay = x.episode_end != 0 ? 0.0f : a.decay;
        if (x.valid == 0) return GvAdvantage{0.0f, decay, 0.0f};
        // A time limit is no terminal state of the task, so the value goes on after it (Pardo et al. 2018, arXiv 1712.00378).
        const float following = x.timed_out != 0 ? x.final_value : x.episode_end != 0 ? 0.0f : x.next_value;
        // delta_t = r_t + gamma V(s_{t+1}) - V(s_t)
        const float delta = gv_scaled(a, x.reward, scale) + a.gamma * following - x.value;
        return GvAdvantage{delta, decay, x.value};
    };
    const auto follow = [](GvAdvantage& x, float next) {
        // Equation 16: A_t = sum over l of (gamma lambda)^l delta_{t+l} = delta_t + gamma lambda A_{t+1}, until the episode ends
        return x.advantage = gv_follow(x.advantage, x.decay, next);
    };
    const auto store = [&](gv_i64 at, const GvAdvantage& x) {
        a.results[at] = x.advantage;
        a.results[size + at] = x.advantage + x.value;
        a.results[2 * size + at] = x.value;
    };
    gv_scan_tile<true>(a, team, tile, start, load, prepare, follow, store, [](gv_i64, float) {});
}

// ---- sums within episodes -------------------------------------------------------------------------------------

struct GvReward {
    float reward;
    gv_u8 valid, episode_end;
};

GV_FN GvReward gv_load_reward(const GvArgs& a, gv_i64 at) { return {a.reward[at], a.valid[at], a.episode_end[at]}; }

struct GvReturn {
    float sum;  // first the reward
    bool ends;
};

// Discounted returns: R_t = r_t + gamma R_{t-1}, from 0 in each episode. The state is R_t, and 0 after the end of an episode.
GV_FN void gv_returns_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const auto start = [&](gv_i64 column) { return a.running[column]; };
    const auto load = [&](gv_i64 at) { return gv_load_reward(a, at); };
    const auto prepare = [](const GvReward& x) { return GvReturn{x.valid != 0 ? x.reward : 0.0f, x.episode_end != 0 || x.valid == 0}; };
    const auto follow = [&](GvReturn& x, float last) {
        x.sum = gv_follow(x.sum, a.gamma, last);
        return x.ends ? 0.0f : x.sum;
    };
    const auto store = [&](gv_i64 at, const GvReturn& x) { a.results[at] = x.sum; };
    gv_scan_tile<false>(a, team, tile, start, load, prepare, follow, store, [&](gv_i64 column, float last) { a.running[column] = last; });
}

struct GvEpisode {
    float sum, steps, taken;  // rewards, steps, and steps that the agent took part in
};
struct GvEpisodeStep {
    float sum, steps;         // first the reward
    bool taken, episode_end, finished;
};

// Returns and lengths of episodes. An episode that ends has finished if the agent took part in it.
GV_FN void gv_episodes_tile(const GvArgs& a, const GvLanes& team, gv_i32 tile) {
    const gv_i64 size = (gv_i64)a.steps * a.columns, columns = a.columns;
    const auto start = [&](gv_i64 column) {
        return GvEpisode{a.running[column], a.running[columns + column], a.running[2 * columns + column]};
    };
    const auto load = [&](gv_i64 at) { return gv_load_reward(a, at); };
    const auto prepare = [](const GvReward& x) {
        return GvEpisodeStep{x.valid != 0 ? x.reward : 0.0f, 0.0f, x.valid != 0, x.episode_end != 0, false};
    };
    const auto follow = [](GvEpisodeStep& x, const GvEpisode& last) {
        const GvEpisode now = {last.sum + x.sum, last.steps + 1.0f, last.taken + (x.taken ? 1.0f : 0.0f)};
        x.sum = now.sum;
        x.steps = now.steps;
        x.finished = x.episode_end && now.taken > 0.0f;
        return x.episode_end ? GvEpisode{0.0f, 0.0f, 0.0f} : now;
    };
    const auto store = [&](gv_i64 at, const GvEpisodeStep& x) {
        a.results[at] = x.sum;
        a.results[size + at] = x.steps;
        a.finished[at] = x.finished;
    };
    const auto end = [&](gv_i64 column, const GvEpisode& last) {
        a.running[column] = last.sum;
        a.running[columns + column] = last.steps;
        a.running[2 * columns + column] = last.taken;
    };
    gv_scan_tile<false>(a, team, tile, start, load, prepare, follow, store, end);
}

GV_PLAIN_KERNEL(gv_advantages, gv_advantages_tile)
GV_PLAIN_KERNEL(gv_returns, gv_returns_tile)
GV_PLAIN_KERNEL(gv_episodes, gv_episodes_tile)
