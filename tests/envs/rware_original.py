"""Robot warehouses of the package ``rware``: states copied to and from it, and steps from states that it is given.

``python -m tests.envs.rware_original`` records ``tests/golden/rware.npz`` with it.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np

import gpu_vecenv  # noqa: F401  (registers the env ids)
from gpu_vecenv.envs.rware.floor import floor_of
from gpu_vecenv.envs.rware.spec import SPEC
from gpu_vecenv.reference import draw
from tests.envs.tally import Episodes, Tally

RECORDING = Path(__file__).parents[1] / "golden" / "rware.npz"

ISLAND = """
..........
.xx.xx.xx.
.xx.xx.xx.
g........g
.xx.xx.xx.
....gg....
"""

CONFIGURATIONS = {
    "tiny, 2 robots": {},
    "tiny, 4 robots": {"n_agents": 4, "request_queue_size": 4},
    "tiny, 1 robot, nothing requested": {"n_agents": 1, "request_queue_size": 0},
    "small, 4 robots, hard": {"shelf_rows": 2, "n_agents": 4},
    "medium, 6 robots, easy": {"shelf_rows": 2, "shelf_columns": 5, "n_agents": 6, "request_queue_size": 12},
    "large, 19 robots": {"shelf_rows": 3, "shelf_columns": 5, "n_agents": 19, "request_queue_size": 19},
    "a crowd": {"n_agents": 40, "request_queue_size": 8},
    "messages": {"n_agents": 3, "msg_bits": 2},
    "messages, far sight": {"n_agents": 5, "msg_bits": 5, "sensor_range": 3},
    "no sight": {"sensor_range": 0},
    "global rewards": {"n_agents": 5, "reward_type": "global", "request_queue_size": 6},
    "two stages": {"n_agents": 5, "reward_type": "two_stage", "request_queue_size": 6},
    "inactivity": {"n_agents": 4, "max_inactivity_steps": 20, "request_queue_size": 5, "max_steps": 0},
    "a drawing": {"n_agents": 7, "layout": ISLAND, "request_queue_size": 9, "max_steps": 60},
    "scaled places": {"n_agents": 3, "normalised_coordinates": True, "column_height": 3, "shelf_rows": 3, "shelf_columns": 7},
}  # fmt: skip
"""Parameters that are compared with the original."""

RECORDED = ("tiny, 2 robots", "a crowd", "messages", "global rewards", "two stages", "inactivity", "a drawing", "scaled places")
"""Configurations of the recording."""

KEYS = ("agent_pos", "agent_dir", "carrying", "has_delivered", "shelf_pos", "request_queue", "message", "inactive_steps", "t")


class Queue(list):
    """Requests in which new ones are those that our env draws, in place of the original's."""

    def follow(self, env, ours):
        self.env, self.key, self.replaced = env, [int(ours[name]) for name in ("seed", "world_id", "episode", "t")], 0
        return self

    def __setitem__(self, slot, shelf):
        at_goal = self.env.goals.index((self[slot].x, self[slot].y))
        free = [shelf for shelf in self.env.shelfs if shelf not in self]
        self.replaced += 1
        super().__setitem__(slot, free[int(draw(*self.key, 2, at_goal).below(len(free)))])


