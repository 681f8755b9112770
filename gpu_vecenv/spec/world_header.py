"""Text generated from a spec: the header ``world.h``, which gives the hooks of an env one object with all names of the spec."""

from __future__ import annotations

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Constant, Field, Scratch
from gpu_vecenv.spec.header import size_names
from gpu_vecenv.spec.layout import CONSTANT_CHOICES
from gpu_vecenv.spec.names import is_c_name
from gpu_vecenv.spec.params import Param
from gpu_vecenv.spec.roles import Role, group_sizes
from gpu_vecenv.spec.struct import C_TYPES, numbers_by_world

AGENT_NAMES = ("index", "in_role", "reward", "action", "obs", "mask", "effects")
"""Members of an agent in every env. A state field of such a name is no member of its agents; hooks read it from ``w.state``."""

Members = list[tuple[str, str, str]]
"""Members of a struct: type, name and value."""

OBSERVERS = [
    *("    GV_FRIEND env_observe(GvWorld&);", "#ifdef GV_OBSERVES_STEP", "    GV_FRIEND env_observe_step(GvWorld&);", "#endif"),
    "    friend struct GvPythonHooks;",
]
"""Hooks that write observations, as friends of a struct. A translator of hooks in Python checks its helpers itself."""


def world_header(spec: EnvSpec) -> str:
    """Return the C text of ``world.h``: ``GvWorld``, and the types of its members, by the names of the spec.

    Rows of observations, masks and shared parts are private members. Their friends are the hooks that observe: a hook that steps
    cannot write them.
    """
    lines = ["// Generated from the spec; do not edit.", "#pragma once", '#include "world_parts.h"', ""]
    lines += ["struct GvWorld;", "GV_HOOK void env_reset(GvWorld& w);", "GV_HOOK void env_step(GvWorld& w);"]
    lines += ["GV_HOOK void env_observe(GvWorld& w);"]
    lines += ["#ifdef GV_OBSERVES_STEP", "GV_HOOK void env_observe_step(GvWorld& w);", "#endif"]
    lines += ["#ifdef GV_SETTLES", "GV_HOOK void env_settle(GvWorld& w);", "#endif", ""]
    lines += _struct("GvWorldParams", _params(spec), "Parameters and constants; the world's value, if each world has one.")
    lines += _struct("GvWorldSizes", [("const gv_i32", name, f"gv_{name}(a)") for name in size_names(spec)], "Sizes.")
    lines += _struct("GvWorldTables", _tables(spec), "Tables; the world's own, if each world has one.")
    options = [("const float&", o.name, f"a.reset_bounds[{i}]") for i, o in enumerate(spec.reset_options) if is_c_name(o.name)]
    lines += _struct("GvWorldOptions", options, "Options of the last reset.")
    lines += _struct("GvWorldScratch", _scratch(spec), "Arrays that the lanes of a team share for one step, and their lengths.")
    lines += _at(spec)
    for group in spec.groups:
        lines += _action(spec, group)
    lines += _memory() + _agent(spec, None)
    for role in spec.roles if spec.has_role_arrays else ():
        lines += _agent(spec, role)
    lines += [line for of in (None, *spec.roles) for line in _range(spec, of)]
    lines += ["struct GvWorldRoles {", *(f"    GvAgents_{role.name} {role.name};" for role in _named_roles(spec)), "};", ""]
    return "\n".join([*lines, *_record(spec), *_world(spec), '#include "world_hooks.h"', ""])


def _named_roles(spec: EnvSpec) -> list[Role]:
    """Roles whose names may stand alone."""
    return [role for role in spec.roles if is_c_name(role.name)]


def _struct(name: str, members: Members, doc: str) -> list[str]:
    """Struct of values that its constructor takes from the arguments. Compilers drop those that hooks do not use."""
    values = ", ".join(f"{member}({value})" for _, member, value in members)
    return [
        f"// {doc}",
        f"struct {name} {{",
        *(f"    {ctype} {member};" for ctype, member, _ in members),
        f"    GV_METHOD {name}(const GvArgs& a, const GvTeam& team){' : ' if values else ''}{values} {{ (void)a, (void)team; }}",
        "};",
        "",
    ]


