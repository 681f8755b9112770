// Hooks of envs/tag that take (a, team) and do without GvWorld; see test_world_cost.py.
#include "hooks.h"
#include "actions.h"
#include "scratch.h"

#define CHANNELS 7      // numbers observed for each other agent
#define DIFFERENCES 5   // the first channels, which an agent that left observes as 0
#define OWN_FEATURES 6  // numbers that extended_observation adds

// ---- reset ----------------------------------------------------------------------------------------------------

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) {
        // A fixed start is the draw of world 0, episode 0 in every world and episode.
        const GvDraw draw = a.fixed_start ? gv_philox(a.seed[team.world], 0, 0, 0, (gv_u32)i) : gv_draw(a, team, 0, (gv_u32)i);
        s.loc_x[i] = a.explicit_location ? a.start_x[i] : PARAM(grid_length) * gv_uniform(draw.word[0]);
        s.loc_y[i] = a.explicit_location ? a.start_y[i] : PARAM(grid_length) * gv_uniform(draw.word[1]);
        s.direction[i] = a.explicit_direction ? a.start_direction[i] : a.quarter_turn * (float)(draw.word[2] >> 30);
        s.speed[i] = 0.0f;
        s.acceleration[i] = 0.0f;
        s.alive[i] = 1;
        s.tagged_by[i] = -1;
    }
}

// ---- move: 2 to 7 ---------------------------------------------------------------------------------------------

GV_FN void move(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i) {
    const auto s = gv_state(a, team);
    const float old_x = s.loc_x[i], old_y = s.loc_y[i], old_direction = s.direction[i];
    const float old_speed = s.speed[i], old_acceleration = s.acceleration[i];
    const bool tagger = i < gv_num_taggers(a), in_game = s.alive[i] != 0;
    const Change change = chosen_change(a, team, gv_row(a, team.world, i));
    const float alive = in_game ? 1.0f : 0.0f;
    const float top_speed = tagger ? PARAM(tagger_top_speed) : PARAM(runner_top_speed);
    float acceleration = old_acceleration + change.acceleration;
    const float direction = gv_mod(old_direction + change.turn, a.two_pi) * alive;
    const float speed = gv_min(top_speed, gv_max(0.0f, old_speed + acceleration)) * alive;
    if (speed <= 0.0f || speed >= top_speed) acceleration = 0.0f;
    float sine, cosine;
    gv_sincos(direction, &sine, &cosine);
    const float x = old_x + speed * cosine, y = old_y + speed * sine;
    const bool crossed = x < 0.0f || x > PARAM(grid_length) || y < 0.0f || y > PARAM(grid_length);
    const GvPlace place = {gv_clamp(x, 0.0f, PARAM(grid_length)), gv_clamp(y, 0.0f, PARAM(grid_length))};
    s.loc_x[i] = place.value[0];
    s.loc_y[i] = place.value[1];
    s.direction[i] = direction;
    s.speed[i] = speed;
    s.acceleration[i] = acceleration;
    const float step_reward = tagger ? PARAM(step_penalty_for_tagger) : PARAM(step_reward_for_runner);
    reward_of(a, team, scratch, i) = in_game ? (crossed ? PARAM(edge_hit_penalty) : 0.0f) + step_reward : 0.0f;
    set_agent(a, scratch, i, place, {speed, acceleration, direction, type_of(a, i, in_game)});
}

// ---- catch: 9 and 10 ------------------------------------------------------------------------------------------

// The tagger that tags runner i in this step, or -1: the nearest one within the margin, the lowest index of equals.
GV_FN gv_i32 catcher_of(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i) {
    const GvPlace here = scratch.place[i];
    const float out_of_reach = PARAM(margin) * PARAM(margin) * 1.001f;  // a little more, for rounding; spares most square roots
    float least = PARAM(margin);
    gv_i32 catcher = -1;
    for (gv_i32 j = 0; j < gv_num_taggers(a); ++j) {
        const float squared = gv_squared_distance(here, scratch.place[j]);
        if (squared > out_of_reach) continue;
        const float distance = gv_sqrt(squared);
        if (distance < least) {
            least = distance;
            catcher = j;
        }
    }
    return catcher;
}

// Tags agent i if it is a runner within reach, and writes its reward. Returns true if it is a runner that stays in the game.
GV_FN bool catch_runner(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i, bool last_step) {
    const auto s = gv_state(a, team);
    const bool running = i >= gv_num_taggers(a) && is_in_game(a, team, scratch, i);
    const gv_i32 catcher = running ? catcher_of(a, team, scratch, i) : -1;
    const bool tagged = catcher >= 0, stays = running && !(tagged && a.runner_exits_game_after_tagged);
    float reward = reward_of(a, team, scratch, i);
    if (tagged) {
        reward += PARAM(tag_penalty_for_runner);
        scratch.caught[gv_fetch_add(scratch.tags)] = (gv_u16)catcher;
    }
    if (stays && last_step) reward += PARAM(end_of_game_reward_for_runner);
    s.tagged_by[i] = catcher;
    a.agent_reward[gv_row(a, team.world, i)] = reward;
    if (i >= gv_num_taggers(a)) hide_unseen(a, team, scratch, i);
    return stays;
}

