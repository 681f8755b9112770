"""Text for kernels of worlds of one agent, whose state a lane holds in variables of its own."""

from __future__ import annotations

import math

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import C_TYPES, STREAM, WORLD_STATE

MAX_HELD = 256
"""Numbers of state that a lane holds at most, as many as it has registers; a longer state stays in memory."""


def is_solo(spec: EnvSpec) -> bool:
    """Whether worlds hold one agent and a short state of fixed size; kernels then see ``GV_SOLO``."""
    if spec.alive is not None or [role.count for role in spec.roles] != [1] or spec.workspaces:
        return False
    lengths = [math.prod(n for n in field.shape if isinstance(n, int)) for field in spec.state]
    return sum(lengths) <= MAX_HELD and all(isinstance(n, int) for field in spec.state for n in field.shape)


def solo_functions(spec: EnvSpec) -> list[str]:
    """For worlds of one agent: their state as variables of one lane, and views of the arguments in which it is world 0.

    The stream of random numbers stays in memory until a new episode begins: other steps do not pay for it. Worlds that were
    given one seed share a stream, and none of them has to look it up. What else a new episode reads is the same for all
    worlds, and is read with their state, as a world that begins anew would wait for it.
    """
    if not is_solo(spec):
        return []
    fields = spec.state + WORLD_STATE
    rows = {f.name: f"GvRow<{C_TYPES[f.dtype]}, {math.prod(n for n in f.shape if isinstance(n, int))}>" for f in fields}
    held = [name for name in rows if name not in STREAM]
    marks = ("terminated", "truncated")
    maybe = [f"{p.name}_by_world" for p in spec.params if p.per_world]
    role = spec.roles[0].name
    return [
        "struct GvWorld {",
        *(f"    {row} {name};" for name, row in rows.items()),
        "    gv_i32 number;",
        "};",
        "struct GvStart {  // of what the start of an episode is drawn",
        "    gv_u64 seed, first_id;",
        "    gv_i32 pool_size;",
        f"    float bounds[{max(1, len(spec.reset_options))}];",
        "};",
        "GV_FN void gv_load_start(const GvArgs& a, GvStart& start) {",
        "    start.seed = a.shared_stream[0];",
        "    start.first_id = a.shared_stream[1];",
        "    start.pool_size = a.pool_size[0];",
        *(f"    start.bounds[{i}] = a.reset_bounds[{i}];" for i in range(len(spec.reset_options))),
        "}",
        "GV_FN void gv_load(const GvArgs& a, gv_i64 world, GvWorld& held) {",
        *(f"    held.{name} = (({rows[name]}*)a.{name})[world];" for name in held if name not in marks),
        "}",
        "GV_FN void gv_load_marks(const GvArgs& a, gv_i64 world, bool marked, GvWorld& held) {",
        *(f"    held.{name}.value[0] = marked ? a.{name}[world] : 0;" for name in marks),
        "}",
        "GV_FN void gv_store(const GvArgs& a, gv_i64 world, const GvWorld& held) {",
        *(f"    (({rows[name]}*)a.{name})[world] = held.{name};" for name in held),
        "}",
        "GV_FN void gv_store_changes(const GvArgs& a, gv_i64 world, const GvWorld& before, const GvWorld& held) {",
        *(f"    (({rows[name]}*)a.{name})[world] = held.{name};" for name in held if name not in (*marks, "episode")),
        "    if (held.episode.value[0] != before.episode.value[0]) a.episode[world] = held.episode.value[0];",
        "    if (a.autoreset == GV_SAME_STEP) return;  // no mark outlives its step",
        *(f"    if (held.{name}.value[0] != before.{name}.value[0]) a.{name}[world] = held.{name}.value[0];" for name in marks),
        "}",
        "GV_FN GvArgs gv_window(const GvArgs& a, gv_i64 world, GvWorld& held) {",
        "    GvArgs mine = a;",
        "    mine.num_agents = 1;",
        "    held.number = (gv_i32)world;",
        *(f"    mine.{name} = held.{name}.value;" for name in held),
        *(f"    mine.{name} += world;" for name in STREAM),
        *(f"    if (GV_BY_WORLD && mine.{name}) mine.{name} += world;" for name in maybe),
        f"    mine.{role}_row = 0;",
        "    return mine;",
        "}",
        "GV_FN void gv_own_params(GvArgs& mine) {  // those of the world in place of those of all",
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
        "GV_FN GvArgs gv_with_stream(const GvArgs& mine, GvStart& start, GvWorld& held) {",
        "    GvArgs whole = mine;",
        "    const bool shared = start.first_id <= 0x7fffffff;",
        "    held.seed.value[0] = shared ? start.seed : *mine.seed;",
        "    held.world_id.value[0] = shared ? (gv_i32)start.first_id + held.number : *mine.world_id;",
        "    held.pool_entry.value[0] = start.pool_size == 0 ? -1 : *mine.pool_entry;",
        *(f"    whole.{name} = held.{name}.value;" for name in STREAM),
        "    whole.pool_size = &start.pool_size;",
        "    whole.reset_bounds = start.bounds;",
        "    return whole;",
        "}",
        "GV_FN void gv_store_stream(const GvArgs& mine, const GvStart& start, const GvWorld& held) {",
        "    if (start.pool_size != 0) *mine.pool_entry = held.pool_entry.value[0];",
        "}",
        *_block(spec, {name: rows[name] for name in held if name != "episode"}, (*STREAM, "episode")),
    ]  # fmt: skip


def _block(spec: EnvSpec, rows: dict[str, str], kept_in_memory: tuple[str, ...]) -> list[str]:
    """For worlds of one agent on the host: what a step of a block of them needs and puts out.

    ``rows`` are the fields held during a step; those ``kept_in_memory`` are read there by hooks that draw in every step.
    """
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
        *(f"    mine.{name} += first + i;" for name in kept_in_memory),
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
