// Continuous Tag: one team a world, one agent a lane (several when a world has more agents than the team has lanes).
// Taggers come first: agents 0 .. num_taggers - 1. Memory that crosses a barrier is the world state, or scratch.
// Rules: README.md beside this file. Nothing is quadratic in memory.
#if defined(GV_TEAMS) && GV_LANES > 1
#define GV_SCRATCH_MOST ((((12288 / GV_TEAMS - GV_PADDED(32)) / GV_SPAN - 1) | 1) * GV_SPAN)
#else
#define GV_SCRATCH_MOST 12160
#endif
#undef GV_SCRATCH
#ifdef GV_num_agents
#define GV_SCRATCH (SCRATCH_FLOATS(GV_num_agents) + 3 + TILE_FLOATS(GV_num_agents, GV_num_features))
#else
#define GV_SCRATCH 12160  // floats: 48 KiB, less what gv_sum needs; enough for any number of agents
#endif
#define OWN_FEATURES 6
#include "rows.h"
#include "moves.h"

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

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const gv_i32 w = team.world, agents = gv_num_agents(a);
    const Scratch s = scratch_of(team, agents);
    const gv_i32 t = a.t[w];
    const bool last_step = t >= a.episode_length;
    GV_FOR(i, agents) move(a, s, w, i);
    open_scratch(a, team, s, t);
    gv_barrier(team);
    const bool left = gv_any(team, catch_runners(a, team, s, last_step));
    const gv_i32 tags = s.head->tags;
    GV_FOR(i, gv_num_taggers(a)) {
        if (tags > 0) {  // gathered, not scattered: simultaneous tags all pay
            float reward = reward_of(a, s, w, i);
            GV_LOOP for (gv_i32 tag = 0; tag < tags; ++tag)
                if (s.caught[tag] == i) reward += a.tag_reward_for_tagger;
            a.agent_reward[gv_row(a, w, i)] = reward;
        }
        // A tagger that cannot be seen, as a state that was set may have it, still catches.
        const Pair here = s.place[i];
        const bool seen = is_alive(a, s, w, i) && here.value[0] == here.value[0] && here.value[1] == here.value[1];
        if (!seen) place(s, i, false, FAR, FAR);
    }
    GV_ONCE {  // both are 0 before
        if (!left) a.terminated[w] = 1;
        if (last_step) a.truncated[w] = 1;
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

// What ends a row: the time, 0 to who has left, and the observer's own state if asked for.
GV_FN void observe_end(const GvArgs& a, gv_i32 w, gv_i32 i, float time, float* row) {
    const gv_i32 at_time = gv_num_features(a) - 1 - (gv_extended_observation(a) ? OWN_FEATURES : 0);
    row[at_time] = time;
    for (gv_i32 f = 0; gv_extended_observation(a) && f < OWN_FEATURES; ++f) row[at_time + 1 + f] = observe_self(a, w, i, f);
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
            observe_end(a, w, i, alive[i] ? observed_time(a, a.t[w]) : 0.0f, &entry(tile.rows, i, 0));
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
    observe_end(a, w, i, alive ? observed_time(a, a.t[w]) : 0.0f, row);
}

// ---- the nearest ----------------------------------------------------------------------------------------------

// What a step leaves in scratch, of a state that no step has led to.
GV_FN void stage(const GvArgs& a, const GvTeam& team, const Scratch& s) {
    const gv_i32 agents = gv_num_agents(a);
    open_scratch(a, team, s, a.t[team.world]);
    GV_FOR(i, agents) {
        const gv_i64 me = at(a, team.world, i);
        const float x = a.loc_x[me], y = a.loc_y[me];
        place(s, i, a.alive[me] && x == x && y == y, x, y);
        if (agents <= MAX_STAGED) s.more[i] = more_of(a, team.world, i);
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

// Looks for the nearest agents of all, which are staged; then writes the rows. Where a tile holds all rows and a lane has one
// agent, it writes what it found at once; else the team shares out the pairs of agent and neighbour.
GV_FN void observe_nearest(const GvArgs& a, const GvTeam& team, float* obs) {
    const gv_i32 w = team.world, agents = gv_num_agents(a), k = gv_num_other_agents_observed(a);
    const bool by_cell = agents >= MIN_GRID, at_once = agents <= 32 && TILE_ROWS(agents, gv_num_features(a)) == agents;
    const Scratch s = scratch_of(team, agents);
    const Grid grid = grid_of(a);
    gv_u16* last = a.nearest + at(a, w, 0) * k;  // found by the last observation, until they are written over
    gv_u16* near = by_cell ? last : s.near;
    const auto search = [&](gv_i32 i, Nearest& nearest) {
        forget(nearest, k);
        if (!by_cell) search_all(s, agents, i, last + i * k, k, nearest);
        else if (is_seen(s.place[i])) search_cells(s, grid, i, k, nearest);
        if (!by_cell && !observes_all(agents, k)) put_nearest(last + i * k, nearest, k);
    };
    const auto observe = [&](const Tile& tile, gv_i32 i, gv_i32 slot, gv_i32 j) {
        float seen[7];
        observe_near(a, w, s, i, j, seen);
        float* row = &entry(tile.rows, i, slot);
        GV_UNROLL for (gv_i32 block = 0; block < 7; ++block) row[block * k] = seen[block];
    };
    const auto finish = [&](const Tile& tile, gv_i32 i) {
        observe_end(a, w, i, is_alive(a, s, w, i) ? s.head->time : 0.0f, &entry(tile.rows, i, 0));
    };
    if (by_cell) sort_by_cell(a, team, s, grid);
    GV_FOR(p, at_once ? 0 : agents) {
        const gv_i32 i = by_cell ? s.order[p] : p;  // lanes side by side look at the same cells
        Nearest nearest;
        search(i, nearest);
        put_nearest(near + i * k, nearest, k);
    }
    if (!at_once) gv_barrier(team);
    write_rows(a, team, rows_of(a, w, obs), [&](const Tile& tile) {
        GV_FOR(i, at_once ? agents : 0) {
            Nearest nearest;
            search(i, nearest);
            GV_UNROLL for (gv_i32 slot = 0; slot < k; ++slot) observe(tile, i, slot, nearest.agent[slot]);
            finish(tile, i);
        }
        const gv_i32 rows = at_once ? 0 : tile.end - tile.first;
        gv_cells(team, rows, k, [&](gv_i32 r, gv_i32 slot) {
            const gv_i32 i = tile.first + r;
            observe(tile, i, slot, near[i * k + slot]);
        });
        GV_LOOP GV_FOR(r, rows) finish(tile, tile.first + r);
    });
}

#ifdef GV_PACK
#include "alone.h"
#endif

GV_FN void env_observe_step(const GvArgs& a, const GvTeam& team, float* obs) {
    if (gv_use_full_observation(a)) {
        observe_all(a, team, obs);
#ifdef GV_PACK
    } else if (gv_num_other_agents_observed(a) <= MAX_SORTED && gv_num_agents(a) <= MAX_ALONE) {
        observe_alone(a, team, obs);
#endif
    } else if (gv_num_other_agents_observed(a) <= MAX_SORTED) {
        observe_nearest(a, team, obs);
    } else {
        GV_FOR(i, gv_num_agents(a)) observe_many(a, team.world, i, gv_obs_row(a, obs, team.world, i));
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    if (!gv_use_full_observation(a) && gv_num_other_agents_observed(a) <= MAX_SORTED)
        stage(a, team, scratch_of(team, gv_num_agents(a)));
    env_observe_step(a, team, obs);
}
