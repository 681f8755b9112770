"""Particle environments in slow, readable NumPy: the rules of docs/mpe.md, one world at a time, in float64.

Tests compare the kernels with them. A scenario is a subclass in its folder's ``reference.py``, written from the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

DT = 0.1  # s
DAMPING = 0.25
STIFFNESS = 100.0
MARGIN = 0.001
DIRECTIONS = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], float)  # none, left, right, down, up


@dataclass(frozen=True)
class Body:
    """A circle.

    Args:
        role: role of an agent; empty for a landmark.
        radius: its radius.
        push: force of a move.
        top_speed: limit of its speed.
        moves: True if actions move it.
        collides: True if it and others push each other away.
        words: number of words that it can say.
    """

    role: str = ""
    radius: float = 0.05
    push: float = 5.0
    top_speed: float = np.inf
    moves: bool = True
    collides: bool = False
    words: int = 0


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Distance of two points."""
    return float(np.linalg.norm(a - b))


def price(place: np.ndarray) -> float:
    """Price of a place outside of the arena: by each axis 0 up to 0.9, then linear up to 1 at 1, then e^(2x - 2) up to 10."""
    x = np.abs(place)
    return float(np.where(x < 0.9, 0, np.where(x < 1, 10 * (x - 0.9), np.minimum(np.exp(np.minimum(2 * x - 2, 9)), 10))).sum())


