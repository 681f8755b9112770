"""Faults to plant in kernels, which a sanitizer must report.

A planted fault replaces a piece of text that occurs exactly once in the kernel of its env. The fast tests check the pieces.
"""

from typing import NamedTuple

from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.spec.env_spec import EnvSpec


class Fault(NamedTuple):
    """One fault."""

    env_id: str
    """Env whose kernel has the piece of text."""
    piece: str
    """Text of the kernel, with all headers inserted."""
    wrong: str
    """Its replacement."""
    words: str
    """What the sanitizer says; ``|`` separates alternatives."""


TAG, TOWN, HARVEST, POT, WHISPER = "WarpTag-v0", "Town-v0", "Harvest-v0", "Pot-v0", "Whisper-v0"
RACE, OVERFLOW = "WARNING: ThreadSanitizer: data race", "heap-buffer-overflow"

MOVE = "for (auto me : w.agents) move(w, scratch, me);\n    if (w.once) set_world(w, scratch, t);\n"

RACES = {
    "no barrier after moving": Fault(TAG, MOVE + "    w.barrier();", MOVE, RACE),
    "no barrier inside a sum": Fault(
        TAG, "gv_barrier_sums(team);\n    GV_ONCE a.reward[team.world]", "GV_ONCE a.reward[team.world]", RACE
    ),
    "every lane counts the step": Fault(
        TAG, "GV_ONCE a.t[w] = t;\n    gv_barrier(team);\n", "a.t[w] = t;\n    gv_barrier(team);\n", RACE
    ),
    "a shared counter without an atomic": Fault(
        TAG, "return given;\n        if (counts) gv_fetch_add(a.invalid_actions);\n        return 0;",
        "return given;\n        if (counts) *a.invalid_actions = *a.invalid_actions + 1;\n        return 0;", RACE,
    ),
    "rewards scattered by runners": Fault(
        TAG, "me.tagged_by = catcher;",
        "me.tagged_by = catcher; if (tagged) w.agents[catcher].reward += w.params.tag_reward_for_tagger;", RACE,
    ),
    "a list filled without an atomic": Fault(TAG, "gv_fetch_add(scratch.tags)", "(*scratch.tags)++", RACE),
    "no barrier after walking": Fault(
        HARVEST, "w.barrier();\n    for (auto me : w.agents) meet", "for (auto me : w.agents) meet", RACE
    ),
    "every lane stores a metric": Fault(
        TOWN, "GV_ONCE a.episode_##name[team.world] = numbers.name;", "a.episode_##name[team.world] = numbers.name;", RACE
    ),
    "no barrier inside a sum of roles": Fault(
        TOWN, "gv_barrier_sums(team);\n    GV_ONCE a.reward[team.world]", "GV_ONCE a.reward[team.world]", RACE
    ),
    "every lane counts the step of roles": Fault(
        TOWN, "GV_ONCE a.t[w] = t;\n    gv_barrier(team);\n", "a.t[w] = t;\n    gv_barrier(team);\n", RACE
    ),
}  # fmt: skip
"""Races between lanes of the host."""

WRITES = {
    "a reward beyond the last agent": Fault(
        TAG, "me.reward = reward;\n    if (i >=", "(&me.reward)[1] = reward;\n    if (i >=", OVERFLOW
    ),
    "an action head beyond the table": Fault(TAG, "return (gv_u32)index < (gv_u32)n;", "return index >= 0;", f"{OVERFLOW}|SEGV"),
    "a float too large for an integer": Fault(
        TAG, "(float)(draw.word[2] >> 30)", "(float)(gv_i32)((float)draw.word[2] * 1e9f)", "outside the range of representable"
    ),
    "a signed overflow": Fault(TAG, "a.episode[w] += 1;", "a.episode[w] += 2147483647;", "signed integer overflow"),
    "a choice beyond a mask": Fault(TOWN, "me.mask[REST] = 1;", "me.mask[REST] = me.mask[3] = 1;", OVERFLOW),
    "a flag beyond the groups": Fault(WHISPER, "me.effects[group] = has_effect", "me.effects[group + 2] = has_effect", OVERFLOW),
    "a row beyond a role": Fault(
        POT, "me.obs = {(float)me.purse};", "w.role.player[me.in_role + 1].obs = {(float)me.purse};", OVERFLOW
    ),
}  # fmt: skip
"""Accesses outside an array, and undefined behaviour."""

ON_GPU = {
    "overrun": Fault(
        TAG, "me.reward = reward;\n    if (i >=", "(&me.reward)[1 << 28] = reward;\n    if (i >=", "Invalid __global__ write"
    ),
    "race": Fault(TAG, "set_world(w, scratch, t);\n    w.barrier();", "set_world(w, scratch, t);", "Error: Race reported"),
}
"""Faults of the GPU build, which compute-sanitizer must report."""


def with_faults(spec: EnvSpec, planted: dict[str, str]) -> str:
    """Return the text of a kernel in which pieces that occur once are replaced."""
    text = kernel_source(spec)
    for piece, fault in planted.items():
        assert text.count(piece) == 1, f"{piece!r} is in the kernel {text.count(piece)} times"
        text = text.replace(piece, fault)
    return text
