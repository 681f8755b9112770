"""Whole episodes of mpe2, lbforaging and rware, recorded and played here from the same starts with the same actions.

``python -m tests.envs.recorded_episodes`` records ``tests/golden/episodes.npz``; it needs the extra ``originals``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpu_vecenv.envs.rware.floor import floor_of
from gpu_vecenv.envs.rware.spec import SPEC as RWARE
from tests.envs import foraging_original, mpe_original, rware_original

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "episodes.npz"
EPISODES, SEED = 4, 3

CASES = {
    "mpe": ("spread", "tag, continuous", "reference", "speaker listener", "world comm"),
    "foraging": ("sums of levels", "a crowd, short sight"),
    "rware": ("tiny, 4 robots", "two stages"),
}
STEPS = {"mpe": 25, "foraging": 50, "rware": 200}
"""Steps of an episode that are recorded, at most."""
COMPARED = {"mpe": ("agent_pos", "agent_vel", "comm"), "foraging": ("player_pos", "food"), "rware": rware_original.KEYS}
"""State fields that are compared."""


def make_here(suite, case):
    """Return our env of the episodes, after a reset with ``SEED``."""
    if suite == "mpe":
        env = mpe_original.make(case, EPISODES)
        env.reset(seed=SEED)
        return env
    if suite == "foraging":
        return foraging_original.make_here(foraging_original.CONFIGS[case], EPISODES)
    return rware_original.make_here(RWARE.resolve(rware_original.CONFIGURATIONS[case]), EPISODES, SEED)


def play_here(suite, case, start, actions):
    """Play from a start (episodes, ...) with actions of each step; returns arrays (steps, episodes, ...) by name."""
    env, steps = make_here(suite, case), []
    env.set_state({name: array.astype(env.get_state(name)[name].dtype) for name, array in start.items()})
    for moves in actions:
        _, reward, terminated, truncated, info = env.step(moves)
        rewards = np.array(info.get("agent_reward", reward)).reshape(EPISODES, -1)
        state = {name: array.copy() for name, array in env.get_state().items()}
        steps.append({**state, "reward": rewards, "over": terminated | truncated})
    env.close()
    return {name: np.stack([step[name] for step in steps]) for name in steps[0]}


def originals_of(suite, case):
    """Return the starts of an original, a function that sets a state, and one that steps with our state after the step."""
    if suite == "mpe":
        original, starts = mpe_original.Original(*mpe_original.CASES[case]), []
        original.start(SEED)
        for _ in range(EPISODES):
            starts.append(original.whole_state())
            original.start()

        def step(moves, ours):
            _, rewards, terminated, truncated = original.step(moves)
            return {**original.get_state(), "reward": rewards, "over": terminated or truncated}

        return starts, original.set_state, step
    if suite == "foraging":
        env, starts = foraging_original.make(foraging_original.CONFIGS[case]), []
        for episode in range(EPISODES):
            foraging_original.start(env, SEED if episode == 0 else None)
            starts.append(foraging_original.state_of(env))

        def step(moves, ours):
            _, rewards, done, *_ = env.step([int(move) for move in moves])
            return {**foraging_original.state_of(env), "reward": np.array(rewards), "over": done}

        return starts, lambda state: foraging_original.set_state(env, state), step
    params, generator, starts = RWARE.resolve(rware_original.CONFIGURATIONS[case]), np.random.default_rng(SEED), []
    original = rware_original.Original(params)
    for episode in range(EPISODES):  # random play from an empty floor takes thousands of steps to a delivery
        original.env.reset(seed=SEED + episode)
        starts.append(rware_original.crowded_state(generator, original.get_state(), floor_of(params), params))

    def step(moves, ours):
        there, _ = rware_original.step_there(original, np.array(moves), ours)
        return {**there, "over": there["done"]}

    return starts, original.set_state, step


def random_actions(suite, case):
    """Return random actions of all steps, as our env takes them, and for each step and episode those of the original's agents."""
    env, generator = make_here(suite, case), np.random.default_rng(SEED)
    if suite == "mpe":
        env.action_space.seed(SEED)
        actions = [mpe_original.beyond_the_box(env, env.action_space.sample()) for _ in range(STEPS[suite])]
        theirs = [list(zip(*mpe_original.by_agent(moves, env.role_counts), strict=True)) for moves in actions]
        return actions, theirs
    shape = EPISODES, env.num_agents
    if suite == "foraging":
        actions = generator.choice(6, (STEPS[suite], *shape), p=[0.1, 0.15, 0.15, 0.15, 0.15, 0.3]).astype(np.int32)
    else:
        actions = np.stack([rware_original.random_actions(generator, *shape, 0) for _ in range(STEPS[suite])])
    return actions, actions


def episodes_there(suite, case):
    """Return starts (episodes, ...) and actions (steps, episodes, ...) by name, and what the original makes of them.

    A step behind the end of an episode is like its last one.
    """
    starts, set_state, step = originals_of(suite, case)
    start = {name: np.stack([each[name] for each in starts]) for name in starts[0]}
    actions, theirs = random_actions(suite, case)
    here, worlds = play_here(suite, case, start, actions), []
    for world, state in enumerate(starts):
        set_state(state)
        rows = []
        for t, moves in enumerate(theirs):
            if not (rows and rows[-1]["over"]):
                row = step(moves[world], {name: array[t, world] for name, array in here.items()})
            rows.append({name: np.array(row[name]) for name in (*COMPARED[suite], "reward", "over") if name in row})
        worlds.append({name: np.stack([row[name] for row in rows]) for name in rows[0]})
    there = {name: np.stack([world[name] for world in worlds], 1) for name in worlds[0]}
    by_role = {role: np.stack([moves[role] for moves in actions]) for role in actions[0]} if isinstance(actions[0], dict) else {}
    return start, by_role or {"": np.stack(list(actions))}, there


def record():
    """Write the episodes of all cases; keys are SUITE/CASE/start/FIELD, SUITE/CASE/actions/ROLE and SUITE/CASE/there/ARRAY."""
    arrays = {}
    for suite, cases in CASES.items():
        for case in cases:
            for part, found in zip(("start", "actions", "there"), episodes_there(suite, case), strict=True):
                arrays |= {f"{suite}/{case}/{part}/{name}": rware_original.smallest(array) for name, array in found.items()}
    np.savez_compressed(GOLDEN, **arrays)


def recorded(suite, case):
    """Return starts, the actions of each step as our env takes them, and what the original made of them."""
    parts = {"start": {}, "actions": {}, "there": {}}
    with np.load(GOLDEN) as data:
        for key in data.files:
            of_suite, of_case, part, name = key.split("/")
            if (of_suite, of_case) == (suite, case):
                parts[part][name] = data[key]
    moves = {role: array if array.dtype.kind == "f" else array.astype(np.int32) for role, array in parts["actions"].items()}
    steps = [{role: array[t] for role, array in moves.items()} for t in range(STEPS[suite])]
    return parts["start"], [step.get("", step) for step in steps], parts["there"]


if __name__ == "__main__":
    record()
