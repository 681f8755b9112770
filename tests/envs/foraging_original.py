"""Level-based foraging by lbforaging 2.0.0: states and steps of its random play, under the names of the spec.

``PYTHONPATH=FOLDER python -m tests.envs.foraging_original`` records ``tests/golden/foraging.npz``; lbforaging is in FOLDER.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Tuple

import gpu_vecenv  # noqa: F401  (registers the env ids)
from gpu_vecenv.envs.foraging.spec import SPEC
from tests.envs.tally import Episodes, Tally

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "foraging.npz"

CONFIGS = {
    "defaults": {},
    "8x8-2p-2f-coop": {"max_num_food": 2, "force_coop": True},
    "2s-8x8-2p-2f-coop": {"max_num_food": 2, "force_coop": True, "sight": 2},
    "10x10-3p-3f": {"players": 3, "rows": 10, "cols": 10, "max_num_food": 3, "sight": 10},
    "15x15-4p-3f-coop": {"players": 4, "rows": 15, "cols": 15, "max_num_food": 3, "sight": 15, "force_coop": True},
    "2s-12x12-5p-4f": {"players": 5, "rows": 12, "cols": 12, "max_num_food": 4, "sight": 2},
    "19x19-9p-4f": {"players": 9, "rows": 19, "cols": 19, "max_num_food": 4, "sight": 19},
    "a crowd": {"players": 9, "rows": 5, "cols": 5, "max_num_food": 4, "sight": 5},
    "a crowd, short sight": {"players": 9, "rows": 5, "cols": 5, "max_num_food": 4, "sight": 1, "penalty": 0.25},
    "more columns than rows": {"players": 3, "rows": 4, "cols": 9, "max_num_food": 3, "sight": 3},
    "one row of food": {"players": 2, "rows": 3, "cols": 12, "max_num_food": 4, "sight": 4},
    "blind": {"players": 4, "rows": 5, "cols": 6, "max_num_food": 2, "sight": 0},
    "penalty": {"players": 3, "max_num_food": 3, "penalty": 0.1, "force_coop": True},
    "sums of levels": {"players": 3, "max_num_food": 2, "normalize_reward": False, "penalty": 0.5},
    "hidden levels": {"players": 3, "max_num_food": 2, "observe_agent_levels": False, "sight": 3},
    "high levels": {"players": 4, "max_num_food": 3, "min_player_level": 2, "max_player_level": 7, "min_food_level": 5},
    "light food": {"players": 4, "max_num_food": 3, "max_food_level": 1, "max_episode_steps": 9},
    "heavy food": {"players": 5, "max_num_food": 3, "min_food_level": 4, "max_food_level": 6, "max_player_level": 3},
    "heaviest food": {"players": 5, "max_num_food": 2, "min_food_level": 2, "max_food_level": 5, "force_coop": True},
    "alone": {"players": 1, "max_num_food": 4, "max_player_level": 3},
}
"""Parameters that vary every argument of the constructor; most have the name of an id."""

LOAD = 5

STATE = ("player_pos", "player_level", "food", "food_spawned", "t")
"""State fields that decide the next state."""

AFTER = ("next_player_pos", "next_food")
"""Names of what a step changes besides the time."""


def make(params):
    """Return lbforaging's env with parameters of the spec.

    Its check of observations has bounds of rows and columns swapped, so boards that are not square get right ones.
    """
    from lbforaging.foraging import ForagingEnv

    given = dict(SPEC.resolve(params))
    given["field_size"] = given.pop("rows"), given.pop("cols")
    given["max_food_level"] = given["max_food_level"] or None
    env = ForagingEnv(**given)
    env.observation_space = Tuple([SPEC.observation(SPEC.resolve(params))] * len(env.players))
    return env


def start(env, seed=None):
    """Start an episode as a new env does: players' places of the last episode do not count as taken."""
    for player in env.players:
        player.position = None
    return np.array(env.reset(seed=seed)[0])


def state_of(env):
    """Return the state under the names of the spec."""
    return {
        "player_pos": np.array([player.position for player in env.players], np.int32),
        "player_level": np.array([player.level for player in env.players], np.int32),
        "food": env.field.astype(np.int32),
        "food_spawned": np.int32(env._food_spawned),
        "t": np.int32(env.current_step),
    }


def make_here(params, num_envs, device="cpu", **options):
    """Return our env of worlds that do not start anew by themselves, after a reset."""
    env = gymnasium.make_vec("WarpForaging-v3", num_envs=num_envs, device=device, array="numpy", autoreset_mode="disabled",
                             **params, **options).unwrapped  # fmt: skip
    env.reset(seed=0)
    return env


