"""Spec of the robot warehouse: parameters, state, spaces, rewards. README.md in this folder has the rules."""

from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from gpu_vecenv.envs.rware.floor import floor_of
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Constant, Field, Scratch, Table
from gpu_vecenv.spec.layout import MAX_SCRATCH
from gpu_vecenv.spec.params import Param, Params
from gpu_vecenv.spec.roles import Role
from gpu_vecenv.spec.validation import abbreviated

REWARD_TYPES = ("individual", "global", "two_stage")
COLLISIONS = ("resolve", "end")


def observation_space(params: Params) -> Box:
    """Float32 (8 + 7 C,) for the C cells in sight, with messages (8 + (7 + bits) C,)."""
    cells = (2 * params["sensor_range"] + 1) ** 2
    return Box(-np.inf, np.inf, (8 + cells * (7 + params["msg_bits"]),), np.float32)


def action_space(params: Params) -> Discrete | MultiDiscrete:
    """A move; with messages an entry for each bit follows."""
    return MultiDiscrete([5] + [2] * params["msg_bits"]) if params["msg_bits"] else Discrete(5)


def shelves(params: Params) -> int:
    """Shelves in the warehouse."""
    return len(floor_of(params).homes)


def longer_side(params: Params) -> int:
    """Largest coordinate on the longer side."""
    floor = floor_of(params)
    return max(floor.rows, floor.cols) - 1


def cells_of(params: Params) -> int:
    """Cells of the warehouse."""
    floor = floor_of(params)
    return floor.rows * floor.cols


