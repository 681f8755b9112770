// Recurrences over the steps of a rollout: advantages, and sums of rewards within episodes. A column is a row of the rollout. A
// team has the columns of a tile, which takes the place of a world in GV_KERNEL. Columns do not depend on each other, and the steps
// of a column are in order, so results do not depend on the number of lanes.
#ifndef GV_SCRATCH
#define GV_SCRATCH 1  // unused
#endif
#include "target/target.h"

#define GV_TILE 32  // columns of a team, as in gpu_vecenv/train/returns/scan.py: a warp, so that many multiprocessors take part
#ifdef GV_PACK      // a lane has all columns of a tile, because those of a step lie side by side in memory
#define GV_COLUMNS GV_TILE
#define GV_AHEAD 1
#else               // a lane has a column; the memory of GPUs answers late, so it reads several steps before it uses the first
#define GV_COLUMNS 1
#define GV_AHEAD 16
#undef GV_RESIDENT
#define GV_RESIDENT 4  // leaves registers for these steps
#endif

// gpu_vecenv/train/returns/scan.py fills this struct.
struct GvArgs {
    const float *reward, *value, *final_value;  // [steps, columns]; [steps + 1, columns]; [steps, columns] or null
    const gv_u8 *valid, *cut, *timed_out;       // [steps, columns]
    const float* reward_scale;                  // [1] factor of rewards, which are then clipped; null leaves them as they are
    float* running;                             // [sums, columns] sums of the episodes that have not ended
    float* results;                             // [results, steps, columns]
    gv_u8* finished;                            // [steps, columns]
    gv_i32* invalid_actions;                    // unused; GV_KERNEL expects it
    gv_i32 num_worlds, num_agents;              // tiles; 1
    gv_i32 steps, columns;
    float gamma, decay, max_reward, unused;
};
static_assert(sizeof(GvArgs) == 120, "as in gpu_vecenv/train/returns/scan.py");

// b + a y, and exactly b if a is 0, whatever y holds.
GV_FN float gv_follow(float b, float a, float y) { return a == 0.0f ? b : b + a * y; }

// Runs a recurrence over the columns of a tile, from the last step to the first if REVERSE. `load(at)` is what a step reads, and
// `follow(terms, state, at)` computes what it hands on to the next one, where `at` is the place in an array [steps, columns].
// `start(column)` is the state before all steps, and `end(column, state)` takes the one after them.
template <bool REVERSE, class Start, class Load, class Follow, class End>
GV_FN void gv_scan_tile(const GvArgs& a, const GvTeam& team, Start start, Load load, Follow follow, End end) {
    GV_FOR(part, GV_TILE / GV_COLUMNS) {
        const gv_i64 first = (gv_i64)team.world * GV_TILE + part * GV_COLUMNS, rest = a.columns - first;
        if (rest <= 0) continue;
        const gv_i32 columns = GV_COLUMNS > 1 && rest < GV_COLUMNS ? (gv_i32)rest : GV_COLUMNS;
        decltype(start(first)) state[GV_COLUMNS];
        for (gv_i32 k = 0; k < columns; ++k) state[k] = start(first + k);
        for (gv_i32 done = 0; done < a.steps; done += GV_AHEAD) {
            decltype(load(first)) terms[GV_AHEAD][GV_COLUMNS];
            GV_UNROLL for (gv_i32 s = 0; s < GV_AHEAD; ++s) {
                const gv_i32 i = done + s < a.steps ? done + s : a.steps - 1, t = REVERSE ? a.steps - 1 - i : i;
                for (gv_i32 k = 0; k < columns; ++k) terms[s][k] = load((gv_i64)t * a.columns + first + k);
            }
            GV_UNROLL for (gv_i32 s = 0; s < GV_AHEAD; ++s) {
                const gv_i32 i = done + s, t = REVERSE ? a.steps - 1 - i : i;
                for (gv_i32 k = 0; i < a.steps && k < columns; ++k)
                    state[k] = follow(terms[s][k], state[k], (gv_i64)t * a.columns + first + k);
            }
        }
        for (gv_i32 k = 0; k < columns; ++k) end(first + k, state[k]);
    }
}

// ---- advantages -----------------------------------------------------------------------------------------------

struct GvAdvantageTerms {
    float reward, value, final_value;
    gv_u8 valid, cut, timed_out;
};
struct GvAdvantage {
    float advantage, value;  // of the next step
};

// The reward that an update uses; NaN stays.
GV_FN float gv_scaled(const GvArgs& a, float reward, float scale) {
    if (a.reward_scale == nullptr) return reward;
    const float scaled = reward * scale;
    return scaled < -a.max_reward ? -a.max_reward : scaled > a.max_reward ? a.max_reward : scaled;
}

