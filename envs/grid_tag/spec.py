"""Spec of gridworld Tag: parameters, state, spaces, rewards."""

from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Constant, Field, Scratch, Table
from gpu_vecenv.spec.params import Param, Params, agent_values
from gpu_vecenv.spec.roles import Role
from gpu_vecenv.spec.validation import abbreviated

ROUNDING = 1.00001
"""Factor on the upper bounds of features, because scaling may round up."""


def observation_space(params: Params) -> Box:
    """Float32 (4 N + 1,): x, y, type and one-hot observer of all N agents, then time; (6,) with partial observation."""
    agents = params["num_taggers"] + 1
    length = 4 * agents + 1 if params["use_full_observation"] else 6
    return Box(0.0, ROUNDING, (length,), np.float32)


def check(params: Params) -> None:
    """Raise ParameterError if parameters contradict each other."""
    if (params["starting_location_x"] is None) != (params["starting_location_y"] is None):
        raise ParameterError("WarpGridTag-v0: give both starting_location_x and starting_location_y, or neither.")
    for name in ("starting_location_x", "starting_location_y"):
        start(params, name)


def start(params: Params, name: str) -> np.ndarray:
    """Explicit cells, float32 (agents,), taggers first; empty if not given."""
    values = agent_values("WarpGridTag-v0", params, name, params["num_taggers"] + 1)
    if not ((values == np.floor(values)) & (values >= 0) & (values <= params["grid_length"])).all():
        raise ParameterError(
            f"WarpGridTag-v0: {name} must be whole numbers from 0 to {params['grid_length']}, got {abbreviated(params[name])}."
        )
    return values.astype(np.float32)


MAX_GATHERED = 2560
"""Most floats of observations that a team gathers in scratch; with more, too few worlds would fit on a multiprocessor."""


def scratch(params: Params) -> int:
    """Return the floats of scratch: all rows of a world, and 10 to align both roles; 1 if rows are written directly."""
    agents = params["num_taggers"] + 1
    floats = agents * (4 * agents + 1)
    return floats + 10 if params["use_full_observation"] and floats <= MAX_GATHERED else 1


SPEC = EnvSpec(
    name="WarpGridTag-v0",
    kernel=Path(__file__).with_name("grid_tag.cu"),
    roles=(Role("tagger", "num_taggers"), Role("runner", 1)),
    params=(
        Param("num_taggers", 4, "int32", "taggers in a world", low=1),
        Param("grid_length", 100, "int32", "largest coordinate L; the board has (L + 1)^2 cells", "cells", low=1, high=4096),
        Param("episode_length", 100, "int32", "time limit", "steps", low=1),
        Param("starting_location_x", None, None, "explicit x of the start cell, one for each agent, the runner last", "cells"),
        Param("starting_location_y", None, None, "explicit y of the start cell, one for each agent, the runner last", "cells"),
        Param("fixed_start", False, "bool", "True: taggers start in the middle, the runner in the corner at 0, 0"),
        Param("wall_hit_penalty", 0.1, "float32", "subtracted from the reward of an agent that moves against a wall"),
        Param("tag_reward_for_tagger", 10.0, "float32", "reward for every tagger when the runner is tagged"),
        Param("tag_penalty_for_runner", 5.0, "float32", "subtracted from the runner's reward when it is tagged"),
        Param("step_cost_for_tagger", 0.01, "float32", "in a step without a tag, the taggers' cost and the runner's reward"),
        Param("use_full_observation", True, "bool", "True: an agent observes all agents; False: itself and one opponent"),
    ),
    state=(
        Field("loc_x", "int32", ("num_agents",), "x of the cell", "cells", 0, lambda p: p["grid_length"]),
        Field("loc_y", "int32", ("num_agents",), "y of the cell", "cells", 0, lambda p: p["grid_length"]),
    ),
    observation=observation_space,
    action=lambda params: Discrete(5),
    sizes=("num_taggers", "use_full_observation"),
    constants=(
        Constant("per_length", lambda p: 1 / p["grid_length"], "scale of positions", "1/cell"),
        Constant("per_episode_length", lambda p: 1 / p["episode_length"], "scale of time", "1/step"),
        Constant("explicit_location", lambda p: p["starting_location_x"] is not None, "1 if cells are given"),
    ),
    tables=(
        Table("start_x", lambda p: start(p, "starting_location_x"), "explicit cells", "cells"),
        Table("start_y", lambda p: start(p, "starting_location_y"), "explicit cells", "cells"),
    ),
    scratch=(Scratch("rows", "float32", scratch, "gathered observations"),),
    check=check,
    limit_is_rule=True,
    rewards={
        "`tag_reward_for_tagger`": "added for every tagger, in the step that tags the runner",
        "`tag_penalty_for_runner`": "subtracted for the runner, in the step that tags it",
        "`step_cost_for_tagger`": "in a step without a tag, subtracted for every tagger and added once for the runner",
        "`wall_hit_penalty`": "subtracted for an agent whose move was stopped by a wall",
    },
)
