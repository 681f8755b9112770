"""Text made from a spec: the header a kernel includes, and the tables of an env's docs."""

from __future__ import annotations

import inspect
import math

import numpy as np

from gpu_vecenv.layout import C_TYPES, WORLD_STATE, struct_members
from gpu_vecenv.spec import EnvSpec


def args_header(spec: EnvSpec) -> str:
    """C text of ``gv_args.h``: the argument struct, its layout assertions and the accessors kernels use.

    A size is a macro on CUDA (``-DGV_num_agents=105``) and a member of the struct otherwise.
    """
    members = struct_members(spec)
    dtype = np.dtype([(m.name, m.dtype) for m in members], align=True)
    lines = ["// Generated from the spec; do not edit.", "#pragma once", '#include "gv_device.h"',
             '#include "gv_rows.h"', "", "struct GvArgs {"]
    lines += [f"    {m.ctype} {m.name};  // {m.doc}" for m in members]
    lines += ["};", ""]
    offsets = {name: field[1] for name, field in (dtype.fields or {}).items()}
    # NVRTC 13.0 has no offsetof. The members are packed without padding, so the size alone tells the same there.
    lines.append("#ifndef __CUDACC_RTC__")
    lines += [f'static_assert(__builtin_offsetof(GvArgs, {n}) == {offset}, "{n}");' for n, offset in offsets.items()]
    lines.append("#endif")
    lines += [f'static_assert(sizeof(GvArgs) == {dtype.itemsize}, "size of GvArgs");', ""]
    for size in ("num_agents", "num_features", *spec.sizes):
        lines += [
            f"#ifdef GV_{size}",
            f"GV_FN gv_i32 gv_{size}(const GvArgs&) {{ return GV_{size}; }}",
            "#else",
            f"GV_FN gv_i32 gv_{size}(const GvArgs& a) {{ return a.{size}; }}",
            "#endif",
        ]
    for param in spec.params:
        if param.per_world:
            name = param.name
            body = f"return a.{name}_by_world ? a.{name}_by_world[world] : a.{name};"
            lines.append(f"GV_FN float gv_{name}(const GvArgs& a, gv_i32 world) {{ {body} }}")
    return "\n".join([*lines, "", _row_function(spec), "", _alive_function(spec), "", _take_function(spec), "", *_window(spec), ""])


def _row_function(spec: EnvSpec) -> str:
    """Row of an agent in public arrays; agents are numbered role by role."""
    body = []
    for role in spec.roles[:-1]:
        count = f"gv_{role.count}(a)" if isinstance(role.count, str) else str(role.count)
        body += [
            f"    if (agent < {count}) return a.{role.name}_row + world * a.{role.name}_stride + agent;",
            f"    agent -= {count};",
        ]
    last = spec.roles[-1].name
    body.append(f"    return a.{last}_row + world * a.{last}_stride + agent;")
    return "\n".join(["GV_FN gv_i64 gv_row(const GvArgs& a, gv_i64 world, gv_i32 agent) {", *body, "}"])


def _alive_function(spec: EnvSpec) -> str:
    if spec.alive is None:
        return "GV_FN gv_u8 gv_alive(const GvArgs&, gv_i64, gv_i32) { return 1; }"
    return (
        "GV_FN gv_u8 gv_alive(const GvArgs& a, gv_i64 world, gv_i32 agent) {\n"
        f"    return a.{spec.alive}[world * gv_num_agents(a) + agent] != 0;\n}}"
    )


def _take_function(spec: EnvSpec) -> str:
    """Overwrite a world by a row of other arrays; fields without an address stay as they are."""
    lines = ["GV_FN void gv_take(const GvArgs& a, const GvTeam& team, const gv_u64* fields, gv_i64 from) {"]
    for number, field in enumerate(spec.state + WORLD_STATE):
        size = " * ".join(f"gv_{n}(a)" if isinstance(n, str) else str(n) for n in field.shape) or "1"
        lines.append(f"    gv_take_row(team, a.{field.name}, fields[{number}], from, {size});")
    return "\n".join([*lines, "}"])


def _window(spec: EnvSpec) -> list[str]:
    """For worlds of one agent: their state as one lane's own variables, and a view of the arguments in which it is world 0.

    What only a reset reads or writes stays in memory.
    """
    if spec.alive is not None or [role.count for role in spec.roles] != [1]:
        return []
    held = [f for f in spec.state + WORLD_STATE if f in spec.state or f.name in ("t", "terminated", "truncated")]
    if not all(isinstance(n, int) for f in held for n in f.shape):
        return []
    rows = {f.name: f"GvRow<{C_TYPES[f.dtype]}, {math.prod(n for n in f.shape if isinstance(n, int))}>" for f in held}
    left = [f.name for f in WORLD_STATE if f not in held] + ["out_terminated", "out_truncated", "out_finished"]
    maybe = [f"{p.name}_by_world" for p in spec.params if p.per_world]
    role = spec.roles[0].name
    return [
        "#define GV_SOLO 1",
        "struct GvWorld {",
        *(f"    {rows[f.name]} {f.name};" for f in held),
        "};",
        "GV_FN GvWorld gv_load(const GvArgs& a, gv_i64 world) {",
        "    GvWorld held;",
        *(f"    held.{name} = (({row}*)a.{name})[world];" for name, row in rows.items()),
        "    return held;",
        "}",
        "GV_FN void gv_store(const GvArgs& a, gv_i64 world, const GvWorld& before, const GvWorld& after) {",
        *(f"    (({rows[f.name]}*)a.{f.name})[world] = after.{f.name};" for f in held if f not in WORLD_STATE or f.name == "t"),
        *(f"    if (after.{n}.value[0] != before.{n}.value[0]) a.{n}[world] = after.{n}.value[0];  // seldom"
          for n in ("terminated", "truncated")),
        "}",
        "GV_FN GvArgs gv_window(const GvArgs& a, gv_i64 world, GvWorld& held) {",
        "    GvArgs mine = a;",
        *(f"    mine.{name} = held.{name}.value;" for name in rows),
        *(f"    mine.{name} += world;" for name in left),
        *(f"    if (mine.{name}) mine.{name} += world;" for name in maybe),
        f"    mine.{role}_row += world * mine.{role}_stride;",
        "    return mine;",
        "}",
    ]  # fmt: skip


def docs_tables(spec: EnvSpec) -> str:
    """Markdown tables of parameters, state and rewards, as an env's README shows them."""
    lines = ["### Parameters", "", "| name | default | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| `{p.name}` | {_short(p.default)} | {p.unit} | {p.doc} |" for p in spec.params]
    if spec.reset_options:
        lines += ["", "### Reset options", "", "| name | default | meaning |", "|---|---|---|"]
        lines += [f"| `{o.name}` | {o.default:g} | {o.doc} |" for o in spec.reset_options]
    lines += ["", "### State", "", "| field | dtype | shape | unit | meaning |", "|---|---|---|---|---|"]
    for f in spec.state + WORLD_STATE:
        shape = ", ".join(["num_worlds", *map(str, f.shape)])
        lines.append(f"| `{f.name}` | {f.dtype} | ({shape}) | {f.unit} | {f.doc} |")
    lines += ["", "### Rewards", "", "| term | paid |", "|---|---|"]
    lines += [f"| {name} | {doc} |" for name, doc in spec.rewards.items()]
    return "\n".join(lines) + "\n"


def _short(value: object) -> str:
    if callable(value):
        return inspect.getdoc(value) or repr(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
