// Continuous Tag: one team a world, one agent a lane (several when a world has more agents than the team has lanes).
// Taggers come first: agents 0 .. num_taggers - 1. Memory that crosses a barrier is the world state, or scratch.
// Rules: README.md beside this file. Nothing is quadratic in memory.
#ifdef GV_num_agents
#define GV_SCRATCH (SCRATCH_FLOATS(GV_num_agents) + 3 + TILE_FLOATS(GV_num_agents, GV_num_features))
#else
#define GV_SCRATCH 12160  // floats: 48 KiB, less what gv_sum needs; enough for any number of agents
#endif
#define OWN_FEATURES 6
#include "rows.h"
#include "neighbours.h"

// Index of an agent of this world in the (worlds, agents) state arrays.
GV_FN gv_i64 at(const GvArgs& a, gv_i32 world, gv_i32 agent) { return (gv_i64)world * gv_num_agents(a) + agent; }

// ---- reset ----------------------------------------------------------------------------------------------------

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const gv_i32 w = team.world;
    GV_FOR(i, gv_num_agents(a)) {
        const gv_i64 me = at(a, w, i);
        // A fixed start is the draw of world 0, episode 0 in every world and episode.
        const GvDraw draw = a.fixed_start ? gv_philox(a.seed[w], 0, 0, 0, (gv_u32)i) : gv_draw(a, team, 0, (gv_u32)i);
        a.loc_x[me] = a.explicit_location ? a.start_x[i] : a.grid_length * gv_uniform(draw.word[0]);
        a.loc_y[me] = a.explicit_location ? a.start_y[i] : a.grid_length * gv_uniform(draw.word[1]);
        a.direction[me] = a.explicit_direction ? a.start_direction[i] : a.quarter_turn * (float)(draw.word[2] >> 30);
        a.speed[me] = 0.0f;
        a.acceleration[me] = 0.0f;
        a.alive[me] = 1;
        a.tagged_by[me] = -1;
    }
}

// ---- step -----------------------------------------------------------------------------------------------------

struct Change {
    float acceleration, turn;
};

GV_FN Change chosen_change(const GvArgs& a, gv_i64 row) {
    Change change;
    if (a.continuous_actions) {
        change.acceleration = gv_clamp(gv_action_value(a, row, 0, 2), a.min_acceleration, a.max_acceleration);
        change.turn = gv_clamp(gv_action_value(a, row, 1, 2), a.min_turn, a.max_turn);
        return change;
    }
    const gv_i32 accelerations = a.num_acceleration_levels + 1, turns = a.num_turn_levels + 1;
    gv_i32 acceleration, turn;
    if (a.flatten_actions) {
        const gv_i32 flat = gv_action_index(a, row, 0, 1, accelerations * turns);
        acceleration = flat / turns;
        turn = flat - acceleration * turns;
    } else {
        acceleration = gv_action_index(a, row, 0, 2, accelerations);
        turn = gv_action_index(a, row, 1, 2, turns);
    }
    change.acceleration = a.acceleration_table[acceleration];
    change.turn = a.turn_table[turn];
    return change;
}

