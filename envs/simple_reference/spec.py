"""Spec of Reference: two agents tell each other where to go. README.md in this folder has the rules."""

from pathlib import Path

from gpu_vecenv.envs.mpe.parts import COMMON, LOCAL_RATIO, actions, comm, goal, places, row, scratch
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.roles import Role

WORDS = 10
FEATURES = 21

SPEC = EnvSpec(
    name="WarpSimpleReference-v3",
    kernel=Path(__file__).with_name("simple_reference.cu"),
    roles=(Role("agent", 2),),
    params=(LOCAL_RATIO, *COMMON),
    sizes=("continuous_actions",),
    state=(
        *places(landmarks=3),
        comm(speakers=2, words=WORDS),
        goal(3, "landmark that an agent knows: the target of the other one", shape=(2,)),
    ),
    observation=row(lambda params: FEATURES),
    action=actions(words=WORDS),
    scratch=scratch(lambda params: 2 * FEATURES, roles=1),
    rewards={
        "own": "times `local_ratio`: minus the distance of the other agent from its target",
        "mean": "times 1 - `local_ratio`: the mean of that over both agents",
    },
)