def _params(spec: EnvSpec) -> Members:
    """Parameters and constants. They are values, not references, so that compilers may move their reads inside a helper."""
    members, by_world = [], numbers_by_world(spec)
    scalars: tuple[Param | Constant, ...] = (*spec.kernel_params, *spec.constants)
    for scalar in scalars:
        ctype, name = C_TYPES[str(scalar.dtype)], scalar.name
        value = f"gv_{name}(a)" if name in spec.sizes else f"a.{name}"
        if scalar in by_world:
            value = f"gv_param_of_world<{ctype}>(a.{name}_by_world, a.{name}, team.world)"
        members.append((f"const {ctype}", name, value))
    return members


def _tables(spec: EnvSpec) -> Members:
    """Addresses of tables."""
    members = []
    for table in spec.tables:
        name = table.name
        value = f"gv_table_of_world(a.{name}, a.{name}_stride, team.world)" if table.by_world else f"a.{name}"
        members.append((f"const {C_TYPES[table.dtype]}* const", name, value))
    return members


def _size(spec: EnvSpec, length: int | str) -> str:
    """A length as a C expression of ``a``."""
    return str(length) if isinstance(length, int) else f"gv_{length}(a)" if length in size_names(spec) else f"a.{length}"


def _at(spec: EnvSpec) -> list[str]:
    """Elements of fields by one index for each axis, which debug builds check one by one."""
    lines = ["// Elements of the state by one index for each axis: w.at.cells(y, x).", "struct GvWorldAt {"]
    lines += ["    const GvArgs& a;\n    GvState state;  // a copy, see GvAgents"]
    for field in spec.state:
        if not field.extents or field.names:
            continue
        lengths = [_size(spec, length) for length in field.extents]
        place = ""
        for number, (length, extent) in enumerate(zip(lengths, field.extents, strict=True)):
            shown = f"axis {number}" if isinstance(extent, int) else f"axis {number} ({extent})"
            index = f'GV_CHECKED_AXIS(i{number}, {length}, "{shown} of w.state.{field.name}")'
            place = f"({place}) * {length} + {index}" if place else index
        indices = ", ".join(f"GvIndex i{number}" for number in range(len(lengths)))
        head = f"GV_METHOD {C_TYPES[field.dtype]}& {field.name}({indices}) const"
        lines.append(f"    {head} {{ return state.{field.name}[{place}]; }}")
    return [*lines, "};", ""]


# ---- scratch --------------------------------------------------------------------------------------------------------


def _scratch(spec: EnvSpec) -> Members:
    """Addresses of arrays, one after the other, and the numbers of elements that they have room for."""
    members: Members = []
    start = "0"  # floats before the array
    for array in spec.scratch if isinstance(spec.scratch, tuple) else ():
        ctype = C_TYPES[array.dtype]
        start = _rounded(start, array.boundary)
        room = f"(GV_SCRATCH - ({start})) * {4 // array.bytes}" if array.is_rest else _elements(spec, array)
        address = f"({ctype}*)(team.scratch + ({start}))"
        members.append((f"GvPointer<{ctype}>", array.name, f'GV_CHECKED({address}, {room}, "w.scratch.{array.name}")'))
        members.append(("gv_i32", f"{array.name}_room", room))
        if not array.is_rest:
            floats = room if array.bytes == 4 else f"({room} * {array.bytes} + 3) / 4"
            start = f"{start} + {floats}" if start != "0" else floats
    return members


def _rounded(floats: str, align: int) -> str:
    return floats if align == 1 or floats == "0" else f"({floats} + {align - 1}) / {align} * {align}"


def _elements(spec: EnvSpec, array: Scratch) -> str:
    count = " * ".join(_size(spec, length) for length in array.extents) or "1"
    return f"({count})" if array.most is None else f"(GV_ONE_LANE || {count} <= {array.most} ? {count} : 0)"


# ---- agents ---------------------------------------------------------------------------------------------------------


