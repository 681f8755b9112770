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
    functions = [_row_function(spec), "", _alive_function(spec), "", _take_function(spec), "", *_window(spec)]
    return "\n".join([*lines, "", *functions, ""])


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


def is_solo(spec: EnvSpec) -> bool:
    """Whether worlds hold one agent and a state of fixed size; kernels then see ``GV_SOLO``."""
    one_agent = spec.alive is None and [role.count for role in spec.roles] == [1]
    return one_agent and all(isinstance(n, int) for field in spec.state for n in field.shape)


def _window(spec: EnvSpec) -> list[str]:
    """For worlds of one agent: their state as variables of one lane, and views of the arguments in which it is world 0.

    The stream of random numbers stays in memory until a new episode begins: other steps do not pay for it. Worlds that were
    given one seed share a stream, and none of them has to look it up.
    """
    if spec.alive is not None or [role.count for role in spec.roles] != [1]:
        return []
    if spec.workspaces or not all(isinstance(n, int) for f in spec.state for n in f.shape):
        return []
    fields = spec.state + WORLD_STATE
    rows = {f.name: f"GvRow<{C_TYPES[f.dtype]}, {math.prod(n for n in f.shape if isinstance(n, int))}>" for f in fields}
    stream = ("seed", "world_id", "pool_entry")
    held = [name for name in rows if name not in stream]
    seldom = ("terminated", "truncated", "episode")  # change when an episode ends
    shifted = [*stream, "out_terminated", "out_truncated", "out_finished"]
    maybe = [f"{p.name}_by_world" for p in spec.params if p.per_world]
    role = spec.roles[0].name
    return [
        "struct GvWorld {",
        *(f"    {row} {name};" for name, row in rows.items()),
        "    gv_i32 number, pool_size;",
        "};",
        "GV_FN void gv_load(const GvArgs& a, gv_i64 world, GvWorld& held) {",
        *(f"    held.{name} = (({rows[name]}*)a.{name})[world];" for name in held),
        "}",
        "GV_FN void gv_store(const GvArgs& a, gv_i64 world, const GvWorld& before, const GvWorld& held) {",
        *(f"    (({rows[name]}*)a.{name})[world] = held.{name};" for name in held if name not in seldom),
        *(f"    if (held.{name}.value[0] != before.{name}.value[0]) a.{name}[world] = held.{name}.value[0];" for name in seldom),
        "}",
        "GV_FN GvArgs gv_window(const GvArgs& a, gv_i64 world, GvWorld& held) {",
        "    GvArgs mine = a;",
        "    mine.num_agents = 1;",
        "    held.number = (gv_i32)world;",
        *(f"    mine.{name} = held.{name}.value;" for name in held),
        *(f"    mine.{name} += world;" for name in shifted),
        *(f"    if (GV_BY_WORLD && mine.{name}) mine.{name} += world;" for name in maybe),
        f"    mine.{role}_row += world * mine.{role}_stride;",
        "    return mine;",
        "}",
        "GV_FN void gv_own_rows(GvArgs& mine) {  // outputs begin at the world's row, and parameters are the world's",
        f"    const gv_i64 row = mine.{role}_row, features = row * gv_num_features(mine);",
        f"    mine.{role}_row = 0;",
        "    mine.obs += features;",
        "    mine.previous_obs += features;",
        "    mine.final_obs += mine.final_obs ? features : 0;",
        "    mine.agent_reward += row;",
        *(f"    mine.{p.name} = gv_{p.name}(mine, 0);" for p in spec.params if p.per_world),
        *(f"    mine.{name} = nullptr;" for name in maybe),
        "}",
        "GV_FN GvArgs gv_with_world(const GvArgs& mine, GvWorld& held) {",
        "    GvArgs other = mine;",
        *(f"    other.{name} = held.{name}.value;" for name in rows),
        "    return other;",
        "}",
        "GV_FN void gv_keep_stream(GvWorld& to, const GvWorld& from) {",
        *(f"    to.{name} = from.{name};" for name in ("seed", "world_id", "episode")),
        "}",
        "GV_FN void gv_take_start(GvWorld& held, const GvWorld& start) {  // a pool holds nothing but what is physical",
        *(f"    held.{f.name} = start.{f.name};" for f in spec.state),
        "    held.pool_entry = start.pool_entry;",
        "    held.episode.value[0] += 1;",
        *(f"    held.{name}.value[0] = 0;" for name in ("t", "terminated", "truncated")),
        "}",
        "GV_FN GvArgs gv_with_stream(const GvArgs& mine, GvWorld& held) {",
        "    GvArgs whole = mine;",
        "    const gv_u64 seed = mine.shared_stream[0], first = mine.shared_stream[1];",
        "    const bool shared = first <= 0x7fffffff;",
        "    held.seed.value[0] = shared ? seed : *mine.seed;",
        "    held.world_id.value[0] = shared ? (gv_i32)first + held.number : *mine.world_id;",
        "    held.pool_size = *mine.pool_size;",
        "    held.pool_entry.value[0] = held.pool_size == 0 ? -1 : *mine.pool_entry;",
        *(f"    whole.{name} = held.{name}.value;" for name in stream),
        "    whole.pool_size = &held.pool_size;",
        "    return whole;",
        "}",
        "GV_FN void gv_store_stream(const GvArgs& mine, const GvWorld& held) {",
        "    if (held.pool_size != 0) *mine.pool_entry = held.pool_entry.value[0];",
        "}",
        *_block(spec, {name: rows[name] for name in held if name != "episode"}),
    ]  # fmt: skip


