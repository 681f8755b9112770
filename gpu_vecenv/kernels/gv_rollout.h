// Several steps in one launch: what gv_step does, num_steps times, each time one step further in actions and outputs.
// gv_env.h includes this file last.
#pragma once

#define GV_ACTION_STREAM 0xFFFEu  // random numbers of an action's first entry; those of each further entry are one lower

// ---- random actions -------------------------------------------------------------------------------------------

// Where a world stands when a rollout begins. No two rollouts of a world begin in the same place, so their actions differ.
struct GvOrigin {
    gv_u64 seed;
    gv_u32 world_id, episode, t;
};

GV_FN GvOrigin gv_origin(const GvArgs& a, gv_i32 world) {
    return {a.seed[world], (gv_u32)a.world_id[world], (gv_u32)a.episode[world], (gv_u32)a.t[world]};
}

// What an entry of an action may be: an index below `choices`, or a number from `low` on.
struct GvRange {
    gv_i32 choices;
    float low, span;
};

GV_FN GvRange gv_range(const GvArgs& a, gv_i32 head) {
    return {a.action_choices[head], a.action_bounds[2 * head], a.action_bounds[2 * head + 1]};
}

// Random words for one entry of the actions of four steps, the first of which is `step`.
GV_FN GvDraw gv_four_steps(const GvOrigin& from, gv_i32 head, gv_i32 agent, gv_i32 step) {
    const gv_u32 stream = GV_ACTION_STREAM - (gv_u32)head;
    return gv_philox(from.seed, from.world_id, from.episode, from.t + (gv_u32)step, stream << 16 | (gv_u32)agent);
}

GV_FN GvEntry gv_random_entry(const GvArgs& a, const GvRange& range, gv_u32 word) {
    GvEntry entry;
    if (gv_continuous(a)) entry.value = range.low + range.span * gv_uniform(word);
    else entry.index = gv_below(word, range.choices);
    return entry;
}

GV_FN void gv_put_entry(const GvArgs& a, void* actions, gv_i64 at, const GvEntry& entry) {
    if (gv_continuous(a)) gv_put((float*)actions + at, entry.value);
    else gv_put((gv_i32*)actions + at, entry.index);
}

// ---- the rollout ----------------------------------------------------------------------------------------------

#if defined(GV_SOLO) && GV_ONE_LANE

#define GV_DRAW_AHEAD 8  // steps, a power of two

// The words of one entry of the given actions of four steps, or of the `left` that are left: memory is waited for once, and
// the actions of the four steps behind them come nearer meanwhile.
GV_FN GvDraw gv_given_steps(const GvArgs& a, const char* actions, gv_i32 head, bool wide, gv_i32 left) {
    GvRaw raw[4];
    for (gv_i32 i = 0; i < 4; ++i) raw[i] = gv_raw_entry(actions + (i < left ? i : 0) * a.action_stride, head, wide);
    for (gv_i32 i = 4; i < 8; ++i)
        if (i < left) gv_prefetch(actions + i * a.action_stride + head * a.action_bytes);
    GvDraw draw;
    for (gv_i32 i = 0; i < 4; ++i) draw.word[i] = (gv_u32)gv_entry_of(raw[i], wide).index;
    return draw;
}