def gather_players(env, generator):
    """Put most players on free cells beside one food; several may come to one cell, as in play."""
    foods = np.argwhere(env.field)
    if len(foods) == 0:
        return
    row, col = foods[generator.integers(len(foods))]
    cells = [(int(row) + y, int(col) + x) for y, x in ((-1, 0), (1, 0), (0, -1), (0, 1))]
    for player in env.players:
        if generator.random() < 0.7:
            player.position = cells[generator.integers(4)]
    env._gen_valid_moves()


def steps_of_play(params, steps, seed):
    """Play random actions, more than half of them loads where players stand beside food; yield each step as a dict of arrays.

    Names are those of the state before the step, ``next_`` and those of the state after it, ``actions``, ``before`` and ``obs``
    (observations before and after), ``reward`` and ``done``. Players are put beside food before some steps.
    """
    env, generator = make(params), np.random.default_rng(seed)
    obs = start(env, seed)
    for _ in range(steps):
        if env.game_over:
            obs = start(env)
        if generator.random() < 0.2:
            gather_players(env, generator)
            obs = np.array(env.test_make_gym_obs())
        actions = generator.integers(0, 6, len(env.players))
        near = [env.adjacent_food(*player.position) > 0 for player in env.players]
        actions[near & (generator.random(len(actions)) < generator.choice([0.3, 1.0]))] = LOAD
        before, state = obs, state_of(env)
        obs, reward, done, _, _ = env.step(actions.tolist())
        obs = np.array(obs)
        after = {f"next_{name}": value for name, value in state_of(env).items()}
        yield {**state, **after, "actions": actions.astype(np.int32), "before": before, "obs": obs,
               "reward": np.array(reward, float), "done": np.bool_(done)}  # fmt: skip


def step_here(params, play, device="cpu"):
    """Return what our env gives from the states of recorded steps, under the same names; an env of one player has no axis."""
    env = make_here(params, len(play["t"]), device)
    env.set_state({name: play[name].astype(np.int32) for name in STATE})
    before, actions = env.observe(), play["actions"].astype(np.int32)
    obs, reward, terminated, truncated, info = env.step(actions if actions.shape[1] > 1 else actions[:, 0])
    after = {f"next_{name}": array.copy() for name, array in env.get_state(*STATE).items()}
    env.close()
    shapes = {"before": play["obs"].shape, "obs": play["obs"].shape, "reward": play["reward"].shape}
    found = {"before": before, "obs": obs, "reward": info.get("agent_reward", reward)}
    return {**after, **{name: array.reshape(shapes[name]) for name, array in found.items()},
            "terminated": terminated, "truncated": truncated, "done": terminated | truncated}  # fmt: skip


def compare(name, states, seed=0):
    """Step from states of the original's random play in both; states differ if a number does, or a reward by more than 2e-5."""
    play = stacked(steps_of_play(CONFIGS[name], states, seed))
    here, tally = step_here(CONFIGS[name], play), Tally(states)
    apart = {key: np.abs(here[key].astype(float) - play[key]).reshape(states, -1).max(1) for key in here if key in play}
    beyond = np.any([values > (2e-5 if key == "reward" else 0) for key, values in apart.items()], axis=0)
    for step in np.flatnonzero(beyond):
        tally.differing.append(f"{name}, seed {seed}, step {step}: {({key: values[step] for key, values in apart.items()})}")
    tally.note({key: float(values[~beyond].max(initial=0)) for key, values in apart.items()})
    return tally


def episodes(name, count, seed=0):
    """Play whole episodes in both, from the original's starts with the same actions; states are set at starts alone.

    Differences are those of states and observations, of the sum of each player's rewards, and of the length.
    """
    params, generator, starts = CONFIGS[name], np.random.default_rng(seed), []
    env, ours = make(params), make_here(params, count)
    limit = ours.params["max_episode_steps"]
    actions = generator.choice(6, (limit, count, len(env.players)), p=[0.1, 0.15, 0.15, 0.15, 0.15, 0.3]).astype(np.int32)
    for number in range(count):
        start(env, seed if number == 0 else None)
        starts.append(state_of(env))
    ours.set_state({key: np.stack([state[key] for state in starts]) for key in STATE})
    steps = []
    for moves in actions:
        obs, reward, terminated, truncated, info = ours.step(moves if moves.shape[1] > 1 else moves[:, 0])
        after = {key: array.copy() for key, array in ours.get_state("player_pos", "food").items()}
        steps.append({**after, "obs": np.array(obs).reshape(count, moves.shape[1], -1), "over": terminated | truncated,
                      "reward": np.array(info.get("agent_reward", reward)).reshape(count, -1)})  # fmt: skip
    ours.close()
    found = Episodes()
    for world in range(count):
        found.add(episode(env, starts[world], actions[:, world], [{k: v[world] for k, v in step.items()} for step in steps]))
    return found


