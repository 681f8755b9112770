"""The particle environments of mpe2, set to a state and stepped once, for comparisons with those here.

    python -m tests.envs.mpe_original --states 1000000 spread

compares as many states of each case named, by default 10,000 of all cases. It needs mpe2 1.1.1.
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


def batches(env: Any, number: int, seed: int) -> Iterator[tuple[Arrays, Any]]:
    """Yield states and actions of all worlds: crowded states and those of random play, in turn."""
    generator = np.random.default_rng(seed)
    env.action_space.seed(seed)
    env.reset(seed=seed)
    for batch in range(number):
        if batch % 2:
            for _ in range(int(generator.integers(1, 24))):
                env.step(env.action_space.sample())
            names = [field.name for field in env.env_spec.state]
            state = {name: array.copy() for name, array in env.get_state(*names, "t").items()}
            state["t"] %= env.params["max_cycles"]
        else:
            state = crowded(env, generator)
        actions = env.action_space.sample()
        if env.params["continuous_actions"]:  # beyond the box, too
            actions = {k: v * 2 - 0.5 for k, v in actions.items()} if isinstance(actions, dict) else actions * 2 - 0.5
        yield state, actions


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


def compare(case: str, states: int, seed: int = 0, width: int = 500) -> tuple[int, dict[str, float], list[str]]:
    """Step a number of states in both.

    Returns:
        Number of states, the largest difference of each array, and a line for each state that differs by more than 1e-5, or in
        rewards by 2e-5.
    """
    env, original = make(case, min(width, states)), Original(*CASES[case])
    largest: dict[str, float] = {}
    lines, done = [], 0
    for state, actions in batches(env, -(-states // env.num_worlds), seed):
        here = given(env, state, actions)
        moves = by_agent(actions, env.role_counts)
        for world in range(env.num_worlds):
            there = expected(original, at(state, world), [move[world] for move in moves])
            found = differences(at(here, world), there)
            beyond = {name: value for name, value in found.items() if value > (2e-5 if name == "reward" else 1e-5)}
            if beyond:
                lines.append(f"{case}: batch {done // env.num_worlds}, world {world}: {beyond}")
            for name, value in found.items():
                kind = name.partition("_")[0] if name.startswith("obs") else name
                if not beyond:
                    largest[kind] = max(largest.get(kind, 0.0), value)
        done += env.num_worlds
    env.close()
    return done, largest, lines


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
        done, largest, lines = compare(case, options.states)
        shown = ", ".join(f"{name} {value:.1e}" for name, value in largest.items())
        print(f"{case}: {done} states, {len(lines)} differ; others by at most {shown}", *lines[:5], sep="\n    ", flush=True)


if __name__ == "__main__":
    main()
