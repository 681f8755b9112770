"""Spec of Push: an adversary keeps an agent away from its landmark. README.md in this folder has the rules."""

from pathlib import Path

from gpu_vecenv.envs.mpe.parts import COMMON, actions, goal, places, row, scratch
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.roles import Role

SPEC = EnvSpec(
    name="WarpSimplePush-v3",
    kernel=Path(__file__).with_name("simple_push.cu"),
    roles=(
        Role("adversary", 1, row(lambda params: 8), actions()),
        Role("agent", 1, row(lambda params: 19), actions()),
    ),
    params=COMMON,
    sizes=("continuous_actions",),
    state=(*places(landmarks=2), goal(2, "landmark that is the target; the good agent knows it")),
    scratch=scratch(lambda params: 27, roles=2),
    rewards={
        "agent": "to the good agent: minus its distance from the target",
        "adversary": "to the adversary: the good agent's distance from the target, minus its distance",
    },
)