GV_FN void move(const GvArgs& a, gv_i32 w, gv_i32 i) {
    const gv_i64 me = at(a, w, i), row = gv_row(a, w, i);
    const Change change = chosen_change(a, row);
    const bool tagger = i < gv_num_taggers(a);
    const float alive = a.alive[me] ? 1.0f : 0.0f;
    const float top_speed = tagger ? a.tagger_top_speed : a.runner_top_speed;
    float acceleration = a.acceleration[me] + change.acceleration;
    const float direction = gv_mod(a.direction[me] + change.turn, a.two_pi) * alive;
    const float speed = gv_min(top_speed, gv_max(0.0f, a.speed[me] + acceleration)) * alive;
    if (speed <= 0.0f || speed >= top_speed) acceleration = 0.0f;
    float sine, cosine;
    gv_sincos(direction, &sine, &cosine);
    const float x = a.loc_x[me] + speed * cosine, y = a.loc_y[me] + speed * sine;
    const bool crossed = x < 0.0f || x > a.grid_length || y < 0.0f || y > a.grid_length;
    a.loc_x[me] = gv_clamp(x, 0.0f, a.grid_length);
    a.loc_y[me] = gv_clamp(y, 0.0f, a.grid_length);
    a.direction[me] = direction;
    a.speed[me] = speed;
    a.acceleration[me] = acceleration;
    const float step_reward = tagger ? a.step_penalty_for_tagger : a.step_reward_for_runner;
    a.agent_reward[row] = a.alive[me] ? (crossed ? a.edge_hit_penalty : 0.0f) + step_reward : 0.0f;
}

// The tagger that catches runner i in this step, or -1: the nearest one (the lowest index of equals), if within the margin.
GV_FN gv_i32 catcher_of(const GvArgs& a, gv_i32 w, gv_i32 i) {
    const float x = a.loc_x[at(a, w, i)], y = a.loc_y[at(a, w, i)];
    const float out_of_reach = a.margin * a.margin * 1.001f;  // spares most square roots
    float nearest = a.margin;
    gv_i32 catcher = -1;
    for (gv_i32 j = 0; j < gv_num_taggers(a); ++j) {
        const float dx = a.loc_x[at(a, w, j)] - x, dy = a.loc_y[at(a, w, j)] - y, squared = dx * dx + dy * dy;
        if (squared > out_of_reach) continue;
        const float distance = gv_sqrt(squared);
        if (distance < nearest) {
            nearest = distance;
            catcher = j;
        }
    }
    return catcher;
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const gv_i32 w = team.world, taggers = gv_num_taggers(a), agents = gv_num_agents(a), runners = agents - taggers;
    GV_FOR(i, agents) move(a, w, i);
    gv_barrier(team);
    GV_FOR(i, agents) {
        const gv_i64 me = at(a, w, i);
        a.tagged_by[me] = i >= taggers && a.alive[me] ? catcher_of(a, w, i) : -1;
    }
    gv_barrier(team);
    // Every lane gets the same counts, so all agree on the end of the episode.
    const gv_i32 tags = gv_tally(team, runners, [&](gv_i32 runner) { return a.tagged_by[at(a, w, taggers + runner)] >= 0; });
    const gv_i32 left = gv_tally(team, runners, [&](gv_i32 runner) {
        const gv_i64 him = at(a, w, taggers + runner);
        return a.alive[him] && !(a.runner_exits_game_after_tagged && a.tagged_by[him] >= 0);
    });
    const bool last_step = a.t[w] >= a.episode_length;
    GV_FOR(i, agents) {
        const gv_i64 me = at(a, w, i), row = gv_row(a, w, i);
        float reward = a.agent_reward[row];
        if (i < taggers) {  // gathered, not scattered: simultaneous tags all pay
            for (gv_i32 j = taggers; tags > 0 && j < agents; ++j)
                if (a.tagged_by[at(a, w, j)] == i) reward += a.tag_reward_for_tagger;
        } else if (a.alive[me]) {
            const bool tagged = a.tagged_by[me] >= 0;
            if (tagged) reward += a.tag_penalty_for_runner;
            if (last_step && !(tagged && a.runner_exits_game_after_tagged)) reward += a.end_of_game_reward_for_runner;
        }
        a.agent_reward[row] = reward;
    }
    GV_ONCE {
        a.terminated[w] = left == 0;
        a.truncated[w] = last_step;
    }
}

GV_FN void env_settle(const GvArgs& a, const GvTeam& team) {
    GV_FOR(i, gv_num_agents(a)) {
        const gv_i64 me = at(a, team.world, i);
        if (a.runner_exits_game_after_tagged && a.tagged_by[me] >= 0) a.alive[me] = 0;
    }
}