class ParticleWorld:
    """One world. Subclasses give ``agents``, ``obstacles``, ``row()``, ``rewards()``, and ``is_over()`` if success ends episodes.

    Args:
        params: resolved parameters, by name.

    Attributes:
        pos: places of agents, float64 (A, 2).
        vel: velocities of agents, float64 (A, 2).
        landmarks: places of landmarks, float64 (L, 2).
        comm: what each agent that can speak said last, float64 (S, words).
        goal: numbers of landmarks, int, in the shape of the state field; key: the same of Crypto.
        t: steps taken in this episode.
    """

    obstacles: tuple[Body, ...] = ()
    """The first landmarks, if agents collide with them."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params = params
        self.agents = self.bodies()
        self.pos = self.vel = np.zeros((len(self.agents), 2))
        self.landmarks, self.comm = np.zeros((0, 2)), np.zeros((0, 0))
        self.goal = self.key = np.zeros((), int)
        self.t = 0

    def bodies(self) -> list[Body]:
        """Return the agents, in their order."""
        raise NotImplementedError

    def row(self, i: int) -> Iterable[Any]:
        """Return the parts of the observation of agent i."""
        raise NotImplementedError

    def rewards(self) -> list[float]:
        """Return the reward of each agent."""
        raise NotImplementedError

    def is_over(self) -> bool:
        """Return True if success ends the episode."""
        return False

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take the state of one world, with the names of the spec and ``t``."""
        if "agent_pos" in state:
            self.pos, self.vel, self.landmarks = (
                np.array(state[name], float) for name in ("agent_pos", "agent_vel", "landmark_pos")
            )
        self.comm = np.array(state.get("comm", np.zeros((0, 0))), float)
        self.goal, self.key = np.array(state.get("goal", 0), int), np.array(state.get("key", 0), int)
        self.t = int(state["t"])

    def get_state(self) -> dict[str, Any]:
        """Return the fields that a step changes, under the names of the spec."""
        state: dict[str, Any] = {"t": self.t}
        if len(self.landmarks) or self.agents[0].moves:
            state |= {"agent_pos": self.pos.astype(np.float32), "agent_vel": self.vel.astype(np.float32)}
        return state | ({"comm": self.comm.astype(np.float32)} if len(self.comm) else {})

    def observe(self) -> Any:
        """Observations, float32: rows by role, or one row of the only agent, or (A, F) of agents of one role."""
        return self._by_role([np.concatenate([np.ravel(part) for part in self.row(i)]) for i in range(len(self.agents))])

    def step(self, actions: Any) -> tuple[Any, np.ndarray, bool, bool]:
        """Move and speak.

        Args:
            actions: as in one world of the env, by role if there are several.

        Returns:
            obs: as ``observe()`` returns it.
            rewards: float64 (A,).
            terminated: success ended the episode, before the time limit.
            truncated: the time limit is reached.
        """
        if isinstance(actions, Mapping):
            chosen = [row for role in dict.fromkeys(agent.role for agent in self.agents) for row in np.asarray(actions[role])]
        else:
            chosen = list(np.asarray(actions)) if len(self.agents) > 1 else [np.asarray(actions)]
        parts = [self._parts(agent, action) for agent, action in zip(self.agents, chosen, strict=True)]
        self._move(np.array([force for force, _ in parts]))
        if len(self.comm):
            self.comm = np.array([words for _, words in parts if len(words)])
        self.t += 1
        late = self.t >= self.params["max_cycles"]
        return self.observe(), np.array(self.rewards()), self.is_over() and not late, late

    def _by_role(self, rows: list[np.ndarray]) -> Any:
        roles = dict.fromkeys(agent.role for agent in self.agents)
        if len(roles) == 1:
            return np.array(rows if len(rows) > 1 else rows[0], np.float32)
        return {
            role: np.array([row for row, agent in zip(rows, self.agents, strict=True) if agent.role == role], np.float32)
            for role in roles
        }

    def _parts(self, agent: Body, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the force of an action and the words said."""
        if self.params["continuous_actions"]:
            shares = np.clip(np.asarray(action, float), 0, 1)
            moves, words = (shares[:5], shares[5:]) if agent.moves else (np.zeros(5), shares)
        else:
            index = int(action)
            move, word = (index % 5, index // 5) if agent.moves else (0, index)
            moves, words = np.eye(5)[move], np.eye(agent.words)[word] if agent.words else np.zeros(0)
        return agent.push * (moves @ DIRECTIONS), words

    def _move(self, force: np.ndarray) -> None:
        """Add contacts to the forces of actions, follow the velocities, then change these."""
        bodies = [*self.agents, *self.obstacles]
        places = np.concatenate([self.pos, self.landmarks[: len(self.obstacles)]])
        for i, one in enumerate(self.agents):
            for j, other in enumerate(bodies):
                along = places[i] - places[j]
                far = np.linalg.norm(along)
                if i != j and one.collides and other.collides and far > 0:
                    depth = MARGIN * np.logaddexp(0, (one.radius + other.radius - far) / MARGIN)
                    force[i] += STIFFNESS * depth * along / far
        for i, agent in enumerate(self.agents):
            if agent.moves:
                self.pos[i] += DT * self.vel[i]
                self.vel[i] = (1 - DAMPING) * self.vel[i] + DT * force[i]
                self.vel[i] *= min(1.0, agent.top_speed / max(float(np.linalg.norm(self.vel[i])), 1e-30))

    # Parts of observations and rewards

    def touch(self, i: int, j: int) -> bool:
        """Return True if agents i and j touch each other."""
        return distance(self.pos[i], self.pos[j]) < self.agents[i].radius + self.agents[j].radius

    def indices_of(self, role: str) -> list[int]:
        """Return the numbers of the agents of a role."""
        return [i for i, agent in enumerate(self.agents) if agent.role == role]

    def peers(self, i: int) -> list[int]:
        """Return the numbers of all other agents."""
        return [j for j in range(len(self.agents)) if j != i]

    def seen(self, i: int, places: np.ndarray, parameter: str = "") -> list[int]:
        """Return the numbers of the places that agent i observes: all, or the nearest if a parameter limits their count."""
        number = self.params[parameter] if parameter else 0
        if number == 0:
            return list(range(len(places)))
        return [int(k) for k in np.argsort([distance(place, self.pos[i]) for place in places], kind="stable")[:number]]

    def seen_from(self, i: int, places: np.ndarray, parameter: str = "") -> np.ndarray:
        """Return places as seen from agent i, (slots, 2), zeros in slots without one."""
        seen = self.seen(i, places, parameter)
        slots = np.zeros(((self.params[parameter] if parameter else 0) or len(places), 2))
        slots[: len(seen)] = places[seen] - self.pos[i]
        return slots
