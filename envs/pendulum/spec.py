"""Spec of Pendulum: parameters, state, spaces. The rules are those of Gymnasium's Pendulum-v1."""

import math
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Constant, Field, ResetOption
from gpu_vecenv.spec.params import SMALLEST, TIME_LIMIT, Param, Params
from gpu_vecenv.spec.roles import Role

MAX_SPEED = 8.0
MAX_TORQUE = 2.0
DT = 0.05

_HIGH = np.array([1, 1, MAX_SPEED], np.float32)


def _observation(params: Params) -> Box:
    high = _HIGH if params["observe_velocity"] else _HIGH[:2]
    return Box(-high, high, dtype=np.float32)


SPEC = EnvSpec(
    name="WarpPendulum-v1",
    kernel=Path(__file__).with_name("pendulum.cu"),
    roles=(Role("agent", 1),),
    params=(
        Param("g", 10.0, "float32", "gravity", "m/s^2", per_world=True),
        Param("m", 1.0, "float32", "mass", "kg", low=SMALLEST, per_world=True),
        Param("l", 1.0, "float32", "length", "m", low=SMALLEST, per_world=True),
        Param("observe_velocity", True, "bool", "False: observations leave out the angular velocity"),
        TIME_LIMIT,
    ),
    state=(Field("state", "float32", (2,), "angle from upright, not wrapped, and angular velocity", "rad, rad/s",
                 names=("theta", "theta_dot")),),
    observation=_observation,
    action=lambda params: Box(-MAX_TORQUE, MAX_TORQUE, (1,), np.float32),
    constants=(
        Constant("max_speed", lambda p: MAX_SPEED, "bound of the velocity", "rad/s"),
        Constant("max_torque", lambda p: MAX_TORQUE, "bound of the torque", "N m"),
        Constant("dt", lambda p: DT, "time between steps", "s"),
        Constant("pi", lambda p: math.pi, "half turn", "rad"),
        Constant("two_pi", lambda p: 2 * math.pi, "full turn", "rad"),
    ),
    reset_options=(
        ResetOption("x_init", math.pi, "the start angle lies within plus and minus this"),
        ResetOption("y_init", 1.0, "the start velocity lies within plus and minus this"),
    ),
    rewards={"step": "-(angle^2 + 0.1 velocity^2 + 0.001 torque^2), angle from upright in [-pi, pi], before the step"},
)
