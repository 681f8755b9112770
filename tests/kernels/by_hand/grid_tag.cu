// Hooks of envs/grid_tag that take (a, team) and do without GvWorld; see test_world_cost.py.
#include "hooks.h"

#define MAX_GATHERED 2560  // as in spec.py; GV_SCRATCH may be larger on the host

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    const gv_i32 runner = gv_num_taggers(a), cells = a.grid_length + 1;
    GV_FOR(i, runner + 1) {
        gv_i32 x = i == runner ? 0 : a.grid_length / 2, y = x;
        if (a.explicit_location) {
            x = (gv_i32)a.start_x[i];
            y = (gv_i32)a.start_y[i];
        } else if (!a.fixed_start) {
            // Every lane draws the runner's cell, so that taggers get one of the other cells without a barrier.
            const gv_i32 runner_cell = gv_below(gv_draw(a, team, 0, (gv_u32)runner).word[0], cells * cells);
            const gv_i32 other = gv_below(gv_draw(a, team, 0, (gv_u32)i).word[0], cells * cells - 1);
            const gv_i32 cell = i == runner ? runner_cell : other + (other >= runner_cell);
            x = cell % cells;
            y = cell / cells;
        }
        s.loc_x[i] = x;
        s.loc_y[i] = y;
    }
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    const gv_i32 w = team.world, runner = gv_num_taggers(a), last = a.grid_length;
    GV_FOR(i, runner + 1) {
        const gv_i64 row = gv_row(a, w, i);
        const gv_i32 move = gv_action_index(a, row, 0, 1, 5);  // 0 stay, 1 x + 1, 2 x - 1, 3 y + 1, 4 y - 1
        const gv_i32 x = s.loc_x[i] + (move == 1) - (move == 2), y = s.loc_y[i] + (move == 3) - (move == 4);
        const bool wall = x < 0 || x > last || y < 0 || y > last;
        s.loc_x[i] = x < 0 ? 0 : x > last ? last : x;
        s.loc_y[i] = y < 0 ? 0 : y > last ? last : y;
        a.agent_reward[row] = wall ? -a.wall_hit_penalty : 0.0f;
    }
    gv_barrier(team);
    const gv_i32 taggers_there = gv_count(team, runner, [&](gv_i32 tagger) {
        return s.loc_x[tagger] == s.loc_x[runner] && s.loc_y[tagger] == s.loc_y[runner];
    });
    const bool tagged = taggers_there > 0;
    GV_FOR(i, runner + 1) {
        const float for_tagger = tagged ? a.tag_reward_for_tagger : -a.step_cost_for_tagger;
        const float for_runner = tagged ? -a.tag_penalty_for_runner : a.step_cost_for_tagger;
        a.agent_reward[gv_row(a, w, i)] += i == runner ? for_runner : for_tagger;
    }
    GV_ONCE {
        s.terminated = tagged;
        s.truncated = s.t >= a.episode_length;
    }
}

// Rows of taggers and of the runner are gathered separately, because they are not adjacent in the agents view.
GV_FN void observe_all(const GvArgs& a, const GvTeam& team, float* obs) {
    const auto s = gv_state(a, team);
    const gv_i32 w = team.world, agents = gv_num_agents(a), features = gv_num_features(a);
    const gv_i32 tagger_features = (agents - 1) * features;
    const bool gathered = agents * features <= MAX_GATHERED && agents * features + 10 <= GV_SCRATCH;
    float *to_taggers = gv_obs_row(a, obs, w, 0), *to_runner = gv_obs_row(a, obs, w, agents - 1);
    float* taggers = gathered ? gv_gather_address(team.scratch, to_taggers) : to_taggers;
    float* runner = gathered ? gv_gather_address(team.scratch + (tagger_features + 6) / 4 * 4, to_runner) : to_runner;
    gv_for_table(team, agents, agents, [&](gv_i32 i, gv_i32 j) {
        float* feature = (i < agents - 1 ? taggers + i * features : runner) + j;
        feature[0] = (float)s.loc_x[j] * a.per_length;
        feature[agents] = (float)s.loc_y[j] * a.per_length;
        feature[2 * agents] = j == agents - 1 ? 1.0f : 0.0f;
        feature[3 * agents] = j == i ? 1.0f : 0.0f;
        if (j == 0) feature[4 * agents] = (float)s.t * a.per_episode_length;
    });
    if (gathered) {
        gv_barrier(team);
        gv_copy_out(team, taggers, to_taggers, tagger_features);
        gv_copy_out(team, runner, to_runner, features);
    }
}

// The opponent that agent i observes: for a tagger the runner, for the runner the nearest tagger, on ties the one of lower index.
GV_FN gv_i32 opponent(const GvArgs& a, const GvState& s, gv_i32 i) {
    const gv_i32 runner = gv_num_taggers(a);
    if (i != runner) return runner;
    gv_i32 nearest = 0, best = 0x7fffffff;
    for (gv_i32 j = 0; j < runner; ++j) {
        const gv_i32 dx = s.loc_x[j] - s.loc_x[i], dy = s.loc_y[j] - s.loc_y[i];
        const gv_i32 distance = dx * dx + dy * dy;
        if (distance < best) {
            best = distance;
            nearest = j;
        }
    }
    return nearest;
}

// Partial observation: the agent's cell, the cell of its opponent, 1 for the runner, time.
GV_FN void observe_one(const GvArgs& a, const GvState& s, gv_i32 i, float* row) {
    const gv_i32 other = opponent(a, s, i);
    row[0] = (float)s.loc_x[i] * a.per_length;
    row[1] = (float)s.loc_y[i] * a.per_length;
    row[2] = (float)s.loc_x[other] * a.per_length;
    row[3] = (float)s.loc_y[other] * a.per_length;
    row[4] = i == gv_num_taggers(a) ? 1.0f : 0.0f;
    row[5] = (float)s.t * a.per_episode_length;
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    if (gv_use_full_observation(a)) {
        observe_all(a, team, obs);
    } else {
        GV_FOR(i, gv_num_agents(a)) observe_one(a, gv_state(a, team), i, gv_obs_row(a, obs, team.world, i));
    }
}
