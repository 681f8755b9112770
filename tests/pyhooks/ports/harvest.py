"""Harvest: two teams pick apples on a grid and zap each other. Cells are numbered y * SIDE + x."""

from gpu_vecenv.pyhooks import Agent, f32, i32

SIDE = 8
CELLS = 64
WALL = 1
TREE = 2
RADIUS = 2
FROZEN_STEPS = 3


def ground(w, x: i32, y: i32) -> i32:
    """Content of a cell; a wall outside the grid."""
    if x < 0 or x >= SIDE or y < 0 or y >= SIDE:
        return WALL
    return w.tables.maps[w.params.map * CELLS + y * SIDE + x]


def moved(w, at: i32, move: i32, axis: i32) -> i32:
    return at + w.tables.moves[2 * move + axis]


def env_reset(w):
    """Agents start on the first cell without a wall from a random one on; each tree has an apple."""
    for me in w.agents:
        cell = w.draw(0, me.index).below(CELLS)
        while ground(w, cell % SIDE, cell // SIDE) == WALL:
            cell = (cell + 1) % CELLS
        me.x = cell % SIDE
        me.y = cell // SIDE
        me.frozen_until = 0
        me.zaps = 0
        me.ate = 0
    for cell in w.each(CELLS):
        w.state.apples[cell] = ground(w, cell % SIDE, cell // SIDE) == TREE


def act(w, me: Agent):
    """Walks and zaps; a frozen agent does neither."""
    move, zap = me.action.indices()
    frozen = w.t <= me.frozen_until
    x, y = moved(w, me.x, move, 0), moved(w, me.y, move, 1)
    if not frozen and ground(w, x, y) != WALL:
        me.x = x
        me.y = y
    me.zaps = zap == 1 and not frozen


def enemies(w, me: Agent, it: Agent) -> bool:
    reds = w.role.red.count()
    return (me.index < reds) != (it.index < reds)


def meet(w, me: Agent):
    """The first of the agents on an apple eats it. A zap freezes agents of the other team on cells up to one away."""
    first, hit = True, False
    for it in w.agents:
        dx, dy = it.x - me.x, it.y - me.y
        if it.index < me.index and dx == 0 and dy == 0:
            first = False
        if enemies(w, me, it) and it.zaps != 0 and dx * dx <= 1 and dy * dy <= 1:
            hit = True
    me.ate = first and w.at.apples[me.y, me.x] != 0
    if hit:
        me.frozen_until = w.t + FROZEN_STEPS
    me.reward = f32(me.ate) - (w.params.zap_cost if me.zaps != 0 else 0.0)


def grows(w, cell: i32) -> bool:
    """A bare tree bears an apple again with a probability that grows with the apples around it."""
    x, y = cell % SIDE, cell // SIDE
    for it in w.agents:
        if it.x == x and it.y == y:
            return False
    if w.state.apples[cell] != 0:
        return True
    around = 0
    for other in range(CELLS):
        dx, dy = other % SIDE - x, other // SIDE - y
        if dx * dx <= 1 and dy * dy <= 1:
            around += w.state.apples[other]
    chance = w.params.regrowth * f32(around)
    return ground(w, x, y) == TREE and w.draw(1, cell).uniform(0) < chance


def env_step(w):
    for me in w.agents:
        act(w, me)
    for me in w.agents:
        meet(w, me)
    for cell in w.each(CELLS):
        w.scratch.grown[cell] = 1.0 if grows(w, cell) else 0.0
    for cell in w.each(CELLS):
        w.state.apples[cell] = w.scratch.grown[cell] > 0.0
    eaten = w.count(w.agents, lambda it: it.ate != 0)
    frozen = w.count(w.agents, lambda it: w.t < it.frozen_until)
    zaps = w.count(w.agents, lambda it: it.zaps != 0)
    apples = w.count(w.each(CELLS), lambda cell: w.scratch.grown[cell] > 0.0)
    if w.once:
        w.record.eaten(f32(eaten))
        w.record.fewest_apples(f32(apples))
        w.record.most_frozen(f32(frozen))
        if zaps > 0:
            w.record.last_zaps(f32(zaps))
        w.terminate(apples == 0)
        w.truncate_at(w.params.max_episode_steps)


def env_observe(w):
    """Its place, frozen steps and zap, and of the cells around it: walls, apples, agents of the other team."""
    window = 2 * RADIUS + 1
    for me in w.agents:
        x, y, left = me.x, me.y, me.frozen_until - w.t
        me.obs[0] = f32(x)
        me.obs[1] = f32(y)
        me.obs[2] = f32(left) if left > 0 else 0.0
        me.obs[3] = f32(me.zaps)
        for n in range(window * window):
            at_x, at_y = x + n % window - RADIUS, y + n // window - RADIUS
            wall = ground(w, at_x, at_y) == WALL
            others = 0
            for it in w.agents:
                others += i32(enemies(w, me, it) and it.x == at_x and it.y == at_y)
            me.obs[4 + n] = 1.0 if wall else 0.0
            me.obs[4 + window * window + n] = 1.0 if not wall and w.at.apples[at_y, at_x] != 0 else 0.0
            me.obs[4 + 2 * window * window + n] = f32(others)
        for move in range(5):
            free = ground(w, moved(w, x, move, 0), moved(w, y, move, 1)) != WALL
            me.mask[move] = move == 0 or left <= 0 and free
