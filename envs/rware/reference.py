"""The robot warehouse in slow, readable Python: the rules of README.md in this folder, one world at a time.

Tests compare the kernel with it. It is written from the rules, not from the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpu_vecenv.envs.rware.floor import floor_of
from gpu_vecenv.reference import draw

NOOP, FORWARD, LEFT, RIGHT, TOGGLE = range(5)
STEPS = ((0, -1), (0, 1), (-1, 0), (1, 0))  # change of x and y in the directions up, down, left, right
CLOCKWISE = (0, 3, 1, 2)  # directions, each to the right of the one before

Place = tuple[int, int]


class RwareReference:
    """One warehouse.

    Args:
        params: resolved parameters of WarpRware-v2, by name.

    Attributes:
        places: x and y of each robot.
        directions: direction of each robot: 0 up, 1 down, 2 left, 3 right.
        carrying: shelf of each robot, None without one.
        delivered: True for robots whose shelf was delivered and not put down yet, in two stages.
        shelves: x and y of each shelf.
        requests: shelves that are requested.
        messages: bits that each robot sent in the last step.
        inactive: steps since the last delivery.
        t: steps taken in this episode.
    """

    tolerance = 0.0

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params, self._floor = params, floor_of(params)
        self._goals = [(int(x), int(y)) for x, y in self._floor.goals]

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take the state of one world, with the names of the spec, ``t`` and the random key."""
        self.places: list[Place] = [(int(x), int(y)) for x, y in state["agent_pos"]]
        self.directions = [int(direction) for direction in state["agent_dir"]]
        self.carrying = [None if shelf < 0 else int(shelf) for shelf in state["carrying"]]
        self.delivered = [bool(flag) for flag in state["has_delivered"]]
        self.shelves: list[Place] = [(int(x), int(y)) for x, y in state["shelf_pos"]]
        self.requests = [int(shelf) for shelf in state["request_queue"]]
        self.messages = np.array(state["message"], int)
        self.inactive, self.t = int(state["inactive_steps"]), int(state["t"])
        self._key = int(state["seed"]), int(state["world_id"]), int(state["episode"])

    def get_state(self) -> dict[str, Any]:
        """Return the state under the names of the spec."""
        return {
            "agent_pos": np.array(self.places),
            "agent_dir": np.array(self.directions),
            "carrying": np.array([-1 if shelf is None else shelf for shelf in self.carrying]),
            "has_delivered": np.array(self.delivered, int),
            "shelf_pos": np.array(self.shelves),
            "request_queue": np.array(self.requests, int),
            "message": self.messages,
            "inactive_steps": self.inactive,
            "t": self.t,
        }

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool, bool]:
        """Move all robots at once.

        Args:
            actions: moves (robots,), or with messages (robots, 1 + bits).

        Returns:
            obs: float32 (robots, features), after the step.
            reward: float64 (robots,).
            terminated: no delivery for ``max_inactivity_steps``, or a collision that ends the episode.
            truncated: the time limit is reached.
        """
        entries = np.asarray(actions).reshape(len(self.places), -1)
        moves, self.messages = [int(move) for move in entries[:, 0]], entries[:, 1:].astype(int)
        targets = [self._target(robot, move) for robot, move in enumerate(moves)]
        ends = self._params["collision"] == "end"
        collided = ends and self._collided(targets)
        moving = set(range(len(targets))) if ends else self._moving(targets)
        rewards = np.zeros(len(targets))
        for robot, move in enumerate(moves):
            if move in (LEFT, RIGHT):
                at = CLOCKWISE.index(self.directions[robot]) + (1 if move == RIGHT else -1)
                self.directions[robot] = CLOCKWISE[at % 4]
            elif move == TOGGLE:
                rewards[robot] += self._toggle(robot)
        for robot in moving:
            self.places[robot] = targets[robot]
            shelf = self.carrying[robot]
            if shelf is not None:
                self.shelves[shelf] = targets[robot]
        self.t += 1
        deliveries = [self._deliver(number, rewards) for number in range(len(self._goals))]
        self.inactive = 0 if any(deliveries) else self.inactive + 1
        patience, limit = self._params["max_inactivity_steps"], self._params["max_steps"]
        terminated = collided or 0 < patience <= self.inactive
        return self.observe(), rewards, terminated, 0 < limit <= self.t

    # Moves

    def _target(self, robot: int, move: int) -> Place:
        """Return the cell that a robot asks for; its present one if it does not move, or a shelf is in its way."""
        here = x, y = self.places[robot]
        if move != FORWARD:
            return here
        dx, dy = STEPS[self.directions[robot]]
        there = min(max(x + dx, 0), self._floor.cols - 1), min(max(y + dy, 0), self._floor.rows - 1)
        if self.carrying[robot] is None or there == here or there not in self.shelves:
            return there
        loads = [shelf for place, shelf in zip(self.places, self.carrying, strict=True) if place == there]
        follows = any(shelf is not None for shelf in loads)
        return there if follows and self._params["collision"] == "resolve" else here

    def _moving(self, targets: Sequence[Place]) -> set[int]:
        """Return the robots that move: rings of more than two, and to each free cell the longest chain that leads there.

        Among chains of one length, that moves whose first robot has the lowest number; if it is the same, the second decides.
        """
        chains: dict[Place, list[list[int]]] = {}
        moving: set[int] = set()
        for robot in range(len(targets)):
            path = [robot]
            while targets[path[-1]] in self.places:
                ahead = self.places.index(targets[path[-1]])
                if ahead in path:
                    break
                path.append(ahead)
            else:
                chains.setdefault(targets[path[-1]], []).append(path[::-1])
                continue
            if ahead == robot and len(path) > 2:
                moving.add(robot)
        for paths in chains.values():
            longest = max(len(path) for path in paths)
            moving |= set(min(path for path in paths if len(path) == longest))
        return moving

    def _collided(self, targets: Sequence[Place]) -> bool:
        """Move robots one after the other, by number, as Jumanji does; return True if a robot does not end in its cell alone."""
        grid: dict[Place, int | None] = {place: robot for robot, place in enumerate(self.places)}
        for robot, target in enumerate(targets):
            if target != self.places[robot]:
                grid[self.places[robot]] = None
                grid[target] = robot
        return any(grid[target] != robot for robot, target in enumerate(targets))

    def _toggle(self, robot: int) -> float:
        """Take the shelf of the cell, or put it down where no highway is; return the reward."""
        x, y = self.places[robot]
        if self.carrying[robot] is None:
            self.carrying[robot] = self.shelves.index((x, y)) if (x, y) in self.shelves else None
            return 0.0
        if self._floor.highway[y, x]:
            return 0.0
        returned = self.delivered[robot] and self._params["reward_type"] == "two_stage"
        self.carrying[robot], self.delivered[robot] = None, False
        return 0.5 if returned else 0.0

    # Deliveries

    def _deliver(self, number: int, rewards: np.ndarray) -> bool:
        """Pay for a requested shelf at goal ``number`` and request another one; return True if there was one."""
        for robot, (place, shelf) in enumerate(zip(self.places, self.carrying, strict=True)):
            if place == self._goals[number] and shelf in self.requests:
                free = [other for other in range(len(self.shelves)) if other not in self.requests]
                drawn = draw(*self._key, self.t, 2, number).below(len(free))
                self.requests[self.requests.index(shelf)] = free[int(drawn)]
                kind = self._params["reward_type"]
                rewards[slice(None) if kind == "global" else robot] += 0.5 if kind == "two_stage" else 1.0
                self.delivered[robot] |= kind == "two_stage"
                return True
        return False

    # Observations

    def observe(self) -> np.ndarray:
        """Observations of the present state, float32 (robots, 8 + (7 + bits) C) for C cells in sight."""
        rows, sight = [], range(-self._params["sensor_range"], self._params["sensor_range"] + 1)
        for (x, y), direction, shelf in zip(self.places, self.directions, self.carrying, strict=True):
            scale = np.ones(2)
            if self._params["normalised_coordinates"]:
                scale = np.array([self._floor.cols - 1, self._floor.rows - 1])
            row = [*([x, y] / scale), shelf is not None, *np.eye(4)[direction], self._floor.highway[y, x]]
            for dy in sight:
                for dx in sight:
                    row += self._seen((x + dx, y + dy))
            rows.append(row)
        return np.array(rows, np.float32)

    def _seen(self, place: Place) -> list[float]:
        """Return the features of a cell in sight: a robot, its direction and message, a shelf, its request."""
        robot = max((robot for robot, at in enumerate(self.places) if at == place), default=None)
        shelves = [shelf for shelf, at in enumerate(self.shelves) if at == place]
        shown = [0.0, *np.eye(4)[0], *[0.0] * self._params["msg_bits"]]
        if robot is not None:
            shown = [1.0, *np.eye(4)[self.directions[robot]], *self.messages[robot]]
        return [*shown, float(bool(shelves)), float(any(shelf in self.requests for shelf in shelves))]
