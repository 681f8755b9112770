"""Text generated from a spec: the header ``args.h`` that kernels include, and the tables of an env's docs."""

from __future__ import annotations

import inspect

import numpy as np

from gpu_vecenv.spec.arguments import struct_text
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Field
from gpu_vecenv.spec.layout import HOST_SCRATCH, Layout
from gpu_vecenv.spec.roles import group_sizes
from gpu_vecenv.spec.struct import C_TYPES, WORLD_STATE, is_single, numbers_by_world, struct_members


def args_header(spec: EnvSpec) -> str:
    """Return the C text of ``args.h``: the argument struct, functions that return sizes, and lists of declarations.

    A size is a macro on CUDA (``-DGV_num_agents=105``) and a member of the struct otherwise. A list is a macro that applies
    another macro to each of its entries; ``kernels/state.h`` and ``kernels/single`` turn the lists into code.
    """
    lines = ["// Generated from the spec; do not edit.", "#pragma once", '#include "target/target.h"', "", *_struct(spec), ""]
    for size in size_names(spec):
        lines += [
            f"#ifdef GV_{size}",
            f"GV_INLINE gv_i32 gv_{size}(const GvArgs&) {{ return GV_{size}; }}",
            "#else",
            f"GV_INLINE gv_i32 gv_{size}(const GvArgs& a) {{ return a.{size}; }}",
            "#endif",
        ]
    lines += ["#ifndef GV_BY_WORLD", "#define GV_BY_WORLD 1  // 0 if no parameter has a value by world", "#endif"]
    scratch = HOST_SCRATCH if spec.scratch else 1
    lines += ["#ifndef GV_SCRATCH", f"#define GV_SCRATCH {scratch}  // floats of scratch a team", "#endif"]
    return "\n".join([*lines, "", *_lists(spec), ""])


def size_names(spec: EnvSpec) -> tuple[str, ...]:
    """Return the names of sizes, for each of which kernels have a function ``gv_NAME(a)``."""
    of_groups = [f"{role.prefix}{name}" for role in spec.groups for name in group_sizes(role)]
    axes = [name for field in spec.state for name in field.axes]
    counts = [str(role.number) for role in spec.roles if callable(role.count)]
    return ("num_agents", *of_groups, *spec.sizes, *axes, *counts)


def _struct(spec: EnvSpec) -> list[str]:
    members = struct_members(spec)
    dtype = np.dtype([(m.name, m.dtype) for m in members], align=True)
    offsets = {name: field[1] for name, field in (dtype.fields or {}).items()}
    return struct_text("GvArgs", [(f"{m.ctype} {m.name}", m.doc) for m in members], offsets, dtype.itemsize)


def _lists(spec: EnvSpec) -> list[str]:
    """Lines of macros: lists of fields, names, parameters, roles and metrics, and sizes of single-agent worlds."""
    counts = [_count(spec, role.number) for role in spec.roles]
    firsts = [" + ".join(counts[:number]) or "0" for number in range(len(counts))]  # agents of the roles before
    roles = dict(zip([role.name for role in spec.roles], zip(counts, firsts, strict=True), strict=True))
    *leading, last = roles
    by_world = [f"PARAM({p.name}, {C_TYPES[str(p.dtype)]})" for p in numbers_by_world(spec)]
    reward = ("agents", "i")  # `agents` is a variable of the functions that use it
    if spec.reward_role:
        reward = (roles[spec.reward_role][0], f"{roles[spec.reward_role][1]} + i")
    lines = [
        *_list("STATE_FIELDS(FIELD)", [f"FIELD({f.name}, {C_TYPES[f.dtype]}, {_length(f)})" for f in spec.all_state]),
        *_list("WORLD_FIELDS(FIELD)", [f"FIELD({f.name}, {C_TYPES[f.dtype]}, 1)" for f in WORLD_STATE]),
        *_list("NAMED_STATE(NUMBER, ARRAY)", [name for f in spec.state for name in _names(f)]),
        *(f'#define GV_SHAPE_{f.name} "{_shape(f)}"  // for messages of debug builds' for f in spec.state),
        *_list("PARAMS_BY_WORLD(PARAM)", by_world),
        *_list("ROLES(ROLE)", [f"ROLE({name}, {count}, {first})" for name, (count, first) in roles.items()]),
        *_list("ROLES_BUT_LAST(ROLE)", [f"ROLE({name}, {roles[name][0]})" for name in leading]),
        *_list("LAST_ROLE(ROLE)", [f"ROLE({last})"]),
        *_list("METRICS(METRIC)", [f"METRIC({metric.name}, {metric.reduction})" for metric in spec.metrics]),
        f"#define GV_REWARD_COUNT {reward[0]}  // agents whose mean reward is the reward of a world",
        f"#define GV_REWARD_AGENT(i) {reward[1]}  // number of agent i of them",
        f"#define GV_NUM_RESET_OPTIONS {len(spec.reset_options)}",
    ]
    if spec.has_role_arrays:
        entries = [(role, f"ROLE({role.name}, {', '.join(roles[role.name])})") for role in spec.roles]
        lines += [
            "#define GV_BY_ROLE 1",
            *(["#define GV_MAY_BE_WHOLE 1"] if spec.may_be_whole else []),
            *_list("MASKED_ROLES(ROLE)", [entry for role, entry in entries if role.masked]),
            *_list("UNMASKED_ROLES(ROLE)", [entry for role, entry in entries if not role.masked]),
            *_list("SHARED_ROLES(ROLE)", [entry for role, entry in entries if role.shared]),
            *_list("EFFECT_ROLES(ROLE)", [entry for role, entry in entries if role.effects]),
        ]
    else:
        lines += ["#define GV_MASKED 1"] if spec.roles[0].masked else []
        lines += ["#define GV_EFFECTS 1"] if spec.roles[0].effects else []
    if spec.alive is not None:
        lines.append(f"#define GV_ALIVE_FIELD {spec.alive}")
    if is_single(spec):
        (group,) = Layout(spec, spec.resolve({})).groups
        lines += [
            f"#define GV_SINGLE_FEATURES {group.num_features}  // with default parameters",
            f"#define GV_SINGLE_ENTRIES {group.num_entries}",
            f"#define GV_SINGLE_CHOICES {', '.join(map(str, group.choices or [0] * group.num_entries))}",
        ]
    return lines


