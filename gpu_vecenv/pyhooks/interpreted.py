"""``w`` as Python sees it under ``device="python"``: one world, whose lanes run one after the other."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpu_vecenv.pyhooks import checked
from gpu_vecenv.pyhooks.checked import ByAxes, Checked, Part, Trace
from gpu_vecenv.pyhooks.interface import Action, Agent, Agents, Draw, World
from gpu_vecenv.pyhooks.vocabulary import Vocabulary
from gpu_vecenv.spec.fields import Field
from gpu_vecenv.spec.layout import Layout

checked.OWN.add(__file__)


@dataclass(frozen=True)
class Place:
    """Addresses by which a call of a hook finds its world.

    Attributes:
        library: functions of the kernel.
        a, team, obs: addresses of its arguments; ``obs`` is None except in hooks that observe.
        args: the argument struct.
        world: number of the world in the arrays of the struct.
    """

    library: ctypes.CDLL
    a: int
    team: int
    obs: int | None
    args: Any
    world: int

    def call(self, name: str, kind: Any, *arguments: Any) -> Any:
        """Call a function ``gv_python_NAME`` of the kernel with the addresses of ``a`` and ``team`` and further arguments."""
        function = getattr(self.library, f"gv_python_{name}")
        function.restype = kind
        return function(ctypes.c_void_p(self.a), ctypes.c_void_p(self.team), *arguments)

    def array(self, trace: Trace, shown: str, member: str, dtype: str, count: int, fresh: bool = False) -> Checked:
        """Return the elements of this world in an array of all worlds."""
        address = int(self.args[member]) + self.world * count * np.dtype(dtype).itemsize
        return Checked(trace, shown, address, dtype, count, fresh)


class Names:
    """Numbers and arrays by name; a number stands in an array at a place, or is a value."""

    def __init__(self, shown: str, places: dict[str, Any]) -> None:
        object.__setattr__(self, "_shown", shown)
        object.__setattr__(self, "_places", places)

    def __getattr__(self, name: str) -> Any:
        if name not in self._places:
            raise AttributeError(f"{self._shown} has no {name!r}; it has {', '.join(self._places)}")
        place = self._places[name]
        return place[0][place[1]] if isinstance(place, tuple) else place

    def __setattr__(self, name: str, value: Any) -> None:
        place = self._places[name]
        if isinstance(place, tuple):
            place[0][place[1]] = value
            return
        if len(value) != place.count:  # a whole row
            raise ValueError(f"{len(value)} values for {place.name}, which has {place.count}")
        for k, number in enumerate(value):
            place[k] = number

    def __dir__(self) -> list[str]:
        return list(self._places)

    def __repr__(self) -> str:
        shown = {name: place[0].values[place[1]] if isinstance(place, tuple) else place for name, place in self._places.items()}
        return f"<{self._shown}: {', '.join(f'{name}={value}' for name, value in shown.items())}>"


class InterpretedAgent(Names, Agent):
    """An agent."""


class InterpretedAction(Action):
    """The action of an agent.

    Args:
        place: place of the world.
        prefix: of the functions of the kernel that read it.
        number: number of the agent among those of the group.
        entries: entries of the action.
        continuous: True if they are numbers of a box, False if they are choices.
    """

    def __init__(self, place: Place, prefix: str, number: int, entries: int, continuous: bool) -> None:
        self._place, self._prefix, self._number, self._entries = place, prefix, number, entries
        self._continuous = continuous

    def _entry(self, entry: Any, continuous: bool) -> ctypes.c_int32:
        if continuous != self._continuous:
            kinds = ("numbers of a box, which value() reads", "choices, which index() reads")
            raise TypeError(f"the entries of this action are {kinds[not self._continuous]}")
        if not 0 <= entry < self._entries:
            raise IndexError(f"entry {entry} of an action, which has the entries 0 to {self._entries - 1}")
        return ctypes.c_int32(int(entry))

    def index(self, entry: Any = 0) -> np.int32:
        """Return the choice of an entry."""
        number = ctypes.c_int32(self._number)
        return np.int32(self._place.call(f"{self._prefix}index", ctypes.c_int32, number, self._entry(entry, False)))

    def indices(self) -> tuple[np.int32, ...]:
        """Return the choices of all entries."""
        return tuple(self.index(entry) for entry in range(self._entries))

    def value(self, entry: Any = 0) -> np.float32:
        """Return a number of a continuous action."""
        number = ctypes.c_int32(self._number)
        return np.float32(self._place.call(f"{self._prefix}value", ctypes.c_float, number, self._entry(entry, True)))

    def __repr__(self) -> str:
        return "<an action: index(), indices() or value()>"


class InterpretedDraw(Draw):
    """Four random words."""

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def uniform(self, k: int = 0) -> np.float32:
        """Return an f32 from 0 to 1, without 1."""
        return np.float32(self._words[k] >> 8) * np.float32(2.0**-24)

    def below(self, n: Any, k: int = 0) -> np.int32:
        """Return an i32 below n."""
        if n < 1:
            raise ValueError(f"below({n}): expected a number from 1 on")
        return np.int32(self._words[k] * int(n) >> 32)


class InterpretedAgents(Agents):
    """A range of agents."""

    def __init__(self, world: InterpretedWorld, group: str, first: int, count: int) -> None:
        self._world, self._group, self._first, self._count = world, group, first, count
        self._agents: dict[int, InterpretedAgent] = {}

    def count(self) -> np.int32:
        """Return the number of agents."""
        return np.int32(self._count)

    def __getitem__(self, k: Any) -> InterpretedAgent:
        if not 0 <= k < self._count:
            raise IndexError(f"index {k} of {self!r}")
        if int(k) not in self._agents:
            self._agents[int(k)] = self._world.agent(self._group, self._first + int(k), int(k))
        return self._agents[int(k)]

    def __iter__(self) -> Iterator[InterpretedAgent]:
        for k in self._world.lanes(self._count, alone=self._world.words.single, first_agent=self._first):
            yield self[k]

    def __len__(self) -> int:
        return self._count

    def shared(self) -> Part:
        """Return the shared part of the observations of a role."""
        return self._world.shared(self._group)

    def __repr__(self) -> str:
        return f"<{'w.agents' if self._group == 'agents' else f'w.role.{self._group}'}: {self._count} agents>"


class InterpretedWorld(World):
    """The world of one call of a hook.

    Args:
        layout: of the env.
        words: names of its spec.
        place: where the call finds it.
        trace: lanes and barriers of this call.
        hook: name of the hook.
        scratch: arrays of scratch that an earlier hook of the step wrote; they are kept.
    """

    once = True

    def __init__(self, layout: Layout, words: Vocabulary, place: Place, trace: Trace, hook: str,
                 scratch: dict[str, Checked] | None) -> None:  # fmt: skip
        self.layout, self.words, self.place, self.trace, self.hook = layout, words, place, trace, hook
        self.arrays = self._state()
        self.scratch_arrays = self._scratch(scratch)
        self.rewards: dict[int, Checked] = {}
        self.rows: dict[tuple[str, int], Checked] = {}
        self.t = np.int32(Checked(trace, "w.t", int(place.args["t"]) + 4 * place.world, "int32", 1).values[0])
        self.state = Names("w.state", {name: self._named(name) for name in words.state})
        self.at = Names("w.at", {field.name: self._by_axes(field) for field in layout.spec.state if field.name in words.axes})
        self.params = Names("w.params", {name: self._param(name) for name in words.params})
        self.tables = Names("w.tables", {name: self._table(name) for name in words.tables})
        self.options = Names("w.options", self._options())
        rooms = {f"{name}_room": np.int32(len(array.values)) for name, array in self.scratch_arrays.items()}
        self.scratch = Names("w.scratch", {**self.scratch_arrays, **rooms})
        self.sizes = Names("w.sizes", {name: np.int32(layout.sizes[name]) for name in words.sizes})
        self.record = Names("w.record", {name: partial(self._record, name) for name in words.metrics})
        self.agents = InterpretedAgents(self, "agents", 0, layout.num_agents)
        firsts = [0, *np.cumsum(list(layout.role_counts.values())).tolist()]
        ranges = zip(layout.role_counts.items(), firsts, strict=False)
        self.role = Names("w.role", {name: InterpretedAgents(self, name, first, count) for (name, count), first in ranges})
        self._groups = {group.role: group for group in layout.groups}

    # ---- memory -----------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Checked]:
        fresh = self.hook == "env_reset"
        return {
            field.name: self.place.array(self.trace, f"w.state.{field.name}", field.name, field.dtype,
                                         math.prod(self.layout.state_shape(field, 1)), fresh)
            for field in self.layout.spec.state
        }  # fmt: skip

    def _named(self, name: str) -> Any:
        for field in self.layout.spec.state:
            if name in field.names:
                return self.arrays[field.name], field.names.index(name)
        array = self.arrays[name]
        return array if self.words.state[name].array else (array, 0)

    def _by_axes(self, field: Field) -> ByAxes:
        return ByAxes(self.arrays[field.name], self.layout.state_shape(field, 1)[1:], field.extents)

    def _scratch(self, earlier: dict[str, Checked] | None) -> dict[str, Checked]:
        arrays: dict[str, Checked] = {}
        for name, memory in self.words.scratch.items():
            address = self.place.call(f"scratch_{name}", ctypes.c_uint64)
            count = self.place.call(f"scratch_{name}_room", ctypes.c_int32)
            arrays[name] = Checked(self.trace, f"w.scratch.{name}", address, memory.dtype, count, fresh=True)
            if earlier is not None:
                arrays[name].writers |= {k: (-1, None) for k in earlier[name].writers}
        return arrays

    def _param(self, name: str) -> Any:
        dtype, static = self.words.params[name]
        value = self.place.args[name]
        if not static and self.place.args[f"{name}_by_world"]:
            address = int(self.place.args[f"{name}_by_world"]) + self.place.world * np.dtype(dtype).itemsize
            value = Checked(self.trace, name, address, dtype, 1).values[0]
        return bool(value) if dtype == "bool" else np.float32(value) if dtype.startswith("float") else np.int32(value)

    def _table(self, name: str) -> Checked:
        values, address = self.layout.tables[name], int(self.place.args[name])
        if name in self.layout.tables_by_world:
            address += self.place.world * values[0].nbytes
            values = values[0]
        return Checked(self.trace, f"w.tables.{name}", address, str(values.dtype), values.size)

    def _options(self) -> dict[str, np.float32]:
        bounds = Checked(self.trace, "w.options", int(self.place.args["reset_bounds"]), "float32", len(self.words.options))
        return {name: bounds.values[k] for k, name in enumerate(self.words.options)}

    def _record(self, name: str, value: Any) -> None:
        self.place.call(f"record_{name}", None, ctypes.c_float(float(value)))

    # ---- agents -----------------------------------------------------------------------------------------------

    def agent(self, group: str, number: int, in_role: int) -> InterpretedAgent:
        """Return an agent: number in the world and in its range."""
        shown = f"agent {number}" if group == "agents" else f"{group} {in_role}"
        places: dict[str, Any] = {"index": np.int32(number)}
        if self.words.numbered(group):
            places["in_role"] = np.int32(in_role)
        for name, memory in self.words.members(group).items():
            field = next(field for field in self.layout.spec.state if field.name == name)
            k = number if field.extents[0] == "num_agents" else in_role
            length = math.prod(self.layout.state_shape(field, 1)[2:])
            array = self.arrays[name]
            places[name] = Part(array, k * length, length, f"{name} of {shown}") if memory.array else (array, k)
        places["reward"] = self._reward(number), 0
        if self.words.acts(group):
            places |= self._spaces(group, number, in_role, shown)
        return InterpretedAgent(shown, places)

    def _reward(self, number: int) -> Checked:
        if number not in self.rewards:
            row = self.place.call("row", ctypes.c_int64, ctypes.c_int32(number))
            address = int(self.place.args["agent_reward"]) + 4 * row
            name, fresh = f"reward of agent {number}", self.hook == "env_step"
            self.rewards[number] = Checked(self.trace, name, address, "float32", 1, fresh, finite=True)
        return self.rewards[number]

    def _group(self, group: str) -> Any:
        return self._groups.get(group) or next(iter(self._groups.values()))

    def _spaces(self, group: str, number: int, in_role: int, shown: str) -> dict[str, Any]:
        """Return the action of an agent, and its rows in hooks that observe."""
        by_role = self.layout.spec.has_role_arrays
        prefix, k = (f"{group}_", in_role) if by_role else ("", number)
        of_group = self._group(group if by_role else "")
        places: dict[str, Any] = {"action": InterpretedAction(self.place, prefix, k, of_group.num_entries, of_group.continuous)}
        if self.place.obs is None:
            return places
        lengths = {"obs": of_group.num_features, "mask": of_group.num_choices, "effects": of_group.num_effects}
        for name in self.words.rows(group):
            row = self.row(f"{prefix}{name}", k, lengths[name], f"{name} of {shown}")
            places[name] = Part(row, 0, lengths[name], row.name)
        return places

    def row(self, name: str, k: int, length: int, shown: str) -> Checked:
        """Return a row that observations write."""
        if (name, k) not in self.rows:
            address = self.place.call(name, ctypes.c_uint64, ctypes.c_void_p(self.place.obs), ctypes.c_int32(k))
            dtype = "float32" if name.rpartition("_")[2] in ("obs", "shared") else "uint8"
            self.rows[name, k] = Checked(self.trace, shown, address, dtype, length, finite=dtype == "float32")
        return self.rows[name, k]

    def shared(self, role: str) -> Part:
        """Return the shared part of the observations of a role."""
        length = self._group(role).num_shared
        row = self.row(f"{role}_shared", 0, length, f"shared part of {role}")
        return Part(row, 0, length, row.name)

    # ---- lanes ------------------------------------------------------------------------------------------------

    def lanes(self, count: int, alone: bool = False, first_agent: int | None = None) -> Iterator[int]:
        """Run the lanes of a phase, each for one number. A loop that a debugger makes inside a phase is none.

        Args:
            count: numbers.
            alone: True if one lane works on all of them.
            first_agent: number in the world of the first agent; None if the numbers are not those of agents.
        """
        inside = self.trace.lane is not None
        for k in range(count):
            if not inside:
                self.trace.lane = 0 if alone else k
                self.trace.agent = None if first_agent is None else first_agent + k
            yield k
        if not inside:
            self.trace.lane = self.trace.agent = None

    @contextmanager
    def first(self) -> Iterator[None]:
        """Run ``if w.once`` in the first lane."""
        self.trace.lane = 0
        yield
        self.trace.lane = None

    def barrier(self) -> None:
        """Wait for all lanes."""
        self.trace.epoch += 1

    def each(self, n: Any) -> Any:
        """Return the numbers of a phase."""
        return Numbers(self, int(n))

    def pairs(self, agents: Agents, others: Any = None) -> Iterator[tuple[Agent, Any]]:
        """Run the lanes of a phase over pairs."""
        others = agents if others is None else others
        for i in range(int(agents.count())):
            for j in range(int(others.count())):
                self.trace.lane, self.trace.agent = (i, j), int(agents[i].index)
                yield agents[i], others[j]
        self.trace.lane = self.trace.agent = None

    def count(self, elements: Any, test: Callable[[Any], Any]) -> np.int32:
        """Count elements for which a test holds."""
        return np.int32(sum(bool(test(element)) for element in elements))

    def any(self, elements: Any, test: Callable[[Any], Any]) -> bool:
        """Return whether a test holds for any element."""
        return bool(self.count(elements, test) > 0)

    def sum(self, elements: Any, *values: Callable[[Any], Any]) -> Any:
        """Add values in the order of ``gv_sum``: 32 partial sums, then these."""
        self.barrier()
        sums = tuple(self._sum(elements, value) for value in values)
        self.barrier()
        return sums if len(sums) > 1 else sums[0]

    def _sum(self, elements: Any, value: Callable[[Any], Any]) -> np.float32:
        count = int(elements.count())
        partial_sums = [np.float32(0)] * min(count, 32)
        for k in range(count):
            partial_sums[k % 32] = partial_sums[k % 32] + value(elements[k])
        total = np.float32(0)
        for part in partial_sums:
            total = total + part
        return total

    # ---- the world --------------------------------------------------------------------------------------------

    def draw(self, purpose: Any, agent: Any = 0) -> InterpretedDraw:
        """Draw four words."""
        if agent < 0:
            raise ValueError(f"draw({purpose}, {agent}): expected an agent from 0 on")
        words = (ctypes.c_uint32 * 4)()
        self.place.call("draw", None, ctypes.c_uint32(int(purpose)), ctypes.c_uint32(int(agent)), words)
        return InterpretedDraw(list(words))

    def _flag(self, name: str, condition: Any) -> None:
        address = int(self.place.args[name]) + self.place.world
        Checked(self.trace, name, address, "uint8", 1).values[0] = bool(condition)

    def terminate(self, condition: Any) -> None:
        """Set whether the rules end the episode."""
        self._flag("terminated", condition)

    def truncate(self, condition: Any) -> None:
        """Set whether a limit ends the episode."""
        self._flag("truncated", condition)

    def truncate_at(self, limit: Any) -> None:
        """Set whether a time limit ends the episode."""
        self.truncate(0 < limit <= self.t)

    def missing(self) -> str:
        """Return what the hook had to write and did not; empty if it wrote all."""
        arrays: list[Checked] = []
        if self.hook == "env_reset":
            arrays = list(self.arrays.values())
        elif self.hook == "env_step":
            arrays = [self._reward(number) for number in range(self.layout.num_agents)]
        elif self.place.obs is not None:
            arrays = self._all_rows()
        for array in arrays:
            at = array.missing()
            if at is not None:
                return array.name if len(array.values) == 1 else f"element {at} of {array.name}"
        return ""

    def _all_rows(self) -> list[Checked]:
        groups = self.layout.role_counts if self.layout.spec.has_role_arrays else ["agents"]
        for group in groups:
            agents = self.agents if group == "agents" else getattr(self.role, group)
            for k in range(int(agents.count())):
                _ = agents[k]
            if self.words.shares(group) and self._group(group).num_shared:
                self.shared(group)
        # Agents of roles and w.agents have the same rows if roles have no arrays of their own.
        return list(self.rows.values())


class Numbers:
    """Numbers of ``w.each(n)``."""

    def __init__(self, world: InterpretedWorld, n: int) -> None:
        self._world, self._n = world, n

    def count(self) -> np.int32:
        """Return n, or 0 if it is negative."""
        return np.int32(max(self._n, 0))

    def __getitem__(self, k: int) -> np.int32:
        return np.int32(k)

    def __iter__(self) -> Iterator[np.int32]:
        return map(np.int32, self._world.lanes(self._n))