class Original:
    """A warehouse of rware with our names.

    Args:
        params: resolved parameters of WarpRware-v2, with ``collision="resolve"``.
    """

    def __init__(self, params):
        import networkx
        import rware.warehouse as warehouse

        self.module, self.networkx = warehouse, networkx
        given = {name: value for name, value in params.items() if name != "collision"}
        given |= {name: given[name] or None for name in ("max_inactivity_steps", "max_steps", "layout")}
        self.env = warehouse.Warehouse(**given | {"reward_type": warehouse.RewardType[params["reward_type"].upper()]})
        self.bits = params["msg_bits"]

    def actions(self, actions):
        return [list(map(int, action)) if self.bits else int(action) for action in actions]

    def get_state(self):
        env = self.env
        robots = env.agents
        return {
            "agent_pos": np.array([(robot.x, robot.y) for robot in robots], np.int32),
            "agent_dir": np.array([robot.dir.value for robot in robots], np.int32),
            "carrying": np.array([robot.carrying_shelf.id - 1 if robot.carrying_shelf else -1 for robot in robots], np.int32),
            "has_delivered": np.array([robot.has_delivered for robot in robots], np.int32),
            "shelf_pos": np.array([(shelf.x, shelf.y) for shelf in env.shelfs], np.int32),
            "request_queue": np.array([shelf.id - 1 for shelf in env.request_queue], np.int32),
            "message": np.array([robot.message for robot in robots], np.int32).reshape(len(robots), self.bits),
            "inactive_steps": np.int32(env._cur_inactive_steps),
            "t": np.int32(env._cur_steps),
        }

    def set_state(self, state):
        env = self.env
        for shelf, (x, y) in zip(env.shelfs, state["shelf_pos"].tolist(), strict=True):
            shelf.x, shelf.y = x, y
        for i, robot in enumerate(env.agents):
            robot.x, robot.y = state["agent_pos"][i].tolist()
            robot.dir = self.module.Direction(int(state["agent_dir"][i]))
            robot.carrying_shelf = env.shelfs[state["carrying"][i]] if state["carrying"][i] >= 0 else None
            robot.has_delivered = bool(state["has_delivered"][i])
            robot.message[:] = state["message"][i]
        env.request_queue = [env.shelfs[shelf] for shelf in state["request_queue"].tolist()]
        env._cur_inactive_steps, env._cur_steps = int(state["inactive_steps"]), int(state["t"])
        env._recalc_grid()

    def step(self, actions, ours=None):
        """Step from the present state; with the state ``ours`` after our step, random choices are those of our env.

        Returns:
            Observations, rewards, the flag of the end, and the number of components in which several longest chains meet.
        """
        self.ties, self.places = 0, {(robot.x, robot.y): i for i, robot in enumerate(self.env.agents)}
        if ours is not None:
            self.env.request_queue = Queue(self.env.request_queue).follow(self.env, ours)
        before, self.ours = self.module.nx, ours
        algorithms = SimpleNamespace(find_cycle=before.algorithms.find_cycle, dag_longest_path=self._longest_path)
        self.module.nx = SimpleNamespace(
            DiGraph=before.DiGraph,
            weakly_connected_components=before.weakly_connected_components,
            NetworkXNoCycle=before.NetworkXNoCycle,
            algorithms=algorithms,
        )
        try:
            obs, rewards, done, truncated, _ = self.env.step(self.actions(actions))
        finally:
            self.module.nx = before
        assert not truncated
        return np.array(obs), np.array(rewards), done, self.ties

    def _longest_path(self, graph):
        """The original's longest chain; of several, the one that our env moved."""
        path = self.networkx.algorithms.dag_longest_path(graph)
        every = []
        for start in graph:
            chain = [start]
            while successors := list(graph.successors(chain[-1])):
                chain.append(successors[0])
            every += [chain] if len(chain) == len(path) else []
        assert path in every
        if len(every) > 1:
            self.ties += 1
            for chain in every if self.ours is not None else ():
                if all(tuple(self.ours["agent_pos"][self.places[a]]) == b for a, b in zip(chain[:-1], chain[1:], strict=True)):
                    return chain
        return path


def random_actions(generator, worlds, robots, bits):
    """Actions (worlds, robots), with messages (worlds, robots, 1 + bits): forward in six steps of ten."""
    moves = generator.choice(5, (worlds, robots), p=(0.1, 0.6, 0.1, 0.1, 0.1)).astype(np.int32)
    if not bits:
        return moves
    return np.concatenate([moves[..., None], generator.integers(0, 2, (worlds, robots, bits), dtype=np.int32)], axis=-1)