def _action(spec: EnvSpec, group: Role) -> list[str]:
    """Action of an agent. Numbers of choices are macros on CUDA (``-DGV_choices_0=5``)."""
    p, by_role = group.prefix, spec.has_role_arrays
    place = "GvAction" if by_role else "gv_i64"
    index = "gv_given_index(place, entry)" if by_role else "gv_given_index(in.a, place, entry, gv_num_entries(in.a))"
    value = "gv_given_value(place, entry)" if by_role else "gv_given_value(in.a, place, entry, gv_num_entries(in.a))"
    choices = [
        line
        for entry in range(CONSTANT_CHOICES)
        for line in (f"#ifdef GV_{p}choices_{entry}", f"        if (entry == {entry}) return GV_{p}choices_{entry};", "#endif")
    ]
    return [
        "// Action of an agent. index() and value() check an entry: an invalid one acts as 0, and each call counts it once.",
        f"struct {_action_type(group)} {{",
        f"    GvCounting in;\n    {place} place;",
        "    GV_METHOD gv_i32 choices(gv_i32 entry = 0) const {",
        *choices,
        f"        return in.a.{p}action_choices[entry];",
        "    }",
        f"    GV_METHOD gv_i32 given_index(GvIndex entry = GV_HERE(0)) const {{ return {index}; }}  // unchecked",
        f"    GV_METHOD float given_value(GvIndex entry = GV_HERE(0)) const {{ return {value}; }}",
        "    GV_METHOD gv_i32 checked_index(gv_i32 given, gv_i32 entry = 0) const { return in.index(given, choices(entry)); }",
        "    GV_METHOD float checked_value(float given) const { return in.value(given); }",
        "    GV_METHOD gv_i32 index(GvIndex entry = GV_HERE(0)) const { return checked_index(given_index(entry), entry); }",
        "    GV_METHOD float value(GvIndex entry = GV_HERE(0)) const { return checked_value(given_value(entry)); }",
        "    // The first n entries, all loaded before the first is checked: `const auto [x, y] = me.action.indices<2>().value`.",
        "    template <gv_i32 n>",
        "    GV_METHOD GvVec<gv_i32, n> indices() const {",
        "        GvVec<gv_i32, n> entries;",
        "        GV_UNROLL for (gv_i32 k = 0; k < n; ++k) entries.value[k] = given_index(k);",
        "        GV_UNROLL for (gv_i32 k = 0; k < n; ++k) entries.value[k] = checked_index(entries.value[k], k);",
        "        return entries;",
        "    }",
        "};",
        "",
    ]


def _action_type(group: Role) -> str:
    return f"GvAgentAction{'_' if group.name else ''}{group.name}"


def _memory() -> list[str]:
    return [
        "// What agents and ranges of a world refer to.",
        "struct GvWorldMemory {",
        "    const GvArgs& a;\n    const GvTeam& team;\n    GvState state;\n    GvObs obs;",
        "    bool observes;  // a hook that observes; others have no address in `obs`",
        "};",
        "",
    ]


def _fields(spec: EnvSpec, lengths: tuple[int | str, ...], number: str) -> Members:
    """State fields of which each agent has an element, or a row."""
    members = []
    for field in spec.state:
        if field.extents[:1] and field.extents[0] in lengths and not field.names and field.name not in AGENT_NAMES:
            ctype, rest = C_TYPES[field.dtype], _row_length(spec, field)
            shown, place = f'"{field.name}"', f"in.state.{field.name}"
            value = f"{place}[{number}]" if rest == "" else f"GV_CHECKED_ROW({place}, {number}, {rest}, {shown})"
            members.append((f"GvPointer<{ctype}>" if rest else f"{ctype}&", field.name, value))
    return members


def _row_length(spec: EnvSpec, field: Field) -> str:
    return " * ".join(_size(spec, length).replace("a)", "in.a)") for length in field.extents[1:])


def _lengths_of_role(spec: EnvSpec, role: Role) -> tuple[int | str, ...]:
    """Lengths of fields that have an element for each agent of a role. A number that two roles share tells neither."""
    shared = [other for other in spec.roles if other.number == role.number]
    return () if len(shared) > 1 or role.number == 1 else (role.number,)