def _count(spec: EnvSpec, count: str | int) -> str:
    """Agents of a role, as a C expression."""
    return f"gv_{count}(a)" if count in size_names(spec) else f"a.{count}" if isinstance(count, str) else str(count)


def _list(head: str, entries: list[str]) -> list[str]:
    return [" \\\n    ".join([f"#define GV_{head}", *entries])]


def _length(field: Field) -> str:
    """Numbers of a field in one world, as a C expression."""
    return " * ".join(f"gv_{n}(a)" if isinstance(n, str) else str(n) for n in field.extents) or "1"


def _shape(field: Field) -> str:
    """Shape of a field in one world, with the names of its lengths."""
    return f"({', '.join(map(str, field.extents))}{',' if len(field.extents) == 1 else ''})"


def _names(field: Field) -> list[str]:
    """Entries of ``GV_NAMED_STATE``: the numbers of a field by name, or the field as a pointer."""
    ctype, length = C_TYPES[field.dtype], _length(field)
    names = field.names or ((field.name,) if field.shape == () else ())
    if names:
        return [f"NUMBER({name}, {ctype}, {field.name}, {length}, {index})" for index, name in enumerate(names)]
    return [f"ARRAY({field.name}, {ctype}, {length})"]


def docs_tables(spec: EnvSpec) -> str:
    """Return the Markdown tables of parameters, reset options, state and rewards in an env's README."""
    lines = ["### Parameters", "", "| name | default | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| `{p.name}` | {_short(p.default)} | {p.unit} | {p.doc} |" for p in spec.params]
    if spec.reset_options:
        lines += ["", "### Reset options", "", "| name | default | meaning |", "|---|---|---|"]
        lines += [f"| `{o.name}` | {o.default:g} | {o.doc} |" for o in spec.reset_options]
    lines += ["", "### State", "", "| field | dtype | shape | unit | meaning |", "|---|---|---|---|---|"]
    for f in spec.all_state + WORLD_STATE:
        shape = ", ".join(["num_worlds", *(n.__name__ if callable(n) else str(n) for n in f.shape)])
        lines.append(f"| `{f.name}` | {f.dtype} | ({shape}) | {f.unit} | {f.doc} |")
    if spec.metrics:
        lines += ["", "### Episode metrics", "", "| name | reduction | unit | meaning |", "|---|---|---|---|"]
        lines += [f"| `{m.name}` | {m.reduction} | {m.unit} | {m.doc} |" for m in spec.metrics]
    lines += ["", "### Rewards", "", "| term | rule |", "|---|---|"]
    lines += [f"| {name} | {doc} |" for name, doc in spec.rewards.items()]
    return "\n".join(lines) + "\n"


def _short(value: object) -> str:
    if callable(value):
        return (inspect.getdoc(value) or repr(value)).rstrip(".")
    return f"{value:.6g}" if isinstance(value, float) else str(value)
