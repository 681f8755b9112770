"""Spec of continuous Tag: parameters, state, spaces, rewards."""

import math
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Constant, Field, Scratch, Table, Workspace
from gpu_vecenv.spec.layout import MAX_SCRATCH
from gpu_vecenv.spec.library import neighbours_floats
from gpu_vecenv.spec.params import LARGEST, SMALLEST, Param, Params, agent_values
from gpu_vecenv.spec.roles import Role
from gpu_vecenv.spec.validation import abbreviated

ROUNDING = 1.00001
"""Factor on the bounds of scaled features, because scaling may round up."""

FEATURES = 7
"""Channels of an observation: x, y, speed, acceleration, direction, type, alive of the others; then one time value."""


def action_table(low: float, high: float, levels: int) -> np.ndarray:
    """Change that each index of an action entry selects, float32 (levels + 1,): 0, then even steps from low to high."""
    return np.concatenate([[0.0], np.linspace(low, high, levels)]).astype(np.float32)


def default_observed(params: Params) -> int:
    """10, or all other agents if there are fewer."""
    return min(10, int(params["num_taggers"] + params["num_runners"] - 1))


def observed(params: Params) -> int:
    """Number of agents that an agent observes, w."""
    if params["use_full_observation"]:
        return int(params["num_taggers"] + params["num_runners"] - 1)
    return int(params["num_other_agents_observed"])


def observation_space(params: Params) -> Box:
    """Float32 (7 w + 1,): seven channels of w features, then t / episode_length.

    ``extended_observation`` adds six features: the observer's own x, y, speed, acceleration, direction and type.
    """
    skill = float(np.max([np.max(params["skill_level_runner"]), np.max(params["skill_level_tagger"])]))
    low, high = [], []
    for lowest, highest in ((-1, 1), (-1, 1), (-skill, skill), (-np.inf, np.inf), (-1, 1), (0, 1), (0, 1)):
        low += [lowest * ROUNDING] * observed(params)
        high += [highest * ROUNDING] * observed(params)
    low, high = [*low, 0.0], [*high, ROUNDING]
    if params["extended_observation"]:
        low += [0.0, 0.0, 0.0, -np.inf, 0.0, 0.0]
        high += [ROUNDING, ROUNDING, skill * ROUNDING, np.inf, ROUNDING, ROUNDING]
    return Box(np.array(low, np.float32), np.array(high, np.float32), dtype=np.float32)


def action_space(params: Params) -> Space:
    """Return the action space of an agent.

    It is two indices (acceleration, turn), one index for both with ``flatten_actions``, or two floats (change of acceleration,
    turn) with ``continuous_actions``.
    """
    accelerations, turns = params["num_acceleration_levels"] + 1, params["num_turn_levels"] + 1
    if params["continuous_actions"]:
        low = np.array([np.min(params["min_acceleration"]), np.min(params["min_turn"])], np.float32)
        high = np.array([np.max(params["max_acceleration"]), np.max(params["max_turn"])], np.float32)
        return Box(low, high, dtype=np.float32)
    if params["flatten_actions"]:
        return Discrete(accelerations * turns)
    return MultiDiscrete([accelerations, turns])


def check(params: Params) -> None:
    """Raise ParameterError if parameters contradict each other."""
    agents = params["num_taggers"] + params["num_runners"]
    if not params["use_full_observation"] and params["num_other_agents_observed"] > agents:
        raise ParameterError(
            f"WarpTag-v0: num_other_agents_observed must be at most the number of agents, {agents}, "
            f"got {params['num_other_agents_observed']}."
        )
    for low, high in (("min_acceleration", "max_acceleration"), ("min_turn", "max_turn")):
        if np.any(params[low] > params[high]):
            got = f"{abbreviated(params[low])} and {abbreviated(params[high])}"
            raise ParameterError(f"WarpTag-v0: {low} must not be above {high}, got {got}.")
    if params["continuous_actions"] and params["flatten_actions"]:
        raise ParameterError("WarpTag-v0: flatten_actions joins two discrete entries; continuous_actions has none.")
    x, y = params["starting_location_x"], params["starting_location_y"]
    if (x is None) != (y is None):
        raise ParameterError("WarpTag-v0: give both starting_location_x and starting_location_y, or neither.")
    for name in ("starting_location_x", "starting_location_y", "starting_directions"):
        start(params, name)


def start(params: Params, name: str) -> np.ndarray:
    """Explicit start values, float32 (agents,), taggers first; empty if not given."""
    agents = params["num_taggers"] + params["num_runners"]
    values = agent_values("WarpTag-v0", params, name, agents)
    low, high = (0.0, np.min(params["grid_length"])) if "location" in name else (-LARGEST, LARGEST)
    if not ((values >= low) & (values <= high)).all():
        raise ParameterError(f"WarpTag-v0: {name} must lie within [{low:g}, {high:g}], got {abbreviated(params[name])}.")
    return values.astype(np.float32)