// ---- observation ----------------------------------------------------------------------------------------------

// Blocks 0 to 6 of slot `slot` for observer i and observed j; `width` slots a block.
GV_FN void observe_other(const GvArgs& a, gv_i32 w, gv_i32 i, gv_i32 j, gv_i32 slot, gv_i32 width, float* row) {
    const gv_i64 me = at(a, w, i), other = at(a, w, j);
    row[slot] = (a.loc_x[other] - a.loc_x[me]) * a.per_diagonal;
    row[slot + width] = (a.loc_y[other] - a.loc_y[me]) * a.per_diagonal;
    row[slot + 2 * width] = (a.speed[other] - a.speed[me]) * a.per_max_speed;
    row[slot + 3 * width] = (a.acceleration[other] - a.acceleration[me]) * a.per_max_speed;
    row[slot + 4 * width] = (a.direction[other] - a.direction[me]) * a.per_turn;
    row[slot + 5 * width] = j < gv_num_taggers(a) ? 1.0f : 0.0f;
    row[slot + 6 * width] = a.alive[other] ? 1.0f : 0.0f;
}

// What is observed as a difference: x, y, speed, acceleration, direction.
GV_FN const float* field_of(const GvArgs& a, gv_i32 w, gv_i32 block) {
    const float* field = block == 0 ? a.loc_x : block == 1 ? a.loc_y : block == 2 ? a.speed : block == 3 ? a.acceleration : a.direction;
    return field + at(a, w, 0);
}

GV_FN float block_scale(const GvArgs& a, gv_i32 block) {
    return block < 2 ? a.per_diagonal : block < 4 ? a.per_max_speed : a.per_turn;
}

// Time, as an agent in the game observes it.
GV_FN float observed_time(const GvArgs& a, gv_i32 w) { return (float)a.t[w] * a.per_episode_length; }

// The observer's own state, which differences to others leave out; 0 once it has left.
GV_FN float observe_self(const GvArgs& a, gv_i32 w, gv_i32 i, gv_i32 feature) {
    const gv_i64 me = at(a, w, i);
    const float alive = a.alive[me] ? 1.0f : 0.0f;
    if (feature == 0) return alive * (a.loc_x[me] * a.per_length);
    if (feature == 1) return alive * (a.loc_y[me] * a.per_length);
    if (feature == 2) return alive * (a.speed[me] * a.per_max_speed);
    if (feature == 3) return alive * (a.acceleration[me] * a.per_max_speed);
    if (feature == 4) return alive * (a.direction[me] * a.per_turn);
    return i < gv_num_taggers(a) ? alive : 0.0f;
}

// What ends a row: the time, and the observer's own state if asked for.
GV_FN void observe_end(const GvArgs& a, gv_i32 w, gv_i32 i, bool alive, float* row) {
    const gv_i32 time = gv_num_features(a) - 1 - (gv_extended_observation(a) ? OWN_FEATURES : 0);
    row[time] = alive ? observed_time(a, w) : 0.0f;
    for (gv_i32 f = 0; gv_extended_observation(a) && f < OWN_FEATURES; ++f) row[time + 1 + f] = observe_self(a, w, i, f);
}

// ---- everyone else, in the order of indices -------------------------------------------------------------------

