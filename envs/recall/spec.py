"""Spec of Recall, a small task of memory: parameters, state, spaces. README.md in this folder has the rules."""

from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Field
from gpu_vecenv.spec.params import Param
from gpu_vecenv.spec.roles import Role

SPEC = EnvSpec(
    name="WarpRecall-v0",
    kernel=Path(__file__).with_name("recall.cu"),
    roles=(Role("agent", 1),),
    params=(
        Param("num_cues", 4, "int32", "cues, and choices of the action", low=2, high=256),
        Param("delay", 64, "int32", "steps from the observation of the cue to that of the question", "steps", low=0, high=10**6),
    ),
    sizes=("num_cues",),
    state=(
        Field("cue", "int32", (), "the cue of this episode", low=0, high=lambda params: params["num_cues"] - 1),
        Field("choice", "int32", (), "action of the last step, -1 before the first; pictures show it", low=-1,
              high=lambda params: params["num_cues"] - 1),
    ),
    observation=lambda params: Box(0.0, 1.0, (params["num_cues"] + 1,), np.float32),
    action=lambda params: Discrete(params["num_cues"]),
    rewards={"answer": "1 in the step that answers if its action is the cue, else 0"},
)  # fmt: skip
