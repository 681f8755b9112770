"""Random worlds of Tag to compare the kernel with its reference, and checks whether rounding may decide a result."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

import gpu_vecenv  # noqa: F401
from gpu_vecenv.envs.tag.reference import TagReference
from gpu_vecenv.envs.tag.spec import SPEC

STATE = ("loc_x", "loc_y", "speed", "direction", "acceleration")
NEAR = 2e-5
"""Bound on the difference of two float32 computations of a length of some tens, or of an angle."""


def random_params(generator: np.random.Generator) -> dict[str, Any]:
    """Parameters from the whole range of the spec, such that tags and wall contacts are frequent."""
    taggers, runners = int(generator.integers(1, 6)), int(generator.integers(1, 12))
    flip = generator.random(6) < 0.5
    side = generator.choice([1.0, 10.0, 33.3])
    return {
        "num_taggers": taggers,
        "num_runners": runners,
        "grid_length": side,
        "episode_length": int(generator.integers(1, 40)),
        "max_speed": side * generator.choice([0.02, 0.1, 0.3]),
        "skill_level_runner": generator.choice([1.0, 0.7, 1.9]),
        "skill_level_tagger": generator.choice([1.0, 0.6, 1.3]),
        "max_acceleration": side * generator.uniform(0, 0.1),
        "min_acceleration": -side * generator.uniform(0, 0.1),
        "max_turn": generator.uniform(0, 4.0),
        "min_turn": -generator.uniform(0, 4.0),
        "num_acceleration_levels": int(generator.choice([0, 1, 2, 10, 21])),
        "num_turn_levels": int(generator.choice([0, 1, 3, 8, 20])),
        "edge_hit_penalty": -generator.uniform(0, 2),
        "use_full_observation": bool(flip[0]),
        "num_other_agents_observed": int(generator.integers(1, taggers + runners + 1)),  # up to one more than there are others
        "tagging_distance": generator.choice([0.0, 0.05, 0.2]),
        "tag_reward_for_tagger": generator.uniform(0, 10),
        "step_penalty_for_tagger": -generator.uniform(0, 1),
        "tag_penalty_for_runner": -generator.uniform(0, 10),
        "step_reward_for_runner": generator.uniform(0, 1),
        "end_of_game_reward_for_runner": generator.uniform(0, 5),
        "extended_observation": bool(flip[4]),
        "runner_exits_game_after_tagged": bool(flip[1]),
        "flatten_actions": bool(flip[2] and not flip[3]),
        "continuous_actions": bool(flip[3]),
    }


def random_states(reference: TagReference, worlds: int, limit: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """States (worlds, N): speeds from 0 to the top, some runners caught, some worlds before their last step."""
    shape = (worlds, reference.num_agents)
    speed = reference.top_speed * np.clip(generator.uniform(-0.3, 1.3, shape), 0, 1)
    gone = (generator.random(shape) < 0.2) & ~reference.is_tagger
    # A world without a live runner is finished and is never stepped.
    gone[:, -1] = False
    return {
        "loc_x": generator.uniform(0, reference.side, shape).astype(np.float32),
        "loc_y": generator.uniform(0, reference.side, shape).astype(np.float32),
        "speed": speed.astype(np.float32),
        "direction": generator.uniform(0, 6.28, shape).astype(np.float32),
        "acceleration": (reference.side * generator.uniform(-0.1, 0.1, shape)).astype(np.float32),
        "alive": (~gone).astype(np.int32),
        "t": np.where(generator.random(worlds) < 0.3, limit - 1, generator.integers(0, limit, worlds)).astype(np.int32),
    }


def random_actions(params: Any, worlds: int, generator: np.random.Generator) -> np.ndarray:
    """Valid actions (worlds, N[, 2]); some continuous ones exceed their bounds."""
    space, agents = SPEC.action(params), params["num_taggers"] + params["num_runners"]
    if params["continuous_actions"]:
        return generator.normal(0, 2, (worlds, agents, 2)).astype(np.float32)
    if params["flatten_actions"]:
        return generator.integers(0, space.n, (worlds, agents), dtype=np.int32)
    return generator.integers(0, space.nvec, (worlds, agents, 2), dtype=np.int32)


def load(reference: TagReference, state: dict[str, np.ndarray], world: int) -> None:
    """Set the reference to the state of one world."""
    for name in STATE:
        setattr(reference, name, state[name][world].astype(np.float64))
    reference.alive = state["alive"][world] == 1
    reference.t = int(state["t"][world])


def kernel_step(params: dict[str, Any], state: dict[str, np.ndarray], actions: np.ndarray, device: str) -> tuple[Any, Any]:
    """Step every world once with the kernel; return the results of ``step`` and the state after it."""
    env = gymnasium.make_vec(
        "WarpTag-v0", num_envs=len(actions), device=device, array="numpy", autoreset_mode="disabled", **params
    )
    env.reset(seed=0)
    env.unwrapped.set_state(state)
    out = env.step(actions)
    after = env.unwrapped.get_state()
    env.close()
    return out, after


def doubtful_world(before: dict[str, np.ndarray], world: int, after: TagReference) -> bool:
    """Return True if rounding may decide a wall contact, a wrap of the heading or a tag in the step that led to ``after``."""
    alive = before["alive"][world] == 1
    moves = alive & (after.speed > 0)
    target = [
        before["loc_x"][world] + after.speed * np.cos(after.direction),
        before["loc_y"][world] + after.speed * np.sin(after.direction),
    ]
    wall = min(np.abs(c[moves] - edge).min(initial=np.inf) for c in target for edge in (0.0, after.side))
    wrap = min(np.abs(after.direction[alive] - edge).min(initial=np.inf) for edge in (0.0, 2 * np.pi))
    taggers = np.flatnonzero(after.is_tagger)
    tag = np.inf
    for runner in np.flatnonzero(alive & ~after.is_tagger):
        distances = np.sort(after.distances(runner, taggers))
        tag = min(tag, abs(distances[0] - after.margin))
        if distances[0] < after.margin:
            tag = min(tag, np.diff(distances[:2]).min(initial=np.inf))
    return min(wall, wrap, tag) < NEAR


def doubtful_row(before: dict[str, np.ndarray], world: int, after: TagReference, i: int, width: int) -> bool:
    """Return True if rounding may swap two neighbours that agent i observes, or the last of them and the next one."""
    others = (before["alive"][world] == 1) & (np.arange(after.num_agents) != i)
    distances = np.sort(after.distances(i, np.flatnonzero(others)))[: width + 1]
    return bool(np.diff(distances).min(initial=np.inf) < NEAR)
