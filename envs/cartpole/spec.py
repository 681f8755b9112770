"""What CartPole is: parameters, state, spaces. The rules are those of Gymnasium's CartPole-v1."""

import math
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv.spec import Constant, EnvSpec, Field, Param, ResetOption, Role

GRAVITY = 9.8
MASS_CART = 1.0
MASS_POLE = 0.1
HALF_LENGTH = 0.5
FORCE = 10.0
TAU = 0.02
X_THRESHOLD = 2.4
THETA_THRESHOLD = 12 * 2 * math.pi / 360

_HIGH = np.array([2 * X_THRESHOLD, np.inf, 2 * THETA_THRESHOLD, np.inf], dtype=np.float32)

SPEC = EnvSpec(
    name="WarpCartPole-v1",
    kernel=Path(__file__).with_name("cartpole.cu"),
    roles=(Role("agent", 1),),
    params=(
        Param("sutton_barto_reward", False, "bool", "0 a step and -1 at the end, instead of 1 a step"),
        Param("max_episode_steps", 0, "int32", "time limit; 0 for none", "steps", low=0),
    ),
    state=(Field("state", "float32", (4,), "cart position, cart velocity, pole angle, pole angular velocity",
                 "m, m/s, rad, rad/s"),),
    observation=lambda params: Box(-_HIGH, _HIGH, dtype=np.float32),
    action=lambda params: Discrete(2),
    constants=(
        Constant("gravity", lambda p: GRAVITY, "gravity", "m/s^2"),
        Constant("masspole", lambda p: MASS_POLE, "mass of the pole", "kg"),
        Constant("total_mass", lambda p: MASS_CART + MASS_POLE, "cart and pole", "kg"),
        Constant("length", lambda p: HALF_LENGTH, "half the pole's length", "m"),
        Constant("polemass_length", lambda p: MASS_POLE * HALF_LENGTH, "mass times half length", "kg m"),
        Constant("force_mag", lambda p: FORCE, "push of one action", "N"),
        Constant("tau", lambda p: TAU, "time between steps", "s"),
        Constant("four_thirds", lambda p: 4 / 3, "moment of inertia of a uniform rod"),
        Constant("x_threshold", lambda p: X_THRESHOLD, "the episode ends beyond", "m"),
        Constant("theta_threshold", lambda p: THETA_THRESHOLD, "the episode ends beyond", "rad"),
    ),
    reset_options=(
        ResetOption("low", -0.05, "lower bound of each state entry at the start"),
        ResetOption("high", 0.05, "upper bound of each state entry at the start"),
    ),
    rewards={"step": "1 a step, the last one included; with `sutton_barto_reward` 0, and -1 in the step that falls"},
)