GV_FN void observe_all(const GvArgs& a, const GvTeam& team, float* obs) {
    const gv_i32 w = team.world, agents = gv_num_agents(a), taggers = gv_num_taggers(a), width = agents - 1;
    const bool staged = agents <= MAX_STAGED;
    gv_i32* alive_copies = (gv_i32*)(team.scratch + 5 * agents);
    GV_FOR(i, staged ? agents : 0) {
        GV_UNROLL for (gv_i32 block = 0; block < 5; ++block) team.scratch[block * agents + i] = field_of(a, w, block)[i];
        alive_copies[i] = a.alive[at(a, w, i)];
    }
    gv_barrier(team);
    const gv_i32* alive = staged ? alive_copies : a.alive + at(a, w, 0);
    write_rows(a, team, rows_of(a, w, obs), [&](const Tile& tile) {
        for (gv_i32 i = tile.first; i < tile.end; ++i) {  // lanes side by side on the agents observed
            GV_FOR(slot, width) {
                const gv_i32 j = slot < i ? slot : slot + 1;
                float* row = &entry(tile.rows, i, slot);
                GV_UNROLL for (gv_i32 block = 0; block < 5; ++block) {
                    const float* field = staged ? team.scratch + block * agents : field_of(a, w, block);
                    row[block * width] = alive[i] ? (field[j] - field[i]) * block_scale(a, block) : 0.0f;
                }
                row[5 * width] = j < taggers ? 1.0f : 0.0f;
                row[6 * width] = alive[j] ? 1.0f : 0.0f;
            }
        }
        GV_FOR(r, tile.end - tile.first) {
            const gv_i32 i = tile.first + r;
            observe_end(a, w, i, alive[i] != 0, &entry(tile.rows, i, 0));
        }
    });
}

// ---- more neighbours than are sorted in registers -------------------------------------------------------------

// The agent that follows (distance, index) in the order of (distance, index); -1 when there is none.
GV_FN gv_i32 next_nearest(const GvArgs& a, gv_i32 w, gv_i32 i, float* distance, gv_i32 index) {
    const float x = a.loc_x[at(a, w, i)], y = a.loc_y[at(a, w, i)];
    float best = FAR;
    gv_i32 found = -1;
    for (gv_i32 j = 0; j < gv_num_agents(a); ++j) {
        const float dx = a.loc_x[at(a, w, j)] - x, dy = a.loc_y[at(a, w, j)] - y;
        const float here = a.alive[at(a, w, j)] ? dx * dx + dy * dy : FAR;
        const bool later = here > *distance || (here == *distance && j > index);
        if (j != i && later && here < best) {
            best = here;
            found = j;
        }
    }
    *distance = best;
    return found;
}

GV_FN void observe_many(const GvArgs& a, gv_i32 w, gv_i32 i, float* row) {
    const gv_i32 k = gv_num_other_agents_observed(a);
    const bool alive = a.alive[at(a, w, i)] != 0;
    gv_i32 count = 0;
    if (alive) {
        float distance = -1.0f;
        for (gv_i32 j = next_nearest(a, w, i, &distance, -1); j >= 0 && count < k; ++count) {
            observe_other(a, w, i, j, count, k, row);
            j = next_nearest(a, w, i, &distance, j);
        }
    }
    for (gv_i32 slot = count; slot < k; ++slot)
        for (gv_i32 block = 0; block < 7; ++block) row[slot + block * k] = 0.0f;
    observe_end(a, w, i, alive, row);
}

// ---- the nearest ----------------------------------------------------------------------------------------------

// Where positions, and what else is observed, are read from while the nearest are looked for.
GV_FN void stage(const GvArgs& a, const GvTeam& team, const Scratch& s) {
    const gv_i32 agents = gv_num_agents(a);
    GV_FOR(i, SCRATCH_PLACES(agents)) {
        const gv_i64 me = at(a, team.world, i < agents ? i : 0);
        const float x = a.loc_x[me], y = a.loc_y[me];
        const bool seen = i < agents && a.alive[me] && x == x && y == y;
        s.place[i].value[0] = seen ? x : FAR;  // the squared distance to there is infinite
        s.place[i].value[1] = seen ? y : FAR;
        if (agents <= MAX_STAGED && i < agents) s.more[i] = more_of(a, team.world, i);
    }
    gv_barrier(team);
}

