"""Draws one world of MountainCarContinuous: the picture of MountainCar with this env's goal."""

from __future__ import annotations

from gpu_vecenv.envs.mountain_car.render import Renderer as MountainCarRenderer
from gpu_vecenv.envs.mountain_car_continuous.spec import GOAL_POSITION


class Renderer(MountainCarRenderer):
    """Pictures of one world; see the base class."""

    title = "MountainCarContinuous"
    goal = GOAL_POSITION
