"""Spec of MountainCarContinuous: MountainCar's with another action, goal and reward, by Gymnasium's MountainCarContinuous-v0."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box

from gpu_vecenv.envs.mountain_car.spec import GOAL_VELOCITY, GRAVITY, road
from gpu_vecenv.envs.mountain_car.spec import SPEC as MOUNTAIN_CAR
from gpu_vecenv.spec.params import TIME_LIMIT, Param

GOAL_POSITION = 0.45

SPEC = replace(
    MOUNTAIN_CAR,
    name="WarpMountainCarContinuous-v0",
    kernel=Path(__file__).with_name("mountain_car_continuous.cu"),
    params=(
        GOAL_VELOCITY,
        Param("power", 0.0015, "float32", "push of a full action", "position/step^2", per_world=True),
        GRAVITY,
        TIME_LIMIT,
    ),
    action=lambda params: Box(-1.0, 1.0, (1,), np.float32),
    constants=road(GOAL_POSITION),
    rewards={"goal": "100 in the step that reaches the goal", "action": "-0.1 times the square of the action before clipping"},
)
