// Gridworld Tag: one team a world, one agent a lane. Taggers are agents 0 .. num_taggers - 1, the runner comes last.
// All agents move at once; a tagger on the runner's cell ends the game. Rules: README.md beside this file.
// Floats of observations that are gathered in scratch before they are written.
#define MAX_GATHERED (GV_SCRATCH_MOST < 2570 ? GV_SCRATCH_MOST - 10 : 2560)
#ifdef GV_num_agents
#define GV_SCRATCH (GV_num_agents * GV_num_features <= MAX_GATHERED ? GV_num_agents * GV_num_features + 10 : 1)
#else
#define GV_SCRATCH (MAX_GATHERED + 10)
#endif
#include "gv_env.h"

GV_FN gv_i64 at(const GvArgs& a, gv_i32 world, gv_i32 agent) { return (gv_i64)world * gv_num_agents(a) + agent; }

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const gv_i32 w = team.world, runner = gv_num_taggers(a), cells = a.grid_length + 1;
    GV_FOR(i, runner + 1) {
        const gv_i64 me = at(a, w, i);
        gv_i32 x = i == runner ? 0 : a.grid_length / 2, y = x;
        if (a.explicit_location) {
            x = (gv_i32)a.start_x[i];
            y = (gv_i32)a.start_y[i];
        } else if (!a.fixed_start) {
            // The runner is drawn first, by every lane alike; a tagger takes any other cell.
            const GvDraw his = gv_draw(a, team, 0, (gv_u32)runner);
            const gv_i32 taken = gv_below(his.word[0], cells * cells);
            const gv_i32 other = gv_below(gv_draw(a, team, 0, (gv_u32)i).word[0], cells * cells - 1);
            const gv_i32 cell = i == runner ? taken : other + (other >= taken);
            x = cell % cells;
            y = cell / cells;
        }
        a.loc_x[me] = x;
        a.loc_y[me] = y;
    }
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const gv_i32 w = team.world, runner = gv_num_taggers(a), side = a.grid_length;
    GV_FOR(i, runner + 1) {
        const gv_i64 me = at(a, w, i), row = gv_row(a, w, i);
        const gv_i32 move = gv_action_index(a, row, 0, 1, 5);  // 0 stay, 1 x + 1, 2 x - 1, 3 y + 1, 4 y - 1
        const gv_i32 x = a.loc_x[me] + (move == 1) - (move == 2), y = a.loc_y[me] + (move == 3) - (move == 4);
        const bool wall = x < 0 || x > side || y < 0 || y > side;
        a.loc_x[me] = x < 0 ? 0 : x > side ? side : x;
        a.loc_y[me] = y < 0 ? 0 : y > side ? side : y;
        a.agent_reward[row] = wall ? -a.wall_hit_penalty : 0.0f;
    }
    const gv_i64 him = at(a, w, runner);
    gv_barrier(team);
    const gv_i32 on_him = gv_tally(team, runner, [&](gv_i32 tagger) {
        return a.loc_x[at(a, w, tagger)] == a.loc_x[him] && a.loc_y[at(a, w, tagger)] == a.loc_y[him];
    });
    const bool tagged = on_him > 0;
    GV_FOR(i, runner + 1) {
        const float for_tagger = tagged ? a.tag_reward_for_tagger : -a.step_cost_for_tagger;
        const float for_runner = tagged ? -a.tag_penalty_for_runner : a.step_cost_for_tagger;
        a.agent_reward[gv_row(a, w, i)] += i == runner ? for_runner : for_tagger;
    }
    GV_ONCE {
        a.terminated[w] = tagged;
        a.truncated[w] = a.t[w] >= a.episode_length;
    }
}

// Positions of all, types, who is looking: blocks of one entry an agent; then time.
GV_FN void observe_all(const GvArgs& a, const GvTeam& team, float* obs) {
    const gv_i32 w = team.world, agents = gv_num_agents(a), features = gv_num_features(a), of_taggers = (agents - 1) * features;
    const bool gathered = agents * features <= MAX_GATHERED;
    float *to_taggers = gv_obs_row(a, obs, w, 0), *to_runner = gv_obs_row(a, obs, w, agents - 1);
    float* taggers = gathered ? gv_gather_at(team.scratch, to_taggers) : to_taggers;
    float* runner = gathered ? gv_gather_at(team.scratch + (of_taggers + 6) / 4 * 4, to_runner) : to_runner;
    gv_cells(team, agents, agents, [&](gv_i32 i, gv_i32 j) {
        float* entry = (i < agents - 1 ? taggers + i * features : runner) + j;
        entry[0] = (float)a.loc_x[at(a, w, j)] * a.per_length;
        entry[agents] = (float)a.loc_y[at(a, w, j)] * a.per_length;
        entry[2 * agents] = j == agents - 1 ? 1.0f : 0.0f;
        entry[3 * agents] = j == i ? 1.0f : 0.0f;
        if (j == 0) entry[4 * agents] = (float)a.t[w] * a.per_episode_length;
    });
    if (gathered) {
        gv_barrier(team);
        gv_write_out(team, taggers, to_taggers, of_taggers);
        gv_write_out(team, runner, to_runner, features);
    }
}

// The agent that matters to i: the runner to a tagger, the nearest tagger (the lowest index of equals) to the runner.
GV_FN gv_i32 opponent(const GvArgs& a, gv_i32 w, gv_i32 i) {
    const gv_i32 runner = gv_num_taggers(a);
    if (i != runner) return runner;
    gv_i32 nearest = 0, best = 0x7fffffff;
    for (gv_i32 j = 0; j < runner; ++j) {
        const gv_i32 dx = a.loc_x[at(a, w, j)] - a.loc_x[at(a, w, i)], dy = a.loc_y[at(a, w, j)] - a.loc_y[at(a, w, i)];
        const gv_i32 distance = dx * dx + dy * dy;
        if (distance < best) {
            best = distance;
            nearest = j;
        }
    }
    return nearest;
}

// The agent itself and the one that matters to it, type, time.
GV_FN void observe_one(const GvArgs& a, gv_i32 w, gv_i32 i, float* row) {
    const gv_i64 me = at(a, w, i), other = at(a, w, opponent(a, w, i));
    row[0] = (float)a.loc_x[me] * a.per_length;
    row[1] = (float)a.loc_y[me] * a.per_length;
    row[2] = (float)a.loc_x[other] * a.per_length;
    row[3] = (float)a.loc_y[other] * a.per_length;
    row[4] = i == gv_num_taggers(a) ? 1.0f : 0.0f;
    row[5] = (float)a.t[w] * a.per_episode_length;
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    if (gv_use_full_observation(a)) {
        observe_all(a, team, obs);
    } else {
        GV_FOR(i, gv_num_agents(a)) observe_one(a, team.world, i, gv_obs_row(a, obs, team.world, i));
    }
}

GV_FN void env_settle(const GvArgs&, const GvTeam&) {}
