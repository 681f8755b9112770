"""Crypto: Alice sends Bob a message over a public channel, and Eve listens. Nobody moves. Eve is agent 0, Bob 1, Alice 2."""

# mypy: ignore-errors
# The types of hooks, such as f32, are functions under Python.

from gpu_vecenv.pyhooks import Agent, World, clamp, f32, i32

WORDS = 4
EVE = 0
BOB = 1
ALICE = 2


def env_reset(w: World) -> None:
    """Draw the message and the key out of two."""
    if w.once:
        for k in range(3 * WORDS):
            w.state.comm[k] = 0.0
        w.state.goal = w.draw(2).below(2)
        w.state.key = w.draw(3).below(2)


def say(w: World, me: Agent) -> None:
    """Write what an agent says: a word by its number, or a number for each word, clipped to its box."""
    said = 0 if w.params.continuous_actions else me.action.index()
    for word in range(WORDS):
        value = clamp(me.action.value(word), 0.0, 1.0) if w.params.continuous_actions else f32(said == word)
        w.at.comm[me.index, word] = value


def error(w: World, agent: i32) -> f32:
    """Return the squared distance of what an agent said from the message; 0 if it said nothing."""
    squared, spoke = 0.0, False
    for word in range(WORDS):
        said = w.at.comm[agent, word]
        apart = said - f32(word == w.state.goal)
        squared += apart * apart
        spoke = spoke or said != 0.0
    return squared if spoke else 0.0


def env_step(w: World) -> None:
    """All speak at once."""
    if w.once:
        say(w, w.role.eve[0])
        say(w, w.role.bob[0])
        say(w, w.role.alice[0])
    for me in w.agents:
        me.reward = -error(w, EVE) if me.index == EVE else error(w, EVE) - error(w, BOB)
    if w.once:
        w.truncate_at(w.params.max_cycles)


def env_observe(w: World) -> None:
    """Give Eve what Alice said, Bob the key and that, Alice the message and the key."""
    s = w.state
    for me in w.role.eve:
        for word in range(WORDS):
            me.obs[word] = w.at.comm[ALICE, word]
    for me in w.role.bob:
        for word in range(WORDS):
            me.obs[word] = f32(word == s.key)
            me.obs[WORDS + word] = w.at.comm[ALICE, word]
    for me in w.role.alice:
        for word in range(WORDS):
            me.obs[word] = f32(word == s.goal)
            me.obs[WORDS + word] = f32(word == s.key)
