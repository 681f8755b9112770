"""Spec of Speaker and listener. README.md in this folder has the rules."""

from pathlib import Path

from gpu_vecenv.envs.mpe.parts import COMMON, actions, comm, goal, places, row
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.roles import Role

SPEC = EnvSpec(
    name="WarpSimpleSpeakerListener-v4",
    kernel=Path(__file__).with_name("hooks.py"),
    roles=(
        Role("speaker", 1, row(lambda params: 3), actions(moves=False, words=3)),
        Role("listener", 1, row(lambda params: 11), actions()),
    ),
    params=COMMON,
    sizes=("continuous_actions",),
    state=(*places(landmarks=3), comm(speakers=1, words=3), goal(3, "landmark where the listener should go")),
    rewards={"distance": "to both: minus the squared distance of the listener from its landmark"},
)
