"""Spec of Simple: one agent and a landmark. README.md in this folder has the rules."""

from pathlib import Path

from gpu_vecenv.envs.mpe.parts import COMMON, actions, places, row
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.roles import Role

SPEC = EnvSpec(
    name="WarpSimple-v3",
    kernel=Path(__file__).with_name("hooks.py"),
    roles=(Role("agent", 1),),
    params=COMMON,
    sizes=("continuous_actions",),
    state=places(landmarks=1),
    observation=row(lambda params: 4),
    action=actions(),
    rewards={"distance": "minus the squared distance from the landmark"},
)