// Generalised advantage estimation (Schulman et al. 2015, arXiv 1506.02438).
GV_FN void gv_advantages_tile(const GvArgs& a, const GvTeam& team) {
    const gv_i64 size = (gv_i64)a.steps * a.columns;
    const float scale = a.reward_scale == nullptr ? 1.0f : *a.reward_scale;
    const auto start = [&](gv_i64 column) { return GvAdvantage{0.0f, a.value[size + column]}; };
    const auto load = [&](gv_i64 at) {
        const float final_value = a.final_value != nullptr ? a.final_value[at] : 0.0f;
        return GvAdvantageTerms{a.reward[at], a.value[at], final_value, a.valid[at], a.cut[at], a.timed_out[at]};
    };
    const auto follow = [&](const GvAdvantageTerms& x, const GvAdvantage& next, gv_i64 at) {
        // A time limit is no terminal state of the task, so the value goes on after it (Pardo et al. 2018, arXiv 1712.00378).
        const float following = x.timed_out != 0 ? x.final_value : x.cut != 0 ? 0.0f : next.value;
        // delta_t = r_t + gamma V(s_{t+1}) - V(s_t)
        const float delta = x.valid != 0 ? gv_scaled(a, x.reward, scale) + a.gamma * following - x.value : 0.0f;
        // Equation 16: A_t = sum over l of (gamma lambda)^l delta_{t+l} = delta_t + gamma lambda A_{t+1}, until the episode ends
        const float advantage = gv_follow(delta, x.cut != 0 ? 0.0f : a.decay, next.advantage);
        const float value = x.valid != 0 ? x.value : 0.0f;
        a.results[at] = advantage;
        a.results[size + at] = advantage + value;
        a.results[2 * size + at] = value;
        return GvAdvantage{advantage, x.value};
    };
    gv_scan_tile<true>(a, team, start, load, follow, [](gv_i64, const GvAdvantage&) {});
}

// ---- sums within episodes -------------------------------------------------------------------------------------

struct GvRewardTerms {
    float reward;
    gv_u8 valid, cut;
};

GV_FN GvRewardTerms gv_load_reward(const GvArgs& a, gv_i64 at) { return {a.reward[at], a.valid[at], a.cut[at]}; }

// Discounted returns: R_t = r_t + gamma R_{t-1}, from 0 in each episode. The state is R_t, and 0 after the end of an episode.
GV_FN void gv_returns_tile(const GvArgs& a, const GvTeam& team) {
    const auto start = [&](gv_i64 column) { return a.running[column]; };
    const auto load = [&](gv_i64 at) { return gv_load_reward(a, at); };
    const auto follow = [&](const GvRewardTerms& x, float last, gv_i64 at) {
        const float sum = gv_follow(x.valid != 0 ? x.reward : 0.0f, a.gamma, last);
        a.results[at] = sum;
        return x.cut != 0 || x.valid == 0 ? 0.0f : sum;
    };
    gv_scan_tile<false>(a, team, start, load, follow, [&](gv_i64 column, float last) { a.running[column] = last; });
}

struct GvEpisode {
    float sum, steps, taken;  // rewards, steps, and steps that the agent took part in
};

// Returns and lengths of episodes. An episode that ends has finished if the agent took part in it.
GV_FN void gv_episodes_tile(const GvArgs& a, const GvTeam& team) {
    const gv_i64 size = (gv_i64)a.steps * a.columns, columns = a.columns;
    const auto start = [&](gv_i64 column) {
        return GvEpisode{a.running[column], a.running[columns + column], a.running[2 * columns + column]};
    };
    const auto load = [&](gv_i64 at) { return gv_load_reward(a, at); };
    const auto follow = [&](const GvRewardTerms& x, const GvEpisode& last, gv_i64 at) {
        const GvEpisode now = {last.sum + (x.valid != 0 ? x.reward : 0.0f), last.steps + 1.0f,
                               last.taken + (x.valid != 0 ? 1.0f : 0.0f)};
        a.results[at] = now.sum;
        a.results[size + at] = now.steps;
        a.finished[at] = x.cut != 0 && now.taken > 0.0f;
        return x.cut != 0 ? GvEpisode{0.0f, 0.0f, 0.0f} : now;
    };
    const auto end = [&](gv_i64 column, const GvEpisode& last) {
        a.running[column] = last.sum;
        a.running[columns + column] = last.steps;
        a.running[2 * columns + column] = last.taken;
    };
    gv_scan_tile<false>(a, team, start, load, follow, end);
}

GV_KERNEL(gv_advantages, gv_advantages_tile)
GV_KERNEL(gv_returns, gv_returns_tile)
GV_KERNEL(gv_episodes, gv_episodes_tile)

#ifdef GV_PACK
#include "launch/threads.h"
#endif
