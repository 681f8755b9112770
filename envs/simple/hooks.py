"""Simple: an agent is rewarded for being near a landmark. The motion is that of envs/mpe/physics.h, without contacts."""

# mypy: ignore-errors
# The types of hooks, such as f32, are functions under Python.

from gpu_vecenv.pyhooks import Agent, World, clamp, f32, i32

STEP_TIME = 0.1
KEPT_SPEED = 0.75
PUSH = 5.0


def env_reset(w: World) -> None:
    """Draw places from the square around the origin; the agent is at rest."""
    if w.once:
        agent, landmark = w.draw(0), w.draw(1)
        w.state.agent_pos[0] = 2.0 * agent.uniform(0) - 1.0
        w.state.agent_pos[1] = 2.0 * agent.uniform(1) - 1.0
        w.state.agent_vel[0] = 0.0
        w.state.agent_vel[1] = 0.0
        w.state.landmark_pos[0] = 2.0 * landmark.uniform(0) - 1.0
        w.state.landmark_pos[1] = 2.0 * landmark.uniform(1) - 1.0


def share(me: Agent, entry: i32) -> f32:
    """Entry of a continuous action, clipped to its box."""
    return clamp(me.action.value(entry), 0.0, 1.0)


def env_step(w: World) -> None:
    """Move by the velocity, then change that by the action: 0 none, 1 left, 2 right, 3 down, 4 up."""
    for me in w.agents:
        move = 0 if w.params.continuous_actions else me.action.index()
        squared = 0.0
        for axis in range(2):
            less, more = 1 + 2 * axis, 2 + 2 * axis
            push = f32(move == more) - f32(move == less)
            if w.params.continuous_actions:
                push = share(me, more) - share(me, less)
            me.agent_pos[axis] += me.agent_vel[axis] * STEP_TIME
            me.agent_vel[axis] = me.agent_vel[axis] * KEPT_SPEED + push * PUSH * STEP_TIME
            apart = me.agent_pos[axis] - w.state.landmark_pos[axis]
            squared += apart * apart
        me.reward = -squared
        w.truncate_at(w.params.max_cycles)


def env_observe(w: World) -> None:
    """Velocity, and the landmark as seen from the agent."""
    s = w.state
    for me in w.agents:
        me.obs = [me.agent_vel[0], me.agent_vel[1], s.landmark_pos[0] - me.agent_pos[0], s.landmark_pos[1] - me.agent_pos[1]]
