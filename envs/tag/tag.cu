// Continuous Tag. The rules are those of README.md in this folder; comments give the numbers of its list "A step".
// Agents are numbered taggers first: 0 .. num_taggers - 1. Each agent is the work of one lane, under GV_FOR.
#include "hooks.h"
#include "scratch.h"

#define CHANNELS 7      // numbers observed of each other agent
#define OWN_FEATURES 6  // numbers that extended_observation adds

// ---- reset ----------------------------------------------------------------------------------------------------

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) {
        // A fixed start is the draw of world 0, episode 0 in every world and episode.
        const GvDraw fixed = gv_philox(a.seed[team.world], 0, 0, 0, (gv_u32)i);
        const GvDraw draw = a.fixed_start ? fixed : gv_draw(a, team, 0, (gv_u32)i);
        s.loc_x[i] = a.explicit_location ? a.start_x[i] : a.grid_length * gv_uniform(draw.word[0]);
        s.loc_y[i] = a.explicit_location ? a.start_y[i] : a.grid_length * gv_uniform(draw.word[1]);
        s.direction[i] = a.explicit_direction ? a.start_direction[i] : a.quarter_turn * (float)(draw.word[2] >> 30);
        s.speed[i] = 0.0f;
        s.acceleration[i] = 0.0f;
        s.alive[i] = 1;
        s.tagged_by[i] = -1;
    }
}

// ---- move: 2 to 7 ---------------------------------------------------------------------------------------------

struct Change {
    float acceleration, turn;
};

GV_FN Change chosen_change(const GvArgs& a, gv_i64 row) {
    if (a.continuous_actions) {
        return {gv_clamp(gv_action_value(a, row, 0, 2), a.min_acceleration, a.max_acceleration),
                gv_clamp(gv_action_value(a, row, 1, 2), a.min_turn, a.max_turn)};
    }
    const gv_i32 accelerations = a.num_acceleration_levels + 1, turns = a.num_turn_levels + 1;
    if (a.flatten_actions) {
        const gv_i32 index = gv_action_index(a, row, 0, 1, accelerations * turns);
        return {a.acceleration_table[index / turns], a.turn_table[index % turns]};
    }
    const gv_i32 acceleration = gv_given_index(a, row, 0, 2), turn = gv_given_index(a, row, 1, 2);
    return {a.acceleration_table[gv_checked_index(a, acceleration, accelerations)],
            a.turn_table[gv_checked_index(a, turn, turns)]};
}

GV_FN void move(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i) {
    const auto s = gv_state(a, team);
    const float old_x = s.loc_x[i], old_y = s.loc_y[i], old_direction = s.direction[i], old_speed = s.speed[i];
    const float old_acceleration = s.acceleration[i];
    const bool tagger = i < gv_num_taggers(a), in_game = s.alive[i] != 0;
    const Change change = chosen_change(a, gv_row(a, team.world, i));
    const float alive = in_game ? 1.0f : 0.0f;
    const float top_speed = tagger ? a.tagger_top_speed : a.runner_top_speed;
    float acceleration = old_acceleration + change.acceleration;
    const float direction = gv_mod(old_direction + change.turn, a.two_pi) * alive;
    const float speed = gv_min(top_speed, gv_max(0.0f, old_speed + acceleration)) * alive;
    if (speed <= 0.0f || speed >= top_speed) acceleration = 0.0f;
    float sine, cosine;
    gv_sincos(direction, &sine, &cosine);
    const float x = old_x + speed * cosine, y = old_y + speed * sine;
    const bool crossed = x < 0.0f || x > a.grid_length || y < 0.0f || y > a.grid_length;
    const GvPlace place = {gv_clamp(x, 0.0f, a.grid_length), gv_clamp(y, 0.0f, a.grid_length)};
    s.loc_x[i] = place.value[0];
    s.loc_y[i] = place.value[1];
    s.direction[i] = direction;
    s.speed[i] = speed;
    s.acceleration[i] = acceleration;
    const float step_reward = tagger ? a.step_penalty_for_tagger : a.step_reward_for_runner;
    reward_of(a, team, scratch, i) = in_game ? (crossed ? a.edge_hit_penalty : 0.0f) + step_reward : 0.0f;
    set_agent(a, scratch, i, place, {speed, acceleration, direction, type_of(a, i, in_game)});
}

// ---- catch: 9 and 10 ------------------------------------------------------------------------------------------

// The tagger that tags runner i in this step, or -1: the nearest one (the lowest index of equals), if within the margin.
GV_FN gv_i32 catcher_of(const GvArgs& a, const Scratch& scratch, gv_i32 i) {
    const GvPlace here = scratch.place[i];
    const float out_of_reach = a.margin * a.margin * 1.001f;  // a little more, for rounding; spares most square roots
    float nearest = a.margin;
    gv_i32 catcher = -1;
    for (gv_i32 j = 0; j < gv_num_taggers(a); ++j) {
        const float squared = gv_squared_distance(here, scratch.place[j]);
        if (squared > out_of_reach) continue;
        const float distance = gv_sqrt(squared);
        if (distance < nearest) {
            nearest = distance;
            catcher = j;
        }
    }
    return catcher;
}

// Tag agent i if it is a runner within reach, and pay it. Returns true if it is a runner that stays in the game.
GV_FN bool catch_runner(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i, bool last_step) {
    const auto s = gv_state(a, team);
    const bool running = i >= gv_num_taggers(a) && is_in_game(a, team, scratch, i);
    const gv_i32 catcher = running ? catcher_of(a, scratch, i) : -1;
    const bool tagged = catcher >= 0, stays = running && !(tagged && a.runner_exits_game_after_tagged);
    float reward = reward_of(a, team, scratch, i);
    if (tagged) {
        reward += a.tag_penalty_for_runner;
        scratch.caught[gv_fetch_add(scratch.tags)] = (gv_u16)catcher;
    }
    if (stays && last_step) reward += a.end_of_game_reward_for_runner;
    s.tagged_by[i] = catcher;
    a.agent_reward[gv_row(a, team.world, i)] = reward;
    return stays;
}

