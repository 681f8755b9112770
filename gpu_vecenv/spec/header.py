"""Text generated from a spec: the header ``args.h`` that kernels include, and the tables of an env's docs."""

from __future__ import annotations

import inspect
import math

import numpy as np

from gpu_vecenv.spec.env_spec import EnvSpec, Field
from gpu_vecenv.spec.layout import C_TYPES, HOST_SCRATCH, WORLD_STATE, struct_members

MAX_HELD = 256
"""Maximum length of the state of a world that a lane holds in variables: about the number of its registers."""


def is_single(spec: EnvSpec) -> bool:
    """Return True if a world has one agent that never leaves, a short state of fixed size and no workspace.

    Kernels then see ``GV_SINGLE``, and a lane holds a world in variables.
    """
    if spec.alive is not None or [role.count for role in spec.roles] != [1] or spec.workspaces:
        return False
    lengths = [math.prod(n for n in field.shape if isinstance(n, int)) for field in spec.state]
    return sum(lengths) <= MAX_HELD and all(isinstance(n, int) for field in spec.state for n in field.shape)


def args_header(spec: EnvSpec) -> str:
    """Return the C text of ``args.h``: the argument struct, functions that return sizes, and lists of declarations.

    A size is a macro on CUDA (``-DGV_num_agents=105``) and a member of the struct otherwise. A list is a macro that applies
    another macro to each of its entries; ``kernels/state.h`` and ``kernels/single`` turn the lists into code.
    """
    lines = ["// Generated from the spec; do not edit.", "#pragma once", '#include "target/target.h"', "", *_struct(spec), ""]
    for size in ("num_agents", "num_features", "num_entries", "continuous", *spec.sizes):
        lines += [
            f"#ifdef GV_{size}",
            f"GV_FN gv_i32 gv_{size}(const GvArgs&) {{ return GV_{size}; }}",
            "#else",
            f"GV_FN gv_i32 gv_{size}(const GvArgs& a) {{ return a.{size}; }}",
            "#endif",
        ]
    lines += ["#ifndef GV_BY_WORLD", "#define GV_BY_WORLD 1  // 0 if no parameter has a value by world", "#endif"]
    scratch = HOST_SCRATCH if spec.scratch else 1
    lines += ["#ifndef GV_SCRATCH", f"#define GV_SCRATCH {scratch}  // floats of scratch a team", "#endif"]
    return "\n".join([*lines, "", *_lists(spec), ""])


def _struct(spec: EnvSpec) -> list[str]:
    members = struct_members(spec)
    dtype = np.dtype([(m.name, m.dtype) for m in members], align=True)
    offsets = {name: field[1] for name, field in (dtype.fields or {}).items()}
    return [
        "struct GvArgs {",
        *(f"    {m.ctype} {m.name};  // {m.doc}" for m in members),
        "};",
        "",
        # NVRTC 13.0 has no offsetof. Because members have no padding between them, the size of the struct is checked instead.
        "#ifndef __CUDACC_RTC__",
        *(f'static_assert(__builtin_offsetof(GvArgs, {name}) == {offset}, "{name}");' for name, offset in offsets.items()),
        "#endif",
        f'static_assert(sizeof(GvArgs) == {dtype.itemsize}, "size of GvArgs");',
    ]


def _lists(spec: EnvSpec) -> list[str]:
    """Lines of macros: lists of fields, names, parameters and roles, and sizes of single-agent worlds."""
    counts = [(r.name, f"gv_{r.count}(a)" if isinstance(r.count, str) else str(r.count)) for r in spec.roles]
    lines = [
        *_list("STATE_FIELDS(FIELD)", [f"FIELD({f.name}, {C_TYPES[f.dtype]}, {_length(f)})" for f in spec.state]),
        *_list("WORLD_FIELDS(FIELD)", [f"FIELD({f.name}, {C_TYPES[f.dtype]}, 1)" for f in WORLD_STATE]),
        *_list("NAMED_STATE(NUMBER, ARRAY)", [name for f in spec.state for name in _names(f)]),
        *_list("PARAMS_BY_WORLD(PARAM)", [f"PARAM({p.name})" for p in spec.params if p.per_world]),
        *_list("ROLES_BUT_LAST(ROLE)", [f"ROLE({name}, {count})" for name, count in counts[:-1]]),
        *_list("LAST_ROLE(ROLE)", [f"ROLE({counts[-1][0]})"]),
        f"#define GV_NUM_RESET_OPTIONS {len(spec.reset_options)}",
    ]
    if spec.alive is not None:
        lines.append(f"#define GV_ALIVE_FIELD {spec.alive}")
    if is_single(spec):
        params = spec.resolve({})
        features, entries = math.prod(spec.observation(params).shape or ()), math.prod(spec.action(params).shape or ())
        lines += [f"#define GV_SINGLE_FEATURES {features}  // with default parameters", f"#define GV_SINGLE_ENTRIES {entries}"]
    return lines


def _list(head: str, entries: list[str]) -> list[str]:
    return [" \\\n    ".join([f"#define GV_{head}", *entries])]


def _length(field: Field) -> str:
    """Numbers of a field in one world, as a C expression."""
    return " * ".join(f"gv_{n}(a)" if isinstance(n, str) else str(n) for n in field.shape) or "1"


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
    for f in spec.state + WORLD_STATE:
        shape = ", ".join(["num_worlds", *map(str, f.shape)])
        lines.append(f"| `{f.name}` | {f.dtype} | ({shape}) | {f.unit} | {f.doc} |")
    lines += ["", "### Rewards", "", "| term | rule |", "|---|---|"]
    lines += [f"| {name} | {doc} |" for name, doc in spec.rewards.items()]
    return "\n".join(lines) + "\n"


def _short(value: object) -> str:
    if callable(value):
        return (inspect.getdoc(value) or repr(value)).rstrip(".")
    return f"{value:.6g}" if isinstance(value, float) else str(value)