// What i observes of j, one value a block; all 0 of nobody.
GV_FN void observe_near(const GvArgs& a, gv_i32 w, const Scratch& s, gv_i32 i, gv_i32 j, float (&seen)[7]) {
    GV_UNROLL for (gv_i32 block = 0; block < 7; ++block) seen[block] = 0.0f;
    if (j == NOBODY) return;
    const bool staged = gv_num_agents(a) <= MAX_STAGED;
    const Pair here = s.place[i], there = s.place[j];
    const Quad mine = staged ? s.more[i] : more_of(a, w, i), theirs = staged ? s.more[j] : more_of(a, w, j);
    seen[0] = (there.value[0] - here.value[0]) * a.per_diagonal;
    seen[1] = (there.value[1] - here.value[1]) * a.per_diagonal;
    seen[2] = (theirs.value[0] - mine.value[0]) * a.per_max_speed;
    seen[3] = (theirs.value[1] - mine.value[1]) * a.per_max_speed;
    seen[4] = (theirs.value[2] - mine.value[2]) * a.per_turn;
    seen[5] = theirs.value[3];
    seen[6] = 1.0f;
}

// Each lane looks for the nearest of its agents; then the team shares out the pairs of them.
GV_FN void observe_nearest(const GvArgs& a, const GvTeam& team, float* obs) {
    const gv_i32 w = team.world, agents = gv_num_agents(a), k = gv_num_other_agents_observed(a);
    const bool by_cell = agents >= MIN_GRID, staged = agents <= MAX_STAGED;
    const Scratch s = scratch_of(team, agents);
    const Grid grid = grid_of(a);
    gv_u16* last = a.nearest + at(a, w, 0) * k;  // found by the last observation, until they are written over
    gv_u16* near = by_cell ? last : s.near;
    stage(a, team, s);
    if (by_cell) sort_by_cell(a, team, s, grid);
    GV_FOR(p, agents) {
        const gv_i32 i = by_cell ? s.order[p] : p;  // lanes side by side look at the same cells
        Nearest nearest;
        forget(nearest, k);
        if (!by_cell) search_all(s, agents, i, last + i * k, k, nearest);
        else if (is_seen(s.place[i])) search_cells(s, grid, i, k, nearest);
        GV_UNROLL for (gv_i32 slot = 0; slot < k; ++slot) {
            last[i * k + slot] = (gv_u16)nearest.agent[slot];
            if (!by_cell) near[i * k + slot] = (gv_u16)nearest.agent[slot];
        }
    }
    gv_barrier(team);
    write_rows(a, team, rows_of(a, w, obs), [&](const Tile& tile) {
        gv_cells(team, tile.end - tile.first, k, [&](gv_i32 r, gv_i32 slot) {
            const gv_i32 i = tile.first + r;
            float seen[7];
            observe_near(a, w, s, i, near[i * k + slot], seen);
            float* row = &entry(tile.rows, i, slot);
            GV_UNROLL for (gv_i32 block = 0; block < 7; ++block) row[block * k] = seen[block];
        });
        GV_FOR(r, tile.end - tile.first) {
            const gv_i32 i = tile.first + r;
            const bool alive = staged ? s.more[i].value[3] >= 0.0f : a.alive[at(a, w, i)] != 0;
            observe_end(a, w, i, alive, &entry(tile.rows, i, 0));
        }
    });
}

#ifdef GV_BLOCK
#include "alone.h"
#endif

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    if (gv_use_full_observation(a)) {
        observe_all(a, team, obs);
#ifdef GV_BLOCK
    } else if (gv_num_other_agents_observed(a) <= MAX_SORTED && gv_num_agents(a) < MIN_GRID) {
        observe_few(a, team, obs);
#endif
    } else if (gv_num_other_agents_observed(a) <= MAX_SORTED) {
        observe_nearest(a, team, obs);
    } else {
        GV_FOR(i, gv_num_agents(a)) observe_many(a, team.world, i, gv_obs_row(a, obs, team.world, i));
    }
}
