"""Memory layout of an env: members of the argument struct, and the arrays at the addresses in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Field, Table
from gpu_vecenv.spec.given import abbreviated, whole_number
from gpu_vecenv.spec.params import Params
from gpu_vecenv.spec.roles import Group, group_of
from gpu_vecenv.spec.struct import MAX_HELD_ENTRIES, WORLD_STATE, Member, group_sizes, is_single, struct_members

MODULES = (("gv_step", "gv_reset", "gv_observe", "gv_copy"), ("gv_rollout",))
"""Kernels of every env. Each tuple is a module, which CUDA compiles at once (``GV_MODULE`` is its index)."""

KERNELS = tuple(name for module in MODULES for name in module)

MAX_SCRATCH = 12160
"""Maximum floats of scratch of a team: 48 KiB of shared memory minus the partial sums of ``gv_sum``."""

HOST_SCRATCH = 40960
"""Floats of scratch on the host, where sizes are known at run time only: enough for the largest Tag."""

MAX_LANES = 1024
"""Maximum lanes of a team: the threads of a CUDA block."""

MAX_AGENTS = 4096
MAX_ENTRIES = 1024
"""Maximum entries of an action; each has a purpose of its own for random actions."""



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
        most = MAX_HELD_ENTRIES if is_single(self.spec) else MAX_ENTRIES
        if self.spec.has_role_arrays and not self.by_role and len(self.spec.roles) > 1:
            raise ParameterError(
                f"{self.spec.name}: with these parameters no role has spaces of its own, which an env may do that has one role; "
                f"got {', '.join(self.role_counts)}."
            )
        for group in self.groups:
            if not 1 <= group.num_entries <= most:
                raise ParameterError(f"{self.spec.name}: an action has 1 to {most} entries, got {group.num_entries}.")
        _ = self.scalars, self.tables, self.requested_lanes  # raise ParameterError if the parameters give infinite numbers

    @cached_property
    def role_counts(self) -> dict[str, int]:
        """Agents of each role in a world."""
        return self.spec.role_counts(self.params)

    @cached_property
    def num_agents(self) -> int:
        """Agents in a world."""
        return sum(self.role_counts.values())

    @cached_property
    def requested_lanes(self) -> int:
        """Lanes that the spec requests for a world on CUDA; 1 without a request.

        Raises:
            ParameterError: not 1 to ``MAX_LANES``.
        """
        lanes = self.spec.lanes(self.params) if self.spec.lanes is not None else 1
        if not 1 <= lanes <= MAX_LANES:
            raise ParameterError(f"{self.spec.name}: a team has 1 to {MAX_LANES} lanes, got {lanes}.")
        return lanes

    @cached_property
    def by_role(self) -> bool:
        """True if public arrays are dicts by role."""
        return self.spec.by_role(self.params)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Groups of agents with arrays of their own: one a role, or one of all agents."""
        spec, counts = self.spec, self.role_counts
        return tuple(
            group_of(spec.name, role, counts.get(role.name, self.num_agents), self.params, self.by_role) for role in spec.groups
        )

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Sizes by name. They are constants in CUDA kernels; the prebuilt CPU kernels read them from the struct."""
        sizes = {"num_agents": self.num_agents}
        for group in self.groups:
            sizes |= {f"{group.prefix}{name}": int(getattr(group, name)) for name in group_sizes(group)}
        axes = {name: self._axis(name, length) for field in self.spec.state for name, length in field.axes.items()}
        return sizes | {name: int(self.params[name]) for name in self.spec.sizes} | axes

    def _axis(self, name: str, length: Callable[[Params], int]) -> int:
        found = whole_number(length(self.params))
        if found is None or found < 0:
            got = abbreviated(length(self.params))
            raise ParameterError(f"{self.spec.name}: {name} must be an integer from 0 on, got {got}.")
        return found

    @cached_property
    def state(self) -> tuple[Field, ...]:
        """All state fields: those of the spec, those of metrics, then ``WORLD_STATE``."""
        return self.spec.all_state + WORLD_STATE

    def state_shape(self, field: Field, num_worlds: int) -> tuple[int, ...]:
        """Return the shape of a state array."""
        return (num_worlds, *(self.sizes[n] if isinstance(n, str) else n for n in field.extents))

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
        """Values of each table in its dtype, C-contiguous, by name.

        Raises:
            ParameterError: a float is not finite, or an integer does not fit the dtype of its table.
        """
        return {table.name: np.ascontiguousarray(self._table(table)) for table in self.spec.tables}

    def _table(self, table: Table) -> np.ndarray:
        if table.dtype == "float32":
            return self._finite(f"{table.name} ({table.doc})", table.values)
        given = np.asarray(table.values(self.params))
        bounds = np.iinfo(table.dtype)
        if given.dtype.kind not in "biu" or given.size and not (bounds.min <= given.min() and given.max() <= bounds.max):
            got = given.dtype if given.dtype.kind not in "biu" else f"{given.min()} to {given.max()}"
            raise ParameterError(
                f"{self.spec.name}: table {table.name!r} must hold integers from {bounds.min} to {bounds.max} "
                f"({table.dtype}), got {got}."
            )
        return given.astype(table.dtype)

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
        """Parameters that were given by world, float32 or int32 (num_worlds,), by name."""
        names = [param.name for param in self.spec.params if param.per_world]
        return {name: self.params[name] for name in names if isinstance(self.params[name], np.ndarray)}

    def repeated_params(self, num_worlds: int) -> Params:
        """Return the parameters for another number of worlds. Values by world are repeated in their order: 1, 2, 3, 1, 2, ..."""
        return {**self.params, **{name: np.resize(values, num_worlds) for name, values in self.per_world.items()}}

    def role_rows(self, num_worlds: int, agents_view: bool) -> list[tuple[int, int]]:
        """Return (first row, stride) of each role in public arrays; a stride is the rows from one world to the next."""
        rows, before = [], 0
        for count in self.role_counts.values():
            rows.append((num_worlds * before, count) if agents_view else (before, self.num_agents))
            before += count
        return rows


