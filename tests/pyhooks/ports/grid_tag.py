"""Gridworld Tag. Taggers come first, the runner is the last agent; envs/grid_tag/README.md has the rules."""

from gpu_vecenv.pyhooks import Agent, f32, i32

FAR = 0x7FFFFFFF


def env_reset(w):
    runner = w.role.tagger.count()
    cells = w.params.grid_length + 1
    for me in w.agents:
        x = 0 if me.index == runner else w.params.grid_length // 2
        y = x
        if w.params.explicit_location != 0.0:
            x = i32(w.tables.start_x[me.index])
            y = i32(w.tables.start_y[me.index])
        elif not w.params.fixed_start:
            runner_cell = w.draw(0, runner).below(cells * cells)
            other = w.draw(0, me.index).below(cells * cells - 1)
            cell = runner_cell if me.index == runner else other + i32(other >= runner_cell)
            x = cell % cells
            y = cell // cells
        me.loc_x = x
        me.loc_y = y


def env_step(w):
    p = w.params
    last = p.grid_length
    for me in w.agents:
        move = me.action.index()  # 0 stay, 1 x + 1, 2 x - 1, 3 y + 1, 4 y - 1
        x = me.loc_x + i32(move == 1) - i32(move == 2)
        y = me.loc_y + i32(move == 3) - i32(move == 4)
        wall = x < 0 or x > last or y < 0 or y > last
        me.loc_x = 0 if x < 0 else last if x > last else x
        me.loc_y = 0 if y < 0 else last if y > last else y
        me.reward = -p.wall_hit_penalty if wall else 0.0
    runner = w.role.runner[0]
    tagged = w.any(w.role.tagger, lambda it: it.loc_x == runner.loc_x and it.loc_y == runner.loc_y)
    for me in w.agents:
        for_tagger = p.tag_reward_for_tagger if tagged else -p.step_cost_for_tagger
        for_runner = -p.tag_penalty_for_runner if tagged else p.step_cost_for_tagger
        me.reward += for_runner if me.index == runner.index else for_tagger
    if w.once:
        w.terminate(tagged)
        w.truncate_at(p.episode_length)


def opponent(w, me: Agent) -> i32:
    """For a tagger the runner, for the runner the nearest tagger, on ties that of lower index."""
    runner = w.role.tagger.count()
    if me.index != runner:
        return runner
    nearest, best = 0, FAR
    for j in range(runner):
        it = w.agents[j]
        dx, dy = it.loc_x - me.loc_x, it.loc_y - me.loc_y
        distance = dx * dx + dy * dy
        if distance < best:
            best = distance
            nearest = j
    return nearest


def observe_one(w, me: Agent):
    """Its cell, that of its opponent, 1 for the runner, time."""
    it = w.agents[opponent(w, me)]
    scale = w.params.per_length
    me.obs[0] = f32(me.loc_x) * scale
    me.obs[1] = f32(me.loc_y) * scale
    me.obs[2] = f32(it.loc_x) * scale
    me.obs[3] = f32(it.loc_y) * scale
    me.obs[4] = 1.0 if me.index == w.role.tagger.count() else 0.0
    me.obs[5] = f32(w.t) * w.params.per_episode_length


def env_observe(w):
    """All observe four channels with a number for each agent, and time, or their cell and that of their opponent."""
    agents, scale, time = w.agents.count(), w.params.per_length, f32(w.t) * w.params.per_episode_length
    if w.params.use_full_observation:
        for me, it in w.pairs(w.agents):
            me.obs[it.index] = f32(it.loc_x) * scale
            me.obs[agents + it.index] = f32(it.loc_y) * scale
            me.obs[2 * agents + it.index] = 1.0 if it.index == agents - 1 else 0.0
            me.obs[3 * agents + it.index] = 1.0 if it.index == me.index else 0.0
            if it.index == 0:
                me.obs[4 * agents] = time
    else:
        for me in w.agents:
            observe_one(w, me)
