"""The particle environments of mpe2, set to a state and stepped once, for comparisons with those here.

    python -m tests.envs.mpe_original --states 1000000 spread

compares as many states of each case named, by default 10,000 of all cases. It needs mpe2 1.1.1. ``tests.envs.originals`` does so
in many processes.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import gpu_vecenv  # noqa: F401  (registers the env ids)
from tests.envs.tally import Episodes, Tally

Arrays = dict[str, np.ndarray]

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "simple": ("WarpSimple-v3", {}),
    "spread": ("WarpSimpleSpread-v3", {}),
    "tag": ("WarpSimpleTag-v3", {}),
    "reference": ("WarpSimpleReference-v3", {}),
    "speaker listener": ("WarpSimpleSpeakerListener-v4", {}),
    "adversary": ("WarpSimpleAdversary-v3", {}),
    "push": ("WarpSimplePush-v3", {}),
    "crypto": ("WarpSimpleCrypto-v3", {}),
    "world comm": ("WarpSimpleWorldComm-v3", {}),
    "simple, continuous": ("WarpSimple-v3", {"continuous_actions": True, "max_cycles": 7}),
    "spread, continuous": ("WarpSimpleSpread-v3", {"continuous_actions": True}),
    "spread, five, local": ("WarpSimpleSpread-v3", {"num_landmarks": 5, "local_ratio": 1.0, "max_cycles": 9}),
    "spread, one": ("WarpSimpleSpread-v3", {"num_landmarks": 1, "local_ratio": 0.0, "terminate_on_success": True}),
    "spread, two, success": ("WarpSimpleSpread-v3", {"num_landmarks": 2, "local_ratio": 0.3, "terminate_on_success": True}),
    "spread, neighbours": ("WarpSimpleSpread-v3", {"num_landmarks": 6, "num_agent_neighbors": 2, "num_landmark_neighbors": 3}),
    "spread, too many neighbours": (
        "WarpSimpleSpread-v3", {"num_agent_neighbors": 5, "num_landmark_neighbors": 4, "continuous_actions": True},
    ),
    "tag, continuous": ("WarpSimpleTag-v3", {"continuous_actions": True, "num_good": 2}),
    "tag, no obstacles": ("WarpSimpleTag-v3", {"num_obstacles": 0, "num_good": 3, "num_adversaries": 4}),
    "tag, success": ("WarpSimpleTag-v3", {"terminate_on_success": True, "num_good": 2, "num_adversaries": 5, "max_cycles": 11}),
    "tag, one adversary": ("WarpSimpleTag-v3", {"num_adversaries": 1, "num_obstacles": 1}),
    "tag, neighbours": ("WarpSimpleTag-v3", {"num_good": 3, "num_agent_neighbors": 3, "num_landmark_neighbors": 1}),
    "tag, too many neighbours": (
        "WarpSimpleTag-v3", {"num_good": 2, "num_agent_neighbors": 7, "num_landmark_neighbors": 4, "continuous_actions": True},
    ),
    "tag, agent neighbours": ("WarpSimpleTag-v3", {"num_good": 2, "num_agent_neighbors": 1}),
    "reference, continuous": ("WarpSimpleReference-v3", {"continuous_actions": True, "local_ratio": 0.2}),
    "reference, local": ("WarpSimpleReference-v3", {"local_ratio": 1.0, "max_cycles": 3}),
    "speaker listener, continuous": ("WarpSimpleSpeakerListener-v4", {"continuous_actions": True, "max_cycles": 40}),
    "adversary, continuous": ("WarpSimpleAdversary-v3", {"continuous_actions": True}),
    "adversary, four": ("WarpSimpleAdversary-v3", {"num_landmarks": 4, "max_cycles": 2}),
    "adversary, one": ("WarpSimpleAdversary-v3", {"num_landmarks": 1}),
    "adversary, neighbours": (
        "WarpSimpleAdversary-v3", {"num_landmarks": 4, "num_agent_neighbors": 2, "num_landmark_neighbors": 1},
    ),
    "adversary, too many neighbours": ("WarpSimpleAdversary-v3", {"num_agent_neighbors": 4, "num_landmark_neighbors": 3}),
    "push, continuous": ("WarpSimplePush-v3", {"continuous_actions": True, "max_cycles": 5}),
    "crypto, continuous": ("WarpSimpleCrypto-v3", {"continuous_actions": True, "max_cycles": 5}),
    "world comm, continuous": ("WarpSimpleWorldComm-v3", {"continuous_actions": True}),
    "world comm, two adversaries": (
        "WarpSimpleWorldComm-v3", {"num_adversaries": 2, "num_good": 1, "num_obstacles": 0, "num_food": 1, "num_forests": 1},
    ),
    "world comm, many": (
        "WarpSimpleWorldComm-v3",
        {"num_adversaries": 5, "num_good": 4, "num_obstacles": 3, "num_food": 4, "num_forests": 3, "max_cycles": 6},
    ),
    "world comm, no forests": ("WarpSimpleWorldComm-v3", {"num_forests": 0, "num_obstacles": 2, "continuous_actions": True}),
}  # fmt: skip
"""Ids and parameters by name: each scenario as it is by default, then all arguments of the constructors."""

MODULES = {
    "WarpSimple-v3": "simple_v3", "WarpSimpleSpread-v3": "simple_spread_v3", "WarpSimpleTag-v3": "simple_tag_v3",
    "WarpSimpleReference-v3": "simple_reference_v3", "WarpSimpleSpeakerListener-v4": "simple_speaker_listener_v4",
    "WarpSimpleAdversary-v3": "simple_adversary_v3", "WarpSimplePush-v3": "simple_push_v3",
    "WarpSimpleCrypto-v3": "simple_crypto_v3", "WarpSimpleWorldComm-v3": "simple_world_comm_v3",
}  # fmt: skip


class Original:
    """One env of mpe2 with the names of the state here.

    Args:
        env_id: id of the env here.
        params: its parameters.
    """

    def __init__(self, env_id: str, params: dict[str, Any]) -> None:
        given = {name: value for name, value in params.items() if not (name.endswith("neighbors") and value == 0)}
        if "num_landmarks" in given:
            given["N"] = given.pop("num_landmarks")
        importlib.import_module("pettingzoo.utils.env_logger").EnvLogger.suppress_output()  # of actions that it clips
        self.env = importlib.import_module(f"mpe2.{MODULES[env_id]}").env(**given)
        self.env.reset(seed=0)
        self.inner = self.env.unwrapped
        self.world = self.inner.world
        self.speakers = [agent for agent in self.world.agents if not agent.silent]

    def set_state(self, state: Arrays) -> None:
        """Take the state of one world."""
        self.env.reset()
        world = self.world
        if "agent_pos" in state:
            for agent, place, velocity in zip(world.agents, state["agent_pos"], state["agent_vel"], strict=True):
                agent.state.p_pos, agent.state.p_vel = np.array(place, np.float64), np.array(velocity, np.float64)
            for landmark, place in zip(world.landmarks, state["landmark_pos"], strict=True):
                landmark.state.p_pos = np.array(place, np.float64)
        for agent, said in zip(self.speakers, state.get("comm", ()), strict=False):
            agent.state.c = np.array(said, np.float64)
        if "goal" in state:
            self._set_goals(np.asarray(state["goal"]), int(state.get("key", 0)))
        self.inner.steps = int(state["t"])

    def _set_goals(self, goal: np.ndarray, key: int) -> None:
        agents, landmarks = self.world.agents, self.world.landmarks
        if goal.ndim or hasattr(agents[0], "goal_b"):  # of what another agent should do
            for agent, k in zip(agents, np.atleast_1d(goal), strict=False):
                agent.goal_b = landmarks[int(k)]
            return
        for agent in agents:
            agent.goal_a = landmarks[int(goal)]
        if hasattr(agents[0], "speaker"):
            agents[2].key = landmarks[key].color
        elif hasattr(landmarks[0], "index"):
            agents[1].color = np.array([0.25, 0.25, 0.25])
            agents[1].color[int(goal) + 1] += 0.5

    def start(self, seed: int | None = None) -> None:
        """Begin an episode with draws of the original."""
        self.env.reset(seed=seed)

    def whole_state(self) -> Arrays:
        """Return all that ``set_state`` takes, of dtypes float32 and int32."""
        agents, landmarks = self.world.agents, self.world.landmarks
        state = {name: array.astype(np.float32) for name, array in self.get_state().items()}
        if "agent_pos" in state:
            state["landmark_pos"] = np.array([landmark.state.p_pos for landmark in landmarks], np.float32).reshape(-1, 2)
        sought = [getattr(agent, "_goal_b", None) or getattr(agent, "_goal_a", None) for agent in agents]
        goals = [landmarks.index(goal) for goal in sought if goal in landmarks]
        if goals:
            each_its_own = all(getattr(agent, "_goal_b", None) for agent in agents)
            state["goal"] = np.array(goals if each_its_own else goals[0], np.int32)
        if hasattr(agents[-1], "_key"):
            state["key"] = np.int32([np.array_equal(landmark.color, agents[2].key) for landmark in landmarks].index(True))
        return {**state, "t": np.int32(self.inner.steps)}

    def get_state(self) -> Arrays:
        """Return places and velocities, if any agent moves, and words, float64."""
        agents = self.world.agents
        state = {}
        if any(agent.movable for agent in agents):
            state = {"agent_pos": [a.state.p_pos for a in agents], "agent_vel": [a.state.p_vel for a in agents]}
        if self.speakers:
            state["comm"] = [agent.state.c for agent in self.speakers]
        return {name: np.array(rows) for name, rows in state.items()}

    def step(self, actions: list[Any]) -> tuple[list[np.ndarray], np.ndarray, bool, bool]:
        """Step with the actions of all agents; returns rows, rewards, terminated and truncated."""
        for action in actions:
            self.env.step(action)
        names = self.inner.possible_agents
        rows = [self.inner.observe(name) for name in names]
        rewards = np.array([self.inner.rewards[name] for name in names])
        return rows, rewards, self.inner.terminations[names[0]], self.inner.truncations[names[0]]


def by_agent(arrays: Any, roles: dict[str, int]) -> list[np.ndarray]:
    """Return the array of each agent, (worlds, ...), of arrays by role or of one with an axis of agents."""
    if isinstance(arrays, dict):
        return [arrays[role][:, i] for role, count in roles.items() for i in range(count)]
    return [arrays] if sum(roles.values()) == 1 else [arrays[:, i] for i in range(arrays.shape[1])]


def crowded(env: Any, generator: np.random.Generator) -> Arrays:
    """Return random states of all worlds, in which agents often touch each other and leave the arena."""
    worlds, spec, state = env.num_worlds, env.env_spec, env.get_state()
    spread = generator.choice([0.03, 0.3, 0.7, 1.0, 1.3, 3.0], (worlds, 1, 1))
    drawn: Arrays = {"t": generator.integers(0, env.params["max_cycles"], worlds).astype(np.int32)}
    for field in spec.state:
        shape = state[field.name].shape
        if field.name.endswith("_pos"):
            drawn[field.name] = (generator.uniform(-1, 1, shape) * spread).astype(np.float32)
        elif field.name == "agent_vel":
            drawn[field.name] = generator.normal(0, 0.5, shape).astype(np.float32)
            if spec.name == "WarpSimpleSpeakerListener-v4":
                drawn[field.name][:, 0] = 0
        elif field.name == "comm":
            drawn[field.name] = generator.uniform(0, 1, shape).astype(np.float32)
        else:
            low, high = field.bounds(env.params)
            drawn[field.name] = generator.integers(low, high + 1, shape).astype(np.int32)
    return drawn


def batches(env: Any, number: int, seed: int, original: Original | None = None) -> Iterator[tuple[Arrays, Any]]:
    """Yield states and actions of all worlds: crowded states and those of random play, in turn.

    With an original every other batch of random play is the original's, from its starts.
    """
    generator = np.random.default_rng(seed)
    env.action_space.seed(seed)
    env.reset(seed=seed)
    for batch in range(number):
        if batch % 2 == 0:
            state = crowded(env, generator)
        elif original is not None and batch % 4 == 3:
            state = played(env, original)
        else:
            for _ in range(int(generator.integers(1, 24))):
                env.step(env.action_space.sample())
            names = [field.name for field in env.env_spec.state]
            state = {name: array.copy() for name, array in env.get_state(*names, "t").items()}
            state["t"] %= env.params["max_cycles"]
        yield state, beyond_the_box(env, env.action_space.sample())


def beyond_the_box(env: Any, actions: Any) -> Any:
    """Return sampled actions, stretched by half of a box to each side, so that some are clipped."""
    if not env.params["continuous_actions"]:
        return actions
    return {role: each * 2 - 0.5 for role, each in actions.items()} if isinstance(actions, dict) else actions * 2 - 0.5


def played(env: Any, original: Original) -> Arrays:
    """Return as many states of the original's random play as the env has worlds; actions are those of the first world."""
    states: list[Arrays] = []
    original.start()
    while len(states) < env.num_worlds:
        states.append(original.whole_state())
        actions = by_agent(env.action_space.sample(), env.role_counts)
        *_, terminated, truncated = original.step([each[0] for each in actions])
        if terminated or truncated:
            original.start()
    return {name: np.stack([state[name] for state in states]) for name in states[0]}


