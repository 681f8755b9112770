"""Hooks of the test env Ledger that use much of the subset."""

from gpu_vecenv.pyhooks import (
    Agent,
    World,
    clamp,
    cos,
    dividing,
    exp,
    f32,
    floor,
    i32,
    log,
    log2,
    mod,
    pow,
    sin,
    sincos,
    softplus,
    sqrt,
    tanh,
)

CELLS = 6
LAST = CELLS - 1
HALF = 1.0 / 2.0
DEBT = -3


def env_reset(w: World):
    for me in w.agents:
        draw = w.draw(0, me.index)
        me.gold = DEBT + draw.below(9)
        me.memory[0] = draw.uniform(1)
        me.memory[1] = 2.0 * draw.uniform(2) - 1.0
    for k in w.each(CELLS):
        w.state.cells[k] = w.draw(1, k).below(7) - 3
    if w.once:
        w.state.pot = 0


@dividing
def shares(w, x: f32, y: f32) -> tuple[f32, f32]:
    """Two quotients with one divisor."""
    whole = x + y
    if whole > 4.0:
        whole = 4.0
    return x / whole, y / (whole * whole + 1.0)


def split(w, gold: i32) -> tuple[i32, f32, bool]:
    """Results of different types."""
    whole = gold // 3
    rest = gold % 3
    return whole, f32(rest) * HALF, rest != 0


def richest(w, me: Agent) -> i32:
    """Number of the agent with most coins other than this one, the first of them."""
    best, found = -1000, me.index
    for it in w.agents:
        if it.index == me.index:
            continue
        if it.gold > best:
            best, found = it.gold, it.index
    return found


def curve(w, x: f32) -> f32:
    sine, cosine = sincos(x)
    y = abs(sine) + clamp(cosine, -0.5, 0.5) + tanh(x) * softplus(-x)
    y += sqrt(abs(x)) - floor(x) + mod(x, 1.5) + log(abs(x) + 1.0) * log2(2.0) + pow(abs(x), 0.5)
    return min(max(y, -100.0), 100.0) + exp(-abs(x)) * (sin(x) - cos(x))


def remember(w, me: Agent, x: f32):
    """Shifts what the agent remembers."""
    me.memory[1] = me.memory[0]
    me.memory[0] = x


def env_step(w):
    s, p = w.state, w.params
    taxed = w.t % 4 == 0
    for me in w.agents:
        move = me.action.index()
        before = me.gold
        if move == 0:
            me.gold += 1
        elif move == 1 and me.gold > 0:
            me.gold -= 2
        else:
            me.gold = -me.gold if move > 3 else me.gold // 2
        paid = 0
        while paid < 3 and me.gold > paid:
            paid += 1
            if taxed:
                break
        whole, part, rests = split(w, before)
        remember(w, me, part + f32(whole) if rests else f32(paid))
    for me in w.agents:
        rival = w.agents[richest(w, me)]
        one, two = shares(w, f32(abs(rival.gold)) + 1.0, me.memory[0] * me.memory[0])
        me.reward = curve(w, me.memory[0] - p.tax) + (one - two) * w.tables.prices[me.index % 4]
        w.scratch.sums[me.index] = f32(rival.gold) * w.at.memory[me.index, 1]
    for k in w.each(CELLS):
        total = 0
        for j in range(w.agents.count() - 1, -1, -1):
            if w.agents[j].gold % CELLS == k:
                total += j + 1
        s.cells[k] = min(total, LAST) ^ (k & 1)
    full = w.count(w.each(CELLS), lambda k: s.cells[k] > 2)
    poor = w.any(w.agents, lambda it: it.gold < DEBT)
    gold, sums = w.sum(w.agents, lambda it: f32(it.gold), lambda it: w.scratch.sums[it.index])
    if w.once:
        s.pot = i32(clamp(gold, -1000.0, 1000.0)) + full
        w.at.memory[full % w.agents.count(), 1] += w.at.memory[0, full % 2]
        w.record.most(sums)
        w.terminate(poor and w.t > 5)
        w.truncate_at(p.max_episode_steps)
    for me in w.agents:
        if s.pot > 20:
            me.gold = max(me.gold - s.pot // w.agents.count(), 0)


def env_observe(w):
    mean = f32(w.state.pot) / f32(w.agents.count())
    if w.sizes.num_features == 2:
        for me in w.agents:
            me.obs = [f32(me.gold) - mean, me.memory[0]]
    else:
        for me, it in w.pairs(w.agents):
            me.obs[it.index] = f32(it.gold)


def env_observe_step(w):
    for me in w.agents:
        me.obs[0] = f32(me.gold) - f32(w.state.pot) / f32(w.agents.count())
        me.obs[1] = w.scratch.sums[me.index]