def episode(env, begin, actions, here):
    """Play one episode in the original; returns its differences from the steps here."""
    set_state(env, begin)
    apart, surplus = {"states": 0.0, "observations": 0.0}, 0.0
    for moves, ours in zip(actions, here, strict=True):
        obs, rewards, done, _, _ = env.step(moves.tolist())
        theirs, surplus = state_of(env), surplus + ours["reward"] - rewards
        apart["states"] = max(apart["states"], *(float(np.abs(theirs[key] - ours[key]).max()) for key in ("player_pos", "food")))
        apart["observations"] = max(apart["observations"], float(np.abs(np.array(obs) - ours["obs"]).max()))
        if done or ours["over"]:
            break
    found = {**apart, "return": float(np.abs(surplus).max()), "length": float(bool(done) != ours["over"])}
    return Episodes({key: [value] for key, value in found.items()})


def set_state(env, state):
    """Put the original into a state under the names of the spec."""
    for player, place, level in zip(env.players, state["player_pos"].tolist(), state["player_level"].tolist(), strict=True):
        player.setup(tuple(place), level, env.field_size)
    env.field = state["food"].copy()
    env._food_spawned, env.current_step, env._game_over = int(state["food_spawned"]), int(state["t"]), False
    env._gen_valid_moves()


def stacked(steps):
    """Return an array for each name, with the leading axis steps."""
    rows = list(steps)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def start_counts(state, params):
    """Count starts by properties; the leading axis of a state is worlds.

    Returns:
        Counts by name: cells of the first player, and of all food; places of the first player relative to the last one; levels of
        the first player, of the last one by it, and of the food; number of foods; places of foods relative to the first one.
    """
    rows, cols = params["rows"], params["cols"]
    pos, level, food = state["player_pos"], state["player_level"], state["food"]
    first, last = pos[:, 0], pos[:, -1]
    world, row, col = np.nonzero(food)
    _, begin = np.unique(world, return_index=True)
    leader = np.repeat(begin, np.diff([*begin, len(world)]))
    highest = 3 * params["max_player_level"] + params["max_food_level"]
    spread = (first - last + [rows, cols]) @ [2 * cols + 1, 1]
    between = (np.stack([row - row[leader], col - col[leader]], 1) + [rows, cols]) @ [2 * cols + 1, 1]
    numbers = {
        "first player": first @ [cols, 1],
        "first and last player": spread,
        "levels of players": level[:, 0] * (params["max_player_level"] + 1) + level[:, -1],
        "cells of food": row * cols + col,
        "levels of food": food[world, row, col] * (highest + 1) + level[world].min(1),
        "number of foods": np.bincount(world, minlength=len(food)),
        "food and first food": between,
    }
    return {name: np.bincount(values.astype(int)) for name, values in numbers.items()}


def drawn_starts(params, count, seed):
    """Draw starts from lbforaging; returns a state with the leading axis ``count``."""
    env = make(params)
    env.reset(seed=seed)
    states = []
    for _ in range(count):
        start(env)
        states.append(state_of(env))
    return {name: np.stack([state[name] for state in states]) for name in states[0]}


RECORDED_STEPS = 100

STARTS = {"defaults": 4000, "high levels": 4000, "a crowd": 1000, "one row of food": 1000}
"""Numbers of starts that are recorded; on crowded boards each takes lbforaging a thousand draws."""


def record():
    """Write steps of random play of every configuration, and counts of starts of some, in small integers."""
    arrays = {}
    for number, (name, params) in enumerate(CONFIGS.items()):
        play = stacked(steps_of_play(params, RECORDED_STEPS, number))
        for key in (*STATE, *AFTER, "actions", "obs", "done"):
            small = play[key].astype(np.int8)
            if not np.array_equal(small, play[key]):
                raise ValueError(f"{name}: {key} does not fit in int8")
            arrays[f"{name}/{key}"] = small
        arrays[f"{name}/reward"] = play["reward"]
    for name, count in STARTS.items():
        starts = drawn_starts(CONFIGS[name], count, 3)
        for key, counts in start_counts(starts, SPEC.resolve(CONFIGS[name])).items():
            arrays[f"{name}/starts/{key}"] = counts.astype(np.int16)
    np.savez_compressed(GOLDEN, **arrays)


def recorded(name):
    """Return the recorded steps of a configuration, and the counts of its starts if there are any."""
    with np.load(GOLDEN) as data:
        found = {key.partition("/")[2]: data[key] for key in data.files if key.startswith(f"{name}/")}
    starts = {key.removeprefix("starts/"): counts for key, counts in found.items() if key.startswith("starts/")}
    return {key: values for key, values in found.items() if not key.startswith("starts/")}, starts


if __name__ == "__main__":
    record()
