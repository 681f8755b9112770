"""Cases of classic control: random states and actions, Gymnasium's envs, and bounds for rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.envs.classic_control import AcrobotEnv, CartPoleEnv, Continuous_MountainCarEnv, MountainCarEnv, PendulumEnv
from gymnasium.spaces import Box

from gpu_vecenv.envs.acrobot.reference import AcrobotReference
from gpu_vecenv.envs.acrobot.spec import SPEC as ACROBOT
from gpu_vecenv.envs.cartpole.reference import CartPoleReference
from gpu_vecenv.envs.cartpole.spec import SPEC as CARTPOLE
from gpu_vecenv.envs.mountain_car.reference import MountainCarReference
from gpu_vecenv.envs.mountain_car.spec import SPEC as MOUNTAIN_CAR
from gpu_vecenv.envs.mountain_car_continuous.reference import MountainCarContinuousReference
from gpu_vecenv.envs.mountain_car_continuous.spec import SPEC as CONTINUOUS
from gpu_vecenv.envs.pendulum.reference import PendulumReference
from gpu_vecenv.envs.pendulum.spec import SPEC as PENDULUM
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.params import Params

Generator = np.random.Generator


@dataclass(frozen=True)
class Case:
    """One env of classic control."""

    spec: EnvSpec
    reference: Callable[[Params], Any]
    theirs: Callable[[Params], Any]
    """Makes Gymnasium's env with our parameters."""
    states: Callable[[Generator, int], np.ndarray]
    margins: Callable[[Any, Params], list[float]]
    """Distances of a reference's state from the bounds that end its episode."""
    options: tuple[dict[str, Any], ...]
    physics: dict[str, tuple[float, float]]
    """Ranges of the parameters that may differ from world to world."""
    fixed: tuple[str, ...] = ()
    """Parameters in ``physics`` that Gymnasium's env has as constants."""
    angles: int = 0
    """Number of angles, which are the first entries of the state."""
    places: tuple[int, ...] = ()
    """Entries of an observation that are left with ``observe_velocity=False``."""

    @property
    def continuous(self) -> bool:
        return isinstance(self.spec.action({}), Box)

    def actions(self, generator: Generator, count: int) -> np.ndarray:
        """Random actions, (count,) or (count, 1); some continuous ones exceed their bounds."""
        space = self.spec.action({})
        if self.continuous:
            return generator.normal(0, 1.5 * space.high[0], (count, 1)).astype(np.float32)
        return generator.integers(0, space.n, count, dtype=np.int32)

    def observed(self, obs: np.ndarray, params: Params) -> np.ndarray:
        """Entries of whole observations (..., n) that an env with these parameters observes."""
        return obs if params.get("observe_velocity", True) else obs[..., self.places]

    def random_physics(self, generator: Generator, count: int) -> dict[str, np.ndarray]:
        """Parameters, float32 (count,) each."""
        return {name: generator.uniform(*ends, count).astype(np.float32) for name, ends in self.physics.items()}

    def difference(self, state: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Absolute difference of two states, entry by entry; angles that differ by whole turns are equal."""
        apart = state.astype(np.float64) - other
        apart[: self.angles] -= 2 * np.pi * np.round(apart[: self.angles] / (2 * np.pi))
        return np.abs(apart)

    def slack(self, reference: Any, start: np.ndarray, action: Any) -> np.ndarray:
        """Bound on the float32 error of a step, for each entry of the state.

        It is 4 ulps of the entry, plus 20 times the change of the entry when one entry of the start grows by an ulp. A step of a
        fast Acrobot multiplies such changes by a thousand. The call leaves the reference in the state after the step.
        """
        ends = []
        for entry in (*range(len(start)), None):
            nudged = np.where(np.arange(len(start)) == entry, np.nextafter(start, np.float32(np.inf)), start)
            reference.reset(nudged)
            reference.step(action)
            ends.append(reference.state)
        roundings = np.spacing(np.maximum(np.abs(start), np.abs(ends[-1])))
        return 4 * roundings + 20 * sum(self.difference(end, ends[-1]) for end in ends)


def acrobot_states(generator: Generator, count: int) -> np.ndarray:
    """States at any angle, half of them at moderate speeds, half at any speed."""
    slow, fast = [np.pi, np.pi, 3.0, 4.0], [np.pi, np.pi, 4 * np.pi, 9 * np.pi]
    scale = np.where(generator.random((count, 1)) < 0.5, slow, fast)
    return generator.uniform(-scale, scale).astype(np.float32)


def cartpole_states(generator: Generator, count: int) -> np.ndarray:
    """States with positions and angles up to a little beyond their bounds, and speeds as they occur in episodes."""
    scale = np.array([2.6, 4.0, 0.23, 4.0])
    return generator.uniform(-scale, scale, (count, 4)).astype(np.float32)


def valley_states(generator: Generator, count: int) -> np.ndarray:
    """States of cars: a third anywhere, a third next to the wall, a third around the flags; some at top speed."""
    low, high = np.array([[-1.2, -1.2, 0.4], [0.6, -1.1, 0.6]])[:, generator.integers(0, 3, count)]
    velocity = np.clip(generator.uniform(-0.09, 0.09, count), -0.07, 0.07)
    return np.stack([generator.uniform(low, high), velocity], axis=1).astype(np.float32)


def pendulum_states(generator: Generator, count: int) -> np.ndarray:
    """States with angles of up to 1.6 turns to either side; some at top speed."""
    velocity = np.clip(generator.uniform(-10, 10, count), -8, 8)
    return np.stack([generator.uniform(-10, 10, count), velocity], axis=1).astype(np.float32)


def their_acrobot(params: Params) -> AcrobotEnv:
    env = AcrobotEnv()
    env.book_or_nips = "book" if params["book_dynamics"] else "nips"
    for name in ("link_length_1", "link_mass_1", "link_mass_2", "link_com_pos_1", "link_com_pos_2", "link_moi"):
        setattr(env, name.upper(), params[name])
    return env


def their_cartpole(params: Params) -> CartPoleEnv:
    env = CartPoleEnv(sutton_barto_reward=params["sutton_barto_reward"])
    for name in ("gravity", "masscart", "masspole", "length", "force_mag", "tau"):
        setattr(env, name, params[name])
    env.total_mass = env.masscart + env.masspole
    env.polemass_length = env.masspole * env.length
    return env


def their_mountain_car(params: Params) -> MountainCarEnv:
    env = MountainCarEnv(goal_velocity=params["goal_velocity"])
    env.force, env.gravity = params["force"], params["gravity"]
    return env


def their_continuous_mountain_car(params: Params) -> Continuous_MountainCarEnv:
    env = Continuous_MountainCarEnv(goal_velocity=params["goal_velocity"])
    env.power = params["power"]
    return env


def their_pendulum(params: Params) -> PendulumEnv:
    env = PendulumEnv(g=params["g"])
    env.m, env.l = params["m"], params["l"]
    return env


def valley_margins(reference: Any, params: Params) -> list[float]:
    position, velocity = np.abs(reference.state - np.array([reference.flag, params["goal_velocity"]], np.float32)).tolist()
    return [position, velocity] if reference.state[0] >= reference.flag else [position]


TIMED = {"max_episode_steps": 20}
SPEEDS = tuple({"goal_velocity": speed} for speed in (0.03, -0.02, 0.07))

CASES = {
    "acrobot": Case(
        ACROBOT, AcrobotReference, their_acrobot, acrobot_states,
        margins=lambda reference, params: [abs(reference.height() - 1.0)],
        options=({}, TIMED, {"book_dynamics": False}),
        physics={"gravity": (1, 20), "link_length_1": (0.5, 2), "link_mass_1": (0.5, 2), "link_mass_2": (0.5, 2),
                 "link_com_pos_1": (0.3, 1), "link_com_pos_2": (0.3, 1), "link_moi": (0.5, 2)},
        fixed=("gravity",),
        angles=2,
    ),
    "cartpole": Case(
        CARTPOLE, CartPoleReference, their_cartpole, cartpole_states,
        margins=lambda reference, params: np.abs(np.abs(reference.state[[0, 2]]) - [2.4, np.radians(12)]).tolist(),
        options=({}, TIMED, {"sutton_barto_reward": True}, {"observe_velocity": False}),
        physics={"gravity": (1, 20), "masscart": (0.5, 2), "masspole": (0.05, 0.5), "length": (0.2, 1), "force_mag": (-20, 20),
                 "tau": (0.005, 0.05)},
        places=(0, 2),
    ),
    "mountain car": Case(
        MOUNTAIN_CAR, MountainCarReference, their_mountain_car, valley_states, valley_margins,
        options=({}, TIMED, *SPEEDS),
        physics={"force": (-0.01, 0.01), "gravity": (-0.01, 0.01)},
    ),
    "mountain car, continuous": Case(
        CONTINUOUS, MountainCarContinuousReference, their_continuous_mountain_car, valley_states, valley_margins,
        options=({}, TIMED, *SPEEDS),
        physics={"power": (-0.01, 0.01), "gravity": (-0.01, 0.01)},
        fixed=("gravity",),
    ),
    "pendulum": Case(
        PENDULUM, PendulumReference, their_pendulum, pendulum_states,
        margins=lambda reference, params: [],
        options=({}, TIMED, {"observe_velocity": False}),
        physics={"g": (1, 20), "m": (0.5, 2), "l": (0.5, 2)},
        places=(0, 1),
    ),
}  # fmt: skip