def _agent(spec: EnvSpec, role: Role | None) -> list[str]:
    """Handle of an agent: of a role with arrays of its own, or of any agent if ``role`` is None."""
    alike = not spec.has_role_arrays
    fields = _fields(spec, ("num_agents",), "index")
    if role is not None or len(spec.roles) == 1:
        fields += [m for m in _fields(spec, _lengths_of_role(spec, role or spec.roles[0]), "in_role") if m not in fields]
    members: Members = [("gv_i32", "index", "index"), ("gv_i32", "in_role", "in_role"), *fields]
    members.append(("float&", "reward", "in.a.agent_reward[row]"))
    hidden: Members = []
    kind = role or spec.roles[0]
    if alike:
        members.append(("GvAgentAction", "action", "{in.a, counts}, row"))
        hidden.append(("GvObsRow", "obs", 'GV_CHECKED(obs, gv_num_features(in.a), "me.obs")'))
        hidden += [_flags("mask", "GV_CHECKED_ROW(in.obs.mask, row, gv_num_choices(in.a)")] if kind.masked else []
        hidden += [_flags("effects", "GV_CHECKED_ROW(in.obs.effects, row, gv_num_effects(in.a)")] if kind.effects else []
    elif role is not None:
        r, place = role.name, "in.team.world, in_role"
        members.append((f"GvAgentAction_{r}", "action", f"{{in.a, counts}}, gv_{r}_action(in.a, {place})"))
        row = f'GV_CHECKED(obs, gv_{r}_num_features(in.a), "me.obs"), gv_{r}_obs(in.a, in.obs, 0, 0)'
        mask, effects = f"gv_{r}_mask(in.a, in.obs, {place})", f"gv_{r}_effects(in.a, in.obs, {place})"
        hidden.append(("GvObsRow", "obs", row))
        hidden += [_flags("mask", f"GV_CHECKED({mask}, gv_{r}_num_choices(in.a)")] if role.masked else []
        hidden += [_flags("effects", f"GV_CHECKED({effects}, gv_{r}_num_effects(in.a)")] if role.effects else []
    name = "GvAgent" if role is None else f"GvAgent_{role.name}"
    values = ", ".join(f"{m}{{{value}}}" if m == "action" else f"{m}({value})" for _, m, value in members + hidden)
    who = "An agent" if role is None else f"An agent of the role {role.name}"
    return [
        f"// {who}: `index` is its number in the world, `in_role` that in its role.",
        f"struct {name} {{",
        *(f"    {ctype} {member};" for ctype, member, _ in members),
        f"    GV_METHOD {name}(const GvWorldMemory& in, gv_i32 index, gv_i32 in_role, gv_i64 row, float* obs, bool counts)",
        f"        : {values} {{ (void)in, (void)row, (void)obs, (void)counts; }}",
        *([" private:  // env_observe and env_observe_step alone write observations", *OBSERVERS] if hidden else []),
        *(f"    {ctype} {member};" for ctype, member, _ in hidden),
        "};",
        "",
    ]


def _flags(name: str, address: str) -> tuple[str, str, str]:
    """Member for a row of flags of an agent, by the beginning of the macro that gives its address."""
    return "GvPointer<gv_u8>", name, f'{address}, "me.{name}")'


def _range(spec: EnvSpec, role: Role | None) -> list[str]:
    """Range of agents: those of a role, or all of a world."""
    alike = not spec.has_role_arrays
    name = "GvAgents" if role is None else f"GvAgents_{role.name}"
    agent = f"GvAgent_{role.name}" if role is not None and not alike else "GvAgent"
    r = "" if role is None else f"{role.name}_"
    count = f"gv_{r}count(in.a)" if role else "gv_num_agents(in.a)"
    alone = [other.count for other in ((role,) if role else spec.roles)] == [1]
    shown = f"w.role.{role.name}" if role else "w.agents"
    checked = f'GV_CHECKED_AGENT(k, count(), "{shown}")'
    # The only agent has a number that compilers know early.
    k, checked = ("((void)k, 0)", f"((void){checked}, 0)") if alone else ("k", checked)
    index = f"gv_{r}agent(in.a, k)" if role else "k"
    row = f"gv_{r}row(in.a, in.team.world, k)" if role else "gv_row(in.a, in.team.world, k)"
    in_role = "k" if role else _in_role(spec)
    lines = [
        f"// {'All agents' if role is None else f'Agents of the role {role.name}'} of a world.",
        f"struct {name} {{",
        "    GvWorldMemory in;  // a copy: compilers keep no struct in registers that has its own address",
        f"    GV_METHOD gv_i32 count() const {{ return {count}; }}",
        *(f"    GV_METHOD gv_i32 {size}() const {{ return gv_{p}{size}(in.a); }}" for p, size in _sizes_of_rows(spec, role)),
        f"    GV_METHOD {agent} at(gv_i32 k, bool counts) const {{",
        f"        return {agent}(in, {index}, {in_role}, {row}, row_of(k), counts);",
        "    }",
        f"    GV_METHOD {agent} operator[](GvIndex k) const {{ return at({checked}, in.team.lane == 0); }}",
        f"    GV_METHOD {agent} of_lane(gv_i32 k) const {{",
        f"        GV_SET_AGENT({index})",
        f"        return at({k}, true);",
        "    }",
        f"    GV_METHOD GvPhase<{name}> begin() const {{ return {{*this, in.team.lane, in.team.lanes}}; }}",
        "    GV_METHOD gv_i32 end() const { return count(); }",
        *_gathering(spec, role, agent, index, in_role, row),
    ]
    if role is not None and role.shared:
        address = f"gv_{r}shared(in.a, in.obs, in.team.world)"
        shared = f'GV_CHECKED({address}, gv_{r}num_shared(in.a), "{shown}.shared()")'
        lines += [
            " private:  // what all agents of the role observe alike",
            *OBSERVERS,
            f"    GV_METHOD GvObsRow shared() const {{ return GvObsRow({shared}); }}",
        ]
    return [*lines, "};", ""]


