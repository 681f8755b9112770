"""Speaker and listener: the speaker knows where the listener should go.

The motion is that of envs/mpe/physics.h, without contacts.
"""

# mypy: ignore-errors
# The types of hooks, such as f32, are functions under Python.

from gpu_vecenv.pyhooks import Agent, World, clamp, f32, i32

STEP_TIME = 0.1
KEPT_SPEED = 0.75
PUSH = 5.0
LANDMARKS = 3
WORDS = 3


def env_reset(w: World) -> None:
    """Draw places from the square around the origin, and the listener's landmark."""
    for me in w.agents:
        agent = w.draw(0, me.index)
        me.agent_pos[0] = 2.0 * agent.uniform(0) - 1.0
        me.agent_pos[1] = 2.0 * agent.uniform(1) - 1.0
        me.agent_vel[0] = 0.0
        me.agent_vel[1] = 0.0
    if w.once:
        for k in range(LANDMARKS):
            landmark = w.draw(1, k)
            w.state.landmark_pos[2 * k] = 2.0 * landmark.uniform(0) - 1.0
            w.state.landmark_pos[2 * k + 1] = 2.0 * landmark.uniform(1) - 1.0
        w.state.goal = w.draw(2).below(LANDMARKS)
        for word in range(WORDS):
            w.state.comm[word] = 0.0


def share(me: Agent, entry: i32) -> f32:
    """Entry of a continuous action, clipped to its box."""
    return clamp(me.action.value(entry), 0.0, 1.0)


def squared_distance(w: World, me: Agent, landmark: i32) -> f32:
    """Return the squared distance of an agent from a landmark."""
    x = me.agent_pos[0] - w.state.landmark_pos[2 * landmark]
    y = me.agent_pos[1] - w.state.landmark_pos[2 * landmark + 1]
    return x * x + y * y


def env_step(w: World) -> None:
    """Move the listener by its velocity, then change that by its action: 0 none, 1 left, 2 right, 3 down, 4 up."""
    if w.once:
        speaker = w.role.speaker[0]
        said = 0 if w.params.continuous_actions else speaker.action.index()
        for word in range(WORDS):
            w.state.comm[word] = share(speaker, word) if w.params.continuous_actions else f32(said == word)
    for me in w.role.listener:
        move = 0 if w.params.continuous_actions else me.action.index()
        for axis in range(2):
            less, more = 1 + 2 * axis, 2 + 2 * axis
            push = f32(move == more) - f32(move == less)
            if w.params.continuous_actions:
                push = share(me, more) - share(me, less)
            me.agent_pos[axis] += me.agent_vel[axis] * STEP_TIME
            me.agent_vel[axis] = me.agent_vel[axis] * KEPT_SPEED + push * PUSH * STEP_TIME
    for me in w.agents:
        me.reward = -squared_distance(w, w.agents[1], w.state.goal)
    if w.once:
        w.truncate_at(w.params.max_cycles)


def env_observe(w: World) -> None:
    """Give the speaker the colour of the goal, the listener its velocity, the landmarks as seen from it, and what was said."""
    s = w.state
    for me in w.role.speaker:
        for channel in range(3):
            me.obs[channel] = 0.65 if s.goal == channel else 0.15
    for me in w.role.listener:
        for axis in range(2):
            me.obs[axis] = me.agent_vel[axis]
            for k in range(LANDMARKS):
                me.obs[2 + 2 * k + axis] = w.at.landmark_pos[k, axis] - me.agent_pos[axis]
        for word in range(WORDS):
            me.obs[2 + 2 * LANDMARKS + word] = s.comm[word]