def expected(original: Original, state: Arrays, actions: list[Any]) -> Arrays:
    """Return what the original gives for one world: rows by agent, rewards, flags and the next state."""
    original.set_state(state)
    rows, rewards, terminated, truncated = original.step(actions)
    found = {f"obs_{i}": row for i, row in enumerate(rows)}
    return found | original.get_state() | {
        "reward": rewards, "terminated": np.array(terminated), "truncated": np.array(truncated),
    }


def given(env: Any, state: Arrays, actions: Any) -> Arrays:
    """Return the same of all worlds of an env here, (worlds, ...)."""
    env.set_state(state)
    obs, reward, terminated, truncated, info = env.step(actions)
    found = {f"obs_{i}": rows for i, rows in enumerate(by_agent(obs, env.role_counts))}
    rewards = info["agent_reward"] if env.num_agents > 1 else reward[:, None]
    after = env.get_state()
    states = {name: after[name] for name in ("agent_pos", "agent_vel", "comm") if name in after}
    return found | states | {"reward": rewards, "terminated": terminated, "truncated": truncated}


def differences(here: Arrays, there: Arrays) -> dict[str, float]:
    """Return the largest absolute difference of each array, and 1 for flags that differ."""
    return {
        name: float(np.abs(np.asarray(value, np.float64) - here[name]).max(initial=0.0))
        for name, value in there.items() if name in here
    }  # fmt: skip