def _in_role(spec: EnvSpec) -> str:
    """Number in its role of agent k of the world. Agents are numbered role by role."""
    text, left = "", "k"
    for role in spec.roles[:-1]:
        text += f"{left} < gv_{role.name}_count(in.a) ? {left} : "
        left = f"({left} - gv_{role.name}_count(in.a))"
    return f"({text}{left})"


def _sizes_of_rows(spec: EnvSpec, role: Role | None) -> list[tuple[str, str]]:
    """Prefix and name of the sizes of the rows of a range; none for agents whose rows have different lengths."""
    groups = [group for group in spec.groups if group.name == "" or role is not None and group.name == role.name]
    return [(group.prefix, size) for group in groups for size in group_sizes(group) if size != "continuous"]


def _gathering(spec: EnvSpec, role: Role | None, agent: str, index: str, in_role: str, row: str) -> list[str]:
    """Members of a range for ``GvPairs``: rows of roles, which lie apart in the agents view."""
    if spec.has_role_arrays:
        if role is None:
            return ["    GV_METHOD float* row_of(gv_i32) const { return nullptr; }", "    struct Rows {};", *_NO_ROWS]
        r = role.name
        at, features = f"gv_{r}_obs(in.a, in.obs, in.team.world, %s)", f"gv_{r}_num_features(in.a)"
        blocks = [(r, at % "0", f"gv_{r}_count(in.a)")]
        one = f"    GV_METHOD float* row_of(gv_i32 k) const {{ return {at % 'k'}; }}"
    else:
        features = "gv_num_features(in.a)"
        at = f"gv_obs_row(in.a, in.obs, in.team.world, {index})"
        one = f"    GV_METHOD float* row_of(gv_i32 k) const {{ return {at}; }}"
        blocks = [
            (o.name, f"gv_obs_row(in.a, in.obs, in.team.world, gv_{o.name}_agent(in.a, 0))", f"gv_{o.name}_count(in.a)")
            for o in (spec.roles if role is None else (role,))
        ]
    *before, last = [name for name, _, _ in blocks]
    counts = {name: count for name, _, count in blocks}
    alone = {o.name for o in spec.roles if o.count == 1}
    select, left = "", "k"
    for name in before:
        offset = "0" if name in alone else f"{left}"
        select += f"{left} < {counts[name]} ? rows.{name} + {offset} * {features} : "
        left = f"({left} - {counts[name]})"
    select += f"rows.{last}" if last in alone else f"rows.{last} + {left} * {features}"
    gather, start = [], "scratch"
    for name, _, count in blocks:
        gather.append(f"gv_gather_address({start}, memory.{name})")
        start += f" + ({count} * {features} + 6) / 4 * 4"
    copies = [f"        gv_copy_out(in.team, rows.{name}, memory.{name}, {count} * {features});" for name, _, count in blocks]
    floats = f"count() * {features} + gv_gather_margin({len(blocks)})"
    return [
        one,
        "    struct Rows {",
        *(f"        float* {name};" for name, _, _ in blocks),
        "    };",
        f"    GV_METHOD Rows rows_in_memory() const {{ return {{{', '.join(address for _, address, _ in blocks)}}}; }}",
        f"    GV_METHOD bool is_gathered(gv_i32 room) const {{ return in.observes && !GV_ONE_LANE && {floats} <= room; }}",
        f"    GV_METHOD Rows rows_gathered(float* scratch, const Rows& memory) const {{ return {{{', '.join(gather)}}}; }}",
        "    GV_METHOD void copy_out(const Rows& rows, const Rows& memory) const {",
        *copies,
        "    }",
        f"    GV_METHOD {agent} in_row(gv_i32 k, const Rows& rows) const {{",
        f"        GV_SET_AGENT({index})",
        f"        return {agent}(in, {index}, {in_role}, {row}, {select}, true);",
        "    }",
    ]


