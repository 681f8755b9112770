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

// ---- outputs --------------------------------------------------------------------------------------------------

// Elements from one step to the next.
struct GvStrides {
    gv_i64 obs, final_obs, alive, rows, envs;
};

GV_FN GvStrides gv_strides(const GvArgs& a) {
    const gv_i64 rows = (gv_i64)a.num_worlds * gv_num_agents(a), obs = rows * gv_num_features(a);
    return {obs, a.final_obs ? obs : 0, a.agent_alive ? rows : 0, rows, a.agents_view ? rows : a.num_worlds};
}

GV_FN void gv_next_slot(GvArgs& a, const GvStrides& strides) {
    a.obs += strides.obs;
    a.final_obs += strides.final_obs;
    a.agent_alive += strides.alive;
    a.reward += strides.envs;
    a.agent_reward += strides.rows;
    a.out_terminated += strides.envs;
    a.out_truncated += strides.envs;
    a.out_finished += strides.envs;
}

// ---- the rollout ----------------------------------------------------------------------------------------------

#if defined(GV_SOLO) && GV_ONE_LANE

#define GV_DRAW_AHEAD 8  // steps, a power of two

// Where the length of a row is known, rows that are aligned are written without a look at each address.
#ifdef GV_num_features
#define GV_ROW_BYTES alignof(GvRow<float, GV_num_features>)
#else
#define GV_ROW_BYTES alignof(float)
#endif

// The world stays in variables of its lane: of a step, memory sees the action and the outputs only.
//
// The start of the next episode is drawn ahead. Lanes end their episodes at different times, and a warp in which one lane
// draws takes as long as one in which all do; so all that want a start draw it together, every few steps.
template <bool aligned>
GV_FN void gv_rollout_alone(const GvArgs& a, const GvTeam& team) {
    GvWorld held, next;
    gv_load(a, team.world, held);
    const GvWorld before = held;
    const GvArgs window = gv_window(a, team.world, held);
    GvArgs mine = gv_with_stream(window, held);
    const GvOrigin origin = gv_origin(mine, 0);
    const GvTeam alone = {0, 0, 1, team.slots, team.scratch};
    const gv_i32 heads = gv_num_heads(a);
    const bool given = a.drawn_actions == nullptr, wide = a.action_bytes == 8;
    const gv_i64 first = team.world * (gv_i64)heads;
    const char* from = (const char*)a.action + (given ? first * a.action_bytes : 0);
    gv_u8* to = a.drawn_actions + (given ? 0 : first * 4);
    GvRange ranges[GV_HEADS];
    for (gv_i32 head = 0; head < heads; ++head) ranges[head] = gv_range(a, head);
    GvDraw words[GV_HEADS];
    GvEntry action[GV_HEADS];
    mine.action = action;
    mine.action_bytes = 4;
    mine.agents_view = 0;  // with one agent there is no difference
    gv_own_rows(mine);
    const GvArgs ahead = gv_with_world(mine, next);
    const GvStrides strides = gv_strides(a);
    float *const previous_obs = mine.previous_obs, *reward_row = mine.agent_reward, reward = 0.0f;
    bool drawn = false;  // whether `next` is the start of the next episode
    GV_LOOP for (gv_i32 step = 0; step < a.num_steps; ++step) {
        if (given) {
            for (gv_i32 head = 0; head < heads; ++head) action[head] = gv_given_entry(a, from, head, wide);
            from += a.action_stride;
        } else {
            for (gv_i32 head = 0; head < heads; ++head) {
                GvDraw& draw = words[head];
                if ((step & 3) == 0) draw = gv_four_steps(origin, head, 0, step);
                action[head] = gv_random_entry(a, ranges[head], draw.word[0]);
                gv_put_entry(a, to, head, action[head]);
                draw = {{draw.word[1], draw.word[2], draw.word[3], 0}};
            }
            to += a.action_stride;
        }
        mine.agent_reward = &reward;
        if (aligned) {
            mine.obs = (float*)__builtin_assume_aligned(mine.obs, GV_ROW_BYTES);
            mine.final_obs = (float*)__builtin_assume_aligned(mine.final_obs, GV_ROW_BYTES);
        }
        if (held.terminated.value[0] || held.truncated.value[0])  // nothing else reads it
            mine.previous_obs = step == 0 ? previous_obs : mine.obs - strides.obs;
        const bool begins = gv_advance(mine, alone);
        if (!drawn && (begins || (step & (GV_DRAW_AHEAD - 1)) == 0)) {
            gv_keep_stream(next, held);
            gv_restart(ahead, alone);
            drawn = true;
        }
        if (begins) {
            if (a.autoreset == GV_NEXT_STEP) gv_emit(mine, alone, false, false, false);
            gv_take_start(held, next);
            drawn = false;
            env_observe(mine, alone, mine.obs);
        }
        gv_put(reward_row, reward);
        reward_row += strides.rows;
        gv_next_slot(mine, strides);
    }
    gv_store(a, team.world, before, held);
    gv_store_stream(window, held);
}

GV_FN void gv_rollout_world(const GvArgs& a, const GvTeam& team) {
    if (((gv_u64)a.obs | (gv_u64)a.final_obs) % GV_ROW_BYTES == 0) gv_rollout_alone<true>(a, team);
    else gv_rollout_alone<false>(a, team);
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

GV_FN void gv_rollout_world(const GvArgs& a, const GvTeam& team) {
    const GvOrigin origin = gv_origin(a, team.world);
    const GvStrides strides = gv_strides(a);
    gv_u8* drawn = a.drawn_actions;
    GvArgs now = a;
    if (drawn) now.action = drawn;
    GV_LOOP for (gv_i32 step = 0; step < a.num_steps; ++step) {
        gv_barrier(team);  // every lane is through with the step before
        if (drawn) {
            gv_draw_actions(now, team, origin, (void*)now.action, step);
            gv_barrier(team);
        }
        gv_step_world(now, team);
        now.previous_obs = now.obs;
        gv_next_slot(now, strides);
        now.action = (const char*)now.action + a.action_stride;
    }
}

#endif
