"""Members of the argument struct of kernels, in their order."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Constant, Field
from gpu_vecenv.spec.params import Param
from gpu_vecenv.spec.roles import group_sizes

MAX_COUNT = 2**30
"""Largest count of steps or episodes that a state may be set to; kernels count from there in 32 bits."""

WORLD_STATE = (
    Field("t", "int32", (), "steps taken in this episode", "steps", 0, MAX_COUNT),
    Field("seed", "uint64", (), "seed of the world; part of its random key"),
    Field("world_id", "int32", (), "number of the world among the worlds with its seed; part of its random key", low=0),
    Field("episode", "int32", (), "number of the episode since the seed was set, from 0 on; -1 before", low=-1, high=MAX_COUNT),
    Field("terminated", "uint8", (), "1 if the episode ended by the rules and the world was not reset yet", low=0, high=1),
    Field("truncated", "uint8", (), "1 if the episode ended at the time limit and the world was not reset yet", low=0, high=1),
    Field("pool_entry", "int32", (), "index of the reset pool's entry that the episode started from, -1 without a pool", low=-1),
)
"""State fields of every env: time, random key, flags of the end, and the pool entry of the start."""

OBSERVED = {"obs": "float32", "previous_obs": "float32", "final_obs": "float32"}
"""Members of the struct that are addresses of the observations of a group, with their dtypes. Kernels read the previous ones."""

SHARED = {"shared_obs": "float32", "previous_shared_obs": "float32", "final_shared_obs": "float32"}
"""The same for the shared part of observations."""

MASKED = {"action_mask": "uint8", "previous_action_mask": "uint8", "final_action_mask": "uint8"}
"""The same for the masks of actions."""

EFFECTS = {"action_effects": "uint8", "previous_action_effects": "uint8", "final_action_effects": "uint8"}
"""The same for the flags of groups of entries that have an effect."""

RESULTS = {
    "reward": "float32",
    "agent_reward": "float32",
    "agent_alive": "uint8",
    "out_terminated": "uint8",
    "out_truncated": "uint8",
    "out_finished": "uint8",
}
"""Members of the struct that are addresses of the other results of a step, which all groups have in common."""


def output_members(spec: EnvSpec) -> dict[str, str]:
    """Return the members of the struct that are addresses of public arrays, in order, with their dtypes."""
    members: dict[str, str] = {}
    for role in spec.groups:
        arrays = OBSERVED | (SHARED if role.shared else {}) | (MASKED if role.masked else {}) | (EFFECTS if role.effects else {})
        members |= {f"{role.prefix}{name}": dtype for name, dtype in arrays.items()}
    return members | RESULTS | {f"out_episode_{metric.name}": "float32" for metric in spec.metrics}


SELDOM_READ = ("seed", "world_id", "pool_entry")
"""State fields that are read only at starts of episodes and by random draws."""

C_TYPES = {"float32": "float", "float64": "double", "int32": "gv_i32", "int64": "gv_i64", "bool": "gv_i32", "int8": "gv_i8",
           "uint8": "gv_u8", "uint16": "gv_u16", "uint64": "gv_u64"}  # fmt: skip

MAX_REGISTER_NUMBERS = 256
"""Maximum length of the state of a world that a lane holds in variables: about the number of its registers."""

MAX_REGISTER_ENTRIES = 64
"""Maximum entries of an action in single-agent worlds, which hold them in variables."""


def is_single(spec: EnvSpec) -> bool:
    """Return True if a world has one agent that never leaves and a short state of fixed size.

    It also has no arrays by role, workspaces, masks, flags of effect, ``lanes`` or ``work``. Kernels then see ``GV_SINGLE``, and
    a lane holds a world in variables, with its metrics.
    """
    if spec.alive is not None or [role.count for role in spec.roles] != [1] or spec.workspaces:
        return False
    if spec.has_role_arrays or spec.lanes or spec.work or spec.roles[0].masked or spec.roles[0].effects:
        return False
    lengths = [math.prod(n for n in field.shape if isinstance(n, int)) for field in spec.all_state]
    return sum(lengths) <= MAX_REGISTER_NUMBERS and all(isinstance(n, int) for field in spec.state for n in field.shape)


@dataclass(frozen=True)
class Member:
    """One member of the argument struct."""

    name: str
    ctype: str
    dtype: str
    doc: str


DRAWN = (
    ("drawn_actions", "uint8", "random actions of a rollout, of that type; null if actions are given"),
    ("action_choices", "int32", "[num_entries] choices of each entry of an action"),
    ("action_bounds", "float32", "[num_entries, 2] of a box: lower bound, and upper minus lower bound"),
    ("mask_starts", "int32", "[num_entries] index of each entry's first choice in a mask; -1 for entries without a mask"),
)
"""Members of a group that rollouts with random actions read: name, dtype, meaning. The last one is that of groups with masks."""


def struct_members(spec: EnvSpec) -> tuple[Member, ...]:
    """Return the members of the argument struct, which depend on the spec and not on parameter values.

    They are in the order in which a step reads them, with rarely read ones last. On CUDA the struct is constant memory, which is
    not cached when a kernel starts, so a step waits for each cache line that it reads.
    """
    rows = []
    for role in spec.roles:
        rows.append(Member(f"{role.name}_row", "gv_i64", "int64", "first row of the role"))
        rows.append(Member(f"{role.name}_stride", "gv_i64", "int64", "rows from one world to the next"))
    prefixes = [role.prefix for role in spec.groups]
    tables = {table.name for table in spec.tables}
    return (  # members of 4 bytes come in pairs or after all of 8 bytes, so that the struct has no padding
        Member("num_worlds", "gv_i32", "int32", "worlds in this launch"),
        *(Member(f"{prefix}action_type", "gv_i32", "int32", "type of entries: bytes, -1 for int8") for prefix in prefixes),
        Member("autoreset", "gv_i32", "int32", "GV_NEXT_STEP, GV_SAME_STEP or GV_DISABLED"),
        Member("agents_view", "gv_i32", "int32", "1 if flags are written to every agent's row, 0 if to the world's"),
        *([Member("unused", "gv_i32", "int32", "fills the pair")] if len(prefixes) % 2 == 0 else []),
        *(Member(f"{prefix}action", "const void*", "uint64", "rows of indices or of float32") for prefix in prefixes),
        *(
            Member(name, f"{'const ' if name in tables else ''}{C_TYPES[dtype]}*", "uint64", doc)
            for name, dtype, doc in _read_by_every_step(spec)
        ),
        *rows,
        *(Member(name, f"{C_TYPES[dtype]}*", "uint64", doc) for name, dtype, doc in _read_seldom(spec)),
        *(
            Member(f"{prefix}action_stride", "gv_i64", "int64", "bytes from the actions of one step of a rollout to the next")
            for prefix in prefixes
        ),
        Member("fork_seed", "gv_u64", "uint64", "seed of copies with random numbers of their own"),
        *_scalars(spec),
        Member("num_agents", "gv_i32", "int32", "agents in a world"),
        *(
            Member(f"{role.prefix}{name}", "gv_i32", "int32", doc)
            for role in spec.groups
            for name, doc in group_sizes(role).items()
        ),
        Member("num_steps", "gv_i32", "int32", "steps of a rollout"),
        Member("fork_world", "gv_i32", "int32", "number of world 0 among those copies; -1 for copies that keep the random key"),
    )


def _fields(spec: EnvSpec) -> list[tuple[str, str, str]]:
    """Return name, dtype and meaning of the arrays of the state."""
    return [
        (f.name, f.dtype, f"[worlds{''.join(f', {n}' for n in f.extents)}] {f.doc}; {f.unit}")
        for f in spec.all_state + WORLD_STATE
    ]


def _read_by_every_step(spec: EnvSpec) -> list[tuple[str, str, str]]:
    """Return name, dtype and meaning of the arrays that every step may read."""
    fields = _fields(spec)
    arrays = [("may_be_finished", "int32", "[1] 1 if worlds may be finished in same-step mode, after a caller set such a state")]
    arrays += [field for field in fields if field[0] == "t"]
    arrays += [field for field in fields if field[0] not in ("t", *SELDOM_READ)]
    arrays += [
        ("shared_key", "uint64", "[2] seed that all worlds share, and world_id of world 0; world_id 2^31 if they share none"),
        ("reset_bounds", "float32", "reset options in the order of the spec"),
        ("pool_size", "int32", "[1] entries of the reset pool; -1 if it was taken away; 0 if no world ever started from one"),
    ]
    arrays += [(name, dtype, "output rows") for name, dtype in output_members(spec).items()]
    arrays += [(t.name, t.dtype, f"{t.doc}; {t.unit}") for t in spec.tables]
    arrays += [(w.name, w.dtype, f"[worlds, ...] {w.doc}") for w in spec.workspaces]
    return arrays


def _read_seldom(spec: EnvSpec) -> list[tuple[str, str, str]]:
    """Return name, dtype and meaning of the arrays that few steps read."""
    arrays = [field for field in _fields(spec) if field[0] in SELDOM_READ]
    arrays += [(f"{n.name}_by_world", str(n.dtype), f"[worlds] {n.doc}, or null; {n.unit}") for n in numbers_by_world(spec)]
    arrays += [
        ("reset_mask", "uint8", "[worlds] worlds to reset, null for all"),
        ("invalid_actions", "int32", "number of invalid actions so far"),
        *(
            (f"{role.prefix}{name}", dtype, doc)
            for role in spec.groups
            for name, dtype, doc in (DRAWN if role.masked else DRAWN[:3])
        ),
        ("pool_fields", "uint64", "addresses of the pool's arrays in the order of the state; 0 for fields that the env draws"),
        ("copy_fields", "uint64", "addresses of the arrays that worlds are copied from, in the order of the state"),
        ("copy_source", "int32", "[worlds] world to copy into this one, -1 for none"),
    ]
    return arrays


def numbers_by_world(spec: EnvSpec) -> tuple[Param | Constant, ...]:
    """Return the parameters and constants that may have a value by world."""
    return (*(p for p in spec.params if p.per_world), *(c for c in spec.constants if c.by_world))


def _scalars(spec: EnvSpec) -> list[Member]:
    """Return the parameters, constants and lengths of axes, those of 8 bytes first."""
    declared: tuple[Param | Constant, ...] = (*spec.kernel_params, *spec.constants)
    scalars = []
    for number in declared:
        dtype = "int32" if number.dtype == "bool" else str(number.dtype)
        scalars.append(Member(number.name, C_TYPES[dtype], dtype, f"{number.doc}; {number.unit}"))
    scalars += [Member(name, "gv_i32", "int32", f"length of an axis of {f.name}") for f in spec.state for name in f.axes]
    scalars += [Member(str(r.number), "gv_i32", "int32", f"agents of the role {r.name}") for r in spec.roles if callable(r.count)]
    doc = "numbers from the table {} of a world to that of the next; 0 if all share one"
    scalars += [Member(f"{t.name}_stride", "gv_i32", "int32", doc.format(t.name)) for t in spec.tables if t.by_world]
    return sorted(scalars, key=lambda number: number.dtype not in ("float64", "int64"))
