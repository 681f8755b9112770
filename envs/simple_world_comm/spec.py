"""Spec of World comm: a hunt among forests and food. README.md in this folder has the rules."""

from pathlib import Path

from gpu_vecenv.envs.mpe.parts import COMMON, actions, comm, number, places, row, scratch
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.params import Params
from gpu_vecenv.spec.roles import Role

WORDS = 4


def landmarks(params: Params) -> int:
    """Return the number of obstacles, food and forests."""
    return int(params["num_obstacles"] + params["num_food"] + params["num_forests"])


def of_agent(params: Params) -> int:
    """Length of an observation of a good agent: velocity, place, landmarks, others, forests, velocities of good agents."""
    good, adversaries, forests = (int(params[f"num_{kind}"]) for kind in ("good", "adversaries", "forests"))
    return 4 + 2 * (landmarks(params) + good + adversaries - 1 + good - 1) + forests


def of_adversary(params: Params) -> int:
    """Length of an observation of an adversary: that of a good agent, one more velocity, and the leader's words."""
    return of_agent(params) + 2 + WORDS


SPEC = EnvSpec(
    name="WarpSimpleWorldComm-v3",
    kernel=Path(__file__).with_name("simple_world_comm.cu"),
    roles=(
        Role("leadadversary", 1, row(of_adversary), actions(words=WORDS)),
        Role("adversary", lambda params: params["num_adversaries"] - 1, row(of_adversary), actions()),
        Role("agent", "num_good", row(of_agent), actions()),
    ),
    params=(
        number("num_good", 2, "good agents"),
        number("num_adversaries", 4, "adversaries, the leader included", low=2),
        number("num_obstacles", 1, "obstacles", low=0),
        number("num_food", 2, "places of food"),
        number("num_forests", 2, "forests", low=0),
        *COMMON,
    ),
    sizes=("num_good", "num_adversaries", "num_obstacles", "num_food", "num_forests", "continuous_actions"),
    state=(*places(landmarks=landmarks), comm(speakers=1, words=WORDS)),
    scratch=scratch(lambda p: p["num_adversaries"] * of_adversary(p) + p["num_good"] * of_agent(p), roles=3),
    rewards={
        "touch": "for each pair of an adversary and a good agent that touch: 5 to all adversaries, -5 to this good agent",
        "hunt": "to an adversary: -0.1 times its distance from the nearest good agent",
        "food": "to a good agent: 2 for each food that it touches, -0.05 times its distance from the nearest",
        "outside": "to a good agent: -2 times the price of its place by each axis, which is 0 up to 0.9 and 1 at 1, up to 10",
    },
)
