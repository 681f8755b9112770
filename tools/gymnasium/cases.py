"""Cases of the comparison with Gymnasium: random states and actions, and the effect of one rounding on a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy import cos, pi, sin

Columns = Callable[..., np.ndarray]
"""A function of states (k, n) and actions (n,) that returns rows (..., n)."""

NUDGE = 8
"""Units in the last place by which an entry of the state is changed to measure the effect of a rounding."""


@dataclass(frozen=True)
class Case:
    """One of our envs, Gymnasium's env with the same rules, and the states of the comparison.

    Attributes:
        name: name of the case.
        theirs: Gymnasium's id; our id has the prefix ``Warp``.
        fields: names of the entries of the state, the reward, and observed values that are not in the state.
        low: smallest state drawn; draws are uniform.
        high: largest state drawn.
        action: number of discrete actions, or bound of continuous ones; draws are uniform.
        step: function from states and actions to the next states and rewards, in float64, without bounds and wrapped angles. It
            only serves to measure the effect of a rounding.
        past: function from states after a step to their distance beyond the threshold that ends an episode, relative to the
            threshold; negative before the threshold, and for all states of an env without one.
        limits: allowed difference of each field, in effects of one rounding (see ``roundings()``); at most half the number of
            roundings in the longest chain of operations that leads to the field.
        angles: for each field after the reward, which is a cosine or sine, the index of its angle in the state.
        turns: number of leading entries of the state that are angles wrapped to one turn.
        offset: number that the rule adds to the first entry of the state; the sum may have larger roundings than the entry.
        dtype: dtype of the state that Gymnasium's env gets.
    """

    name: str
    theirs: str
    fields: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    action: int | float
    step: Columns
    past: Columns
    limits: tuple[float, ...]
    angles: tuple[int, ...] = ()
    turns: int = 0
    offset: float = 0.0
    dtype: str = "float64"

    @property
    def size(self) -> int:
        """Entries of the state."""
        return len(self.low)

    @property
    def wall(self) -> float | None:
        """Position of the wall that stops a car; None for envs without cars."""
        return WALL if "position" in self.fields else None

    def random(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """States, float32 (count, size), and actions, int64 (count,) or float32 (count, 1)."""
        generator = np.random.default_rng(seed)
        low, high = np.array(self.low, np.float32), np.array(self.high, np.float32)
        states = np.clip(generator.uniform(low, high, (count, self.size)).astype(np.float32), low, high)
        if isinstance(self.action, int):
            return states, generator.integers(0, self.action, count)
        return states, generator.uniform(-self.action, self.action, (count, 1)).astype(np.float32)

    def edges(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """States that one step takes to the threshold of the episode's end or to the wall, within about one rounding.

        Bisection finds them between random states whose steps end on different sides. There are none if all end on one side.
        The arrays are those of ``random()``.
        """
        batches = [self._bisect(self.past, count, seed)]
        if self.wall is not None:
            batches.append(self._bisect(lambda after: after[0] / WALL - 1, count, seed + 1))
        return tuple(np.concatenate(parts) for parts in zip(*batches, strict=True))

    def _bisect(self, past: Columns, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        states, actions = self.random(40 * count, seed)
        column = actions.reshape(-1).astype(np.float64)
        over = past(self.step(states.T.astype(np.float64), column)) > 0
        count = min(count, over.sum(), (~over).sum())
        action, actions = column[over][:count], actions[over][:count]
        out, inside = states[over][:count].T.astype(np.float64), states[~over][:count].T.astype(np.float64)
        swapped = past(self.step(inside, action)) > 0  # unusable: with this action both states end the episode
        for _ in range(60):
            middle = (out + inside) / 2
            over = past(self.step(middle, action)) > 0
            out, inside = np.where(over, middle, out), np.where(over, inside, middle)
        return out.T.astype(np.float32)[~swapped], actions[~swapped]

    def roundings(self, states: np.ndarray, actions: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Return the effect of one rounding on each field and, in the last column, on ``past``: float64 (n, fields + 1).

        The effect is a unit in the last place of the float32 result plus, for each entry of the state before the step, the change
        of the result when the entry changes by such a unit. That change is measured with ``NUDGE`` units to either side, because
        near an extremum a single unit has almost no effect.

        Args:
            states: float32 (n, size), before the step.
            actions: int64 (n,) or float32 (n, 1).
            after: float64 (n, fields), results of Gymnasium's env.
        """
        before, column = states.T.astype(np.float64), actions.reshape(-1).astype(np.float64)
        spacings = spacing(after.T).astype(np.float64)
        main, extra = spacings[: self.size + 1], spacings[self.size + 1 :]
        effects = np.concatenate([main, np.full((1, len(after)), np.spacing(np.float32(1)))])
        base = self._moved(before, column)
        for entry in range(self.size):
            nudge = np.zeros_like(before)
            nudge[entry] = NUDGE * spacing(np.abs(before[entry]) + (self.offset if entry == 0 else 0.0))
            ends = [np.abs(self._moved(before + side * nudge, column) - base) for side in (1, -1)]
            effects += np.maximum(*ends) / NUDGE
        extra += effects[list(self.angles)]  # a cosine or sine changes by at most the change of its angle
        return np.concatenate([effects[:-1], extra, effects[-1:]]).T

    def _moved(self, state: np.ndarray, action: np.ndarray) -> np.ndarray:
        after = self.step(state, action)
        return np.concatenate([after, self.past(after)[None]])

    def differences(self, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        """Return ours minus theirs, float64 (n, fields); a difference of whole turns counts as 0."""
        difference = ours.astype(np.float64) - theirs.astype(np.float32)
        angles = difference[:, : self.turns]
        angles -= 2 * pi * np.round(angles / (2 * pi))
        return difference


def spacing(value: np.ndarray) -> np.ndarray:
    """A unit in the last place of float32, at each value."""
    return np.spacing(np.abs(value).astype(np.float32))


def step_ours(case: Case, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Our env's fields, float32 (n, fields), and terminations, bool (n,), of one step from each state, on the CPU."""
    if not len(states):
        return np.empty((0, len(case.fields)), np.float32), np.empty(0, bool)
    env: Any = gymnasium.make_vec(
        "Warp" + case.theirs, num_envs=len(states), device="cpu", array="numpy", autoreset_mode="disabled", max_episode_steps=0
    )
    env.reset(seed=0)
    env.unwrapped.set_state({"state": states})
    obs, reward, terminated, _, _ = env.step(actions)
    state = env.unwrapped.get_state()["state"]
    env.close()
    return np.concatenate([state, reward[:, None], obs[:, : len(case.fields) - case.size - 1]], axis=1), terminated


def step_gymnasium(case: Case, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Step as ``step_ours`` does, for Gymnasium's own env, one state at a time; the fields are float64."""
    env: Any = gymnasium.make(case.theirs).unwrapped
    env.reset(seed=0)
    fields = np.empty((len(states), len(case.fields)))
    ended = np.empty(len(states), bool)
    extra = len(case.fields) - case.size - 1
    discrete = isinstance(case.action, int)
    for i, state in enumerate(states.astype(case.dtype)):
        env.state = state
        env.steps_beyond_terminated = None  # otherwise CartPole treats the episode of the previous state as ended
        obs, reward, ended[i], _, _ = env.step(int(actions[i]) if discrete else actions[i])
        fields[i, : case.size], fields[i, case.size], fields[i, case.size + 1 :] = env.state, reward, obs[:extra]
    return fields, ended


# ---- the rules in float64, to measure roundings -----------------------------------------------------------------------------


WALL, POLE = -1.2, 12 * 2 * pi / 360


def cart_pole(state: np.ndarray, action: np.ndarray) -> np.ndarray:
    """CartPole."""
    x, speed, angle, spin = state
    push = (20.0 * action - 10.0 + 0.05 * spin**2 * sin(angle)) / 1.1
    spin_rate = (9.8 * sin(angle) - cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * cos(angle) ** 2 / 1.1))
    rate = push - 0.05 * spin_rate * cos(angle) / 1.1
    return np.stack([x + 0.02 * speed, speed + 0.02 * rate, angle + 0.02 * spin, spin + 0.02 * spin_rate, 1 + 0 * x])


def acrobot(state: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Acrobot: one Runge-Kutta step."""

    def rates(state: np.ndarray) -> np.ndarray:
        angle1, angle2, speed1, speed2 = state
        d1, d2 = 3.5 + cos(angle2), 1.25 + 0.5 * cos(angle2)
        pull = 4.9 * sin(angle1 + angle2)
        forces = -(0.5 * speed2 + speed1) * speed2 * sin(angle2) + 14.7 * sin(angle1) + pull
        rate = (action - 1 + d2 / d1 * forces - 0.5 * speed1**2 * sin(angle2) - pull) / (1.25 - d2**2 / d1)
        return np.stack([speed1, speed2, -(d2 * rate + forces) / d1, rate])

    k1 = rates(state)
    k2 = rates(state + 0.1 * k1)
    k3 = rates(state + 0.1 * k2)
    after = state + 0.2 / 6 * (k1 + 2 * k2 + 2 * k3 + rates(state + 0.2 * k3))
    return np.stack([*after, np.full_like(after[0], -1.0)])


def valley(state: np.ndarray, push: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Both mountain cars."""
    position, speed = state
    speed = speed + push - 0.0025 * cos(3 * position)
    return np.stack([position + speed, speed, reward])


def mountain_car(state: np.ndarray, action: np.ndarray) -> np.ndarray:
    """MountainCar."""
    return valley(state, 0.001 * (action - 1), np.full_like(action, -1.0, dtype=np.float64))


def mountain_car_continuous(state: np.ndarray, action: np.ndarray) -> np.ndarray:
    """MountainCarContinuous."""
    return valley(state, 0.0015 * np.clip(action, -1, 1), -0.1 * action**2)


def pendulum(state: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Pendulum."""
    angle, speed = state
    torque = np.clip(action, -2, 2)
    cost = ((angle + pi) % (2 * pi) - pi) ** 2 + 0.1 * speed**2 + 0.001 * torque**2
    speed = speed + (15 * sin(angle) + 3 * torque) * 0.05
    after = angle + 0.05 * speed
    return np.stack([after, speed, -cost])


def past_flag(flag: float) -> Columns:
    """Return ``past`` of a car: its distance beyond the flag over the flag, or its velocity over full speed; the smaller one."""
    return lambda after: np.minimum(after[0] / flag - 1, after[1] / 0.07)


CASES = {
    case.name: case
    for case in (
        Case(
            "CartPole", "CartPole-v1", ("x", "x'", "angle", "angle'", "reward"),
            low=(-2.6, -4, -0.23, -4), high=(2.6, 4, 0.23, 4), action=2, step=cart_pole,
            past=lambda after: np.maximum(np.abs(after[0]) / 2.4, np.abs(after[2]) / POLE) - 1,
            limits=(2, 6, 2, 6, 0),
        ),
        Case(
            "Acrobot", "Acrobot-v1", ("a1", "a2", "a1'", "a2'", "reward", "cos a1", "sin a1", "cos a2", "sin a2"),
            low=(-pi, -pi, -4 * pi, -9 * pi), high=(pi, pi, 4 * pi, 9 * pi), action=3, step=acrobot,
            past=lambda after: -cos(after[0]) - cos(after[0] + after[1]) - 1,
            limits=(16, 16, 32, 32, 0, 16, 16, 16, 16), angles=(0, 0, 1, 1), turns=2,
        ),
        Case(
            "MountainCar", "MountainCar-v0", ("position", "velocity", "reward"),
            low=(-1.2, -0.07), high=(0.6, 0.07), action=3, step=mountain_car, past=past_flag(0.5),
            limits=(4, 6, 0),
        ),
        *(
            Case(
                "MountainCarContinuous" + ("" if dtype == "float64" else f", {dtype}"), "MountainCarContinuous-v0",
                ("position", "velocity", "reward"),
                low=(-1.2, -0.07), high=(0.6, 0.07), action=3.0, step=mountain_car_continuous, past=past_flag(0.45),
                limits=(4, 6, 2), dtype=dtype,
            )
            for dtype in ("float64", "float32")
        ),
        *(
            Case(
                name, "Pendulum-v1", ("angle", "angle'", "reward", "cos angle", "sin angle"),
                low=(-reach, -8), high=(reach, 8), action=5.0, step=pendulum,
                past=lambda after: np.full_like(after[0], -1.0),  # no state ends the episode
                limits=(2, 4, 2, 2, 2), angles=(0, 0), offset=pi,
            )
            for name, reach in (("Pendulum", pi), ("Pendulum, many turns", 84))
        ),
    )
}  # fmt: skip
"""Cases by name. In 200 steps at full speed the pendulum turns by 84 rad; its angle is not wrapped."""
