"""Spec of MountainCar: parameters, state, spaces. The rules are those of Gymnasium's MountainCar-v0."""

from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Constant, Field, ResetOption
from gpu_vecenv.spec.params import TIME_LIMIT, Param
from gpu_vecenv.spec.roles import Role

MIN_POSITION = -1.2
MAX_POSITION = 0.6
MAX_SPEED = 0.07
GOAL_POSITION = 0.5

GOAL_VELOCITY = Param("goal_velocity", 0.0, "float32", "least velocity at the goal", "position/step")
GRAVITY = Param("gravity", 0.0025, "float32", "pull of the steepest slope", "position/step^2", per_world=True)

_LOW = np.array([MIN_POSITION, -MAX_SPEED], np.float32)
_HIGH = np.array([MAX_POSITION, MAX_SPEED], np.float32)


def road(goal_position: float) -> tuple[Constant, ...]:
    """The constants that ``valley.h`` reads, with the flag at ``goal_position``."""
    return (
        Constant("min_position", lambda p: MIN_POSITION, "the wall on the left"),
        Constant("max_position", lambda p: MAX_POSITION, "the end on the right"),
        Constant("max_speed", lambda p: MAX_SPEED, "bound of the velocity"),
        Constant("goal_position", lambda p: goal_position, "the flag"),
    )


SPEC = EnvSpec(
    name="WarpMountainCar-v0",
    kernel=Path(__file__).with_name("mountain_car.cu"),
    roles=(Role("agent", 1),),
    params=(
        GOAL_VELOCITY,
        Param("force", 0.001, "float32", "push of one action", "position/step^2", per_world=True),
        GRAVITY,
        TIME_LIMIT,
    ),
    state=(Field("state", "float32", (2,), "position and velocity", "position, position/step",
                 names=("position", "velocity")),),
    observation=lambda params: Box(_LOW, _HIGH, dtype=np.float32),
    action=lambda params: Discrete(3),
    constants=road(GOAL_POSITION),
    reset_options=(
        ResetOption("low", -0.6, "lower bound of the start"),
        ResetOption("high", -0.4, "upper bound of the start"),
    ),
    rewards={"step": "-1 in every step, including the last one"},
)