def make(case: str, num_envs: int) -> Any:
    """Make the env of a case."""
    env_id, params = CASES[case]
    return gymnasium.make_vec(
        env_id, num_envs=num_envs, device="cpu", array="numpy", autoreset_mode="disabled", **params
    ).unwrapped


def compare(case: str, states: int, seed: int = 0, width: int = 500) -> Tally:
    """Step a number of states in both, ``width`` worlds at a time; a multiple of the width that is not less.

    States differ if an array does by more than 1e-5, or rewards by more than 2e-5.
    """
    env, original, tally = make(case, min(width, states)), Original(*CASES[case]), Tally()
    original.start(seed)
    for state, actions in batches(env, -(-states // env.num_worlds), seed, original):
        here = given(env, state, actions)
        moves = by_agent(actions, env.role_counts)
        for world in range(env.num_worlds):
            one, chosen = at(state, world), [move[world] for move in moves]
            found = differences(at(here, world), expected(original, one, chosen))
            beyond = beyond_tolerance(found)
            if beyond:
                tally.differing.append(f"{case}, seed {seed}, batch {tally.states // env.num_worlds}, world {world}: {beyond}")
                tally.at_thresholds += is_at_threshold(original, one, chosen, at(here, world))
            else:
                for name, value in found.items():
                    tally.note({"obs" if name.startswith("obs") else name: value})
        tally.states += env.num_worlds
    env.close()
    return tally


def beyond_tolerance(found: dict[str, float]) -> dict[str, float]:
    """Return the differences that are too large."""
    return {name: value for name, value in found.items() if not value <= (2e-5 if name == "reward" else 1e-5)}


def is_at_threshold(original: Original, state: Arrays, actions: list[Any], here: Arrays, tries: int = 200) -> bool:
    """True if the original agrees once its agents start up to 1e-6 away, so that rounding decides about a touch or an edge."""
    if "agent_pos" not in state:
        return False
    generator = np.random.default_rng(0)
    for _ in range(tries):
        moved = {**state, "agent_pos": state["agent_pos"] + generator.uniform(-1e-6, 1e-6, state["agent_pos"].shape)}
        if not beyond_tolerance(differences(here, expected(original, moved, actions))):
            return True
    return False


def episodes(case: str, count: int, seed: int = 0) -> Episodes:
    """Play whole episodes in both, from the original's starts with the same random actions; states are set at starts alone.

    Differences are those of places after 1, 5, 10 and 25 steps, of the sum of the rewards of each agent, and of the length.
    """
    env, original, found = make(case, count), Original(*CASES[case]), Episodes()
    env.action_space.seed(seed)
    original.start(seed)
    starts = []
    for _ in range(count):
        starts.append(original.whole_state())
        original.start()
    env.reset(seed=seed)
    env.set_state({name: np.stack([state[name] for state in starts]) for name in starts[0]})
    taken, here = [], []
    for _ in range(env.params["max_cycles"]):
        taken.append(beyond_the_box(env, env.action_space.sample()))
        _, reward, terminated, truncated, info = env.step(taken[-1])
        step = {"reward": np.array(info.get("agent_reward", reward)).reshape(count, -1), "over": terminated | truncated}
        here.append(step | {name: array.copy() for name, array in env.get_state().items() if name == "agent_pos"})
    for world, start in enumerate(starts):
        moves = [[each[world] for each in by_agent(actions, env.role_counts)] for actions in taken]
        found.add(episode(original, start, moves, [at(step, world) for step in here]))
    env.close()
    return found


def episode(original: Original, start: Arrays, actions: list[list[Any]], here: list[Arrays]) -> Episodes:
    """Play one episode in the original, and return its differences from the places, rewards and ends here, step by step."""
    original.set_state(start)
    found, surplus = Episodes(), np.zeros(len(here[0]["reward"]))
    for t, (chosen, ours) in enumerate(zip(actions, here, strict=True), 1):
        _, rewards, terminated, truncated = original.step(chosen)
        surplus += ours["reward"] - rewards
        if t in (1, 5, 10, 25) and "agent_pos" in ours:
            apart = np.abs(original.get_state()["agent_pos"] - ours["agent_pos"]).max()
            found.differences[f"places after {t}"] = [float(apart)]
        ends = {bool(ours["over"]), terminated or truncated}
        if True in ends:
            break
    found.differences["return"], found.differences["length"] = [float(np.abs(surplus).max())], [float(len(ends) - 1)]
    return found


def at(arrays: Arrays, world: int) -> Arrays:
    """Return the arrays of one world."""
    return {name: array[world] for name, array in arrays.items()}


RECORD = Path(__file__).resolve().parents[1] / "golden" / "mpe.npz"
RECORDED = {case: 20 if number < len(MODULES) else 8 for number, case in enumerate(CASES)}
"""Number of recorded states of each case: half crowded states, half of random play."""


def record() -> None:
    """Write states, actions and what the original gives for them: for each case one array, float32 (states, numbers)."""
    arrays: Arrays = {}
    for case, number in RECORDED.items():
        env, original, rows = make(case, number // 2), Original(*CASES[case]), []
        for state, actions in batches(env, 2, seed=5):
            moves = by_agent(actions, env.role_counts)
            for k in range(env.num_worlds):
                before, chosen = at(state, k), [move[k] for move in moves]
                parts = [*(before[name] for name in sorted(before)), *chosen, *expected(original, before, chosen).values()]
                rows.append(np.concatenate([np.ravel(part) for part in parts]))
        arrays[case] = np.array(rows, np.float32)
        env.close()
    np.savez_compressed(RECORD, **arrays)  # type: ignore[arg-type]
    print(f"{RECORD.name}: {RECORD.stat().st_size / 1000:.0f} kB")


def recorded(env: Any, rows: np.ndarray) -> tuple[Arrays, Any, Arrays]:
    """Return states, actions and results of a record, by name. Their shapes are those of the env.

    Raises:
        ValueError: the rows have another length.
    """
    env.reset(seed=0)
    template = env.get_state(*sorted(["t", *(field.name for field in env.env_spec.state)]))
    actions = env.action_space.sample()
    results = given(env, template, actions)
    results = {name: results[name] for name in sorted(results, key=place_of)}
    by_role = {role: actions[role] for role in env.role_counts} if isinstance(actions, dict) else {"": actions}
    groups = [template, by_role, results]
    split: list[Arrays] = []
    start = 0
    for group in groups:
        split.append({})
        for name, array in group.items():
            size = array[0].size
            split[-1][name] = rows[:, start : start + size].reshape(len(rows), *array.shape[1:]).astype(array.dtype)
            start += size
    if start != rows.shape[1]:
        raise ValueError(f"expected rows of {start} numbers, got {rows.shape[1]}")
    state, moves, found = split
    return state, moves.get("", moves), found


def place_of(name: str) -> int:
    """Place of a result in rows of a record: observations, then state, rewards and flags."""
    later = ("agent_pos", "agent_vel", "comm", "reward", "terminated", "truncated")
    return 1000 + later.index(name) if name in later else int(name.rpartition("_")[2])


def main() -> None:
    """Compare, as the command line says, and print what differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.envs.mpe_original", description=__doc__)
    parser.add_argument("cases", nargs="*", help="names of cases; all by default")
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--record", action="store_true", help="write tests/golden/mpe.npz and compare nothing")
    options = parser.parse_args()
    if options.record:
        return record()
    for case in options.cases or CASES:
        print(case, compare(case, options.states).summary(), flush=True)


if __name__ == "__main__":
    main()
