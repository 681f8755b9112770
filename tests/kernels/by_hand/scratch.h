// Scratch of Tag by hand: the arrays of its spec, one after the other.
#pragma once
#include "hooks.h"
#include "lib/neighbours.h"
#include "lib/tiles.h"

#define MAX_STAGED 1024  // agents up to which CUDA stages motions and rewards; places always are, and the host stages all

// An agent as others observe it, apart from its place. Read in one access.
struct alignas(16) Motion {
    float speed, acceleration, direction;
    float type;  // 1: tagger, 0: runner, -1: left the game
};

struct Scratch {
    gv_i32* tags;    // number of tags in this step
    float* time;     // observed by agents in the game
    GvPlace* place;  // [agents] input of the search for neighbours
    Motion* motion;  // [agents] if staged
    float* reward;   // [agents] before tags; if staged
    float* search;   // memory of the search for neighbours
    gv_u16* caught;  // [runners] the tagger of each tag, in memory of the search, which overwrites it
    float* tile;     // gathered rows of observations
    gv_i32 tile_rows;
};

GV_FN float type_of(const GvArgs& a, gv_i32 i, bool in_game) {
    return !in_game ? -1.0f : i < gv_num_taggers(a) ? 1.0f : 0.0f;
}

GV_FN bool is_staged(const GvArgs& a) { return GV_ONE_LANE || gv_num_agents(a) <= MAX_STAGED; }

// Floats of scratch in front of the tile of rows: 4 for tags and time, 2 for each place, 5 for each staged agent (4 of motion, 1
// of reward), and the search. The search has room for `caught`: it finds a neighbour or more for each agent.
GV_FN constexpr gv_i32 floats_before_tile(gv_i32 agents, gv_i32 staged, gv_i32 k) {
    return ((4 + 2 * agents + 2 + 3) / 4 * 4 + 5 * staged + gv_neighbours_floats(agents, k) + 3) / 4 * 4;
}

#if defined(GV_num_agents) && !GV_ONE_LANE
static_assert(floats_before_tile(GV_num_agents, GV_num_agents <= MAX_STAGED ? GV_num_agents : 0,
                                 GV_num_other_agents_observed) <= GV_SCRATCH, "scratch() of spec.py returns too few floats");
#endif

GV_FN Scratch scratch_of(const GvArgs& a, const GvTeam& team) {
    const gv_i32 agents = gv_num_agents(a), staged = is_staged(a) ? agents : 0;
    const gv_i32 places = (2 * agents + 2 + 3) / 4 * 2;
    const gv_i32 search = 4 + 2 * places + 5 * staged;
    const gv_i32 tile = floats_before_tile(agents, staged, gv_num_other_agents_observed(a));
    Scratch scratch;
    scratch.tags = (gv_i32*)team.scratch;
    scratch.time = team.scratch + 1;
    scratch.place = (GvPlace*)(team.scratch + 4);
    scratch.motion = (Motion*)(scratch.place + places);
    scratch.reward = (float*)(scratch.motion + staged);
    scratch.search = team.scratch + search;
    scratch.caught = (gv_u16*)scratch.search;
    scratch.tile = team.scratch + tile;
    // The naive search takes longest, so all lanes search at once and write their rows in place.
    const bool naive = !gv_use_full_observation(a) && gv_num_other_agents_observed(a) > GV_MAX_SORTED;
    const bool tiled = !GV_ONE_LANE && is_staged(a) && !naive;
    scratch.tile_rows = tiled ? gv_tile_rows(GV_SCRATCH - tile, agents, gv_num_features(a)) : 0;
    return scratch;
}

// An agent's reward of this step before tags.
GV_FN float& reward_of(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i) {
    return is_staged(a) ? scratch.reward[i] : a.agent_reward[gv_row(a, team.world, i)];
}

GV_FN Motion motion_of(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i) {
    if (is_staged(a)) return scratch.motion[i];
    const auto s = gv_state(a, team);
    return {s.speed[i], s.acceleration[i], s.direction[i], type_of(a, i, s.alive[i] != 0)};
}

GV_FN bool is_in_game(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i) {
    return is_staged(a) ? scratch.motion[i].type >= 0.0f : gv_state(a, team).alive[i] != 0;
}

// An agent as others observe it.
struct Agent {
    float x, y, speed, acceleration, direction;
    float tagger, in_game;  // 1 or 0
};

// An agent in the game, as every neighbour is: its type needs no test.
GV_FN Agent neighbour_of(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i) {
    const GvPlace place = scratch.place[i];
    const Motion motion = motion_of(a, team, scratch, i);
    return {place.value[0], place.value[1], motion.speed, motion.acceleration, motion.direction, motion.type, 1.0f};
}

// Any agent.
GV_FN Agent agent_of(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i) {
    Agent agent = neighbour_of(a, team, scratch, i);  // `tagger` still holds the type, -1 if the agent left
    agent.in_game = agent.tagger >= 0.0f ? 1.0f : 0.0f;
    agent.tagger = i < gv_num_taggers(a) ? 1.0f : 0.0f;
    return agent;
}

// Fills in what the agents share. One lane calls it.
GV_FN void set_world(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 t) {
    const gv_i32 agents = gv_num_agents(a);
    *scratch.tags = 0;
    *scratch.time = (float)t * PARAM(per_episode_length);
    if (agents % 2 != 0) scratch.place[agents] = {GV_FAR, GV_FAR};  // searches read places in pairs
}

GV_FN void set_agent(const GvArgs& a, const Scratch& scratch, gv_i32 i, GvPlace place, const Motion& motion) {
    scratch.place[i] = place;
    if (is_staged(a)) scratch.motion[i] = motion;
}

// Takes an agent out of the search for neighbours if it left, or if its place is not a number.
GV_FN void hide_unseen(const GvArgs& a, const GvTeam& team, const Scratch& scratch, gv_i32 i) {
    const GvPlace place = scratch.place[i];
    const bool seen = is_in_game(a, team, scratch, i) && place.value[0] == place.value[0] && place.value[1] == place.value[1];
    if (!seen && !gv_use_full_observation(a)) scratch.place[i] = {GV_FAR, GV_FAR};
}

// Fills scratch from the state, just as env_step fills it.
GV_FN void stage(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    const Scratch scratch = scratch_of(a, team);
    GV_ONCE set_world(a, team, scratch, s.t);
    GV_FOR(i, gv_num_agents(a)) {
        const Motion motion = {s.speed[i], s.acceleration[i], s.direction[i], type_of(a, i, s.alive[i] != 0)};
        set_agent(a, scratch, i, {s.loc_x[i], s.loc_y[i]}, motion);
        hide_unseen(a, team, scratch, i);
    }
    gv_barrier(team);
}

GV_FN GvNeighbours neighbours_of(const GvArgs& a, const GvTeam& team, const Scratch& scratch) {
    const gv_i32 agents = gv_num_agents(a), k = gv_num_other_agents_observed(a);
    gv_u16* last = a.nearest + (gv_i64)team.world * agents * k;
    return gv_neighbours(agents, k, PARAM(grid_length), scratch.place, scratch.search, last, scratch.tile_rows == agents);
}

// Rows of the world's agents in `obs`. Rows of a role are adjacent.
GV_FN GvRows rows_of(const GvArgs& a, const GvTeam& team, float* obs) {
    const gv_i32 taggers = gv_num_taggers(a), features = gv_num_features(a);
    float* first = gv_obs_row(a, obs, team.world, 0);
    float* second = gv_obs_row(a, obs, team.world, taggers) - taggers * features;
    return {first, second, first == second ? gv_num_agents(a) : taggers, features};
}
