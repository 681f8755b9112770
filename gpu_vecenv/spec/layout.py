"""Memory layout of an env: members of the argument struct, and the arrays at the addresses in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.env_spec import EnvSpec, Field, Params

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

OUTPUTS = {
    "obs": "float32",
    "previous_obs": "float32",
    "final_obs": "float32",
    "reward": "float32",
    "agent_reward": "float32",
    "agent_alive": "uint8",
    "out_terminated": "uint8",
    "out_truncated": "uint8",
    "out_finished": "uint8",
}
"""Members of the struct that are addresses of public arrays, with their dtypes. Kernels read ``previous_obs``."""

SELDOM_READ = ("seed", "world_id", "pool_entry")
"""State fields that are read only at starts of episodes and by random draws."""

MODULES = (("gv_step", "gv_reset", "gv_observe", "gv_copy"), ("gv_rollout",))
"""Kernels of every env. Each tuple is a module, which CUDA compiles at once (``GV_MODULE`` is its index)."""

KERNELS = tuple(name for module in MODULES for name in module)

MAX_SCRATCH = 12160
"""Maximum floats of scratch of a team: 48 KiB of shared memory minus the partial sums of ``gv_sum``."""

HOST_SCRATCH = 40960
"""Floats of scratch on the host, where sizes are known at run time only: enough for the largest Tag."""

MAX_AGENTS = 4096
MAX_ENTRIES = 64
C_TYPES = {"float32": "float", "int32": "gv_i32", "bool": "gv_i32", "uint8": "gv_u8", "uint16": "gv_u16", "uint64": "gv_u64"}


@dataclass(frozen=True)
class Member:
    """One member of the argument struct."""

    name: str
    ctype: str
    dtype: str
    doc: str


@dataclass(frozen=True)
class Layout:
    """Memory layout of one env with resolved parameters: struct, sizes, rows of roles."""

    spec: EnvSpec
    params: Params

    def __post_init__(self) -> None:
        names = [member.name for member in self.members]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ParameterError(
                f"{self.spec.name}: {', '.join(map(repr, twice))} would be twice in the kernel's argument struct; "
                "rename the field, parameter, constant, table or workspace."
            )
        if not 1 <= self.num_agents <= MAX_AGENTS:
            raise ParameterError(
                f"{self.spec.name}: a world holds 1 to {MAX_AGENTS} agents, got {self.num_agents}."
            )
        if not 1 <= self.num_entries <= MAX_ENTRIES:
            raise ParameterError(f"{self.spec.name}: an action has 1 to {MAX_ENTRIES} entries, got {self.num_entries}.")
        _ = self.scalars, self.tables  # raise ParameterError if the parameters give infinite numbers

    @cached_property
    def role_counts(self) -> dict[str, int]:
        """Agents of each role in a world."""
        return self.spec.role_counts(self.params)

    @cached_property
    def num_agents(self) -> int:
        """Agents in a world."""
        return sum(self.role_counts.values())

    @cached_property
    def num_features(self) -> int:
        """Features of an agent's observation."""
        shape = self.spec.observation(self.params).shape
        return int(np.prod(shape if shape is not None else ()))

    @cached_property
    def num_entries(self) -> int:
        """Entries of an agent's action."""
        return int(np.prod(self.spec.action(self.params).shape or ()))

    @cached_property
    def continuous(self) -> bool:
        """True if actions are numbers of a box, False if they are indices."""
        return isinstance(self.spec.action(self.params), Box)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Sizes by name. They are constants in CUDA kernels; the prebuilt CPU kernels read them from the struct."""
        own = {name: int(self.params[name]) for name in self.spec.sizes}
        return {"num_agents": self.num_agents, "num_features": self.num_features, "num_entries": self.num_entries,
                "continuous": int(self.continuous), **own}  # fmt: skip

    @cached_property
    def state(self) -> tuple[Field, ...]:
        """All state fields: those of the spec, then ``WORLD_STATE``."""
        return self.spec.state + WORLD_STATE

    def state_shape(self, field: Field, num_worlds: int) -> tuple[int, ...]:
        """Return the shape of a state array."""
        return (num_worlds, *(self.sizes[n] if isinstance(n, str) else n for n in field.shape))

    @cached_property
    def workspaces(self) -> dict[str, tuple[tuple[int, ...], str, int]]:
        """Shape in one world, dtype and initial value of each workspace, by name."""
        return {w.name: (w.shape(self.params), w.dtype, w.fill) for w in self.spec.workspaces}

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """Struct members, without padding between them."""
        return struct_members(self.spec)

    @cached_property
    def dtype(self) -> np.dtype:
        """NumPy dtype of the struct. The generated header asserts the same offsets in C."""
        return np.dtype([(member.name, member.dtype) for member in self.members], align=True)

    @cached_property
    def scalars(self) -> dict[str, float]:
        """Values of members that are fixed when the env is made: sizes, parameters and constants.

        Raises:
            ParameterError: a constant is not finite.
        """
        params = {p.name: self.params[p.name] for p in self.spec.kernel_params if p.name not in self.per_world}
        constants = {c.name: self._finite(f"{c.name} ({c.doc})", c.value) for c in self.spec.constants}
        return {**self.sizes, **params, **{name: float(value) for name, value in constants.items()}}

    @cached_property
    def tables(self) -> dict[str, np.ndarray]:
        """Values of each table as float32, by name.

        Raises:
            ParameterError: a value is not finite.
        """
        return {table.name: self._finite(f"{table.name} ({table.doc})", table.values) for table in self.spec.tables}

    def _finite(self, what: str, values: Callable[[Params], Any]) -> np.ndarray:
        """Compute float32 numbers from the parameters. Kernels convert some to indices, so all must be finite."""
        with np.errstate(all="ignore"):
            try:
                found = np.asarray(values(self.params)).astype(np.float32)
            except (ArithmeticError, ValueError):  # such as the logarithm of 0
                found = np.asarray(np.inf, np.float32)
        if not np.isfinite(found).all():
            raise ParameterError(
                f"{self.spec.name}: {what} must be finite in float32, and these parameters give "
                f"{found[~np.isfinite(found)].flat[0]}; give values nearer to their defaults."
            )
        return found

    @cached_property
    def per_world(self) -> dict[str, np.ndarray]:
        """Parameters that were given by world, float32 (num_worlds,), by name."""
        names = [param.name for param in self.spec.params if param.per_world]
        return {name: self.params[name] for name in names if isinstance(self.params[name], np.ndarray)}

    def role_rows(self, num_worlds: int, agents_view: bool) -> list[tuple[int, int]]:
        """Return (first row, stride) of each role in public arrays; a stride is the rows from one world to the next."""
        rows, before = [], 0
        for count in self.role_counts.values():
            rows.append((num_worlds * before, count) if agents_view else (before, self.num_agents))
            before += count
        return rows


def struct_members(spec: EnvSpec) -> tuple[Member, ...]:
    """Return the members of the argument struct, which depend on the spec and not on parameter values.

    They are in the order in which a step reads them, with rarely read ones last. On CUDA the struct is constant memory, which is
    not cached when a kernel starts, so a step waits for each cache line that it reads.
    """
    fields = [(f.name, f.dtype, f"[worlds{''.join(f', {n}' for n in f.shape)}] {f.doc}; {f.unit}")
              for f in spec.state + WORLD_STATE]
    always = [("may_be_finished", "int32", "[1] 1 if worlds may be finished in same-step mode, after a caller set such a state")]
    always += [field for field in fields if field[0] == "t"]
    always += [field for field in fields if field[0] not in ("t", *SELDOM_READ)]
    always += [
        ("shared_key", "uint64", "[2] seed that all worlds share, and world_id of world 0; world_id 2^31 if they share none"),
        ("reset_bounds", "float32", "reset options in the order of the spec"),
        ("pool_size", "int32", "[1] entries of the reset pool; -1 if it was taken away; 0 if no world ever started from one"),
    ]
    always += [(name, dtype, "output rows") for name, dtype in OUTPUTS.items()]
    always += [(t.name, "float32", f"{t.doc}; {t.unit}") for t in spec.tables]
    always += [(w.name, w.dtype, f"[worlds, ...] {w.doc}") for w in spec.workspaces]
    seldom = [field for field in fields if field[0] in SELDOM_READ]
    seldom += [(f"{p.name}_by_world", "float32", f"[worlds] {p.doc}, or null; {p.unit}") for p in spec.params if p.per_world]
    seldom += [
        ("reset_mask", "uint8", "[worlds] worlds to reset, null for all"),
        ("invalid_actions", "int32", "number of invalid actions so far"),
        ("drawn_actions", "uint8", "random actions of a rollout, int32 or float32 rows; null if actions are given"),
        ("action_choices", "int32", "[num_entries] choices of each entry of an action"),
        ("action_bounds", "float32", "[num_entries, 2] of a box: lower bound, and upper minus lower bound"),
        ("pool_fields", "uint64", "addresses of the pool's arrays in the order of the state; 0 for fields that the env draws"),
        ("copy_fields", "uint64", "addresses of the arrays that worlds are copied from, in the order of the state"),
        ("copy_source", "int32", "[worlds] world to copy into this one, -1 for none"),
    ]
    rows = []
    for role in spec.roles:
        rows.append(Member(f"{role.name}_row", "gv_i64", "int64", "first row of the role"))
        rows.append(Member(f"{role.name}_stride", "gv_i64", "int64", "rows from one world to the next"))
    numbers = []
    for param in spec.kernel_params:
        ctype = C_TYPES[str(param.dtype)]
        dtype = "float32" if ctype == "float" else "int32"
        numbers.append(Member(param.name, ctype, dtype, f"{param.doc}; {param.unit}"))
    numbers += [Member(c.name, "float", "float32", f"{c.doc}; {c.unit}") for c in spec.constants]
    return (  # members of 4 bytes come in pairs, so that the struct has no padding
        Member("num_worlds", "gv_i32", "int32", "worlds in this launch"),
        Member("action_bytes", "gv_i32", "int32", "size of one action element"),
        Member("autoreset", "gv_i32", "int32", "GV_NEXT_STEP, GV_SAME_STEP or GV_DISABLED"),
        Member("agents_view", "gv_i32", "int32", "1 if flags are written to every agent's row, 0 if to the world's"),
        Member("action", "const void*", "uint64", "int32, int64 or float32 rows"),
        *(Member(name, f"{C_TYPES[dtype]}*", "uint64", doc) for name, dtype, doc in always),
        *rows,
        *(Member(name, f"{C_TYPES[dtype]}*", "uint64", doc) for name, dtype, doc in seldom),
        Member("action_stride", "gv_i64", "int64", "bytes from the actions of one step of a rollout to the next"),
        Member("fork_seed", "gv_u64", "uint64", "seed of copies with random numbers of their own"),
        *numbers,
        Member("num_agents", "gv_i32", "int32", "agents in a world"),
        Member("num_features", "gv_i32", "int32", "length of an observation"),
        Member("num_entries", "gv_i32", "int32", "entries of an action"),
        Member("continuous", "gv_i32", "int32", "1 if actions are numbers of a box, 0 if they are indices"),
        Member("num_steps", "gv_i32", "int32", "steps of a rollout"),
        Member("fork_world", "gv_i32", "int32", "number of world 0 among those copies; -1 for copies that keep the random key"),
    )
