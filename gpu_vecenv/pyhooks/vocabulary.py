"""Names that a spec gives hooks: numbers and arrays of the world, members of agents, and their types."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_vecenv.pyhooks.values import ELEMENT
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.header import size_names
from gpu_vecenv.spec.world_header import AGENT_NAMES

TYPES = {"float32": "f32", "int32": "i32", "bool": "bool", "uint8": "i32", "uint16": "i32", "int8": "i32"}
"""Types of hooks by dtype. Hooks read a float64 of the caller as f32, too."""

NARROW = ("uint8", "uint16", "int8")
"""Dtypes that become i32 when they are read. A bool may be written to them."""

GROUPS = ("state", "at", "params", "sizes", "tables", "options", "scratch", "role", "record")
"""Groups of names that ``w`` has."""


@dataclass(frozen=True)
class Memory:
    """Memory that a name stands for.

    Attributes:
        field: name of the memory in the analysis of accesses.
        dtype: dtype of an element.
        array: True for several numbers, which are indexed.
        group: of a member of an agent, elements that phases over the agent's range own: ``ELEMENT`` or a role.
    """

    field: str
    dtype: str
    array: bool = False
    group: str = ""


NUMBER = Memory("", "")
"""Memory of one number."""


class Vocabulary:
    """Names of a spec.

    Attributes:
        params: parameters and constants: dtype, and whether all worlds have the same value.
        state: numbers and arrays of the state.
        axes: lengths of the axes of arrays of the state, as numbers and names of sizes.
        sizes: names of sizes.
        tables: dtypes of tables.
        options: names of reset options.
        scratch: arrays of scratch.
        rooms: names of their lengths.
        roles: names of roles.
        metrics: names of metrics.
        single: True if a world always has one agent.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self.spec = spec
        self.params = {p.name: (str(p.dtype), not p.per_world) for p in spec.kernel_params}
        self.params |= {constant.name: (constant.dtype, not constant.by_world) for constant in spec.constants}
        self.state: dict[str, Memory] = {}
        for field in spec.state:
            for name in field.names or (field.name,):
                self.state[name] = Memory(name, field.dtype, array=field.shape != () and not field.names)
        self.axes = {field.name: field.extents for field in spec.state if self.state.get(field.name, NUMBER).array}
        self.sizes = size_names(spec)
        self.tables = {table.name: table.dtype for table in spec.tables}
        self.options = [option.name for option in spec.reset_options]
        arrays = spec.scratch if isinstance(spec.scratch, tuple) else ()
        self.scratch = {array.name: Memory(f"scratch {array.name}", array.dtype, array=True) for array in arrays}
        self.rooms = [f"{array.name}_room" for array in arrays]
        self.roles = [role.name for role in spec.roles]
        self.metrics = [metric.name for metric in spec.metrics]
        self.single = [role.count for role in spec.roles] == [1]
        self._groups = {role.name: role for role in spec.groups}

    def members(self, group: str) -> dict[str, Memory]:
        """Return the fields of an agent of ``agents`` or of a role, by name."""
        lengths = self._lengths(group)
        members = {}
        for field in self.spec.state:
            first = field.extents[0] if field.extents and not field.names else None
            if field.name in AGENT_NAMES or first is None or first != "num_agents" and first not in lengths:
                continue
            owner = group if first == "num_agents" and group != "agents" else ELEMENT
            members[field.name] = Memory(field.name, field.dtype, array=len(field.shape) > 1, group=owner)
        return members

    def _lengths(self, group: str) -> tuple[int | str, ...]:
        """Return the lengths of fields with an element for each agent of a role, as ``spec/world_header.py`` has them."""
        roles = self.spec.roles
        if len(roles) > 1 and not (self.spec.has_role_arrays and group in self.roles):
            return ()
        role = next((role for role in roles if role.name == group), roles[0])
        shared = [other for other in roles if other.number == role.number]
        return () if len(shared) > 1 or role.number == 1 else (role.number,)

    def numbered(self, group: str) -> bool:
        """Return True if agents of this range have a number in their role."""
        return group != "agents" or len(self.roles) == 1

    def rows(self, group: str) -> dict[str, Memory]:
        """Return the rows of an agent that observations write, by name: ``obs``, and ``mask`` and ``effects`` if it has them."""
        by_role = self.spec.has_role_arrays
        role = self._groups.get(group if by_role else "")
        if role is None:
            return {}
        owner = ELEMENT if by_role or group == "agents" else group
        suffix = f" of {group}" if by_role else ""
        present = {"obs": True, "mask": bool(role.masked), "effects": bool(role.effects)}
        return {
            name: Memory(f"row {name}{suffix}", "float32" if name == "obs" else "bool", array=True, group=owner)
            for name, exists in present.items() if exists
        }  # fmt: skip

    def acts(self, group: str) -> bool:
        """Return True if agents of this range have an action."""
        return not self.spec.has_role_arrays or group != "agents"

    def shares(self, group: str) -> bool:
        """Return True if observations of a role have a shared part."""
        return any(role.name == group and role.shared is not None for role in self.spec.roles)

    def reward(self, group: str) -> Memory:
        """Return the rewards of the agents of a range."""
        return Memory("reward", "float32", group=ELEMENT if group == "agents" else group)
