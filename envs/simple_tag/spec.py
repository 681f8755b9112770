"""Spec of Tag among obstacles. README.md in this folder has the rules."""

from pathlib import Path

from gpu_vecenv.envs.mpe.parts import COMMON, NEIGHBOURS, TERMINATE_ON_SUCCESS, actions, number, places, row, scratch, slots
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.params import Params
from gpu_vecenv.spec.roles import Role


def features(params: Params, seen_good: int) -> int:
    """Length of an observation of an agent that sees a number of good agents: velocity, place, obstacles, others, velocities."""
    peers = params["num_good"] + params["num_adversaries"] - 1
    velocities = slots(params, "num_agent_neighbors", seen_good)
    seen = slots(params, "num_landmark_neighbors", params["num_obstacles"]) + slots(params, "num_agent_neighbors", peers)
    return 4 + 2 * (seen + velocities)


def of_adversary(params: Params) -> int:
    """Length of an observation of an adversary."""
    return features(params, params["num_good"])


def of_agent(params: Params) -> int:
    """Length of an observation of a good agent."""
    return features(params, params["num_good"] - 1)


SPEC = EnvSpec(
    name="WarpSimpleTag-v3",
    kernel=Path(__file__).with_name("simple_tag.cu"),
    roles=(
        Role("adversary", "num_adversaries", row(of_adversary), actions()),
        Role("agent", "num_good", row(of_agent), actions()),
    ),
    params=(
        number("num_good", 1, "good agents"),
        number("num_adversaries", 3, "adversaries"),
        number("num_obstacles", 2, "obstacles", low=0),
        TERMINATE_ON_SUCCESS,
        *NEIGHBOURS,
        *COMMON,
    ),
    sizes=("num_good", "num_adversaries", "num_obstacles", "num_agent_neighbors", "num_landmark_neighbors", "continuous_actions"),
    state=places(landmarks=lambda params: params["num_obstacles"]),
    scratch=scratch(lambda p: p["num_adversaries"] * of_adversary(p) + p["num_good"] * of_agent(p), roles=2),
    rewards={
        "touch": "for each pair of an adversary and a good agent that touch: 10 to all adversaries, -10 to this good agent",
        "outside": "to a good agent: minus the price of its place by each axis, 0 up to 0.9 and 1 at 1, up to 10",
    },
)