// Pays tagger i for each of its tags, which may be several in one step.
GV_FN void pay_tagger(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i, gv_i32 tags) {
    float reward = reward_of(a, team, scratch, i);
    GV_LOOP for (gv_i32 tag = 0; tag < tags; ++tag) if (scratch.caught[tag] == i) reward += PARAM(tag_reward_for_tagger);
    a.agent_reward[gv_row(a, team.world, i)] = reward;
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    const Scratch scratch = scratch_of(a, team);
    const gv_i32 agents = gv_num_agents(a), t = s.t;
    const bool last_step = t >= PARAM(episode_length);
    GV_FOR(i, agents) move(a, team, scratch, i);
    GV_ONCE set_world(a, team, scratch, t);
    gv_barrier(team);
    bool stays = false;  // a runner of this lane stays in the game
    GV_FOR(i, agents) stays |= catch_runner(a, team, scratch, i, last_step);
    const bool remain = gv_any(team, stays);  // a barrier: all tags are listed
    const gv_i32 tags = *scratch.tags;
    GV_FOR(i, gv_num_taggers(a)) {
        if (tags > 0) pay_tagger(a, team, scratch, i, tags);
        hide_unseen(a, team, scratch, i);  // after all tags: a tagger set as not alive still catches
    }
    GV_ONCE {
        if (!remain) s.terminated = 1;
        if (last_step) s.truncated = 1;
    }
}

// After the observation, so that it shows tagged runners in the game.
GV_FN void env_settle(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_FOR(i, gv_num_agents(a)) if (a.runner_exits_game_after_tagged && s.tagged_by[i] >= 0) s.alive[i] = 0;
}

// ---- observe: 8 -----------------------------------------------------------------------------------------------

// An observing agent: its number, itself as others observe it, and its row of observations.
struct Observer { gv_i32 agent; Agent self; float* row; };

struct Channels { float value[CHANNELS]; };

// Observation of another agent, in the order of the channels.
GV_FN Channels observe(const GvArgs& a, const GvTeam& team, const Agent& me, const Agent& other) {
    return {{
        (other.x - me.x) * PARAM(per_diagonal),
        (other.y - me.y) * PARAM(per_diagonal),
        (other.speed - me.speed) * PARAM(per_max_speed),
        (other.acceleration - me.acceleration) * PARAM(per_max_speed),
        (other.direction - me.direction) * a.per_turn,
        other.tagger,
        other.in_game,
    }};
}

GV_FN void write(const Observer& me, Channels channels, gv_i32 rank, gv_i32 width) {
    GV_UNROLL for (gv_i32 c = 0; c < CHANNELS; ++c) me.row[rank + c * width] = channels.value[c];
}

// The end of a row: the time and, with extended_observation, the observer's own features. All are 0 if the agent left.
GV_FN void observe_end(const GvArgs& a, const GvTeam& team, const Scratch& scratch, const Observer& me) {
    const gv_i32 i = me.agent;
    const bool in_game = is_in_game(a, team, scratch, i);
    float* end = me.row + gv_num_features(a) - 1 - (gv_extended_observation(a) ? OWN_FEATURES : 0);
    end[0] = in_game ? *scratch.time : 0.0f;
    if (gv_extended_observation(a)) {
        const auto s = gv_state(a, team);
        const float alive = in_game ? 1.0f : 0.0f;
        end[1] = alive * (s.loc_x[i] * PARAM(per_length));
        end[2] = alive * (s.loc_y[i] * PARAM(per_length));
        end[3] = alive * (s.speed[i] * PARAM(per_max_speed));
        end[4] = alive * (s.acceleration[i] * PARAM(per_max_speed));
        end[5] = alive * (s.direction[i] * a.per_turn);
        end[6] = i < gv_num_taggers(a) ? alive : 0.0f;
    }
}

// The observation after env_step, which fills scratch.
GV_FN void env_observe_step(const GvArgs& a, const GvTeam& team, float* obs) {
    const Scratch scratch = scratch_of(a, team);
    const gv_i32 agents = gv_num_agents(a), k = gv_num_other_agents_observed(a), all = gv_use_full_observation(a);
    const GvNeighbours search = neighbours_of(a, team, scratch);
    if (!all) gv_find_neighbours(team, search);
    gv_write_tiles(team, rows_of(a, team, obs), agents, scratch.tile_rows, scratch.tile, [&](const GvTile& tile) {
        const auto observer = [&](gv_i32 i) { return Observer{i, agent_of(a, team, scratch, i), gv_row_in(tile.rows, i)}; };
        const auto finish = [&](const Observer& me) { observe_end(a, team, scratch, me); };
        const auto see_other = [&](const Observer& me, gv_i32 rank, gv_i32 j) {
            Channels channels = observe(a, team, me.self, agent_of(a, team, scratch, j));
            GV_UNROLL for (gv_i32 c = 0; c < DIFFERENCES; ++c) {
                channels.value[c] = me.self.in_game > 0.0f ? channels.value[c] : 0.0f;
            }
            write(me, channels, rank, agents - 1);
        };
        const auto see_neighbour = [&](const Observer& me, gv_i32 rank, gv_i32 j) {
            Channels channels = {};
            if (j != GV_NOBODY) channels = observe(a, team, me.self, neighbour_of(a, team, scratch, j));
            write(me, channels, rank, k);
        };
        if (all) gv_each_other(team, agents, tile.first, tile.end, observer, see_other, finish);
        else gv_each_neighbour(team, search, tile.first, tile.end, observer, see_neighbour, finish);
    });
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    stage(a, team);
    env_observe_step(a, team, obs);
}
