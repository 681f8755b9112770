// Harvest: two teams pick apples on a grid and zap each other. Test env for agents alike with masks, maps of integers and metrics.
// Cells are numbered y * SIDE + x.
#include "hooks.h"

#define SIDE 8
#define CELLS 64
#define WALL 1
#define TREE 2
#define RADIUS 2
#define FROZEN_STEPS 3

GV_FN gv_u8 ground(const GvArgs& a, const GvTeam& team, gv_i32 x, gv_i32 y) {
    if (x < 0 || x >= SIDE || y < 0 || y >= SIDE) return WALL;
    return a.maps[gv_params(a, team).map * CELLS + y * SIDE + x];
}

GV_FN gv_i32 moved(const GvArgs& a, gv_i32 at, gv_i32 move, gv_i32 axis) { return at + a.moves[2 * move + axis]; }

// Agents start on the first cell without a wall from a random one on; each tree has an apple.
GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) {
        gv_i32 cell = gv_below(gv_draw(a, team, 0, (gv_u32)i).word[0], CELLS);
        while (ground(a, team, cell % SIDE, cell / SIDE) == WALL) cell = (cell + 1) % CELLS;
        s.x[i] = cell % SIDE;
        s.y[i] = cell / SIDE;
        s.frozen_until[i] = 0;
        s.zaps[i] = s.ate[i] = 0;
    }
    GV_FOR(cell, CELLS) s.apples[cell] = ground(a, team, cell % SIDE, cell / SIDE) == TREE;
}

// Walks and zaps; a frozen agent does neither.
GV_FN void act(const GvArgs& a, const GvTeam& team, const GvState& s, gv_i32 i) {
    const gv_i64 row = gv_row(a, team.world, i);
    const gv_i32 given_move = gv_given_index(a, row, 0, 2), given_zap = gv_given_index(a, row, 1, 2);
    const gv_i32 move = gv_checked_index(a, given_move, 5), zap = gv_checked_index(a, given_zap, 2);
    const bool frozen = s.t <= s.frozen_until[i];
    const gv_i32 x = moved(a, s.x[i], move, 0), y = moved(a, s.y[i], move, 1);
    if (!frozen && ground(a, team, x, y) != WALL) {
        s.x[i] = x;
        s.y[i] = y;
    }
    s.zaps[i] = zap == 1 && !frozen;
}

// Of the agents on an apple, the first one eats it. A zap freezes agents of the other team on cells up to one away.
GV_FN void meet(const GvArgs& a, const GvTeam& team, const GvState& s, gv_i32 i) {
    bool first = true, hit = false;
    for (gv_i32 j = 0; j < gv_num_agents(a); ++j) {
        const gv_i32 dx = s.x[j] - s.x[i], dy = s.y[j] - s.y[i], reds = gv_red_count(a);
        if (j < i && dx == 0 && dy == 0) first = false;
        if ((j < reds) != (i < reds) && s.zaps[j] && dx * dx <= 1 && dy * dy <= 1) hit = true;
    }
    s.ate[i] = first && s.apples[s.y[i] * SIDE + s.x[i]];
    if (hit) s.frozen_until[i] = s.t + FROZEN_STEPS;
    a.agent_reward[gv_row(a, team.world, i)] = (float)s.ate[i] - (s.zaps[i] ? a.zap_cost : 0.0f);
}

// Apples of a cell after this step. A bare tree bears one again with a probability that grows with the apples around it. Agents
// eat those of their cells.
GV_FN bool grows(const GvArgs& a, const GvTeam& team, const GvState& s, gv_i32 cell) {
    const gv_i32 x = cell % SIDE, y = cell / SIDE;
    for (gv_i32 i = 0; i < gv_num_agents(a); ++i) {
        if (s.x[i] == x && s.y[i] == y) return false;
    }
    if (s.apples[cell]) return true;
    gv_i32 around = 0;
    for (gv_i32 other = 0; other < CELLS; ++other) {
        const gv_i32 dx = other % SIDE - x, dy = other / SIDE - y;
        if (dx * dx <= 1 && dy * dy <= 1) around += s.apples[other];
    }
    const float chance = a.regrowth * (float)around;
    return ground(a, team, x, y) == TREE && gv_uniform(gv_draw(a, team, 1, (gv_u32)cell).word[0]) < chance;
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    const gv_i32 agents = gv_num_agents(a);
    GV_FOR(i, agents) act(a, team, s, i);
    gv_barrier(team);
    GV_FOR(i, agents) meet(a, team, s, i);
    GV_FOR(cell, CELLS) team.scratch[cell] = grows(a, team, s, cell) ? 1.0f : 0.0f;
    gv_barrier(team);
    GV_FOR(cell, CELLS) s.apples[cell] = team.scratch[cell] > 0.0f;
    const gv_i32 eaten = gv_count(team, agents, [&](gv_i32 i) { return s.ate[i] != 0; });
    const gv_i32 frozen = gv_count(team, agents, [&](gv_i32 i) { return s.t < s.frozen_until[i]; });
    const gv_i32 zaps = gv_count(team, agents, [&](gv_i32 i) { return s.zaps[i] != 0; });
    const gv_i32 apples = gv_count(team, CELLS, [&](gv_i32 cell) { return team.scratch[cell] > 0.0f; });
    GV_ONCE {
        gv_record_eaten(a, team, (float)eaten);
        gv_record_fewest_apples(a, team, (float)apples);
        gv_record_most_frozen(a, team, (float)frozen);
        if (zaps > 0) gv_record_last_zaps(a, team, (float)zaps);
        s.terminated = apples == 0;
        s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
    }
}

// An agent observes its place, its frozen steps and its zap, and of the cells around it: walls, apples, agents of the other team.
// Its mask allows moves to cells without a wall; none while it is frozen.
GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    const gv_i32 window = 2 * RADIUS + 1, reds = gv_red_count(a);
    GV_FOR(i, gv_num_agents(a)) {
        const gv_i32 x = s.x[i], y = s.y[i], left = s.frozen_until[i] - s.t;
        float* row = gv_obs_row(a, obs, team.world, i);
        row[0] = (float)x;
        row[1] = (float)y;
        row[2] = left > 0 ? (float)left : 0.0f;
        row[3] = (float)s.zaps[i];
        for (gv_i32 n = 0; n < window * window; ++n) {
            const gv_i32 at_x = x + n % window - RADIUS, at_y = y + n / window - RADIUS;
            const bool wall = ground(a, team, at_x, at_y) == WALL;
            gv_i32 others = 0;
            for (gv_i32 j = 0; j < gv_num_agents(a); ++j) others += (j < reds) != (i < reds) && s.x[j] == at_x && s.y[j] == at_y;
            row[4 + n] = wall ? 1.0f : 0.0f;
            row[4 + window * window + n] = !wall && s.apples[at_y * SIDE + at_x] ? 1.0f : 0.0f;
            row[4 + 2 * window * window + n] = (float)others;
        }
        gv_u8* mask = gv_mask_row(a, obs, team.world, i);
        for (gv_i32 move = 0; move < 5; ++move) {
            mask[move] = move == 0 || (left <= 0 && ground(a, team, moved(a, x, move, 0), moved(a, y, move, 1)) != WALL);
        }
    }
}
