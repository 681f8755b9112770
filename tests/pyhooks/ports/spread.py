"""Agents spread over landmarks and push one another apart, after MPE's simple_spread."""

from gpu_vecenv.pyhooks import Agent, f32, i32, sqrt

DT = 0.1
DAMPING = 0.25
ACCELERATION = 5.0
SIZE = 0.15
CONTACT_FORCE = 100.0


def env_reset(w):
    for me in w.agents:
        draw = w.draw(0, me.index)
        me.x = 2.0 * draw.uniform(0) - 1.0
        me.y = 2.0 * draw.uniform(1) - 1.0
        me.goal_x = 2.0 * draw.uniform(2) - 1.0
        me.goal_y = 2.0 * draw.uniform(3) - 1.0
        me.vx = 0.0
        me.vy = 0.0
        me.near_by = 0.0


def distance(w, me: Agent, it: Agent) -> f32:
    """How far two agents are apart."""
    dx, dy = me.x - it.x, me.y - it.y
    return sqrt(dx * dx + dy * dy)


def env_step(w):
    for me in w.agents:  # forces from places before the step
        move = me.action.index()
        fx = ACCELERATION * f32(i32(move == 2) - i32(move == 1))
        fy = ACCELERATION * f32(i32(move == 4) - i32(move == 3))
        for it in w.agents:
            if it.index != me.index:
                apart = max(distance(w, me, it), 0.001)
                overlap = max(2.0 * SIZE - apart, 0.0)
                fx += CONTACT_FORCE * overlap * (me.x - it.x) / apart
                fy += CONTACT_FORCE * overlap * (me.y - it.y) / apart
        me.vx = me.vx * (1.0 - DAMPING) + fx * DT
        me.vy = me.vy * (1.0 - DAMPING) + fy * DT
    for me in w.agents:
        me.x += me.vx * DT
        me.y += me.vy * DT
    for me in w.agents:  # the landmark of the same number
        near = 1.0e6
        for it in w.agents:
            dx, dy = it.x - me.goal_x, it.y - me.goal_y
            near = min(near, sqrt(dx * dx + dy * dy))
        me.near_by = near
    cover = w.sum(w.agents, lambda it: -it.near_by)
    for me in w.agents:
        hits = 0
        for it in w.agents:
            hits += i32(it.index != me.index and distance(w, me, it) < 2.0 * SIZE)
        me.reward = 0.5 * cover - 0.5 * f32(hits)
    if w.once:
        w.truncate_at(w.params.max_episode_steps)


def env_observe(w):
    n = w.agents.count()
    for me in w.agents:
        me.obs[0] = me.vx
        me.obs[1] = me.vy
        me.obs[2] = me.x
        me.obs[3] = me.y
        at = 4 + 2 * n
        for it in w.agents:
            me.obs[4 + 2 * it.index] = it.goal_x - me.x
            me.obs[5 + 2 * it.index] = it.goal_y - me.y
            if it.index != me.index:
                me.obs[at] = it.x - me.x
                me.obs[at + 1] = it.y - me.y
                at += 2