// The world stays in variables of its lane: of a step, memory sees the action and the outputs only. Row is an integer type
// that can number the rows of all steps; one index takes fewer registers than a pointer for each output.
//
// The start of the next episode is drawn ahead. Lanes end their episodes at different times, and a warp in which one lane
// draws takes as long as one in which all do; so all that want a start draw it together, every few steps.
//
// The usual worlds never stand still, being in same-step mode and none marked as finished, and their observations lie well.
template <class Row, bool usual>
GV_FN void gv_rollout_held(const GvArgs& a, const GvTeam& team) {
    GvWorld held, next;
    gv_load(a, team.world, held);
    GvStart start;
    gv_load_start(a, start);
    gv_load_marks(a, team.world, !usual, held);
    const GvArgs window = gv_window(a, team.world, held);
    GvArgs mine = gv_with_stream(window, start, held);
    const GvOrigin origin = gv_origin(mine, 0);
    const GvTeam alone = {0, 0, 1, team.slots, team.scratch};
    const gv_i32 heads = gv_num_heads(a), features = gv_num_features(a);
    const bool given = a.drawn_actions == nullptr, wide = a.action_bytes == 8;
    const char* actions = (const char*)(given ? a.action : a.drawn_actions) + team.world * (gv_i64)(heads * a.action_bytes);
    GvRange ranges[GV_HEADS];
    for (gv_i32 head = 0; head < heads; ++head) ranges[head] = gv_range(a, head);
    GvDraw words[GV_HEADS];
    GvEntry action[GV_HEADS];
    gv_own_params(mine);
    mine.action = action;
    mine.action_bytes = 4;
    float reward = 0.0f;
    mine.agent_reward = &reward;
    const GvArgs ahead = gv_with_world(mine, next);
    bool drawn = false;  // whether `next` is the start of the next episode
    Row row = (Row)team.world;
    GV_LOOP for (gv_i32 step = 0; step < a.num_steps; ++step) {
        gv_block_barrier(team);  // its warps write their rows of a step at about the same time: memory takes longer runs faster
        for (gv_i32 head = 0; head < heads; ++head) {
            GvDraw& draw = words[head];
            if ((step & 3) == 0) {
                if (given) draw = gv_given_steps(a, actions, head, wide, a.num_steps - step);
                else draw = gv_four_steps(origin, head, 0, step);
            }
            if (given) {
                action[head].index = (gv_i32)draw.word[0];
            } else {
                action[head] = gv_random_entry(a, ranges[head], draw.word[0]);
                gv_put_entry(a, (void*)actions, head, action[head]);
            }
            draw = {{draw.word[1], draw.word[2], draw.word[3], 0}};
        }
        actions += a.action_stride;
        gv_at_row(a, mine, row);
        if (usual) {
            held.terminated.value[0] = held.truncated.value[0] = 0;  // as they are
            mine.autoreset = GV_SAME_STEP;
        }
        if (held.terminated.value[0] || held.truncated.value[0])  // nothing else reads it
            mine.previous_obs = step == 0 ? a.previous_obs + (gv_i64)row * features : a.obs + (gv_i64)(row - a.num_worlds) * features;
        GvSeen seen;
        gv_hold_obs(mine, seen);
        const bool begins = gv_advance(mine, alone);
        if (usual) gv_put_last(a, (gv_i64)row, seen, begins, true);
        if (!drawn && (begins || (step & (GV_DRAW_AHEAD - 1)) == 0)) {
            gv_keep_stream(next, held);
            gv_restart(ahead, alone);
            drawn = true;
        }
        if (begins) {
            if (mine.autoreset != GV_SAME_STEP) gv_emit(mine, alone, false, false, false);
            else if (!usual) gv_put_obs(a.final_obs, (gv_i64)row, seen, gv_obs_lie_well(a.final_obs));
            gv_take_start(held, next);
            drawn = false;
            env_observe(mine, alone, mine.obs);
        }
        gv_put_obs(a.obs, (gv_i64)row, seen, usual || gv_obs_lie_well(a.obs));
        gv_put(a.agent_reward + row, reward);
        row += a.num_worlds;
    }
    gv_store(a, team.world, held);
    gv_store_stream(window, start, held);
}

GV_FN void gv_rollout_world(const GvArgs& a, const GvTeam& team) {
    const bool usual = !gv_may_be_marked(a) && gv_obs_lie_well(a.obs) && gv_obs_lie_well(a.final_obs);
    if (usual && (gv_i64)a.num_steps * a.num_worlds <= 0xffffffffll) gv_rollout_held<gv_u32, true>(a, team);
    else gv_rollout_held<gv_u64, false>(a, team);
}

#else

GV_FN void gv_draw_actions(const GvArgs& a, const GvTeam& team, const GvOrigin& origin, void* actions, gv_i32 step) {
    const gv_i32 heads = gv_num_heads(a);
    GV_FOR(agent, gv_num_agents(a)) {
        const gv_i64 row = gv_row(a, team.world, agent);
        for (gv_i32 head = 0; head < heads; ++head) {
            const GvDraw draw = gv_four_steps(origin, head, agent, step & ~3);
            // Not by index, which would put the words into memory.
            const gv_u32 early = step & 1 ? draw.word[1] : draw.word[0], late = step & 1 ? draw.word[3] : draw.word[2];
            gv_put_entry(a, actions, row * heads + head, gv_random_entry(a, gv_range(a, head), step & 2 ? late : early));
        }
    }
}

// Outputs of a step lie behind those of the step before, so that one number leads to all that have rows of agents.
GV_FN void gv_rollout_world(const GvArgs& a, const GvTeam& team) {
    const GvOrigin origin = gv_origin(a, team.world);
    const gv_i32 features = gv_num_features(a), entry_bytes = gv_num_heads(a) * (a.drawn_actions ? 4 : a.action_bytes);
    const gv_i64 rows = (gv_i64)a.num_worlds * gv_num_agents(a);
    GV_LOOP for (gv_i32 step = 0; step < a.num_steps; ++step) {
        const gv_i64 shift = step * rows, envs = a.agents_view ? 0 : (gv_i64)step * a.num_worlds;
        GvArgs now = a;
        gv_shift_rows(now, shift);
        now.action = (const char*)(a.drawn_actions ? a.drawn_actions : a.action) + (step * a.action_stride - shift * entry_bytes);
        if (step > 0) now.previous_obs = a.obs - rows * features;
        now.reward += envs;
        now.out_terminated += envs;
        now.out_truncated += envs;
        now.out_finished += envs;
        gv_block_barrier(team);  // every lane is through with the step before, and small worlds write side by side
        if (a.drawn_actions) {
            gv_draw_actions(now, team, origin, (void*)now.action, step);
            gv_barrier(team);
        }
        gv_step_world(now, team);
    }
}

#endif
