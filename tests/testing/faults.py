"""Faults that authors of envs make, planted in three envs of each language."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Field
from tests.pyhooks.cases import port_of, spec_in_cpp

PARAMS = {
    "Pot-v0": {"num_players": 5},
    "Harvest-v0": {"num_red": 4, "num_blue": 3, "regrowth": 0.3},
    "WarpGridTag-v0": {"num_taggers": 4, "grid_length": 3, "use_full_observation": False},
}
"""Parameters with which agents meet often, by env."""


class Fault(NamedTuple):
    """One fault: a piece of text that occurs once, its replacement, what names it, and a part of the message."""

    env_id: str
    piece: str
    wrong: str
    noticed_by: str
    """``lint`` (for Python, the translator), or a check of ``gpu_vecenv.testing``."""
    says: str
    line: str = ""
    """Piece of the line that the message names; empty if it names none."""


POT, HARVEST, TAG = "Pot-v0", "Harvest-v0", "WarpGridTag-v0"
NEIGHBOUR, INDEX = "reads a neighbour in the phase that writes", "written at an index that is not the loop's"
BARRIER, LOCAL = "put w.barrier() between", "is read behind the phase that assigns it"
JOINED, NAN = "joins those of several axes", "expected a finite number, got nan"

IN_CPP = {
    "in-place update": [
        Fault(
            POT, "me.purse += s.share - me.put;", "me.purse += s.share - w.role.player[0].purse;", "lint", NEIGHBOUR, "[0].purse"
        ),
        Fault(
            HARVEST, "me.zaps = zap == 1 && !frozen;", "me.zaps = zap == 1 && !w.agents[0].zaps;", "lint", NEIGHBOUR, "[0].zaps"
        ),
        Fault(
            TAG,
            "me.reward = wall ? -p.wall_hit_penalty : 0.0f;",
            "me.reward = w.agents[(me.index + 1) % w.agents.count()].loc_x > 1 ? 1.0f : 0.0f;",
            "lint",
            NEIGHBOUR,
            "% w.agents",
        ),
    ],
    "scatter": [
        Fault(
            POT, "me.put = coins < me.purse", "w.state.put[me.purse % 5] = coins < me.purse", "lint", INDEX, "put[me.purse % 5]"
        ),
        Fault(
            HARVEST,
            "if (hit) me.frozen_until",
            "w.state.apples[me.y * SIDE + me.x] = 0;\n    if (hit) me.frozen_until",
            "lint",
            INDEX,
            "me.x] = 0",
        ),
        Fault(
            TAG,
            "me.reward += me.index == runner.index",
            "w.agents[me.loc_x].reward += me.index == runner.index",
            "lint",
            INDEX,
            "w.agents[me.loc_x]",
        ),
    ],
    "missing barrier": [
        Fault(POT, "    w.barrier();\n", "", "lint", BARRIER, "me.purse += s.share"),
        Fault(
            HARVEST,
            "    w.barrier();\n    for (auto me : w.agents) meet",
            "    for (auto me : w.agents) meet",
            "lint",
            BARRIER,
            "const int dx = it.x - me.x",
        ),
        Fault(TAG, "    w.barrier();\n", "", "lint", BARRIER, "runner.loc_x"),
    ],
    "local across a barrier": [
        Fault(
            POT,
            "    for (auto me : w.role.player) {\n        const int coins = me.action.index();",
            "    int coins = 0;\n    for (auto me : w.role.player) {\n        coins = me.action.index();",
            "lint",
            LOCAL,
            "- coins;",
        ),
        Fault(
            HARVEST,
            "    for (auto me : w.agents) act(w, me);",
            "    int x;\n    for (auto me : w.agents) {\n        act(w, me);\n        x = me.x;\n    }",
            "lint",
            LOCAL,
            "= x < 0",
        ),
        Fault(
            TAG,
            "    for (auto me : w.agents) {\n        const int move",
            "    bool wall = false;\n    for (auto me : w.agents) {\n        const int move",
            "lint",
            LOCAL,
            "wall ? 0.0f",
        ),
    ],
    "past the array": [
        Fault(
            POT,
            "me.obs = {(float)me.purse};",
            "me.obs = {(float)w.state.purse[me.in_role + 1]};",
            "bounds",
            "index 5 of w.state.purse",
            "purse[me.in_role + 1]",
        ),
        Fault(
            HARVEST,
            "me.obs[3] = (float)me.zaps;",
            "me.obs[3] = (float)w.agents[w.agents.count()].zaps;",
            "bounds",
            "index 7 of w.agents",
            "[w.agents.count()]",
        ),
        Fault(
            TAG,
            "row[5] = (float)w.t",
            "row[5] = (float)w.state.loc_x[w.agents.count()]",
            "bounds",
            "index 5 of w.state.loc_x",
            "row[5]",
        ),
    ],
    "before the array": [
        Fault(
            POT,
            "me.obs = {(float)me.purse};",
            "me.obs = {(float)w.state.purse[me.in_role - 1]};",
            "bounds",
            "index -1 of w.state.purse",
            "purse[me.in_role - 1]",
        ),
        Fault(
            HARVEST,
            "me.obs[3] = (float)me.zaps;",
            "me.obs[3] = (float)w.state.apples[-1];",
            "bounds",
            "index -1 of w.state.apples",
            "apples[-1]",
        ),
        Fault(
            TAG,
            "row[5] = (float)w.t",
            "row[5] = (float)w.state.loc_x[me.index - 1]",
            "bounds",
            "index -1 of w.state.loc_x",
            "row[5]",
        ),
    ],
    "index of joined axes": [
        Fault(POT, "{(float)me.purse}", "{(float)w.state.purse[me.in_role * 2 + me.put]}", "lint", JOINED, "+ me.put]"),
        Fault(HARVEST, "w.at.apples(me.y, me.x)", "w.state.apples[me.y * SIDE + me.x - 1]", "lint", JOINED, "me.x - 1]"),
        Fault(TAG, "row[5] = (float)w.t", "row[5] = (float)w.state.loc_x[me.loc_y * 2 - 1]", "lint", JOINED, "me.loc_y * 2 - 1]"),
    ],
    "double": [
        Fault(POT, "me.reward = (float)s.share;", "me.reward = 1.1 * s.share;", "lint", "`1.1` is a double literal", "1.1"),
        Fault(HARVEST, "(float)me.ate - ", "1.1 * me.ate - ", "lint", "`1.1` is a double literal", "1.1"),
        Fault(TAG, "-p.wall_hit_penalty : 0.0f", "-p.wall_hit_penalty : 1.1", "lint", "`1.1` is a double literal", "1.1"),
    ],
    "reward that is not finite": [
        Fault(POT, "me.reward = (float)s.share;", "me.reward = gv_sqrt((float)s.share - 1.0f);", "values", NAN),
        Fault(HARVEST, "me.reward = (float)me.ate", "me.reward = gv_sqrt((float)me.ate - 1.0f)", "values", NAN),
        Fault(TAG, "-p.wall_hit_penalty : 0.0f", "gv_sqrt(-1.0f) : 0.0f", "values", NAN),
    ],
}
"""Faults in C++ by kind. Further edits of ``EDITS`` use the local of "local across a barrier" behind the barrier."""

EDITS = {
    POT: [("me.purse += s.share - me.put;", "me.purse += s.share - coins;")],
    HARVEST: [("const int eaten", "for (auto me : w.agents) me.ate = x < 0 ? 1 : me.ate;\n    const int eaten")],
    TAG: [("const bool wall", "wall"), ("tagged ? p.tag_reward_for_tagger", "tagged ? wall ? 0.0f : p.tag_reward_for_tagger")],
}
"""Further edits of "local across a barrier", by env."""

IN_PYTHON = {
    "in-place update": [
        Fault(POT, "me.purse += ", "me.purse += w.role.player[0].purse + ", "lint", "and reads that of others", "[0].purse"),
        Fault(HARVEST, "    me.y = y", "    me.y = w.agents[0].y", "lint", "and reads that of others", "w.agents[0].y"),
        Fault(TAG, "me.loc_x = 0 if", "me.loc_x = w.agents[0].loc_x if", "lint", "and reads that of others", "[0].loc_x"),
    ],
    "scatter": [
        Fault(POT, "me.put = min", "w.state.put[me.purse % 5] = min", "lint", "may be that of another lane", "put[me.purse % 5]"),
        Fault(
            HARVEST,
            "    me.zaps = zap",
            "    w.state.apples[me.y * SIDE + me.x] = 0\n    me.zaps = zap",
            "lint",
            "may be that of another lane",
            "me.x] = 0",
        ),
        Fault(
            TAG,
            "        me.loc_y = 0 if",
            "        w.agents[me.loc_x].reward = 1.0\n        me.loc_y = 0 if",
            "lint",
            "of another agent in a phase",
            "w.agents[me.loc_x]",
        ),
    ],
    "local across a barrier": [
        Fault(POT, "me.purse += ", "me.purse += coins + ", "lint", "was local to the block", "coins +"),
        Fault(
            HARVEST,
            "    for me in w.agents:\n        meet(w, me)",
            "        kept = me.x\n    for me in w.agents:\n        me.frozen_until = kept\n        meet(w, me)",
            "lint",
            "was local to the block",
            "= kept",
        ),
        Fault(TAG, "me.reward += ", "me.reward += f32(x) + ", "lint", "was local to the block", "f32(x)"),
    ],
    "past the array": [
        Fault(
            POT,
            "me.obs = [f32(me.purse)]",
            "me.obs = [f32(w.state.purse[me.in_role + 1])]",
            "python",
            "index 5 of w.state.purse",
            "me.in_role + 1",
        ),
        Fault(HARVEST, "f32(me.zaps)", "f32(w.agents[w.agents.count()].zaps)", "python", "index 7 of", "w.agents.count()].zaps"),
        Fault(
            TAG,
            "me.obs[5] = f32(w.t)",
            "me.obs[5] = f32(w.state.loc_x[w.agents.count()])",
            "python",
            "index 5 of w.state.loc_x",
            "me.obs[5]",
        ),
    ],
    "before the array": [
        Fault(
            POT,
            "me.obs = [f32(me.purse)]",
            "me.obs = [f32(w.state.purse[me.in_role - 1])]",
            "python",
            "index -1 of w.state.purse",
            "me.in_role - 1",
        ),
        Fault(HARVEST, "f32(me.zaps)", "f32(w.agents[me.index - 1].zaps)", "python", "index -1 of", "me.index - 1].zaps"),
        Fault(
            TAG,
            "me.obs[5] = f32(w.t)",
            "me.obs[5] = f32(w.state.loc_x[me.index - 1])",
            "python",
            "index -1 of w.state.loc_x",
            "me.obs[5]",
        ),
    ],
    "index of joined axes": [
        Fault(POT, "f32(me.purse)", "f32(w.state.purse[me.in_role * 2 + me.put])", "lint", JOINED, "+ me.put]"),
        Fault(HARVEST, "w.at.apples[me.y, me.x]", "w.state.apples[me.y * SIDE + me.x - 1]", "lint", JOINED, "me.x - 1]"),
        Fault(TAG, "= f32(w.t)", "= f32(w.state.loc_x[me.loc_y * 2 - 1])", "lint", JOINED, "me.loc_y * 2 - 1]"),
    ],
    "double": [
        Fault(POT, "me.reward = f32(", "me.reward = float(", "lint", "float() computes in other types", "float("),
        Fault(HARVEST, "    me.reward = f32(", "    me.reward = float(", "lint", "float() computes in other types", "float("),
        Fault(TAG, "me.obs[5] = f32(", "me.obs[5] = float(", "lint", "float() computes in other types", "float("),
    ],
    "reward that is not finite": [
        Fault(
            POT,
            "me.reward = f32(s.share)",
            "me.reward = sqrt(f32(s.share) - 1.0)",
            "python",
            "becomes nan",
            "sqrt(f32",
        ),
        Fault(
            HARVEST,
            "    me.reward = f32(me.ate)",
            "    me.reward = sqrt(f32(me.ate) - 1.0)",
            "python",
            "becomes nan",
            "sqrt(f32",
        ),
        Fault(TAG, "me.reward += ", "me.reward += sqrt(-1.0) + ", "python", "becomes nan", "sqrt(-1.0)"),
    ],
}
"""Faults in Python by kind. A barrier cannot be missing, because the translator places them."""


def planted(fault: Fault, kind: str, python: bool, folder: Path) -> tuple[EnvSpec, int]:
    """Return the env with a fault, and the line that must be named, 0 for none."""
    spec = spec_in_cpp(fault.env_id)
    spec = port_of(spec) if python else spec
    text = spec.kernel.read_text()
    edits = [(fault.piece, fault.wrong), *(EDITS[fault.env_id] if kind.startswith("local") and not python else [])]
    if "sqrt(" in fault.wrong and python and "sqrt" not in text:
        edits.append(("from gpu_vecenv.pyhooks import ", "from gpu_vecenv.pyhooks import sqrt, "))
    for piece, wrong in edits:
        assert text.count(piece) == 1, f"{piece!r} is in the kernel {text.count(piece)} times"
        text = text.replace(piece, wrong)
    kernel = folder / spec.kernel.name
    kernel.write_text(text)
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if fault.line and fault.line in line]
    assert len(lines) == bool(fault.line), (fault.line, lines)
    return replace(spec, kernel=kernel), lines[0] if lines else 0


def with_wrong_alive(env_id: str) -> EnvSpec:
    """Return an env whose field ``alive`` has one number for each agent of a role only."""
    spec = spec_in_cpp(env_id)
    count = next(role.count for role in spec.roles if isinstance(role.count, str))
    field = Field("in_game", "uint8", (count,), "1 in the game")
    return replace(spec, alive="in_game", state=(*spec.state, field))
