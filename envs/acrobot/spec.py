"""Spec of Acrobot: parameters, state, spaces. The rules are those of Gymnasium's Acrobot-v1."""

import math
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Constant, Field, ResetOption
from gpu_vecenv.spec.params import SMALLEST, TIME_LIMIT, Param
from gpu_vecenv.spec.roles import Role

DT = 0.2
MAX_VEL_1 = 4 * math.pi
MAX_VEL_2 = 9 * math.pi

_HIGH = np.array([1, 1, 1, 1, MAX_VEL_1, MAX_VEL_2], np.float32)

SPEC = EnvSpec(
    name="WarpAcrobot-v1",
    kernel=Path(__file__).with_name("acrobot.cu"),
    roles=(Role("agent", 1),),
    params=(
        Param("gravity", 9.8, "float32", "gravity", "m/s^2", per_world=True),
        Param("link_length_1", 1.0, "float32", "length of the first link", "m", low=SMALLEST, per_world=True),
        Param("link_mass_1", 1.0, "float32", "mass of the first link", "kg", low=SMALLEST, per_world=True),
        Param("link_mass_2", 1.0, "float32", "mass of the second link", "kg", low=SMALLEST, per_world=True),
        Param("link_com_pos_1", 0.5, "float32", "centre of mass of the first link", "m", low=SMALLEST, per_world=True),
        Param("link_com_pos_2", 0.5, "float32", "centre of mass of the second link", "m", low=SMALLEST, per_world=True),
        Param("link_moi", 1.0, "float32", "moment of inertia of each link", "kg m^2", low=SMALLEST, per_world=True),
        Param("book_dynamics", True, "bool", "True: equations of the book; False: those of the 1996 paper"),
        TIME_LIMIT,
    ),
    state=(
        Field("state", "float32", (4,), "angle of the first link from hanging, angle of the second to the first, velocities",
              "rad, rad, rad/s, rad/s", names=("theta1", "theta2", "speed1", "speed2")),
    ),
    observation=lambda params: Box(-_HIGH, _HIGH, dtype=np.float32),
    action=lambda params: Discrete(3),
    constants=(
        Constant("dt", lambda p: DT, "time between steps", "s"),
        Constant("dt_sixth", lambda p: DT / 6, "a sixth of a step, weight of Runge-Kutta rates", "s"),
        Constant("pi", lambda p: math.pi, "half turn", "rad"),
        Constant("two_pi", lambda p: 2 * math.pi, "full turn", "rad"),
        Constant("max_vel_1", lambda p: MAX_VEL_1, "bound of the first velocity", "rad/s"),
        Constant("max_vel_2", lambda p: MAX_VEL_2, "bound of the second velocity", "rad/s"),
    ),
    reset_options=(
        ResetOption("low", -0.1, "lower bound of each state entry at the start"),
        ResetOption("high", 0.1, "upper bound of each state entry at the start"),
    ),
    rewards={"step": "-1 in every step, but 0 in the step that reaches the line"},
)