def grid_length(params: Params) -> int:
    """Cells of both layers of the grid, rounded up to the eight that are cleared at once."""
    return -(-2 * cells_of(params) // 8) * 8


def check(params: Params) -> None:
    """Raise ParameterError if parameters contradict each other."""
    for name, known in (("reward_type", REWARD_TYPES), ("collision", COLLISIONS)):
        if params[name] not in known:
            raise ParameterError(f"WarpRware-v2: {name} must be one of {', '.join(known)}, got {abbreviated(params[name])}.")
    floor, agents, queue = floor_of(params), params["n_agents"], params["request_queue_size"]
    cells = cells_of(params)
    if agents > cells:
        raise ParameterError(f"WarpRware-v2: a warehouse has a cell for each robot, got {cells} cells and {agents} robots.")
    if grid_length(params) // 2 + 4 * agents > MAX_SCRATCH:  # two bytes a cell of the grid, and four numbers of a robot
        raise ParameterError(
            f"WarpRware-v2: the cells of a warehouse and four times its robots are at most {MAX_SCRATCH} together, "
            f"got {cells} cells and {agents} robots."
        )
    if queue >= len(floor.homes):
        raise ParameterError(
            f"WarpRware-v2: request_queue_size must be below the number of shelves, {len(floor.homes)}, because a shelf that is "
            f"not requested takes the place of a delivered one; got {queue}."
        )
    if params["normalised_coordinates"] and min(floor.rows, floor.cols) < 2:
        raise ParameterError(
            f"WarpRware-v2: normalised_coordinates needs two rows and two columns, got {floor.rows} x {floor.cols}."
        )


SPEC = EnvSpec(
    name="WarpRware-v2",
    kernel=Path(__file__).with_name("rware.cu"),
    roles=(Role("agent", "n_agents"),),
    params=(
        Param("shelf_columns", 3, "int32", "columns of blocks of shelves, an odd number; a layout takes their place", low=1),
        Param("column_height", 8, "int32", "rows of a block; a layout takes their place", "cells", low=1, high=255),
        Param("shelf_rows", 1, "int32", "rows of blocks; a layout takes their place", low=1, high=255),
        Param("n_agents", 2, "int32", "robots", low=1),
        Param("msg_bits", 0, "int32", "bits of a message, which robots in sight observe", low=0, high=64),
        Param("sensor_range", 1, "int32", "cells that a robot sees to each side", "cells", low=0, high=16),
        Param("request_queue_size", 2, "int32", "shelves that are requested at a time", low=0),
        Param("max_inactivity_steps", 0, "int32", "steps without a delivery that end an episode; 0 for no end", "steps", low=0),
        Param("max_steps", 500, "int32", "time limit; 0 for none", "steps", low=0),
        Param("reward_type", "individual", None, "who is paid for a delivery: individual, global or two_stage"),
        Param("layout", "", None, "floor plan: lines of x for shelves, . for highways, g for goals; empty for blocks of shelves"),
        Param("normalised_coordinates", False, "bool", "True: a robot observes its x and y over their largest values"),
        Param("collision", "resolve", None, "resolve: robots that block each other wait, as in rware; end: the episode ends"),
    ),
    sizes=("msg_bits", "sensor_range", "request_queue_size"),
    state=(
        Field("agent_pos", "uint8", ("num_agents", 2), "x and y of each robot", "cells", 0, longer_side),
        Field("agent_dir", "uint8", ("num_agents",), "direction: 0 up, 1 down, 2 left, 3 right", low=0, high=3),
        Field("carrying", "int32", ("num_agents",), "shelf that a robot carries, -1 for none", low=-1,
              high=lambda p: shelves(p) - 1),
        Field("has_delivered", "uint8", ("num_agents",), "1 if the shelf of a robot was delivered, in two stages", low=0, high=1),
        Field("shelf_pos", "uint8", (shelves, 2), "x and y of each shelf, that of its robot if it is carried", "cells", 0,
              longer_side),
        Field("request_queue", "uint16", ("request_queue_size",), "shelves that are requested", low=0,
              high=lambda p: shelves(p) - 1),
        Field("message", "uint8", ("num_agents", "msg_bits"), "bits that each robot sent in the last step", low=0, high=1),
        Field("inactive_steps", "int32", (), "steps since the last delivery", "steps", low=0),
    ),
    observation=observation_space,
    action=action_space,
    constants=(
        Constant("rows", lambda p: floor_of(p).rows, "rows of cells", dtype="int32"),
        Constant("cols", lambda p: floor_of(p).cols, "columns of cells", dtype="int32"),
        Constant("goals", lambda p: len(floor_of(p).goals), "goals", dtype="int32"),
        Constant("rewards_all", lambda p: p["reward_type"] == "global", "1 if a delivery pays all robots", dtype="int32"),
        Constant("two_stages", lambda p: p["reward_type"] == "two_stage", "1 if half is paid on return", dtype="int32"),
        Constant("ends_on_collision", lambda p: p["collision"] == "end", "1 if a collision ends the episode", dtype="int32"),
    ),
    tables=(
        Table("highway", lambda p: floor_of(p).highway.ravel(), "1 for cells where no shelf may be put down", dtype="uint8"),
        Table("home", lambda p: floor_of(p).homes, "x and y of each shelf at the start", "cells", dtype="uint8"),
        Table("goal", lambda p: floor_of(p).goals, "x and y of each goal", "cells", dtype="uint8"),
    ),
    scratch=(
        Scratch("here", "int32", ("num_agents",), "cell of each robot"),
        Scratch("target", "int32", ("num_agents",), "cell that each robot asks for"),
        Scratch("ahead", "int32", ("num_agents",), "robot in that cell, -1 for none"),
        Scratch("behind", "int32", ("num_agents",), "robots in the longest chain behind each robot"),
        # Behind four numbers a robot it begins at a multiple of 16 bytes.
        Scratch("grid", "uint16", grid_length, "a layer of robots and one of shelves, or a deck to draw from"),
    ),
    check=check,
    rewards={
        "delivery": "1 for the robot that brings a requested shelf to a goal, for all with `global`; 0.5 with `two_stage`",
        "return": "with `two_stage`, 0.5 for the robot that puts a delivered shelf down",
    },
)  # fmt: skip
