"""Whisper: a test env with messages that nobody hears in some steps; with a reference in NumPy."""

from functools import partial
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Metric, Param, Role
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

GROUPS = {"message": (0, 2), "guess": (1,)}


def effects(params):
    """Without noise each message is heard, and there are no flags."""
    return GROUPS if params["noise"] else {}


def box(length):
    return Box(-np.inf, np.inf, (length,), np.float32)


PARAMS = (
    Param("num_whisperers", 2, "int32", "whisperers in a world", low=1, high=1000),
    Param("noise", True, "bool", "True: in two of three steps nobody hears a message, and in one nobody guesses"),
    Param("quiet", 0, "int32", "1: a mask forbids the last word", low=0, high=1),
    TIME_LIMIT,
)
STATE = (
    Field("heard", "int32", ("num_agents",), "sum of the words of the message that was heard last, by whisperer", low=0, high=9),
    Field("secret", "int32", (), "what whisperers should guess", low=0, high=3),
)


def masked(params):
    return (2,) if params["quiet"] else ()


SPEC = EnvSpec(
    name="Whisper-v0",
    kernel=Path(__file__).with_name("whisper.cu"),
    roles=(
        Role("whisperer", "num_whisperers", lambda p: box(3), lambda p: MultiDiscrete([3, 4, 5]), masked, effects=effects),
        Role("listener", 1, lambda p: box(1), lambda p: Discrete(2)),
    ),
    params=PARAMS,
    state=STATE,
    sizes=("num_whisperers",),
    metrics=(Metric("words", "sum", "sum of the words that were heard"),),
    rewards={"guess": "1 for the secret, in steps in which whisperers guess; for the listener 1 for choice 1"},
)

ALIKE = EnvSpec(
    name="WhisperAlike-v0",
    kernel=Path(__file__).with_name("whisper.cu"),
    roles=(Role("whisperer", "num_whisperers", masked=masked, effects=effects),),
    observation=lambda p: box(3),
    action=lambda p: MultiDiscrete([3, 4, 5]),
    params=PARAMS,
    state=STATE,
    sizes=("num_whisperers",),
    metrics=SPEC.metrics,
    rewards=SPEC.rewards,
)
"""The same without a listener: arrays are not by role."""

make_vec, make_alike = partial(GpuVectorEnv, SPEC), partial(GpuVectorEnv, ALIKE)


class Whisper:
    """One world in integers, written from the comments of whisper.cu."""

    def __init__(self, secret, whisperers, noise, t=0, heard=None):
        self.secret, self.noise, self.t = secret, noise, t
        self.heard = np.zeros(whisperers, int) if heard is None else np.array(heard)

    def effects(self):
        """Return whether messages and guesses have an effect in the next step."""
        return (self.t % 3 == 0 or not self.noise, self.t % 3 != 1 or not self.noise)

    def step(self, actions):
        """Return the rewards of the whisperers; a whisperer hears the whisperer before it."""
        speaks, guesses = self.effects()
        reward = (actions[:, 1] == self.secret).astype(np.float32) * guesses
        if speaks:
            self.heard = np.roll(actions[:, 0] + actions[:, 2], 1)
        self.t += 1
        return reward
