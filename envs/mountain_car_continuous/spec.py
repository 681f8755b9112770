"""What MountainCarContinuous is: parameters, state, spaces. The rules are those of Gymnasium's MountainCarContinuous-v0."""

from pathlib import Path

import numpy as np
from gymnasium.spaces import Box

from gpu_vecenv.spec import TIME_LIMIT, Constant, EnvSpec, Field, Param, ResetOption, Role

MIN_POSITION = -1.2
MAX_POSITION = 0.6
MAX_SPEED = 0.07
GOAL_POSITION = 0.45

_LOW = np.array([MIN_POSITION, -MAX_SPEED], np.float32)
_HIGH = np.array([MAX_POSITION, MAX_SPEED], np.float32)

SPEC = EnvSpec(
    name="WarpMountainCarContinuous-v0",
    kernel=Path(__file__).with_name("mountain_car_continuous.cu"),
    roles=(Role("agent", 1),),
    params=(
        Param("goal_velocity", 0.0, "float32", "least velocity at the goal", "position/step"),
        Param("power", 0.0015, "float32", "push of a full action", "position/step^2", per_world=True),
        Param("gravity", 0.0025, "float32", "pull of the steepest slope", "position/step^2", per_world=True),
        TIME_LIMIT,
    ),
    state=(Field("state", "float32", (2,), "position and velocity", "position, position/step"),),
    observation=lambda params: Box(_LOW, _HIGH, dtype=np.float32),
    action=lambda params: Box(-1.0, 1.0, (1,), np.float32),
    constants=(
        Constant("min_position", lambda p: MIN_POSITION, "the wall on the left"),
        Constant("max_position", lambda p: MAX_POSITION, "the end on the right"),
        Constant("max_speed", lambda p: MAX_SPEED, "bound of the velocity"),
        Constant("goal_position", lambda p: GOAL_POSITION, "the flag"),
    ),
    reset_options=(
        ResetOption("low", -0.6, "lower bound of the start"),
        ResetOption("high", -0.4, "upper bound of the start"),
    ),
    rewards={"goal": "100 in the step that arrives", "action": "-0.1 times the square of the action as given, before clipping"},
)