def crowded_state(generator, state, floor, params):
    """A state like ``state`` with the robots close to a goal or to a random cell, half of them with a shelf."""
    rows, cols = floor.highway.shape
    y, x = np.indices((rows, cols))
    goal = floor.goals[generator.integers(len(floor.goals))]
    at = goal if generator.random() < 0.5 else (generator.integers(cols), generator.integers(rows))
    distance = np.abs(x - at[0]) + np.abs(y - at[1]) + 2 * generator.random((rows, cols))
    cells = np.argsort(distance, axis=None)[: params["n_agents"]]
    places = np.stack([cells % cols, cells // cols], 1)[generator.permutation(len(cells))].astype(np.int32)
    shelf_pos, carrying = floor.homes.astype(np.int32), np.full(len(places), -1, np.int32)
    requested = list(state["request_queue"])
    homes = {tuple(place): shelf for shelf, place in enumerate(floor.homes.tolist())}
    free = [shelf for shelf, place in enumerate(floor.homes.tolist()) if place not in places.tolist()]
    free = [shelf for shelf in requested if shelf in free] + [shelf for shelf in free if shelf not in requested]
    for robot, place in enumerate(places.tolist()):
        if generator.random() < 0.5 and (tuple(place) in homes or free):
            shelf = homes[tuple(place)] if tuple(place) in homes else free.pop(0 if generator.random() < 0.5 else -1)
            carrying[robot], shelf_pos[shelf] = shelf, place
    two_stages = params["reward_type"] == "two_stage"
    return {
        **state,
        "agent_pos": places,
        "agent_dir": generator.integers(0, 4, len(places), dtype=np.int32),
        "carrying": carrying,
        "shelf_pos": shelf_pos,
        "has_delivered": (generator.random(len(places)) < 0.5 * two_stages).astype(np.int32) * (carrying >= 0),
    }


def states_of(original, floor, params, count, generator):
    """States (count, ...) by name: half from random play of the original, half with robots in a crowd."""
    found = []
    original.env.reset(seed=int(generator.integers(2**31)))
    original.env._make_obs = lambda robot: ()  # takes most of the time
    while len(found) < count:
        state = original.get_state()
        found += [state, crowded_state(generator, state, floor, params)]
        *_, done, _ = original.step(random_actions(generator, 1, params["n_agents"], params["msg_bits"])[0])
        if done or generator.random() < 0.002:
            original.env.reset()
            original.env._cur_steps = int(generator.integers(params["max_steps"] or 500))
    del original.env._make_obs
    return {name: np.stack([state[name] for state in found[:count]]) for name in KEYS}


def make_here(params, num_envs, seed):
    """Return our env of worlds that do not start anew by themselves, after a reset."""
    env = gymnasium.make_vec(
        "WarpRware-v2", num_envs=num_envs, device="cpu", array="numpy", autoreset_mode="disabled", **params
    ).unwrapped
    env.reset(seed=seed)
    return env


def step_here(env, actions):
    """Step our env; returns observations, rewards and ends, with an axis of robots, and the state, each (worlds, ...)."""
    worlds, robots = env.num_envs, env.params["n_agents"]
    obs, reward, terminated, truncated, info = env.step(actions if robots > 1 else actions[:, 0])
    found = {"obs": np.array(obs).reshape(worlds, robots, -1), "done": terminated | truncated}
    found["reward"] = np.array(info.get("agent_reward", reward)).reshape(worlds, robots)
    return {**found, **{name: array.copy() for name, array in env.get_state().items()}}


def step_there(original, actions, ours):
    """Step the original, whose random choices are those of our step; returns results by the same names, and ties of chains."""
    obs, rewards, done, ties = original.step(actions, ours)
    return {"obs": obs, "reward": rewards, "done": done, **original.get_state()}, ties


def apart(here, there):
    """Return the names of the arrays that differ, with their largest differences."""
    found = {name: float(np.abs(here[name].astype(float) - value).max(initial=0)) for name, value in there.items()}
    return {name: value for name, value in found.items() if value}


def compare(name, states, seed=0):
    """Step from states in both, half of random play of the original and half with robots in a crowd; any difference counts.

    The tally counts deliveries of requested shelves, ties of chains and ends.
    """
    params, generator = SPEC.resolve(CONFIGURATIONS[name]), np.random.default_rng(seed)
    original, tally = Original(params), Tally(states)
    given = states_of(original, floor_of(params), params, states, generator)
    actions = random_actions(generator, states, params["n_agents"], params["msg_bits"])
    env = make_here(params, states, seed)
    env.set_state({key: array.astype(env.get_state(key)[key].dtype) for key, array in given.items()})
    here = step_here(env, actions)
    env.close()
    for i in range(states):
        original.set_state({key: array[i] for key, array in given.items()})
        ours = {key: array[i] for key, array in here.items()}
        there, ties = step_there(original, actions[i], ours)
        if differences := apart(ours, there):
            tally.differing.append(f"{name}, seed {seed}, state {i}: {differences}")
        tally.count({"deliveries": original.env.request_queue.replaced, "ties of chains": ties, "ends": int(there["done"])})
    return tally


def episodes(name, count, seed=0):
    """Play whole episodes in both, from the original's starts with the same actions; states are set at starts alone.

    Differences are those of states and observations, of the sum of each robot's rewards, and of the length.
    """
    params, generator = SPEC.resolve(CONFIGURATIONS[name]), np.random.default_rng(seed)
    original, starts, found = Original(params), [], Episodes()
    for episode in range(count):
        original.env.reset(seed=seed * count + episode)
        starts.append(original.get_state())
    env, steps = make_here(params, count, seed), []
    env.set_state({key: np.stack([start[key] for start in starts]).astype(env.get_state(key)[key].dtype) for key in KEYS})
    limit, shape = params["max_steps"] or 500, (count, params["n_agents"], params["msg_bits"])
    actions = [random_actions(generator, *shape) for _ in range(limit)]
    for moves in actions:
        steps.append(step_here(env, moves))
    env.close()
    for world, start in enumerate(starts):
        here = [{key: array[world] for key, array in step.items()} for step in steps]
        found.add(episode_there(original, start, [moves[world] for moves in actions], here))
    return found


def episode_there(original, start, actions, here):
    """Play one episode in the original; returns its differences from the steps here."""
    original.set_state(start)
    states, observations, surplus = 0.0, 0.0, 0.0
    for moves, ours in zip(actions, here, strict=True):
        there, _ = step_there(original, moves, ours)
        differences, surplus = apart(ours, there), surplus + ours["reward"] - there["reward"]
        observations = max(observations, differences.get("obs", 0.0))
        states = max(states, *(differences.get(key, 0.0) for key in KEYS))
        if there["done"] or ours["done"]:
            break
    found = {"states": states, "observations": observations, "return": float(np.abs(surplus).max())}
    found["length"] = float(bool(there["done"]) != bool(ours["done"]))
    return Episodes({key: [value] for key, value in found.items()})


def is_certain(state, after, floor, ties):
    """True if a step has no random choice but that of new requests: no chains of one length, no delivery of a new request."""
    loads = after["carrying"][(after["agent_pos"][:, None] == floor.goals).all(-1).any(1) & (after["carrying"] >= 0)]
    asked = np.isin(loads, state["request_queue"])
    return not ties and (asked.all() or not asked.any())


def record(params, count):
    """Record steps of the original from ``count`` states: arrays (steps, ...) by name, of the smallest dtypes."""
    params, generator = SPEC.resolve(params), np.random.default_rng(5)
    floor, original = floor_of(params), Original(params)
    states = states_of(original, floor, params, count, generator)
    actions, rows = random_actions(generator, count, params["n_agents"], params["msg_bits"]), []
    for i in range(count):
        state = {name: array[i] for name, array in states.items()}
        original.set_state(state)
        obs, rewards, done, ties = original.step(actions[i])
        after = original.get_state()
        if is_certain(state, after, floor, ties):
            row = {"actions": actions[i], "obs": obs, "rewards": rewards, "done": done}
            rows.append(row | {f"after_{name}": value for name, value in after.items()} | state)
    return {name: smallest(np.stack([row[name] for row in rows])) for name in rows[0]}


def smallest(array):
    """The array with one byte or two for a number, if that is exact; otherwise in float32."""
    for dtype in (np.int8, np.int16):
        if (array.astype(dtype) == array).all():
            return array.astype(dtype)
    return array.astype(np.float32)


if __name__ == "__main__":
    steps = {name: record(CONFIGURATIONS[name], 60 if name == "a crowd" else 200) for name in RECORDED}
    np.savez_compressed(RECORDING, **{f"{name}/{key}": array for name, arrays in steps.items() for key, array in arrays.items()})
