"""Spec of Spread: agents cover landmarks. README.md in this folder has the rules."""

from pathlib import Path

from gpu_vecenv.envs.mpe.parts import (
    COMMON,
    LOCAL_RATIO,
    NEIGHBOURS,
    TERMINATE_ON_SUCCESS,
    actions,
    number,
    places,
    row,
    scratch,
    slots,
)
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Scratch
from gpu_vecenv.spec.params import Params
from gpu_vecenv.spec.roles import Role


def features(params: Params) -> int:
    """Length of an observation: velocity, place, landmarks, other agents, and two words of each of these."""
    agents = params["num_landmarks"]
    return 4 + 2 * slots(params, "num_landmark_neighbors", agents) + 4 * slots(params, "num_agent_neighbors", agents - 1)


SPEC = EnvSpec(
    name="WarpSimpleSpread-v3",
    kernel=Path(__file__).with_name("simple_spread.cu"),
    roles=(Role("agent", "num_landmarks"),),
    params=(number("num_landmarks", 3, "landmarks, and agents"), LOCAL_RATIO, TERMINATE_ON_SUCCESS, *NEIGHBOURS, *COMMON),
    sizes=("num_landmarks", "num_agent_neighbors", "num_landmark_neighbors", "continuous_actions"),
    state=places(landmarks="num_landmarks"),
    observation=row(features),
    action=actions(),
    scratch=scratch(
        lambda params: params["num_landmarks"] * features(params),
        1,
        Scratch("before", "float32", ("num_agents", 2), "place of an agent before the step"),
        Scratch("place", "float32", ("num_agents", 2), "place of an agent"),
        Scratch("velocity", "float32", ("num_agents", 2), "velocity of an agent"),
        Scratch("landmark", "float32", ("num_landmarks", 2), "place of a landmark"),
    ),
    rewards={
        "cover": "to all, times 1 - `local_ratio`: minus the distances of the landmarks from the agents nearest to them",
        "collision": "minus `local_ratio` for each other agent that it touches",
    },
)
