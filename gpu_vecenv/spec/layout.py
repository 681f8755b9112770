"""Memory layout of an env: members of the argument struct, and the arrays at the addresses in it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from gpu_vecenv.errors import ParameterError, SpecError
from gpu_vecenv.spec.computed import MAX_NUMBERS, array_shape, bounds_of, real_array, result_of, whole_in
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Constant, Field, Scratch, Table
from gpu_vecenv.spec.params import Params
from gpu_vecenv.spec.roles import Group, group_of, group_sizes
from gpu_vecenv.spec.struct import MAX_REGISTER_ENTRIES, WORLD_STATE, Member, is_single, struct_members
from gpu_vecenv.spec.validation import abbreviated, require_part

MODULES = (("gv_step", "gv_reset", "gv_observe", "gv_copy"), ("gv_rollout",))
"""Kernels of every env. Each tuple is a module, which CUDA compiles at once (``GV_MODULE`` is its index)."""

KERNELS = tuple(name for module in MODULES for name in module)

MAX_SCRATCH = 12160
"""Maximum floats of scratch that a spec may request: 48 KiB of shared memory minus the partial sums of ``gv_sum``."""

HOST_SCRATCH = 40960
"""Floats of scratch on the host, where sizes are known at run time only: enough for any request, and for the largest Tag."""

MAX_LANES = 1024
"""Maximum lanes of a team: the threads of a CUDA block."""

MIN_REGISTERS, MAX_REGISTERS = 32, 255
"""Limits of registers that a spec may request for a thread on CUDA."""

MAX_AGENTS = 4096
MAX_ENTRIES = 1024
"""Maximum entries of an action; each has a purpose of its own for random actions."""

CONSTANT_CHOICES = 4
"""Entries of an action whose numbers of choices are constants in CUDA kernels; those of others are read from memory."""


@dataclass(frozen=True)
class Layout:
    """Memory layout of one env with resolved parameters: struct, sizes, rows of roles.

    Raises:
        SpecError: functions of the spec return what no env can have, or names clash.
        ParameterError: the parameters give too many agents or entries of an action, or numbers that are not finite.
    """

    spec: EnvSpec
    params: Params

    def __post_init__(self) -> None:
        names = [member.name for member in self.members]
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        if twice:
            raise SpecError(
                f"{self.spec.name}: {', '.join(map(repr, twice))} would be twice in the kernel's argument struct; "
                "rename the field, parameter, constant, table or workspace."
            )
        if min(self.role_counts.values()) < 0 or not 1 <= self.num_agents <= MAX_AGENTS:
            got = self.num_agents if min(self.role_counts.values()) >= 0 else self.role_counts
            raise ParameterError(f"{self.spec.name}: a world holds 1 to {MAX_AGENTS} agents, got {got}.")
        if self.role_counts.get(self.spec.reward_role or "") == 0:
            raise ParameterError(f"{self.spec.name}: reward_role {self.spec.reward_role!r} must have an agent, got none.")
        most = MAX_REGISTER_ENTRIES if is_single(self.spec) else MAX_ENTRIES
        if self.spec.has_role_arrays and not self.by_role and len(self.spec.roles) > 1:
            raise SpecError(
                f"{self.spec.name}: with these parameters no role has spaces of its own, which an env may do that has one role; "
                f"got {', '.join(self.role_counts)}."
            )
        for group in self.groups:
            if not 1 <= group.num_entries <= most:
                raise ParameterError(f"{self.spec.name}: an action has 1 to {most} entries, got {group.num_entries}.")
        for field in self.state:
            shape = self.state_shape(field, 1)[1:]
            where = f"{self.spec.name}: state field {field.name!r}: shape"
            holds = min(shape, default=1) >= 0 and math.prod(shape) <= MAX_NUMBERS
            require_part(holds, where, f"of 0 to {MAX_NUMBERS} numbers", shape)
            if field.name == self.spec.alive:
                expected = f"({self.num_agents},), one number for each agent, because alive names the field"
                require_part(shape == (self.num_agents,), where, expected, shape)
        for table in self.spec.tables if is_single(self.spec) else ():
            where = f"{self.spec.name}: table {table.name!r}: by_world"
            expected = "left out in an env whose worlds have one agent, because registers hold such a world"
            require_part(not table.by_world, where, expected, table.by_world)
        _ = self.bounds, self.workspaces  # raise SpecError for wrong results
        _ = self.feature_names  # the same
        _ = self.requested_scratch, self.requested_lanes, self.requested_registers, self.work  # the same
        _ = self.scalars, self.tables  # raise ParameterError if the parameters give infinite numbers

    def take_numbers(self, changed: Layout) -> None:
        """Take the parameters of another layout of this spec, and the numbers that follow from them.

        Both have the same sizes, shapes and action spaces, so what was made for this layout stays valid.
        """
        object.__setattr__(self, "params", changed.params)
        for name in ("scalars", "tables", "tables_by_world", "per_world", "by_world", "bounds", "groups"):
            vars(self)[name] = getattr(changed, name)

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
            SpecError: not 1 to ``MAX_LANES``.
        """
        return self._requested("lanes", self.spec.lanes, 1, MAX_LANES) or 1

    @cached_property
    def work(self) -> int:
        """Elements that the lanes of a team on CUDA share: those of ``EnvSpec.work``, by default the agents.

        Raises:
            SpecError: not 1 to ``MAX_NUMBERS``.
        """
        work = self.spec.work
        if isinstance(work, str):
            return whole_in(f"{self.spec.name}: work {work!r}", self.sizes[work], 1, MAX_NUMBERS)
        return self._requested("work", work, 1, MAX_NUMBERS) or self.num_agents

    @cached_property
    def requested_registers(self) -> int | None:
        """Most registers that the spec requests for a thread on CUDA; None without a request.

        Raises:
            SpecError: not ``MIN_REGISTERS`` to ``MAX_REGISTERS``.
        """
        return self._requested("registers", self.spec.registers, MIN_REGISTERS, MAX_REGISTERS)

    @cached_property
    def requested_scratch(self) -> int:
        """Floats of scratch that the spec requests for a team; 1 without a request.

        Raises:
            SpecError: not 0 to ``MAX_SCRATCH``.
        """
        if isinstance(self.spec.scratch, tuple):
            return whole_in(f"{self.spec.name}: floats of scratch", self._floats_of(self.spec.scratch), 0, MAX_SCRATCH)
        floats = self._requested("scratch", self.spec.scratch, 0, MAX_SCRATCH)
        return 1 if floats is None else floats

    def _floats_of(self, arrays: tuple[Scratch, ...]) -> int:
        """Return the floats that arrays in scratch take on CUDA, one after the other; at least 1."""
        floats = 0
        for array in arrays:
            if callable(array.shape):
                where = f"{self.spec.name}: scratch {array.name!r}: shape"
                count = whole_in(where, result_of(where, array.shape, self.params), 0, MAX_NUMBERS)
            else:
                count = math.prod(self.sizes[n] if isinstance(n, str) else n for n in array.extents)
                count = 0 if array.most is not None and count > array.most else count
            floats = -(-floats // array.boundary) * array.boundary + -(-count * array.bytes // 4)
        return max(1, floats)

    @cached_property
    def choices(self) -> dict[str, int]:
        """Numbers of choices of the first entries of actions, by the names of their macros in CUDA kernels."""
        entries = [(group, list(enumerate(group.choices[:CONSTANT_CHOICES]))) for group in self.groups]
        return {f"{group.prefix}choices_{entry}": count for group, some in entries for entry, count in some}

    @cached_property
    def feature_names(self) -> dict[str, tuple[str, ...]]:
        """Names of features by role, or of all agents by ``""``; empty if the spec gives none.

        Raises:
            SpecError: other roles, or another number of names than features.
        """
        if self.spec.feature_names is None:
            return {}
        where = f"{self.spec.name}: feature_names"
        named = result_of(where, self.spec.feature_names, self.params)
        by_role = named if isinstance(named, Mapping) else {"": named}
        for role, names in by_role.items():
            counts = {group.role: group.num_features for group in self.groups}
            roles = ", ".join(map(repr, counts))
            require_part(isinstance(role, str) and role in counts, where, f"names by role, of {roles}", role)
            holds = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
            expected = f"a list of {counts[role]} names, one for each feature"
            require_part(holds and len(names) == counts[role], where, expected, names)
        return {role: tuple(names) for role, names in by_role.items()}

    def _requested(self, part: str, request: Callable[[Params], int] | None, low: int, high: int) -> int | None:
        """Return a number that the spec computes from the parameters; None without a request."""
        where = f"{self.spec.name}: {part}"
        return None if request is None else whole_in(where, result_of(where, request, self.params), low, high)

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
        axes = {}
        for field in self.spec.state:
            for name, length in field.axes.items():
                where = f"{self.spec.name}: state field {field.name!r}: {name}"
                axes[name] = whole_in(where, result_of(where, length, self.params), 0, MAX_NUMBERS)
        counts = {str(role.number): self.role_counts[role.name] for role in self.spec.roles if callable(role.count)}
        return sizes | {name: int(self.params[name]) for name in self.spec.sizes} | axes | counts

    @cached_property
    def state(self) -> tuple[Field, ...]:
        """All state fields: those of the spec, those of metrics, then ``WORLD_STATE``."""
        return self.spec.all_state + WORLD_STATE

    def state_shape(self, field: Field, num_worlds: int) -> tuple[int, ...]:
        """Return the shape of a state array."""
        return (num_worlds, *(self.sizes[n] if isinstance(n, str) else int(n) for n in field.extents))

    @cached_property
    def workspaces(self) -> dict[str, tuple[tuple[int, ...], str, int]]:
        """Shape in one world, dtype and initial value of each workspace, by name."""
        workspaces = {}
        for work in self.spec.workspaces:
            where = f"{self.spec.name}: workspace {work.name!r}: shape"
            workspaces[work.name] = array_shape(where, result_of(where, work.shape, self.params)), work.dtype, work.fill
        return workspaces

    @cached_property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Lowest and highest value of each state field, by name; infinite without a bound.

        Raises:
            SpecError: no bounds, or bounds that exclude all numbers.
        """
        bounds = {}
        for field in self.state:
            if callable(field.low) or callable(field.high):
                where = f"{self.spec.name}: state field {field.name!r}"
                bounds[field.name] = bounds_of(where, *result_of(f"{where}: low and high", field.bounds, self.params))
            else:
                bounds[field.name] = field.low, field.high
        return bounds

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
            SpecError: a constant is no real number, or an integer that does not fit its dtype.
            ParameterError: a constant is not finite.
        """
        params = {p.name: self.params[p.name] for p in self.spec.kernel_params if p.name not in self.per_world}
        constants = {c.name: self._constant(c, self.params).item() for c in self.spec.constants if c.name not in self.by_world}
        strides = {f"{table.name}_stride": self._stride(table) for table in self.spec.tables if table.by_world}
        return {**self.sizes, **params, **constants, **strides}

    def _stride(self, table: Table) -> int:
        """Return the numbers from a world's table to that of the next; 0 if all worlds share one."""
        return self.tables[table.name][0].size if table.name in self.tables_by_world else 0

    def _constant(self, constant: Constant, params: Params) -> np.ndarray:
        """Return a constant as an array of no dimensions."""
        number = self._computed(f"constant {constant.name!r}", constant, constant.value, params)
        require_part(number.shape == (), f"{self.spec.name}: constant {constant.name!r}", "one number", number)
        return number

    @cached_property
    def tables(self) -> dict[str, np.ndarray]:
        """Values of each table in its dtype, C-contiguous, by name.

        Raises:
            SpecError: values that are no real numbers, or an integer that does not fit the dtype of its table.
            ParameterError: a float is not finite.
        """
        tables = {}
        for table in self.spec.tables:
            compute = partial(self._computed, f"table {table.name!r}", table, table.values)
            values = self._of_worlds(table, compute) if table.name in self.tables_by_world else compute(self.params)
            tables[table.name] = np.ascontiguousarray(values)
        return tables

    @cached_property
    def tables_by_world(self) -> tuple[str, ...]:
        """Names of the tables that have a leading axis of worlds."""
        return tuple(table.name for table in self.spec.tables if {*table.by_world} & {*self.per_world})

    def _of_worlds(self, declared: Constant | Table, compute: Callable[[Params], np.ndarray]) -> np.ndarray:
        """Compute a constant or a table for each world, once for all worlds with the same values; the leading axis is worlds."""
        inputs = {name: self.per_world[name] for name in declared.by_world if name in self.per_world}
        columns = np.stack([values.astype(np.float64) for values in inputs.values()], axis=1)
        _, first, which = np.unique(columns.view(np.int64), axis=0, return_index=True, return_inverse=True)  # -0 is not 0
        each = [compute({**self.params, **{name: values[world].item() for name, values in inputs.items()}}) for world in first]
        where = f"{self.spec.name}: {declared.name}: shapes of different worlds"
        require_part(len({array.shape for array in each}) == 1, where, "equal", [array.shape for array in each])
        return np.stack(each)[which.reshape(-1)]

    def _computed(self, part: str, declared: Constant | Table, values: Callable[[Params], Any], params: Params) -> np.ndarray:
        """Compute the numbers of a constant or a table from parameters, in its dtype."""
        if declared.dtype in ("float32", "float64"):
            return self._finite(declared, part, values, params)
        where = f"{self.spec.name}: {part}"
        array = real_array(where, result_of(where, values, params))
        bounds = np.iinfo(declared.dtype)
        if array.dtype.kind not in "biu" or array.size and not (bounds.min <= array.min() and array.max() <= bounds.max):
            got = array.dtype if array.dtype.kind not in "biu" else f"{array.min()} to {array.max()}"
            raise SpecError(f"{where} must hold integers from {bounds.min} to {bounds.max} ({declared.dtype}), got {got}.")
        return array.astype(declared.dtype)

    def _finite(self, declared: Constant | Table, part: str, values: Callable[[Params], Any], params: Params) -> np.ndarray:
        """Compute floats from parameters. Kernels convert some to indices, so all must be finite."""
        where, what, dtype = f"{self.spec.name}: {part}", f"{declared.name} ({declared.doc})", declared.dtype
        try:
            with np.errstate(all="ignore"):
                computed = result_of(where, values, params)
        except SpecError as error:
            if not isinstance(error.__cause__, ArithmeticError | ValueError):
                raise
            raise ParameterError(self._infinite(what, dtype, f"raise {abbreviated(error.__cause__)}")) from error.__cause__
        try:
            with np.errstate(all="ignore"):
                floats = real_array(where, computed).astype(dtype)
        except OverflowError as error:  # an integer beyond all floats
            raise ParameterError(self._infinite(what, dtype, "give an integer that is too large")) from error
        infinite = floats[~np.isfinite(floats)]
        if infinite.size:
            raise ParameterError(self._infinite(what, dtype, f"give {infinite.flat[0]}"))
        return floats

    def _infinite(self, what: str, dtype: str, outcome: str) -> str:
        must = f"{what} must be finite in {dtype}, and these parameters {outcome}"
        return f"{self.spec.name}: {must}; give values nearer to their defaults."

    @cached_property
    def per_world(self) -> dict[str, np.ndarray]:
        """Parameters that were given by world, (num_worlds,) of their dtype, by name."""
        names = [param.name for param in self.spec.params if param.per_world]
        return {name: self.params[name] for name in names if isinstance(self.params[name], np.ndarray)}

    @cached_property
    def by_world(self) -> dict[str, np.ndarray]:
        """Parameters that were given by world and constants that follow them, (num_worlds,) of their dtype, by name.

        Raises:
            SpecError, ParameterError: as for ``scalars``.
        """
        constants = [constant for constant in self.spec.constants if {*constant.by_world} & {*self.per_world}]
        return {**self.per_world, **{c.name: self._of_worlds(c, partial(self._constant, c)) for c in constants}}

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


