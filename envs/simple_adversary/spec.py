"""Spec of Adversary: agents hide their target from it. README.md in this folder has the rules."""

from pathlib import Path

from gpu_vecenv.envs.mpe.parts import COMMON, NEIGHBOURS, actions, goal, number, places, row, scratch, slots
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.params import Params
from gpu_vecenv.spec.roles import Role


def of_adversary(params: Params) -> int:
    """Length of an observation of the adversary: landmarks, and other agents, which are as many."""
    landmarks = params["num_landmarks"]
    return 2 * (slots(params, "num_landmark_neighbors", landmarks) + slots(params, "num_agent_neighbors", landmarks))


def of_agent(params: Params) -> int:
    """Length of an observation of a good agent: the target, and what the adversary observes."""
    return 2 + of_adversary(params)


SPEC = EnvSpec(
    name="WarpSimpleAdversary-v3",
    kernel=Path(__file__).with_name("simple_adversary.cu"),
    roles=(
        Role("adversary", 1, row(of_adversary), actions()),
        Role("agent", "num_landmarks", row(of_agent), actions()),
    ),
    params=(number("num_landmarks", 2, "landmarks, and good agents"), *NEIGHBOURS, *COMMON),
    sizes=("num_landmarks", "num_agent_neighbors", "num_landmark_neighbors", "continuous_actions"),
    state=(
        *places(landmarks="num_landmarks"),
        goal(lambda params: params["num_landmarks"], "landmark that is the target; good agents know it"),
    ),
    scratch=scratch(lambda params: of_adversary(params) + params["num_landmarks"] * of_agent(params), roles=2),
    rewards={
        "adversary": "to the adversary: minus its distance from the target",
        "good": "to good agents: the adversary's distance from the target, minus that of the nearest good agent",
    },
)
