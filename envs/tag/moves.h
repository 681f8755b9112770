// Moves, tags and their rewards. What others need of an agent in the same step goes to scratch as well as to memory, so that
// nobody waits for it to come back from there.
#pragma once
#include "neighbours.h"

// Index of an agent of this world in the (worlds, agents) state arrays.
GV_FN gv_i64 at(const GvArgs& a, gv_i32 world, gv_i32 agent) { return (gv_i64)world * gv_num_agents(a) + agent; }

// Time, as an agent in the game observes it.
GV_FN float observed_time(const GvArgs& a, gv_i32 t) { return (float)t * a.per_episode_length; }

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
        const gv_i32 first = gv_given_index(a, row, 0, 2), second = gv_given_index(a, row, 1, 2);
        acceleration = gv_checked_index(a, first, accelerations);
        turn = gv_checked_index(a, second, turns);
    }
    change.acceleration = a.acceleration_table[acceleration];
    change.turn = a.turn_table[turn];
    return change;
}

// An agent's reward of this step before tags, until all are known.
GV_FN float& reward_of(const GvArgs& a, const Scratch& s, gv_i32 w, gv_i32 i) {
    return gv_num_agents(a) <= MAX_STAGED ? s.reward[i] : a.agent_reward[gv_row(a, w, i)];
}

GV_FN bool is_alive(const GvArgs& a, const Scratch& s, gv_i32 w, gv_i32 i) {
    return gv_num_agents(a) <= MAX_STAGED ? s.more[i].value[3] >= 0.0f : a.alive[at(a, w, i)] != 0;
}

GV_FN void place(const Scratch& s, gv_i32 i, bool seen, float x, float y) {
    s.place[i].value[0] = seen ? x : FAR;  // the squared distance to there is infinite
    s.place[i].value[1] = seen ? y : FAR;
}

// What is there once, for all agents.
GV_FN void open_scratch(const GvArgs& a, const GvTeam& team, const Scratch& s, gv_i32 t) {
    GV_ONCE {
        s.head->tags = 0;
        s.head->time = observed_time(a, t);
        if (SCRATCH_PLACES(gv_num_agents(a)) > gv_num_agents(a)) place(s, gv_num_agents(a), false, FAR, FAR);
    }
}

GV_FN void move(const GvArgs& a, const Scratch& s, gv_i32 w, gv_i32 i) {
    const gv_i64 me = at(a, w, i);
    const float old_x = a.loc_x[me], old_y = a.loc_y[me], old_direction = a.direction[me], old_speed = a.speed[me];
    const float old_acceleration = a.acceleration[me];
    const bool tagger = i < gv_num_taggers(a), in_game = a.alive[me] != 0;
    const Change change = chosen_change(a, gv_row(a, w, i));
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
    const float new_x = gv_clamp(x, 0.0f, a.grid_length), new_y = gv_clamp(y, 0.0f, a.grid_length);
    a.loc_x[me] = new_x;
    a.loc_y[me] = new_y;
    a.direction[me] = direction;
    a.speed[me] = speed;
    a.acceleration[me] = acceleration;
    place(s, i, tagger || (in_game && new_x == new_x && new_y == new_y), new_x, new_y);
    if (gv_num_agents(a) <= MAX_STAGED) {
        const Quad more = {speed, acceleration, direction, type_of(a, i, in_game)};
        s.more[i] = more;
    }
    const float step_reward = tagger ? a.step_penalty_for_tagger : a.step_reward_for_runner;
    reward_of(a, s, w, i) = in_game ? (crossed ? a.edge_hit_penalty : 0.0f) + step_reward : 0.0f;
}

// The tagger that catches runner i in this step, or -1: the nearest one (the lowest index of equals), if within the margin.
GV_FN gv_i32 catcher_of(const GvArgs& a, const Scratch& s, gv_i32 i) {
    const Pair here = s.place[i];
    const float out_of_reach = a.margin * a.margin * 1.001f;  // spares most square roots
    float nearest = a.margin;
    gv_i32 catcher = -1;
    for (gv_i32 j = 0; j < gv_num_taggers(a); ++j) {
        const float squared = squared_distance(here, s.place[j]);
        if (squared > out_of_reach) continue;
        const float distance = gv_sqrt(squared);
        if (distance < nearest) {
            nearest = distance;
            catcher = j;
        }
    }
    return catcher;
}

// Who is caught, and all rewards but those of catchers. Returns whether one of this lane's runners stays in the game.
GV_FN bool catch_runners(const GvArgs& a, const GvTeam& team, const Scratch& s, bool last_step) {
    const gv_i32 w = team.world, taggers = gv_num_taggers(a);
    bool left = false;
    GV_FOR(i, gv_num_agents(a)) {
        const bool running = i >= taggers && is_alive(a, s, w, i);
        const gv_i32 catcher = running ? catcher_of(a, s, i) : -1;
        const bool tagged = catcher >= 0, stays = running && !(tagged && a.runner_exits_game_after_tagged);
        float reward = reward_of(a, s, w, i);
        if (tagged) {
            reward += a.tag_penalty_for_runner;
            s.caught[gv_fetch_add(&s.head->tags)] = (gv_u16)catcher;
        }
        if (stays && last_step) reward += a.end_of_game_reward_for_runner;
        a.tagged_by[at(a, w, i)] = catcher;
        a.agent_reward[gv_row(a, w, i)] = reward;
        left |= stays;
    }
    return left;
}