// Pay tagger i for each of its tags, which may be several in one step.
GV_FN void pay_tagger(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i) {
    float reward = reward_of(a, team, scratch, i);
    GV_LOOP for (gv_i32 tag = 0; tag < *scratch.tags; ++tag) {
        if (scratch.caught[tag] == i) reward += a.tag_reward_for_tagger;
    }
    a.agent_reward[gv_row(a, team.world, i)] = reward;
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    const Scratch scratch = scratch_of(a, team);
    const gv_i32 agents = gv_num_agents(a), t = s.t;
    const bool last_step = t >= a.episode_length;
    GV_FOR(i, agents) move(a, team, scratch, i);
    GV_ONCE set_world(a, scratch, t);
    gv_barrier(team);
    bool left = false;
    GV_FOR(i, agents) left |= catch_runner(a, team, scratch, i, last_step);
    left = gv_any(team, left);
    const gv_i32 tags = *scratch.tags;
    GV_FOR(i, tags > 0 ? gv_num_taggers(a) : 0) pay_tagger(a, team, scratch, i);
    GV_FOR(i, gv_use_full_observation(a) ? 0 : agents) hide_unseen(a, team, scratch, i);
    GV_ONCE {
        if (!left) s.terminated = 1;
        if (last_step) s.truncated = 1;
    }
}

GV_FN void env_settle(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) {
        if (a.runner_exits_game_after_tagged && s.tagged_by[i] >= 0) s.alive[i] = 0;
    }
}

// ---- observe: 8 -----------------------------------------------------------------------------------------------

struct Agent {
    float x, y, speed, acceleration, direction;
    bool tagger, in_game;
};

GV_FN Agent agent_of(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i) {
    const GvPlace place = scratch.place[i];
    const Motion motion = motion_of(a, team, scratch, i);
    const bool in_game = !gv_use_full_observation(a) || motion.type >= 0.0f;  // only agents in the game are the nearest of another
    return {place.value[0], place.value[1], motion.speed, motion.acceleration, motion.direction, i < gv_num_taggers(a), in_game};
}

struct Channels {
    float value[CHANNELS];
};

// What `me` observes of another agent, in the order of the channels.
GV_FN Channels observe(const GvArgs& a, const Agent& me, const Agent& other) {
    const auto difference = [&](float mine, float theirs, float scale) { return me.in_game ? (theirs - mine) * scale : 0.0f; };
    return {{
        difference(me.x, other.x, a.per_diagonal),
        difference(me.y, other.y, a.per_diagonal),
        difference(me.speed, other.speed, a.per_max_speed),
        difference(me.acceleration, other.acceleration, a.per_max_speed),
        difference(me.direction, other.direction, a.per_turn),
        other.tagger ? 1.0f : 0.0f,
        other.in_game ? 1.0f : 0.0f,
    }};
}

// The end of a row: the time and, if asked for, the observer's own features. All are 0 of an agent that left.
GV_FN void observe_end(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i, float* row) {
    const bool in_game = is_in_game(a, team, scratch, i);
    float* end = row + gv_num_features(a) - 1 - (gv_extended_observation(a) ? OWN_FEATURES : 0);
    end[0] = in_game ? *scratch.time : 0.0f;
    if (gv_extended_observation(a)) {
        const auto s = gv_state(a, team);
        const float alive = in_game ? 1.0f : 0.0f;
        end[1] = alive * (s.loc_x[i] * a.per_length);
        end[2] = alive * (s.loc_y[i] * a.per_length);
        end[3] = alive * (s.speed[i] * a.per_max_speed);
        end[4] = alive * (s.acceleration[i] * a.per_max_speed);
        end[5] = alive * (s.direction[i] * a.per_turn);
        end[6] = i < gv_num_taggers(a) ? alive : 0.0f;
    }
}

// The observation after env_step, which fills scratch. A tile is some rows of the world's agents.
GV_FN void env_observe_step(const GvArgs& a, const GvTeam& team, float* obs) {
    const Scratch scratch = scratch_of(a, team);
    const gv_i32 agents = gv_num_agents(a), k = gv_num_other_agents_observed(a);
    const bool all = gv_use_full_observation(a);
    const gv_i32 width = all ? agents - 1 : k;
    const GvNeighbours nearest = neighbours_of(a, team, scratch);
    if (!all) gv_find_neighbours(team, nearest);
    gv_write_tiles(team, rows_of(a, team, obs), agents, scratch.tile_rows, scratch.tile, [&](const GvTile& tile) {
        const auto write = [&](gv_i32 i, gv_i32 rank, gv_i32 j) {
            Channels channels = {};
            if (j != GV_NOBODY) channels = observe(a, agent_of(a, team, scratch, i), agent_of(a, team, scratch, j));
            float* entry = gv_row_in(tile.rows, i) + rank;
            GV_UNROLL for (gv_i32 c = 0; c < CHANNELS; ++c) entry[c * width] = channels.value[c];
        };
        if (all) gv_each_other(team, agents, tile.first, tile.end, write);
        else gv_each_neighbour(team, nearest, tile.first, tile.end, write);
        GV_LOOP GV_FOR(r, tile.end - tile.first) {
            const gv_i32 i = tile.first + r;
            observe_end(a, team, scratch, i, gv_row_in(tile.rows, i));
        }
    });
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    stage(a, team);
    env_observe_step(a, team, obs);
}
