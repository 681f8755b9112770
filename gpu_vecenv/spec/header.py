"""Text made from a spec: the header a kernel includes, and the tables of an env's docs."""

from __future__ import annotations

import inspect

import numpy as np

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.held_state import solo_functions
from gpu_vecenv.spec.layout import WORLD_STATE, struct_members


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
    for size in ("num_agents", "num_features", "num_heads", "continuous", *spec.sizes):
        lines += [
            f"#ifdef GV_{size}",
            f"GV_FN gv_i32 gv_{size}(const GvArgs&) {{ return GV_{size}; }}",
            "#else",
            f"GV_FN gv_i32 gv_{size}(const GvArgs& a) {{ return a.{size}; }}",
            "#endif",
        ]
    lines += ["#ifndef GV_BY_WORLD", "#define GV_BY_WORLD 1  // whether a parameter may have a value a world", "#endif"]
    for param in spec.params:
        if param.per_world:
            name = param.name
            body = f"return GV_BY_WORLD && a.{name}_by_world ? a.{name}_by_world[world] : a.{name};"
            lines.append(f"GV_FN float gv_{name}(const GvArgs& a, gv_i32 world) {{ {body} }}")
    functions = [_row_function(spec), "", _alive_function(spec), "", _take_function(spec), "", *solo_functions(spec)]
    return "\n".join([*lines, "", *functions, ""])


def _row_function(spec: EnvSpec) -> str:
    """Row of an agent in public arrays; agents are numbered role by role."""
    body = []
    for role in spec.roles[:-1]:
        count = f"gv_{role.count}(a)" if isinstance(role.count, str) else str(role.count)
        body += [
            f"    if (agent < {count}) return a.{role.name}_row + world * (gv_i32)a.{role.name}_stride + agent;",
            f"    agent -= {count};",
        ]
    last = spec.roles[-1].name
    # A stride is at most the number of agents: the product of two 32-bit numbers is one instruction.
    body.append(f"    return a.{last}_row + world * (gv_i32)a.{last}_stride + agent;")
    shift = [f"    a.{role.name}_row += rows;" for role in spec.roles]
    return "\n".join(["GV_FN gv_i64 gv_row(const GvArgs& a, gv_i64 world, gv_i32 agent) {", *body, "}",
                      "GV_FN void gv_shift_rows(GvArgs& a, gv_i64 rows) {", *shift, "}"])  # fmt: skip


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
