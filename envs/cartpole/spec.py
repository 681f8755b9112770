"""Spec of CartPole: parameters, state, spaces. The rules are those of Gymnasium's CartPole-v1."""

import math
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Constant, Field, ResetOption
from gpu_vecenv.spec.params import SMALLEST, TIME_LIMIT, Param, Params
from gpu_vecenv.spec.roles import Role

X_THRESHOLD = 2.4
THETA_THRESHOLD = 12 * 2 * math.pi / 360

_HIGH = np.array([2 * X_THRESHOLD, np.inf, 2 * THETA_THRESHOLD, np.inf], dtype=np.float32)


def _observation(params: Params) -> Box:
    high = _HIGH if params["observe_velocity"] else _HIGH[::2]
    return Box(-high, high, dtype=np.float32)


SPEC = EnvSpec(
    name="WarpCartPole-v1",
    kernel=Path(__file__).with_name("cartpole.cu"),
    roles=(Role("agent", 1),),
    params=(
        Param("sutton_barto_reward", False, "bool", "True: reward 0 in each step and -1 at termination, not 1 in each step"),
        Param("gravity", 9.8, "float32", "gravity", "m/s^2", per_world=True),
        Param("masscart", 1.0, "float32", "mass of the cart", "kg", low=SMALLEST, per_world=True),
        Param("masspole", 0.1, "float32", "mass of the pole", "kg", low=SMALLEST, per_world=True),
        Param("length", 0.5, "float32", "half the pole's length", "m", low=SMALLEST, per_world=True),
        Param("force_mag", 10.0, "float32", "push of one action", "N", per_world=True),
        Param("tau", 0.02, "float32", "time between steps", "s", low=SMALLEST, per_world=True),
        Param("observe_velocity", True, "bool", "False: observations leave out both velocities"),
        TIME_LIMIT,
    ),
    state=(Field("state", "float32", (4,), "cart position, cart velocity, pole angle, pole angular velocity",
                 "m, m/s, rad, rad/s", names=("x", "x_dot", "theta", "theta_dot")),),
    observation=_observation,
    action=lambda params: Discrete(2),
    constants=(
        Constant("four_thirds", lambda p: 4 / 3, "moment of inertia of a uniform rod"),
        Constant("x_threshold", lambda p: X_THRESHOLD, "largest distance from the middle; beyond it the episode ends", "m"),
        Constant("theta_threshold", lambda p: THETA_THRESHOLD, "largest angle; beyond it the episode ends", "rad"),
    ),
    reset_options=(
        ResetOption("low", -0.05, "lower bound of each state entry at the start"),
        ResetOption("high", 0.05, "upper bound of each state entry at the start"),
    ),
    rewards={"step": "1 in every step, including the last one; with `sutton_barto_reward` 0, and -1 in the step that terminates"},
)