def nearest_shape(params: Params) -> tuple[int, ...]:
    """Return the shape of the workspace ``nearest``: (agents, neighbours observed), or (0,) if all are observed."""
    if params["use_full_observation"]:
        return (0,)
    return (params["num_taggers"] + params["num_runners"], params["num_other_agents_observed"])


MAX_STAGED = 1024
"""Agents up to which CUDA stages motions and rewards; places always are, and the host stages all."""


def search_and_tile(params: Params) -> int:
    """Return the floats of the search for neighbours, and of a tile of rows behind it if agents are staged."""
    agents: int = params["num_taggers"] + params["num_runners"]
    features = len(observation_space(params).low)
    rows = 4608 // features if features > 320 else min(2560 // features, agents)
    search = neighbours_floats(agents, params["num_other_agents_observed"]) + 3 + 10  # for the alignment of a tile
    before = 4 + (agents + 1) // 2 * 4 + (5 * agents if agents <= MAX_STAGED else 0)
    return min(search + (rows * features if agents <= MAX_STAGED else 0), MAX_SCRATCH - before)


SPEC = EnvSpec(
    name="WarpTag-v0",
    kernel=Path(__file__).with_name("tag.cu"),
    roles=(Role("tagger", "num_taggers"), Role("runner", "num_runners", leaving="caught")),
    params=(
        Param("num_taggers", 5, "int32", "taggers in a world", low=1),
        Param("num_runners", 100, "int32", "runners in a world", low=1),
        Param("grid_length", 20.0, "float32", "side of the square [0, L] x [0, L]", "length", low=SMALLEST, per_world=True),
        Param("episode_length", 500, "int32", "time limit", "steps", low=1, per_world=True),
        Param("starting_location_x", None, None, "explicit start position in x, one for each agent, taggers first", "length"),
        Param("starting_location_y", None, None, "explicit start position in y, one for each agent, taggers first", "length"),
        Param("starting_directions", None, None, "explicit start heading, one for each agent, taggers first", "rad"),
        Param("fixed_start", False, "bool", "all worlds and episodes have the same start, drawn from the seed alone"),
        Param("max_speed", 1.0, "float32",
              "top speed of an agent with skill level 1", "length/step", low=SMALLEST, per_world=True),
        Param("skill_level_runner", 1.0, "float32", "factor on the runners' top speed", low=SMALLEST, per_world=True),
        Param("skill_level_tagger", 1.0, "float32", "factor on the taggers' top speed", low=SMALLEST, per_world=True),
        Param("max_acceleration", 0.1, "float32", "largest change of acceleration", "length/step^3", per_world=True),
        Param("min_acceleration", -0.1, "float32", "smallest change of acceleration", "length/step^3", per_world=True),
        Param("max_turn", 2.356, "float32", "largest turn", "rad/step", per_world=True),
        Param("min_turn", -2.356, "float32", "smallest turn", "rad/step", per_world=True),
        Param("num_acceleration_levels", 20, "int32", "acceleration choices in addition to index 0", low=0, high=4096),
        Param("num_turn_levels", 20, "int32", "turn choices in addition to index 0", low=0, high=4096),
        Param("edge_hit_penalty", 0.0, "float32",
              "reward for an agent in each step in which it would leave the square", high=0, per_world=True),
        Param("use_full_observation", False, "bool", "True: an agent observes all others; False: the nearest ones"),
        Param("num_other_agents_observed", default_observed, "int32",
              "number of nearest agents observed; unused if all are observed", low=1),
        Param("extended_observation", False, "bool", "append the observer's position, speed, acceleration, heading and role"),
        Param("tagging_distance", 0.02, "float64",
              "a tagger tags below this distance", "fraction of the side", low=0, high=1, per_world=True),
        Param("tag_reward_for_tagger", 10.0, "float32",
              "reward for the nearest tagger, for each runner that it tags", low=0, per_world=True),
        Param("step_penalty_for_tagger", 0.0, "float32", "reward for each tagger in each step", high=0, per_world=True),
        Param("tag_penalty_for_runner", -10.0, "float32", "reward for a tagged runner", high=0, per_world=True),
        Param("step_reward_for_runner", 0.0, "float32",
              "reward for each runner in the game, in each step", low=0, per_world=True),
        Param("end_of_game_reward_for_runner", 1.0, "float32",
              "reward for each runner in the game at the time limit", low=0, per_world=True),
        Param("runner_exits_game_after_tagged", True, "bool", "True: a tagged runner leaves the game"),
        Param("flatten_actions", False, "bool", "True: one Discrete, acceleration index x (turn levels + 1) + turn index"),
        Param("continuous_actions", False, "bool", "True: a Box of the change of acceleration and the turn"),
    ),
    state=(
        Field("loc_x", "float32", ("num_agents",), "position in x", "length"),
        Field("loc_y", "float32", ("num_agents",), "position in y", "length"),
        Field("speed", "float32", ("num_agents",), "speed", "length/step"),
        Field("direction", "float32", ("num_agents",), "heading in [0, 2 pi]", "rad"),
        Field("acceleration", "float32", ("num_agents",), "accumulated acceleration", "length/step^2"),
        Field("alive", "int32", ("num_agents",), "1 if the agent is in the game, otherwise 0", low=0, high=1),
        Field("tagged_by", "int32", ("num_agents",), "index of the tagger that tagged this runner in the last step, otherwise -1",
              low=-1, high=lambda p: p["num_taggers"] - 1),
    ),
    observation=observation_space,
    action=action_space,
    sizes=("num_taggers", "num_other_agents_observed", "use_full_observation", "extended_observation"),
    constants=(
        Constant("margin", lambda p: p["tagging_distance"] * p["grid_length"], "reach of a tagger", "length",
                 by_world=("tagging_distance", "grid_length")),
        Constant("tagger_top_speed", lambda p: p["max_speed"] * p["skill_level_tagger"], "top speed", "length/step",
                 by_world=("max_speed", "skill_level_tagger")),
        Constant("runner_top_speed", lambda p: p["max_speed"] * p["skill_level_runner"], "top speed", "length/step",
                 by_world=("max_speed", "skill_level_runner")),
        Constant("two_pi", lambda p: 2 * math.pi, "full turn", "rad"),
        Constant("quarter_turn", lambda p: math.pi / 2, "quarter of a turn", "rad"),
        Constant("per_length", lambda p: 1 / p["grid_length"], "scale of the observer's own position", "1/length",
                 by_world=("grid_length",)),
        Constant("per_diagonal", lambda p: 1 / (p["grid_length"] * math.sqrt(2)), "scale of positions", "1/length",
                 by_world=("grid_length",)),
        Constant("per_max_speed", lambda p: 1 / (p["max_speed"] + 1e-10), "scale of speeds and accelerations",
                 by_world=("max_speed",)),
        Constant("per_turn", lambda p: 1 / (2 * math.pi), "scale of headings", "1/rad"),
        Constant("per_episode_length", lambda p: 1 / p["episode_length"], "scale of time", "1/step",
                 by_world=("episode_length",)),
        Constant("explicit_location", lambda p: p["starting_location_x"] is not None, "1 if starts are given"),
        Constant("explicit_direction", lambda p: p["starting_directions"] is not None, "1 if headings are given"),
    ),
    tables=(
        Table("acceleration_table",
              lambda p: action_table(p["min_acceleration"], p["max_acceleration"], p["num_acceleration_levels"]),
              "action index to change of acceleration", "length/step^3", by_world=("min_acceleration", "max_acceleration")),
        Table("turn_table", lambda p: action_table(p["min_turn"], p["max_turn"], p["num_turn_levels"]),
              "action index to turn", "rad", by_world=("min_turn", "max_turn")),
        Table("start_x", lambda p: start(p, "starting_location_x"), "explicit starts", "length"),
        Table("start_y", lambda p: start(p, "starting_location_y"), "explicit starts", "length"),
        Table("start_direction", lambda p: start(p, "starting_directions"), "explicit headings", "rad"),
    ),
    workspaces=(Workspace("nearest", "uint16", nearest_shape, 0xFFFF, "nearest agents of each agent at the last observation"),),
    scratch=(
        Scratch("tags", "int32", (), "tags in the step"),
        Scratch("time", "float32", (), "time as observed"),
        Scratch("place", "float32", ("num_agents", 2), "places", align=4),
        Scratch("unpaired", "float32", (2,), "a place behind those of an odd number of agents"),
        Scratch("motion", "float32", ("num_agents", 4), "speed, acceleration, direction, type", align=4, most=4 * MAX_STAGED),
        Scratch("reward", "float32", ("num_agents",), "rewards before tags", most=MAX_STAGED),
        Scratch("search", "float32", search_and_tile, "memory of the search for neighbours, then gathered rows"),
    ),
    alive="alive",
    check=check,
    limit_is_rule=True,
    rewards={
        "`edge_hit_penalty`": "for an agent in the game, in each step in which its move would leave the square",
        "`step_penalty_for_tagger`, `step_reward_for_runner`": "for every agent of the role in the game, in each step",
        "`tag_reward_for_tagger`": "for the nearest tagger, for each runner that it tags in the step",
        "`tag_penalty_for_runner`": "for a tagged runner",
        "`end_of_game_reward_for_runner`": "at the time limit, for every runner that is in the game after this step's tags",
    },
)