_NO_ROWS = [
    "    GV_METHOD Rows rows_in_memory() const { return {}; }",
    "    GV_METHOD bool is_gathered(gv_i32) const { return false; }",
    "    GV_METHOD Rows rows_gathered(float*, const Rows&) const { return {}; }",
    "    GV_METHOD void copy_out(const Rows&, const Rows&) const {}",
    "    GV_METHOD GvAgent in_row(gv_i32 k, const Rows&) const { return of_lane(k); }",
]
"""Members for ``GvPairs`` of all agents, if their rows have different lengths."""


# ---- the world ------------------------------------------------------------------------------------------------------


def _record(spec: EnvSpec) -> list[str]:
    return [
        "// Metrics of the episode: w.record.NAME(value), with the same value in all lanes, or under `if (w.once)`.",
        "struct GvWorldRecord {",
        "    const GvArgs& a;\n    const GvTeam& team;",
        *(f"    GV_METHOD void {m.name}(float value) const {{ gv_record_{m.name}(a, team, value); }}" for m in spec.metrics),
        "};",
        "",
    ]


def _world(spec: EnvSpec) -> list[str]:
    memory = "{a, team, state, obs, observes}"
    roles = ", ".join(f"{{{memory}}}" for _ in _named_roles(spec))
    rest = "scratch.rows, scratch.rows_room" if _gathers(spec) else "nullptr, 0"
    return [
        "// The world that a team steps. Hooks get it as their only argument.",
        "struct GvWorld : GvWorldCalls {",
        "    GvState state;\n    GvWorldAt at;\n    const gv_i32& t;  // steps of this episode, the present one included",
        "    GvWorldParams params;\n    GvWorldSizes sizes;\n    GvWorldTables tables;\n    GvWorldOptions options;",
        "    GvWorldScratch scratch;\n    GvAgents agents;\n    GvWorldRoles role;\n    GvWorldRecord record;",
        "    GV_METHOD GvWorld(const GvArgs& a, const GvTeam& team, const GvObs& obs, bool observes = true)",
        "        : GvWorldCalls{a, team, team.lane == 0}, state(gv_state(a, team)), at{a, state}, t(state.t),"
        "          params(a, team), sizes(a, team), tables(a, team), options(a, team), scratch(a, team),",
        f"          agents{{{memory}}}, role{{{roles}}}, record{{a, team}} {{}}",
        "    GV_METHOD GvWorld(const GvArgs& a, const GvTeam& team) : GvWorld(a, team, GvObs{}, false) {}",
        "    GvWorld(const GvWorld&) = delete;  // hooks take GvWorld&",
        "    // Ends of the episode, which one lane sets: by the rules, and at a time limit. A limit of 0 means none.",
        "    GV_METHOD void terminate(bool condition) const { state.terminated = condition; }",
        "    GV_METHOD void truncate(bool condition) const { state.truncated = condition; }",
        "    GV_METHOD void truncate_at(gv_i32 limit) const { truncate(gv_time_is_up(t, limit)); }",
        "    template <class Agents, class Others>",
        "    GV_METHOD GvPairs<Agents, Others> pairs(const Agents& agents, Others&& others) const {",
        f"        return GvPairs<Agents, Others>(team, agents, others, {rest});",
        "    }",
        "    template <class Agents>",
        "    GV_METHOD GvPairs<Agents, const Agents&> pairs(const Agents& agents) const { return pairs(agents, agents); }",
        "};",
        "",
    ]


def _gathers(spec: EnvSpec) -> bool:
    """Return True if the spec has an array ``rows`` in scratch, in which ``w.pairs`` gathers rows of observations."""
    return isinstance(spec.scratch, tuple) and any(array.name == "rows" for array in spec.scratch)
