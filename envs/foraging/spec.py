"""Spec of level-based foraging: parameters, state, spaces, rewards. README.md in this folder has the rules."""

from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Field, Scratch
from gpu_vecenv.spec.params import Param, Params
from gpu_vecenv.spec.roles import Role

HIGHEST = 1000
"""Highest level of a player and bound of the levels of food, so that sums and products of levels are exact in float32."""

SUMMED = 3
"""Players with the lowest levels, whose sum is the highest level of food with ``max_food_level=0``."""


def highest_food(params: Params) -> int:
    """Return the highest level that food may have, over all draws of the players' levels."""
    return int(params["max_food_level"] or min(SUMMED, params["players"]) * params["max_player_level"])


def observation_space(params: Params) -> Box:
    """Float32 (3 F + 3 P,) for F foods and P players, each with row, column and level; players without level if it is hidden."""
    last = [params["rows"] - 1, params["cols"] - 1]
    levels = params["observe_agent_levels"]
    player_low, player_high = ([-1, -1, 0], [*last, params["max_player_level"]]) if levels else ([-1, -1], last)
    foods, players = params["max_num_food"], params["players"]
    low = [-1, -1, 0] * foods + player_low * players
    high = [*last, highest_food(params)] * foods + player_high * players
    return Box(np.array(low, np.float32), np.array(high, np.float32), dtype=np.float32)


def check(params: Params) -> None:
    """Raise ParameterError if parameters contradict each other."""
    if params["players"] > params["rows"] * params["cols"]:
        cells = params["rows"] * params["cols"]
        raise ParameterError(f"WarpForaging-v3: players must be at most the {cells} cells, got {params['players']}.")
    if params["min_player_level"] > params["max_player_level"]:
        got = f"{params['min_player_level']} and {params['max_player_level']}"
        raise ParameterError(f"WarpForaging-v3: min_player_level must be at most max_player_level, got {got}.")
    lowest, highest = params["min_food_level"], params["max_food_level"]
    if highest:
        if lowest > highest:
            raise ParameterError(f"WarpForaging-v3: min_food_level must be at most max_food_level, got {lowest} and {highest}.")
    elif not params["force_coop"]:
        least = min(SUMMED, params["players"]) * params["min_player_level"]
        if lowest > least:
            raise ParameterError(
                f"WarpForaging-v3: min_food_level must be at most {least}, the least sum of the {SUMMED} lowest player levels, "
                f"got {lowest}; or give max_food_level."
            )


SPEC = EnvSpec(
    name="WarpForaging-v3",
    kernel=Path(__file__).with_name("foraging.cu"),
    roles=(Role("agent", "players"),),
    params=(
        Param("players", 2, "int32", "players P in a world", low=1, high=255),
        Param("rows", 8, "int32", "rows of the board", "cells", low=3, high=255),
        Param("cols", 8, "int32", "columns of the board", "cells", low=3, high=255),
        Param("max_num_food", 1, "int32", "most foods F on the board", low=1, high=1000),
        Param("sight", 8, "int32", "rows and columns that a player sees to each side", "cells", low=0, high=255),
        Param("max_episode_steps", 50, "int32", "time limit", "steps", low=1),
        Param("force_coop", False, "bool", "True: all food has the highest level"),
        Param("normalize_reward", True, "bool", "True: rewards of all players for all food of an episode sum to 1"),
        Param("observe_agent_levels", True, "bool", "True: observations have the levels of players"),
        Param("penalty", 0.0, "float32", "subtracted from the reward of a player that loads in vain"),
        Param("min_player_level", 1, "int32", "lowest level of a player", low=1, high=HIGHEST),
        Param("max_player_level", 2, "int32", "highest level of a player", low=1, high=HIGHEST),
        Param("min_food_level", 1, "int32", "lowest level of food", low=1, high=HIGHEST),
        Param("max_food_level", 0, "int32", "highest level of food; 0 for the sum of the three lowest player levels", low=0,
              high=SUMMED * HIGHEST),
    ),
    state=(
        Field("player_pos", "int32", ("num_agents", 2), "row and column of each player", "cells", 0,
              lambda p: max(p["rows"], p["cols"]) - 1),
        Field("player_level", "int32", ("num_agents",), "level of each player", low=1, high=HIGHEST),
        Field("food", "int32", ("rows", "cols"), "level of the food in each cell, 0 without food", low=0, high=SUMMED * HIGHEST),
        Field("food_spawned", "int32", (), "sum of the levels of all food at the start", low=0),
    ),
    observation=observation_space,
    action=lambda params: Discrete(6),
    sizes=("rows", "cols", "max_num_food", "observe_agent_levels"),
    scratch=(
        Scratch("target", "int32", ("num_agents",), "cell that each player moves to or stays in"),
        Scratch("wanted", "int32", ("num_agents",), "cell of the food that each player loads, -1 for none"),
        Scratch("loaded", "int32", ("num_agents",), "1 for each player whose food is loaded"),
        Scratch("num_foods", "int32", (1,), "foods on the board"),
        Scratch("noted", "int32", ("max_num_food",), "cells of the foods, in any order"),
        Scratch("foods", "int32", ("max_num_food",), "cells of the foods, row by row"),
    ),
    check=check,
    rewards={
        "food": "its level times the player's, divided by the summed levels of those that load it and by `food_spawned`",
        "food, `normalize_reward` False": "its level times the player's",
        "`penalty`": "subtracted for each player that loads food of a level above the sum of those that load it",
    },
)  # fmt: skip