def _block(spec: EnvSpec, rows: dict[str, str]) -> list[str]:
    """For worlds of one agent on the host: what a step of a block of them needs and puts out."""
    params = spec.resolve({})
    features, heads = math.prod(spec.observation(params).shape or ()), math.prod(spec.action(params).shape or ())
    by_world = [p.name for p in spec.params if p.per_world]
    flags = ("terminated", "truncated")
    kept = [name for name in rows if name not in flags]
    store = "    for (gv_i32 i = 0; i < GV_BLOCK; ++i) "
    return [
        f"#define GV_SOLO_FEATURES {features}  // with default parameters; other widths are stepped one by one",
        f"#define GV_SOLO_HEADS {heads}",
        "#ifdef GV_BLOCK",
        "struct GvBlock {",
        "    gv_i32 invalid[GV_BLOCK];",
        *(f"    float {name}[GV_BLOCK];" for name in by_world),
        "};",
        "struct GvOutput {  // of one world",
        "    float obs[GV_SOLO_FEATURES], reward;",
        "    gv_i32 invalid;",
        "    gv_u8 terminated, truncated, finished;",
        *(f"    float {name};" for name in by_world),
        "};",
        "GV_FN void gv_block_params(const GvArgs& a, gv_i64 first, GvBlock& block) {",
        *(f"{store}block.{name}[i] = gv_{name}(a, first + i);" for name in by_world),
        "}",
        "template <gv_i32 BYTES>",
        "GV_FN GvArgs gv_block_window("
        "const GvArgs& a, gv_i64 first, gv_i32 i, const GvBlock& block, GvWorld& held, GvOutput& out) {",
        "    GvArgs mine = a;",
        *(f"    held.{name} = (({rows[name]}*)a.{name})[first + i];" for name in kept),
        *(f"    held.{name}.value[0] = 0;" for name in flags),
        *(f"    mine.{name} = held.{name}.value;" for name in rows),
        "    out.invalid = 0;",
        "    mine.num_agents = 1;",
        "    mine.num_features = GV_SOLO_FEATURES;",
        f"    mine.{spec.roles[0].name}_row = 0;",
        "    mine.obs = out.obs;",
        "    mine.agent_reward = &out.reward;",
        "    mine.invalid_actions = &out.invalid;",
        *(f"    mine.out_{name} = &out.{name};" for name in (*flags, "finished")),
        "    mine.action = (const char*)a.action + (first + i) * (GV_SOLO_HEADS * BYTES);",
        "    mine.action_bytes = BYTES;",
        *(line for name in by_world
          for line in (f"    out.{name} = block.{name}[i];", f"    mine.{name}_by_world = &out.{name};")),
        "    return mine;",
        "}",
        "GV_FN void gv_block_put(const GvArgs& a, gv_i64 world, const GvWorld& held, const GvOutput& out) {",
        *(f"    (({row}*)a.{name})[world] = held.{name};" for name, row in rows.items()),
        *(f"    a.out_{name}[world] = out.{name};" for name in (*flags, "finished")),
        "    a.agent_reward[world] = out.reward;",
        "    for (gv_i32 f = 0; f < GV_SOLO_FEATURES; ++f) a.obs[world * GV_SOLO_FEATURES + f] = out.obs[f];",
        "}",
        "#endif",
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
